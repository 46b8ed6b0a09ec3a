//! `sources`.
use super::{Fields, SourceSpec, connector, ids, policy, text};
use crate::pipeline::report::Report;
use crate::yaml::{Kind, Node};

const SHAPE: &str = "write `sources: { orders: { connector: kafka, topic: orders, value: .. } }`";

pub fn read<'y>(node: &'y Node, report: &mut Report<'_>) -> Vec<SourceSpec<'y>> {
    let Some(entries) = Fields::of(node, SHAPE, report).map(Fields::rest) else {
        return Vec::new();
    };
    if entries.is_empty() {
        report.at(node, "there is no source", SHAPE);
    }
    entries
        .into_iter()
        .filter_map(|(id, node)| source(id, node, report))
        .collect()
}

fn source<'y>(id: &'y Node, node: &'y Node, report: &mut Report<'_>) -> Option<SourceSpec<'y>> {
    report.about(format!("source {}", id.text));
    ids::check(id, report);
    let Kind::Map(_) = node.kind else {
        report.at(id, format!("{} where a mapping is expected", node.noun()), SHAPE);
        // It is there for those who read it.
        return Some(SourceSpec {
            id,
            connector: None,
            key: None,
            value: None,
            skip_tombstones: false,
            on_error: None,
        });
    };
    let mut fields = Fields::of(node, SHAPE, report)?;
    let key = fields.take("key");
    let value = fields.need("value", "value: { format: json, schema: { .. } }", report);
    let skip_tombstones = fields.take("tombstones").is_some_and(|node| tombstones(node, report));
    let on_error = fields.take("on_error").and_then(|node| policy::read(node, report));
    Some(SourceSpec {
        id,
        key,
        value,
        skip_tombstones,
        on_error,
        connector: connector(fields, "connector: kafka", report),
    })
}

/// Whether records without a value are dropped.
fn tombstones(node: &Node, report: &mut Report<'_>) -> bool {
    const HELP: &str = "a record without a value is refused, unless the source says `tombstones: skip`";
    match text(node, "`skip`", report).map(|node| node.text.as_str()) {
        Some("skip") => true,
        Some(_) => {
            report.at(node, format!("`{}` is no way to treat tombstones", node.text), HELP);
            false
        }
        None => false,
    }
}
