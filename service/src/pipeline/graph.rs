//! Who reads whom. A step reads the one before it unless it says `from`; the first reads all sources; a sink reads the last step.
use super::report::Report;
use super::spec::{Spec, StepSpec, VerbSpec};
use crate::nearest;
use crate::yaml::Node;
use std::collections::BTreeSet;

/// Where rows come out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Port {
    /// Of a source, by index.
    Source(usize),
    /// Of a step, by index.
    Step(usize),
    /// Of a branch of a step, by their indices.
    Branch(usize, usize),
}

/// Who reads, by index.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Reader {
    /// A step.
    Step(usize),
    /// A sink.
    Sink(usize),
}

/// What every step and sink reads. Empty where `from` cannot be read.
pub struct Graph {
    pub steps: Vec<Vec<Port>>,
    pub sinks: Vec<Vec<Port>>,
}

/// Resolves every `from`.
pub fn resolve(spec: &Spec<'_>, report: &mut Report<'_>) -> Graph {
    let clean_before = report.is_clean();
    let mut wires = Wires { spec, all_known: true };
    let mut graph = Graph {
        steps: Vec::new(),
        sinks: Vec::new(),
    };
    for (i, step) in spec.steps.iter().enumerate() {
        report.about(format!("step {}", step.id.text));
        graph.steps.push(match &step.from {
            Some(names) => wires.named(names, i, report),
            None => wires.before(i, step.id, report),
        });
    }
    for sink in &spec.sinks {
        report.about(format!("sink {}", sink.id.text));
        graph.sinks.push(match &sink.from {
            Some(names) => wires.named(names, spec.steps.len(), report),
            None => wires.before(spec.steps.len(), sink.id, report),
        });
    }
    // A step that seems to lead nowhere may be the one that a mistaken name meant.
    if wires.all_known && clean_before {
        unread(spec, &graph, report);
    }
    graph
}

struct Wires<'s, 'y> {
    spec: &'s Spec<'y>,
    /// Every name was found.
    all_known: bool,
}

impl Wires<'_, '_> {
    /// The default input of step `i`; behind the last step that of sinks.
    fn before(&mut self, i: usize, at: &Node, report: &mut Report<'_>) -> Vec<Port> {
        let Some(before) = i.checked_sub(1) else {
            return (0..self.spec.sources.len()).map(Port::Source).collect();
        };
        let step = &self.spec.steps[before];
        if let Some(VerbSpec::Branch(_)) = step.verb {
            let id = &step.id.text;
            report.at(
                at,
                format!("step {id} before it has branches, and nothing says which is read"),
                format!("add `from: {}`", arms(step).first().map_or(id.as_str(), String::as_str)),
            );
            self.all_known = false;
            return Vec::new();
        }
        vec![Port::Step(before)]
    }

    /// What names stand for, for the step `i`, or for a sink.
    fn named(&mut self, names: &[&Node], i: usize, report: &mut Report<'_>) -> Vec<Port> {
        let mut ports = Vec::new();
        for name in names {
            match self.port(name, i, report) {
                Some(port) if ports.contains(&port) => {
                    report.at(name, format!("`{}` is read twice", name.text), "remove one of them");
                }
                Some(port) => ports.push(port),
                None => self.all_known = false,
            }
        }
        if names.is_empty() {
            self.all_known = false;
        }
        ports
    }

    fn port(&self, name: &Node, i: usize, report: &mut Report<'_>) -> Option<Port> {
        let text = name.text.as_str();
        if let Some(found) = self.spec.sources.iter().position(|s| s.id.text == text) {
            return Some(Port::Source(found));
        }
        let (id, arm) = text.split_once('.').map_or((text, None), |(id, arm)| (id, Some(arm)));
        let Some(found) = self.spec.steps.iter().position(|s| s.id.text == id) else {
            report.at(
                name,
                format!("there is no source or step `{text}`"),
                nearest::help(text, self.names(i).iter().map(String::as_str)),
            );
            return None;
        };
        if found >= i {
            self.later(name, found, i, report);
            return None;
        }
        self.output(name, found, arm, report)
    }

    /// The output of a step, or of one of its branches.
    fn output(&self, name: &Node, found: usize, arm: Option<&str>, report: &mut Report<'_>) -> Option<Port> {
        let step = &self.spec.steps[found];
        let id = &step.id.text;
        match (&step.verb, arm) {
            (Some(VerbSpec::Branch(all)), Some(arm)) => {
                let known = all.iter().map(|a| a.name.text.as_str());
                let at = all.iter().position(|a| a.name.text == arm);
                if at.is_none() {
                    report.at(
                        name,
                        format!("step {id} has no branch `{arm}`"),
                        nearest::help(arm, known),
                    );
                }
                at.map(|at| Port::Branch(found, at))
            }
            (Some(VerbSpec::Branch(_)), None) => {
                let help = format!("name the branch: {}", arms(step).join(", "));
                report.at(name, format!("step {id} has branches"), help);
                None
            }
            (Some(_), Some(_)) => {
                report.at(
                    name,
                    format!("step {id} has no branches"),
                    format!("write `from: {id}`"),
                );
                None
            }
            (_, None) => Some(Port::Step(found)),
            // What the step should have been is told already.
            (None, Some(_)) => None,
        }
    }

