//! Steps.
use super::{Exchange, Input, Planner};
use crate::expr::{Aggregate, Expr};
use crate::pipeline::flow::{Flow, Keyed};
use crate::pipeline::graph::{Port, Reader};
use crate::pipeline::spec::{Emit, KeySpec, StepSpec, VerbSpec};
use crate::registry::SinkConnector;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

/// A step that can run.
pub struct StepPlan {
    /// Its id.
    pub id: String,
    /// What it reads.
    pub input: Input,
    /// Before it, rows go to the lanes of their keys.
    pub exchange: Option<Exchange>,
    /// What it does.
    pub verb: Verb,
    /// What happens to what it refuses; None for what the source says.
    pub on_error: Option<Policy>,
    /// The rows behind it, in each of its branches.
    pub flow: Flow,
    /// What it does as the file says it.
    pub said: String,
    /// Columns of its input that it reads itself.
    pub(super) uses: BTreeSet<String>,
    /// Columns of its input that it passes on under the same name.
    pub(super) passes: BTreeSet<String>,
}

/// What a step does.
pub enum Verb {
    /// Keeps the rows for which the condition is TRUE.
    Filter(Expr),
    /// Makes another row.
    Map(Arc<[Column]>),
    /// A row for each element of an array: the kept columns with the element behind the first `shown` of them.
    FlatMap {
        /// The array.
        array: Expr,
        /// Columns that stay.
        keep: Vec<usize>,
        /// Number of them before the element.
        shown: usize,
    },
    /// Nothing beside its exchange.
    KeyBy,
    /// Folds the rows of each key.
    Aggregate(AggregatePlan),
    /// Drops rows of a key that was seen within this time.
    Dedup(Duration),
    /// Each row goes to the first branch whose condition is TRUE; None is `else`.
    Branch(Vec<(String, Option<Expr>)>),
}

/// A column that a map makes.
pub enum Column {
    /// A column of the row before.
    Keep(usize),
    /// Computed.
    Compute(Expr),
}

/// Aggregates of each key.
pub struct AggregatePlan {
    /// Names and calls, all of which are kept in state.
    pub calls: Arc<[(String, Aggregate)]>,
    /// What the row that comes out is made of.
    pub row: Arc<[Made]>,
    /// When rows come out.
    pub emit: Emit,
}

/// A column of an aggregate's row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Made {
    /// A column of the key.
    Key(usize),
    /// The value of an aggregate.
    Value(usize),
}

/// What happens to what a step refuses.
#[derive(Clone)]
pub enum Policy {
    /// The job stops.
    Fail,
    /// It is dropped and counted.
    Skip,
    /// Its record goes to a sink.
    DeadLetter(SinkConnector),
}

impl StepPlan {
    /// Its ports; `i` is its index.
    pub fn outputs(&self, i: usize) -> Vec<Port> {
        match &self.verb {
            Verb::Branch(arms) => (0..arms.len()).map(|arm| Port::Branch(i, arm)).collect(),
            _ => vec![Port::Step(i)],
        }
    }
}

/// What a verb makes of the rows that it reads. The flow is told even when the verb cannot be planned, for the steps behind it.
pub(super) struct Outcome {
    pub verb: Option<Verb>,
    pub flow: Option<Flow>,
    pub uses: BTreeSet<String>,
    pub passes: BTreeSet<String>,
}

impl<'y> Planner<'_, 'y> {
    pub(super) fn step(&mut self, i: usize, spec: &StepSpec<'y>) -> Option<StepPlan> {
        let subject = format!("step {}", spec.id.text);
        self.report.about(subject.as_str());
        let on_error = self.policy(&subject, spec.on_error.as_ref());
        let outputs = outputs(i, spec);
        let graph = self.graph;
        let input = self.input(&graph.steps[i], Reader::Step(i), spec.id);
        let (Some((input, flow)), Some(verb)) = (input, &spec.verb) else {
            self.flows.extend(outputs.iter().map(|port| (*port, None)));
            return None;
        };
        let keying = spec.key_by.as_ref().map(|key| self.key_by(&spec.id.text, key, &flow));
        let keyed = match (&keying, &spec.key_by) {
            (Some(Some(keying)), _) => keying.flow.clone(),
            (Some(None), Some(key)) => without_key(key, &spec.id.text, flow),
            _ => flow,
        };
        let outcome = self.verb(spec, verb, &keyed, &outputs);
        self.flows
            .extend(outputs.iter().map(|port| (*port, outcome.flow.clone())));
        // A key that was not understood is told.
        let keying = match keying {
            Some(None) => return None,
            keying => keying.flatten(),
        };
        let (exchange, key_uses) = keying.map_or((None, BTreeSet::new()), |k| (k.exchange, k.uses));
        Some(StepPlan {
            id: spec.id.text.clone(),
            input,
            exchange,
            verb: outcome.verb?,
            on_error: on_error?,
            flow: outcome.flow?,
            said: spec.said(),
            uses: outcome.uses.into_iter().chain(key_uses).collect(),
            passes: outcome.passes,
        })
    }
}

/// The rows behind a key that cannot be planned: they have its columns, whatever these are.
fn without_key(key: &KeySpec<'_>, step: &str, mut flow: Flow) -> Flow {
    let unknown = key
        .parts
        .iter()
        .map(|part| part.name.clone())
        .filter(|name| flow.find(name).is_none());
    let unknown: Vec<String> = unknown.collect();
    flow.poisoned.extend(unknown);
    flow.keyed = Keyed::By {
        columns: Some(Vec::new()),
        step: step.to_owned(),
    };
    flow
}

fn outputs(i: usize, spec: &StepSpec<'_>) -> Vec<Port> {
    match &spec.verb {
        Some(VerbSpec::Branch(arms)) => (0..arms.len()).map(|arm| Port::Branch(i, arm)).collect(),
        _ => vec![Port::Step(i)],
    }
}
