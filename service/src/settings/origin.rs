//! Where a value comes from, and how to complain about it there.
use crate::yaml::{Diagnostic, Node, Source};
use std::fmt;
use std::sync::Arc;

/// Where a value comes from. The later ones go before the earlier ones.
#[derive(Clone, Default)]
pub enum Origin {
    /// The table.
    #[default]
    Default,
    /// A file, and the key in it.
    File(Arc<Source>, Box<Node>),
    /// A variable of the environment.
    Variable(String),
    /// A flag, with its dashes.
    Flag(String),
}

impl Origin {
    /// A message that begins with the place.
    #[must_use]
    pub fn diagnostic(&self, message: impl Into<String>) -> Diagnostic {
        match self {
            Origin::Default => Diagnostic::of_file("default", message),
            Origin::File(source, key) => source.at(key, message),
            Origin::Variable(name) | Origin::Flag(name) => Diagnostic::of_file(name, message),
        }
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Origin::Default => f.write_str("default"),
            Origin::File(source, key) => write!(f, "{}:{}", source.name(), key.place.line),
            Origin::Variable(name) | Origin::Flag(name) => f.write_str(name),
        }
    }
}
