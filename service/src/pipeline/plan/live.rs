//! Which columns somebody needs, found backwards from the sinks.
use super::Plan;
use crate::pipeline::flow::Live;
use crate::pipeline::graph::Reader;
use std::collections::BTreeSet;

/// Of a plan whose rows have all of their columns.
pub fn columns(plan: &Plan) -> Live {
    let mut live = Live::default();
    for (i, sink) in plan.sinks.iter().enumerate() {
        live.need(Reader::Sink(i), &sink.input.ports, sink.uses.clone());
    }
    // A step is read by steps behind it alone.
    for (i, step) in plan.steps.iter().enumerate().rev() {
        let outputs = step.outputs(i);
        let passed = step.passes.iter().filter(|name| live.any(&outputs, name));
        let uses: BTreeSet<String> = step.uses.iter().chain(passed).cloned().collect();
        live.need(Reader::Step(i), &step.input.ports, uses);
    }
    live
}
