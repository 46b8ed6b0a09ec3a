//! `steps`: each does one thing.
use super::fields::expression;
use super::{
    ArmSpec, Emit, Fields, KeyPart, KeySpec, MapSpec, StepSpec, VerbSpec, column_name, duration, from, ids,
    plain_column, policy, text,
};
use crate::pipeline::flow::is_pseudo;
use crate::pipeline::report::Report;
use crate::yaml::{Kind, Node};

const SHAPE: &str = "write each step as `- { id: paid, filter: amount > 0 }`";
const VERBS: [&str; 6] = ["filter", "map", "flat_map", "aggregate", "dedup", "branch"];
const KEYS: [&str; 11] = [
    "id",
    "from",
    "key_by",
    "filter",
    "map",
    "flat_map",
    "aggregate",
    "emit",
    "dedup",
    "branch",
    "on_error",
];

pub fn read<'y>(node: &'y Node, report: &mut Report<'_>) -> Vec<StepSpec<'y>> {
    report.about("");
    match &node.kind {
        Kind::Null => Vec::new(),
        Kind::List(items) => items.iter().filter_map(|item| step(item, report)).collect(),
        _ => {
            report.at(
                node,
                format!("{} where the list of steps is expected", node.noun()),
                SHAPE,
            );
            Vec::new()
        }
    }
}

fn step<'y>(node: &'y Node, report: &mut Report<'_>) -> Option<StepSpec<'y>> {
    report.about("");
    let mut fields = Fields::of(node, SHAPE, report)?;
    let id = fields.need("id", "id: some-name", report);
    let id = id.and_then(|node| text(node, "an id, such as `paid`", report));
    if let Some(id) = id {
        report.about(format!("step {}", id.text));
        ids::check(id, report);
    }
    let from = fields.take("from").map(|node| from(node, report));
    let key_by = fields.take("key_by").map(|node| key(node, report));
    let on_error = fields.take("on_error").and_then(|node| policy::read(node, report));
    let verb = verb(node, &mut fields, key_by.is_some(), report);
    fields.finish(&KEYS, report);
    Some(StepSpec {
        // Without an id nobody can read it; its own mistakes are told all the same.
        id: id.unwrap_or(node),
        from: from.map(Option::unwrap_or_default),
        // What cannot be read is told already.
        key_by: key_by.map(|key| key.unwrap_or(KeySpec { parts: Vec::new() })),
        verb,
        on_error,
    })
}

/// What the step does.
fn verb<'y>(node: &'y Node, fields: &mut Fields<'y>, keyed: bool, report: &mut Report<'_>) -> Option<VerbSpec<'y>> {
    let found: Vec<_> = VERBS.iter().filter_map(|verb| fields.take_entry(verb)).collect();
    let emit = fields.take_entry("emit");
    let (name, value) = match found.as_slice() {
        [] if keyed => {
            refuse_emit(emit, report);
            return Some(VerbSpec::KeyBy);
        }
        [] => {
            report.at(
                node,
                "the step does nothing",
                format!("give it one of: {}, key_by", VERBS.join(", ")),
            );
            return None;
        }
        [one] => *one,
        [_, (second, _), ..] => {
            report.at(
                second,
                "a step does one thing",
                "make it a step of its own, with an id of its own",
            );
            return None;
        }
    };
    if keyed && !matches!(name.text.as_str(), "aggregate" | "dedup") {
        report.at(
            name,
            format!("`key_by` goes with `aggregate` and `dedup`, not with `{}`", name.text),
            "make `key_by` a step of its own",
        );
    }
    if name.text != "aggregate" {
        refuse_emit(emit, report);
    }
    match name.text.as_str() {
        "filter" => expression(value, report).map(VerbSpec::Filter),
        "map" => map(value, report).map(VerbSpec::Map),
        "flat_map" => flat_map(value, report),
        "aggregate" => aggregate(value, emit.map(|(_, value)| value), report),
        "dedup" => dedup(value, report),
        _ => branch(value, report).map(VerbSpec::Branch),
    }
}

fn refuse_emit(emit: Option<(&Node, &Node)>, report: &mut Report<'_>) {
    if let Some((key, _)) = emit {
        report.at(key, "`emit` goes with `aggregate`", "remove it");
    }
}

/// An expression, a list of them, or names and expressions.
fn key<'y>(node: &'y Node, report: &mut Report<'_>) -> Option<KeySpec<'y>> {
    const HELP: &str =
        "write `key_by: customer`, `key_by: [customer, region]`, or with names `key_by: { name: lower(customer) }`";
    let mut parts = Vec::new();
    match &node.kind {
        Kind::Map(entries) => {
            for (name, value) in entries {
                let good = column_name(name, report);
                if let (true, Some(expression)) = (good, expression(value, report)) {
                    let name = name.text.clone();
                    parts.push(KeyPart { name, expression });
                }
            }
        }
        Kind::List(items) => parts.extend(items.iter().filter_map(|item| key_part(item, report))),
        _ => parts.extend(key_part(node, report)),
    }
    let nothing = matches!(&node.kind, Kind::List(items) if items.is_empty())
        || matches!(&node.kind, Kind::Map(entries) if entries.is_empty());
    if nothing {
        report.at(node, "a key of nothing", HELP);
    }
    for (i, part) in parts.iter().enumerate() {
        if parts[..i].iter().any(|p| p.name == part.name) {
            report.at(
                part.expression,
                format!("two parts of the key are named `{}`", part.name),
                HELP,
            );
        }
    }
    (!parts.is_empty()).then_some(KeySpec { parts })
}

