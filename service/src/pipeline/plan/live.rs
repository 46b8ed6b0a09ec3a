//! Which columns somebody needs, found backwards from the sinks.
use super::Plan;
use crate::pipeline::flow::{Keyed, Live};
use crate::pipeline::graph::{Port, Reader};
use std::collections::BTreeSet;

/// Of a plan whose rows have all of their columns.
pub fn columns(plan: &Plan) -> Live {
    let mut live = Live::default();
    for (i, sink) in plan.sinks.iter().enumerate() {
        let uses = with_keys(plan, &sink.input.ports, sink.uses.clone());
        live.need(Reader::Sink(i), &sink.input.ports, uses);
    }
    // A step is read by steps behind it alone.
    for (i, step) in plan.steps.iter().enumerate().rev() {
        let outputs = step.outputs(i);
        let passed = step.passes.iter().filter(|name| live.any(&outputs, name));
        let uses = step.uses.iter().chain(passed).cloned().collect();
        let uses = with_keys(plan, &step.input.ports, uses);
        live.need(Reader::Step(i), &step.input.ports, uses);
    }
    live
}

/// The columns with the others of a key of which they are part: a key has all of its columns or none, so that a row knows which of them are its
/// key's.
fn with_keys(plan: &Plan, ports: &[Port], mut uses: BTreeSet<String>) -> BTreeSet<String> {
    for port in ports {
        let key = key_columns(plan, *port);
        if key.iter().any(|name| uses.contains(name)) {
            uses.extend(key);
        }
    }
    uses
}

fn key_columns(plan: &Plan, port: Port) -> Vec<String> {
    let (Port::Step(i) | Port::Branch(i, _)) = port else {
        return Vec::new();
    };
    let Some(flow) = plan.steps.get(i).map(|step| &step.flow) else {
        return Vec::new();
    };
    match &flow.keyed {
        Keyed::By {
            columns: Some(columns), ..
        } => columns.iter().map(|i| flow.field(*i).name.clone()).collect(),
        _ => Vec::new(),
    }
}
