//! What a pipeline does, for people: `keyfold topology`.
use super::flow::Flow;
use super::graph::Port;
use super::plan::{Input, Plan, Policy, Verb};
use serde::Serialize;
use std::fmt::Write;

/// The parts of a pipeline in order, and who reads whom.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Description {
    /// The job's id.
    pub job: String,
    /// Why the job cannot run in group mode; None when it can.
    pub single_mode_because: Option<String>,
    /// Sources, steps and sinks.
    pub parts: Vec<Part>,
}

/// A source, step or sink.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Part {
    /// Which of them.
    pub kind: Kind,
    /// Its id.
    pub id: String,
    /// Ids of what it reads, with the branch: `route.big`.
    pub reads: Vec<String>,
    /// What it does.
    pub does: String,
    /// The columns of its rows. None for sinks.
    pub columns: Option<String>,
    /// Columns of a source's value that nobody reads: they are not decoded.
    pub unread: Vec<String>,
    /// What happens to what it refuses; None for what its source says, and for sinks.
    pub on_error: Option<String>,
}

/// The kind of a part.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// A source.
    Source,
    /// A step.
    Step,
    /// A sink.
    Sink,
}

impl Description {
    /// Of a plan.
    pub(super) fn of(plan: &Plan, single_mode_because: Option<String>) -> Description {
        let sources = plan.sources.iter().map(|source| Part {
            kind: Kind::Source,
            id: source.id.clone(),
            reads: Vec::new(),
            does: format!("{}, {}", source.connector.describe, source.format.name()),
            columns: Some(columns(&source.flow)),
            unread: source.unread.clone(),
            on_error: Some(policy(&source.on_error)),
        });
        let steps = plan.steps.iter().map(|step| Part {
            kind: Kind::Step,
            id: step.id.clone(),
            reads: reads(plan, &step.input),
            does: step.said.clone(),
            columns: Some(columns(&step.flow)),
            unread: Vec::new(),
            on_error: step.on_error.as_ref().map(policy),
        });
        let sinks = plan.sinks.iter().map(|sink| Part {
            kind: Kind::Sink,
            id: sink.id.clone(),
            reads: reads(plan, &sink.input),
            does: format!("{}, {}", sink.connector.describe, sink.format.name()),
            columns: None,
            unread: Vec::new(),
            on_error: None,
        });
        Description {
            job: plan.job.clone(),
            single_mode_because,
            parts: sources.chain(steps).chain(sinks).collect(),
        }
    }

    /// As lines of text.
    #[must_use]
    pub fn text(&self) -> String {
        let mut out = String::new();
        let mode = modes(self.single_mode_because.as_deref());
        let _ = writeln!(out, "job {}\n  {mode}", self.job);
        let mut before: Option<&str> = None;
        for part in &self.parts {
            let kind = match part.kind {
                Kind::Source => "source",
                Kind::Step => "step",
                Kind::Sink => "sink",
            };
            let reads = match part.reads.as_slice() {
                [] => String::new(),
                reads => format!(" <- {}", reads.join(", ")),
            };
            let _ = writeln!(out, "\n{kind} {}{reads}\n  {}", part.id, part.does);
            // A source has its columns from nobody.
            let told = before.filter(|_| part.kind != Kind::Source);
            if let Some(columns) = part.columns.as_deref().filter(|columns| told != Some(columns)) {
                let _ = writeln!(out, "  {columns}");
            }
            if !part.unread.is_empty() {
                let _ = writeln!(out, "  not read: {}", part.unread.join(", "));
            }
            if let Some(on_error) = &part.on_error {
                let _ = writeln!(out, "  on_error: {on_error}");
            }
            before = part.columns.as_deref();
        }
        out
    }

    /// As a flowchart in Mermaid's language.
    #[must_use]
    pub fn mermaid(&self) -> String {
        let mut out = String::from("flowchart LR\n");
        for (i, part) in self.parts.iter().enumerate() {
            let label = format!("<b>{}</b><br/>{}", escaped(&part.id), escaped(&part.does));
            let _ = match part.kind {
                Kind::Source | Kind::Sink => writeln!(out, "  n{i}[(\"{label}\")]"),
                Kind::Step => writeln!(out, "  n{i}[\"{label}\"]"),
            };
        }
        for (i, part) in self.parts.iter().enumerate() {
            for read in &part.reads {
                let (id, arm) = read
                    .split_once('.')
                    .map_or((read.as_str(), None), |(id, arm)| (id, Some(arm)));
                let from = self.parts.iter().position(|p| p.kind != Kind::Sink && p.id == id);
                let Some(from) = from else { continue };
                let _ = match arm {
                    None => writeln!(out, "  n{from} --> n{i}"),
                    Some(arm) => writeln!(out, "  n{from} -- {arm} --> n{i}"),
                };
            }
        }
        out
    }
}

/// The modes that can run a job, unless there is a reason for single mode.
pub(super) fn modes(single_mode_because: Option<&str>) -> String {
    match single_mode_because {
        None => "single or group mode".to_owned(),
        Some(why) => format!("single mode: {why}"),
    }
}

fn columns(flow: &Flow) -> String {
    flow.schema.to_string()
}

fn policy(policy: &Policy) -> String {
    match policy {
        Policy::Fail => "fail".to_owned(),
        Policy::Skip => "skip".to_owned(),
        Policy::DeadLetter(connector) => format!("dead letter to {}", connector.describe),
    }
}

fn reads(plan: &Plan, input: &Input) -> Vec<String> {
    let name = |port: &Port| match *port {
        Port::Source(i) => plan.sources[i].id.clone(),
        Port::Step(i) => plan.steps[i].id.clone(),
        Port::Branch(i, arm) => {
            let step = &plan.steps[i];
            let arm = match &step.verb {
                Verb::Branch(arms) => arms[arm].0.as_str(),
                _ => "",
            };
            format!("{}.{arm}", step.id)
        }
    };
    input.ports.iter().map(name).collect()
}

/// Text inside a quoted label.
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '"' => out.push_str("#quot;"),
            '<' => out.push_str("#lt;"),
            '>' => out.push_str("#gt;"),
            '#' => out.push_str("#35;"),
            '&' => out.push_str("#amp;"),
            '\n' => out.push(' '),
            c => out.push(c),
        }
    }
    out
}