/// A part without a name: that of its column.
fn key_part<'y>(node: &'y Node, report: &mut Report<'_>) -> Option<KeyPart<'y>> {
    let expression = expression(node, report)?;
    let Some(name) = plain_column(&expression.text) else {
        report.at(
            node,
            "a key that is no column needs a name",
            format!("write `key_by: {{ name: {} }}`", expression.text),
        );
        return None;
    };
    Some(KeyPart { name, expression })
}

/// Entries of a mapping from names of columns to expressions or calls.
fn columns<'y>(entries: Vec<(&'y Node, &'y Node)>, report: &mut Report<'_>) -> Vec<(&'y Node, &'y Node)> {
    let good = |(name, value): (&'y Node, &'y Node)| {
        let named = column_name(name, report);
        let value = expression(value, report)?;
        named.then_some((name, value))
    };
    entries.into_iter().filter_map(good).collect()
}

fn map<'y>(node: &'y Node, report: &mut Report<'_>) -> Option<MapSpec<'y>> {
    const HELP: &str = "write `map: { name: expression, .. }`; `\"*\": keep` keeps the other columns";
    let mut fields = Fields::of(node, HELP, report)?;
    let keep = fields.take("*");
    if let Some(value) = keep.filter(|node| node.text != "keep") {
        report.at(
            value,
            "`*` stands for the columns that the map does not name",
            "write `\"*\": keep`",
        );
    }
    let (kept, others): (Vec<_>, Vec<_>) = fields.rest().into_iter().partition(keeps_pseudo_column);
    let columns = [columns(others, report), kept].concat();
    if keep.is_none() && matches!(&node.kind, Kind::Map(entries) if entries.is_empty()) {
        report.at(node, "a row without columns", HELP);
        return None;
    }
    Some(MapSpec { keep, columns })
}

/// `_key: _key`: the pseudo-column stays one.
fn keeps_pseudo_column((name, value): &(&Node, &Node)) -> bool {
    is_pseudo(&name.text) && value.text.trim() == name.text
}

fn flat_map<'y>(node: &'y Node, report: &mut Report<'_>) -> Option<VerbSpec<'y>> {
    const HELP: &str = "write `flat_map: { array: tags, as: tag }`";
    let mut fields = Fields::of(node, HELP, report)?;
    let array = fields.need("array", "array: tags", report);
    let name = fields.need("as", "as: tag", report);
    fields.finish(&["array", "as"], report);
    let array = array.and_then(|node| expression(node, report));
    let name = name.and_then(|node| text(node, "the name of the column for an element", report));
    let name = name.filter(|node| column_name(node, report));
    Some(VerbSpec::FlatMap {
        array: array?,
        name: name?,
    })
}

fn aggregate<'y>(node: &'y Node, emit: Option<&'y Node>, report: &mut Report<'_>) -> Option<VerbSpec<'y>> {
    const HELP: &str = "write `aggregate: { orders: count(), total: sum(amount) }`";
    let emit = match emit.map(|node| (node, node.text.as_str())) {
        None | Some((_, "record")) => Emit::Record,
        Some((_, "epoch")) => Emit::Epoch,
        Some((node, _)) => {
            report.unknown(node, "value of `emit`", ["record", "epoch"]);
            Emit::Record
        }
    };
    let entries = Fields::of(node, HELP, report)?.rest();
    if entries.is_empty() {
        report.at(node, "nothing is aggregated", HELP);
        return None;
    }
    Some(VerbSpec::Aggregate {
        at: node,
        calls: columns(entries, report),
        emit,
    })
}

fn dedup<'y>(node: &'y Node, report: &mut Report<'_>) -> Option<VerbSpec<'y>> {
    const HELP: &str = "write `key_by: order_id` and `dedup: { within: 10m }`";
    let mut fields = Fields::of(node, HELP, report)?;
    let within = fields.need("within", "within: 10m", report);
    fields.finish(&["within"], report);
    Some(VerbSpec::Dedup {
        at: node,
        within: duration::read(within?, report)?,
    })
}

fn branch<'y>(node: &'y Node, report: &mut Report<'_>) -> Option<Vec<ArmSpec<'y>>> {
    const HELP: &str =
        "write `branch: { big: amount > 100, rest: else }`; a row goes to the first branch whose condition is TRUE";
    let entries = Fields::of(node, HELP, report)?.rest();
    if entries.is_empty() {
        report.at(node, "no branches", HELP);
    }
    let last = entries.len().saturating_sub(1);
    let mut arms = Vec::new();
    for (i, (name, value)) in entries.into_iter().enumerate() {
        ids::check(name, report);
        let condition = match value.text.as_str() {
            "else" if i == last => None,
            "else" => {
                report.at(
                    value,
                    "`else` takes all that is left, so nothing gets to the branches behind it",
                    "make it the last one",
                );
                None
            }
            _ => match expression(value, report) {
                Some(expression) => Some(expression),
                None => continue,
            },
        };
        arms.push(ArmSpec { name, condition });
    }
    (!arms.is_empty()).then_some(arms)
}
