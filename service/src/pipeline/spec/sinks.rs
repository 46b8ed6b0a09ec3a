//! `sinks`.
use super::{Fields, SinkSpec, connector, from, ids, switch};
use crate::pipeline::report::Report;
use crate::yaml::{Kind, Node};

const SHAPE: &str = "write `sinks: { totals: { connector: kafka, topic: totals, value: json, from: totals } }`";

pub fn read<'y>(node: &'y Node, report: &mut Report<'_>) -> Vec<SinkSpec<'y>> {
    report.about("");
    let Some(entries) = Fields::of(node, SHAPE, report).map(Fields::rest) else {
        return Vec::new();
    };
    if entries.is_empty() {
        report.at(node, "there is no sink", SHAPE);
    }
    entries
        .into_iter()
        .filter_map(|(id, node)| sink(id, node, report))
        .collect()
}

fn sink<'y>(id: &'y Node, node: &'y Node, report: &mut Report<'_>) -> Option<SinkSpec<'y>> {
    report.about(format!("sink {}", id.text));
    ids::check(id, report);
    let Kind::Map(_) = node.kind else {
        report.at(id, format!("{} where a mapping is expected", node.noun()), SHAPE);
        return None;
    };
    let mut fields = Fields::of(node, SHAPE, report)?;
    let inputs = fields.take("from").map(|node| from(node, report));
    let key = fields.take("key");
    let value = fields.need("value", "value: json", report);
    let allow_loop = fields.take("allow_loop").is_some_and(|node| switch(node, report));
    Some(SinkSpec {
        id,
        // A `from` that cannot be read is told already and names nothing.
        from: inputs.map(Option::unwrap_or_default),
        key,
        value,
        allow_loop,
        connector: connector(fields, "connector: kafka", report),
    })
}
