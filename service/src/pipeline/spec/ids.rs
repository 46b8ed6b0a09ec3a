//! Ids: stable names of operators, by which their state is found again; and the names of columns.
use super::{Spec, text};
use crate::pipeline::report::Report;
use crate::yaml::Node;
use std::collections::HashMap;

/// Between an id and what belongs to it: a step can be several operators of the engine, `totals` and `totals--key`.
pub const SEPARATOR: &str = "--";
/// The engine takes 64 characters; the rest is for the ids of what belongs to a step.
const ID_CHARS_MAX: usize = 48;
const GRAMMAR: &str = "use 1 to 48 characters of a-z, 0-9, - and _, starting with a letter and without `--`";
/// Most characters of a column's name.
const COLUMN_CHARS_MAX: usize = 255;

/// The job's id.
pub fn job<'y>(node: &'y Node, report: &mut Report<'_>) -> Option<&'y str> {
    let node = text(node, "an id, such as `customer-totals`", report)?;
    check(node, report).then_some(&node.text)
}

/// Checks an id's grammar.
pub fn check(node: &Node, report: &mut Report<'_>) -> bool {
    let id = node.text.as_str();
    let letter = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-' || c == '_';
    let good = (1..=ID_CHARS_MAX).contains(&id.len())
        && id.starts_with(|c: char| c.is_ascii_lowercase())
        && id.chars().all(letter)
        && !id.contains(SEPARATOR);
    if !good {
        report.at(node, format!("the id `{id}` cannot be used"), GRAMMAR);
    }
    good
}

/// Sources and steps share one space of names, since `from` may name either; sinks have their own, and a mapping has no key twice.
pub fn unique(spec: &Spec<'_>, report: &mut Report<'_>) {
    report.about("");
    let mut seen: HashMap<&str, usize> = HashMap::new();
    let ids = spec.sources.iter().map(|s| s.id).chain(spec.steps.iter().map(|s| s.id));
    for id in ids.filter(|id| !id.text.is_empty()) {
        if let Some(line) = seen.insert(&id.text, id.place.line) {
            report.at(
                id,
                format!("the id `{}` is used twice", id.text),
                format!("the other is in line {line}; sources and steps each need an id of their own, by which their state is found again"),
            );
        }
    }
}

/// Checks the name of a column that a step or schema makes.
pub fn column_name(node: &Node, report: &mut Report<'_>) -> bool {
    let name = node.text.as_str();
    let help = if name.is_empty() || name.chars().count() > COLUMN_CHARS_MAX || name.chars().any(char::is_control) {
        "a name has 1 to 255 characters that can be seen"
    } else if crate::pipeline::flow::PSEUDO_COLUMNS.contains(&name) {
        "names of pseudo-columns are taken: give it another name, such as `offset: _offset`; a `map` keeps one with `_offset: _offset`"
    } else {
        return true;
    };
    report.at(node, format!("a column cannot be named `{name}`"), help);
    false
}

/// The last name of a path such as `address.city` or `"Order Id"`; None for any other expression.
pub fn plain_column(text: &str) -> Option<String> {
    let mut rest = text.trim();
    loop {
        let (name, after) = segment(rest)?;
        match after.strip_prefix('.') {
            Some(next) => rest = next,
            None if after.is_empty() => return Some(name),
            None => return None,
        }
    }
}

/// The first name of a path, and what follows it.
fn segment(text: &str) -> Option<(String, &str)> {
    if let Some(quoted) = text.strip_prefix('"') {
        let end = quoted.find('"')?;
        return Some((quoted[..end].to_owned(), &quoted[end + 1..]));
    }
    let end = text
        .find(|c: char| !(c.is_alphanumeric() || c == '_'))
        .unwrap_or(text.len());
    let name = &text[..end];
    let starts = name.starts_with(|c: char| c.is_alphabetic() || c == '_');
    starts.then(|| (name.to_owned(), &text[end..]))
}
