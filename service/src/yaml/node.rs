//! The tree of a file.
use super::diagnostic::Place;
use std::ops::Range;

/// A scalar, a list or a mapping, with its place in the file.
#[derive(Debug, Clone, PartialEq)]
pub struct Node {
    /// Where it begins. For what an alias repeats, where the anchored node begins.
    pub place: Place,
    /// What it is.
    pub kind: Kind,
    /// A scalar's text as it is written, without quotes and with escapes resolved. Empty for lists and mappings.
    pub text: String,
    /// Where it lies in the file, in bytes.
    pub(super) span: Range<usize>,
    /// How a scalar is written.
    pub(super) style: Style,
}

/// What a node is. Plain scalars are resolved by YAML's core schema (1.2), so `yes` and `on` are texts; whatever is quoted is a text.
#[derive(Debug, Clone, PartialEq)]
pub enum Kind {
    /// Nothing, `~` or `null`.
    Null,
    /// `true` or `false`.
    Bool(bool),
    /// An integer; its digits are in [`Node::text`].
    Int,
    /// A number with a point or an exponent; as written in [`Node::text`].
    Float,
    /// Anything else that is no list and no mapping, in [`Node::text`].
    Text,
    /// A list.
    List(Vec<Node>),
    /// Keys, each of them a scalar and once, and their values, in the order of the file.
    Map(Vec<(Node, Node)>),
}

/// How a scalar is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Style {
    Plain,
    Single,
    Double,
    /// `|` or `>`, which begin with a line of their own.
    Block,
}

impl Node {
    /// The value of a key of a mapping.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<&Node> {
        match &self.kind {
            Kind::Map(entries) => entries.iter().find(|(k, _)| k.text == key).map(|(_, value)| value),
            _ => None,
        }
    }

    /// The text of a scalar that is not null.
    #[must_use]
    pub fn scalar(&self) -> Option<&str> {
        match self.kind {
            Kind::Null | Kind::List(_) | Kind::Map(_) => None,
            _ => Some(&self.text),
        }
    }

    /// Whether it is a scalar in quotes, which are not part of its text.
    #[must_use]
    pub fn is_quoted(&self) -> bool {
        matches!(self.style, Style::Single | Style::Double)
    }

    /// What it is, for messages: "a list".
    #[must_use]
    pub fn noun(&self) -> &'static str {
        match self.kind {
            Kind::Null => "nothing",
            Kind::Bool(_) => "a boolean",
            Kind::Int => "an integer",
            Kind::Float => "a number",
            Kind::Text => "a text",
            Kind::List(_) => "a list",
            Kind::Map(_) => "a mapping",
        }
    }

    /// Nodes of the tree, this one included, and bytes of its scalars.
    pub(super) fn weight(&self) -> (usize, usize) {
        let add = |(nodes, bytes): (usize, usize), node: &Node| {
            let (n, b) = node.weight();
            (nodes + n, bytes + b)
        };
        match &self.kind {
            Kind::List(items) => items.iter().fold((1, 0), add),
            Kind::Map(entries) => entries.iter().fold((1, 0), |sum, (k, v)| add(add(sum, k), v)),
            _ => (1, self.text.len()),
        }
    }
}
