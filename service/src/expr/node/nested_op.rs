//! What gives arrays.
use std::borrow::Cow;
use std::sync::Arc;

use super::{Eval, Node, Text};
use crate::expr::error::{At, Fault, What};
use crate::value::{Row, Value};

/// Most elements of an array that an expression makes. An element takes some 60 bytes beside its text, so a text of a megabyte could become
/// thirty times as large; lines of words stay far below.
pub(in crate::expr) const ELEMENTS_MAX: usize = 100_000;

pub(in crate::expr) enum NestedOp {
    /// The parts of a text between the separators, or between white space.
    Split {
        text: Node<Text>,
        separator: Option<Node<Text>>,
        at: At,
    },
}

impl NestedOp {
    pub fn eval<'a>(&'a self, row: &'a Row) -> Eval<Cow<'a, Value>> {
        let NestedOp::Split { text, separator, at } = self;
        let text = text.eval(row)?;
        let separator = separator.as_ref().map(|node| node.eval(row)).transpose()?;
        match (text, separator) {
            (None, _) | (_, Some(None)) => Ok(None),
            (Some(text), None) => array(text.split_whitespace(), *at),
            // Between no characters there is nothing to cut.
            (Some(text), Some(Some(separator))) if separator.is_empty() => array(std::iter::once(&*text), *at),
            (Some(text), Some(Some(separator))) => array(text.split(&*separator), *at),
        }
    }
}

fn array<'t, 'a>(parts: impl Iterator<Item = &'t str>, at: At) -> Eval<Cow<'a, Value>> {
    let mut elements = Vec::new();
    for part in parts {
        if elements.len() == ELEMENTS_MAX {
            let (what, max) = ("elements", ELEMENTS_MAX);
            return Err(Fault::of(What::TooLong { what, max }, at));
        }
        elements.push(Value::String(Arc::from(part)));
    }
    Ok(Some(Cow::Owned(Value::Array(elements.into()))))
}
