//! Reads the keys of a mapping.
use crate::pipeline::report::Report;
use crate::yaml::{Kind, Node};

/// A mapping of which keys are taken one by one.
pub struct Fields<'y> {
    node: &'y Node,
    left: Vec<(&'y Node, &'y Node)>,
}

impl<'y> Fields<'y> {
    /// Of a mapping; anything else is an error that says what it should be, `shape`.
    pub fn of(node: &'y Node, shape: &str, report: &mut Report<'_>) -> Option<Fields<'y>> {
        match &node.kind {
            Kind::Map(entries) => Some(Fields {
                node,
                left: entries.iter().map(|(key, value)| (key, value)).collect(),
            }),
            _ => {
                report.at(node, format!("{} where a mapping is expected", node.noun()), shape);
                None
            }
        }
    }

    /// Takes a key.
    pub fn take(&mut self, key: &str) -> Option<&'y Node> {
        self.take_entry(key).map(|(_, value)| value)
    }

    /// Takes a key with the node of the key itself.
    pub fn take_entry(&mut self, key: &str) -> Option<(&'y Node, &'y Node)> {
        let at = self.left.iter().position(|(k, _)| k.text == key)?;
        Some(self.left.remove(at))
    }

    /// Takes a key that must be there; `example` shows it.
    pub fn need(&mut self, key: &str, example: &str, report: &mut Report<'_>) -> Option<&'y Node> {
        let taken = self.take(key);
        if taken.is_none() {
            report.at(self.node, format!("`{key}` is missing"), format!("add `{example}`"));
        }
        taken
    }

    /// What was not taken.
    pub fn rest(self) -> Vec<(&'y Node, &'y Node)> {
        self.left
    }

    /// Nothing may be left; `known` are the keys that there are.
    pub fn finish(self, known: &[&str], report: &mut Report<'_>) {
        for (key, _) in self.left {
            report.unknown(key, "key", known.iter().copied());
        }
    }
}

/// The text of a scalar; anything else is an error that says what it should be.
pub fn text<'y>(node: &'y Node, example: &str, report: &mut Report<'_>) -> Option<&'y Node> {
    if node.scalar().is_some_and(|text| !text.is_empty()) {
        return Some(node);
    }
    let noun = if node.scalar().is_some() {
        "an empty text"
    } else {
        node.noun()
    };
    report.at(
        node,
        format!("{noun} where a text is expected"),
        format!("write {example}"),
    );
    None
}

/// An expression: any scalar that is not empty. NULL and TRUE are expressions too, although YAML has types of its own for them.
pub fn expression<'y>(node: &'y Node, report: &mut Report<'_>) -> Option<&'y Node> {
    let scalar = !matches!(node.kind, Kind::List(_) | Kind::Map(_));
    if scalar && !node.text.trim().is_empty() && node.text != "~" {
        return Some(node);
    }
    report.at(
        node,
        format!("{} where an expression is expected", node.noun()),
        "write a SQL expression, such as `amount > 0`; quote it when it has `: `, ` #`, or in braces one of `,[]{}` in it",
    );
    None
}
