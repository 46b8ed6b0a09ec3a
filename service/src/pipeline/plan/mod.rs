//! From the file to what can run: schemas are followed step by step, expressions compiled against them, and everything checked.
//!
//! It is done twice. The first pass finds every error, and which columns are needed where; the second compiles against rows that have these
//! columns alone, so that the others are neither decoded nor carried along.
mod connect;
mod key;
mod live;
mod merge;
mod sink;
mod source;
mod step;
mod verbs;

pub use key::{Exchange, KeyPlan};
pub use sink::SinkPlan;
pub use source::{Pseudo, SourcePlan};
pub use step::{AggregatePlan, Column, Made, Policy, StepPlan, Verb};

use super::flow::{Flow, Live};
use super::graph::{Graph, Port};
use super::report::Report;
use super::spec::Spec;
use crate::expr::{Expr, ExprError};
use crate::registry::Environment;
use crate::value::Schema;
use crate::yaml::Node;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

/// A pipeline that can run.
pub struct Plan {
    /// The job's id.
    pub job: String,
    /// Its sources.
    pub sources: Vec<SourcePlan>,
    /// Its steps, in order.
    pub steps: Vec<StepPlan>,
    /// Its sinks.
    pub sinks: Vec<SinkPlan>,
}

/// What a step or sink reads.
pub struct Input {
    /// From where.
    pub ports: Vec<Port>,
    /// Per port the columns that are taken, in order; None for rows as they come.
    pub select: Vec<Option<Arc<[usize]>>>,
}

/// What every part of planning needs.
pub(super) struct Planner<'p, 'y> {
    pub spec: &'p Spec<'y>,
    pub graph: &'p Graph,
    pub environment: &'p Environment,
    /// Relative paths are relative to it.
    pub folder: &'p Path,
    pub live: &'p Live,
    /// Of the ports so far; None where an error hides it.
    pub flows: BTreeMap<Port, Option<Flow>>,
    pub report: &'p mut Report<'y>,
}

impl Plan {
    /// Whether every key is its record's own, as group mode needs it.
    pub fn record_keyed(&self) -> Result<(), String> {
        let of_columns = |step: &&StepPlan| {
            matches!(
                &step.exchange,
                Some(Exchange {
                    key: KeyPlan::Columns(_),
                    ..
                })
            )
        };
        match self.steps.iter().find(of_columns) {
            None => Ok(()),
            Some(step) => Err(format!(
                "step {} gives rows another key than their record's; for group mode key them by `_key` alone",
                step.id
            )),
        }
    }
}

/// Plans a file of which the parts are read.
pub(super) fn plan<'y>(
    spec: &Spec<'y>,
    graph: &Graph,
    environment: &Environment,
    folder: &Path,
    report: &mut Report<'y>,
) -> Option<Plan> {
    let everything = Live::everything();
    let mut pass = |live: &Live| {
        let mut planner = Planner {
            spec,
            graph,
            environment,
            folder,
            live,
            flows: BTreeMap::new(),
            report: &mut *report,
        };
        planner.run()
    };
    let whole = pass(&everything)?;
    let live = live::columns(&whole);
    pass(&live)
}

impl<'y> Planner<'_, 'y> {
    /// All of it, however much is wrong; None if anything is.
    fn run(&mut self) -> Option<Plan> {
        let sources = self.spec.sources.iter().enumerate();
        let sources: Vec<_> = sources.map(|(i, spec)| self.source(i, spec)).collect();
        let steps = self.spec.steps.iter().enumerate();
        let steps: Vec<_> = steps.map(|(i, spec)| self.step(i, spec)).collect();
        let sinks = self.spec.sinks.iter().enumerate();
        let sinks: Vec<_> = sinks.map(|(i, spec)| self.sink(i, spec)).collect();
        self.places(&sources, &steps, &sinks);
        let plan = Plan {
            job: self.spec.job.to_owned(),
            sources: sources.into_iter().collect::<Option<_>>()?,
            steps: steps.into_iter().collect::<Option<_>>()?,
            sinks: sinks.into_iter().collect::<Option<_>>()?,
        };
        self.report.is_clean().then_some(plan)
    }

    /// Compiles an expression against the rows of a flow.
    fn expr(&mut self, node: &Node, flow: &Flow) -> Option<Expr> {
        self.compiled(node, flow, Expr::compile)
    }

    fn compiled<T>(
        &mut self,
        node: &Node,
        flow: &Flow,
        compile: impl FnOnce(&str, &Schema) -> Result<T, ExprError>,
    ) -> Option<T> {
        match compile(&node.text, &flow.schema) {
            Ok(made) => Some(made),
            Err(error) if flow.is_poisoned(&node.text) || (flow.incomplete && error.missing.is_some()) => None,
            Err(error) => {
                self.expr_error(node, error, flow);
                None
            }
        }
    }

    fn expr_error(&mut self, node: &Node, error: ExprError, flow: &Flow) {
        let token = node.text.get(error.span.clone()).unwrap_or_default();
        let lost = super::flow::PSEUDO_COLUMNS.contains(&token) && flow.find(token).is_none();
        let help = match error.help {
            _ if lost => flow.why_lost(token),
            help if node.is_quoted() && is_plain_text(&node.text) => {
                let meant = help.filter(|help| help.starts_with("did you mean"));
                let text = format!("YAML takes its quotes away: the text is written `\"'{}'\"`", node.text);
                meant.map_or(text.clone(), |meant| format!("{meant}; {text}"))
            }
            Some(help) => help,
            None => "docs/expressions.md lists what an expression can say".to_owned(),
        };
        self.report.inside(node, error.span, error.message, help);
    }

    /// The columns that an expression reads.
    fn columns(expr: &Expr, flow: &Flow) -> BTreeSet<String> {
        expr.columns().iter().map(|i| flow.field(*i).name.clone()).collect()
    }

    /// How messages call a port.
    fn port_name(&self, port: Port) -> String {
        match port {
            Port::Source(i) => self.spec.sources[i].id.text.clone(),
            Port::Step(i) => self.spec.steps[i].id.text.clone(),
            Port::Branch(i, arm) => {
                let step = &self.spec.steps[i];
                let arm = match &step.verb {
                    Some(super::spec::VerbSpec::Branch(arms)) => arms.get(arm).map_or("", |a| a.name.text.as_str()),
                    _ => "",
                };
                format!("{}.{arm}", step.id.text)
            }
        }
    }
}

/// Words that can hardly be meant as an expression.
fn is_plain_text(text: &str) -> bool {
    text.chars()
        .all(|c| c.is_alphanumeric() || matches!(c, ' ' | '_' | '-'))
}