    /// Steps are in order, so there is no cycle.
    fn later(&self, name: &Node, found: usize, i: usize, report: &mut Report<'_>) {
        let id = &self.spec.steps[found].id.text;
        if found == i {
            report.at(
                name,
                "it reads itself",
                "a step reads a source, or a step that stands above it",
            );
            return;
        }
        let help = match self.path(found, i) {
            Some(path) => format!("steps read each other in a circle, {path}: one of them has to read something else"),
            None => format!("a step reads what stands above it: move step {id} up"),
        };
        report.at(name, format!("step {id} stands below it"), help);
    }

    /// How step `from` comes to read step `to`, if it does.
    fn path(&self, from: usize, to: usize) -> Option<String> {
        let mut seen = BTreeSet::new();
        let mut trail = vec![from];
        self.walk(from, to, &mut seen, &mut trail).then(|| {
            let ids: Vec<&str> = trail.iter().map(|i| self.spec.steps[*i].id.text.as_str()).collect();
            format!(
                "{} <- {} <- {}",
                ids[ids.len() - 1],
                ids[..ids.len() - 1]
                    .iter()
                    .rev()
                    .copied()
                    .collect::<Vec<_>>()
                    .join(" <- "),
                ids[ids.len() - 1]
            )
        })
    }

    fn walk(&self, at: usize, to: usize, seen: &mut BTreeSet<usize>, trail: &mut Vec<usize>) -> bool {
        if at == to {
            return true;
        }
        if !seen.insert(at) {
            return false;
        }
        for next in self.reads(at) {
            trail.push(next);
            if self.walk(next, to, seen, trail) {
                return true;
            }
            trail.pop();
        }
        false
    }

    /// The steps that a step names or reads by default.
    fn reads(&self, i: usize) -> Vec<usize> {
        let Some(names) = &self.spec.steps[i].from else {
            return i.checked_sub(1).into_iter().collect();
        };
        let id = |name: &Node| name.text.split('.').next().unwrap_or_default().to_owned();
        let named: Vec<String> = names.iter().map(|n| id(n)).collect();
        let steps = self.spec.steps.iter().enumerate();
        steps
            .filter(|(_, s)| named.contains(&s.id.text))
            .map(|(i, _)| i)
            .collect()
    }

    /// What the step `i` could read.
    fn names(&self, i: usize) -> Vec<String> {
        let mut names: Vec<String> = self.spec.sources.iter().map(|s| s.id.text.clone()).collect();
        for step in &self.spec.steps[..i] {
            match step.verb {
                Some(VerbSpec::Branch(_)) => names.extend(arms(step)),
                _ => names.push(step.id.text.clone()),
            }
        }
        names
    }
}

fn arms(step: &StepSpec<'_>) -> Vec<String> {
    match &step.verb {
        Some(VerbSpec::Branch(arms)) => arms
            .iter()
            .map(|a| format!("{}.{}", step.id.text, a.name.text))
            .collect(),
        _ => Vec::new(),
    }
}

/// Sources, steps and branches that nobody reads.
fn unread(spec: &Spec<'_>, graph: &Graph, report: &mut Report<'_>) {
    let read: BTreeSet<Port> = graph.steps.iter().chain(&graph.sinks).flatten().copied().collect();
    report.about("");
    for (i, source) in spec.sources.iter().enumerate() {
        if !read.contains(&Port::Source(i)) {
            let id = &source.id.text;
            report.at(
                source.id,
                format!("source {id} is read by nobody"),
                format!("name it in the `from` of a step or sink, `from: {id}`, or remove it"),
            );
        }
    }
    for (i, step) in spec.steps.iter().enumerate() {
        let id = &step.id.text;
        match &step.verb {
            Some(VerbSpec::Branch(arms)) => {
                for (arm, spec) in arms.iter().enumerate() {
                    if !read.contains(&Port::Branch(i, arm)) {
                        let arm = &spec.name.text;
                        report.at(
                            spec.name,
                            format!("step {id}: branch {arm} is read by nobody"),
                            format!("give a step or sink `from: {id}.{arm}`, or remove it: rows that no branch takes are dropped"),
                        );
                    }
                }
            }
            _ if !read.contains(&Port::Step(i)) => report.at(
                step.id,
                format!("step {id} leads nowhere: no step and no sink reads it"),
                format!("give a sink `from: {id}`, or remove the step"),
            ),
            _ => {}
        }
    }
}
