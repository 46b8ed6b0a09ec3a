//! What is TRUE, FALSE or unknown (NULL), in SQL's three-valued logic.
use std::sync::Arc;

use super::{Bool, Cmp, Compare, Eval, Fault, Long, Node, Pattern, Probe, Text, Typed, What};
use crate::expr::error::{At, VALUE_SHOWN_MAX, shortened};
use crate::value::{Row, Type};

pub(in crate::expr) enum BoolOp {
    Compare(Cmp, Compare),
    Not(Node<Bool>),
    /// FALSE at the first that is; what is behind it is not evaluated.
    And(Vec<Node<Bool>>),
    /// TRUE at the first that is; what is behind it is not evaluated.
    Or(Vec<Node<Bool>>),
    IsNull {
        of: Typed,
        negated: bool,
    },
    /// `IS TRUE`, `IS FALSE`: never NULL.
    IsTruth {
        of: Node<Bool>,
        truth: bool,
        negated: bool,
    },
    Between {
        probe: Probe,
        negated: bool,
    },
    In {
        probe: Probe,
        negated: bool,
    },
    /// `IN` a sorted list of constants.
    InLongs {
        of: Node<Long>,
        list: Vec<i64>,
        /// Whether NULL is in the list.
        null: bool,
        negated: bool,
    },
    /// `IN` a sorted list of constants.
    InTexts {
        of: Node<Text>,
        list: Vec<Arc<str>>,
        /// Whether NULL is in the list.
        null: bool,
        negated: bool,
    },
    Like {
        of: Node<Text>,
        pattern: Node<Text>,
        /// The pattern, if it is a constant.
        known: Option<Pattern>,
        escape: Option<char>,
        negated: bool,
        at: At,
    },
    /// Other than 0.
    OfInt(Node<Long>),
    OfText {
        of: Node<Text>,
        lenient: bool,
        at: At,
    },
}

impl BoolOp {
    pub fn eval(&self, row: &Row) -> Eval<bool> {
        match self {
            BoolOp::Compare(cmp, sides) => Ok(sides.eval(row)?.map(|ordering| cmp.holds(ordering))),
            BoolOp::And(parts) => all(parts, row, true),
            BoolOp::Or(parts) => all(parts, row, false),
            BoolOp::Not(of) => Ok(of.eval(row)?.map(|value| !value)),
            BoolOp::IsNull { of, negated } => Ok(Some(of.is_null(row)? != *negated)),
            BoolOp::IsTruth { of, truth, negated } => Ok(Some((of.eval(row)? == Some(*truth)) != *negated)),
            BoolOp::Between { probe, negated } => Ok(probe.between(row)?.map(|value| value != *negated)),
            BoolOp::In { probe, negated } => {
                let (found, unknown) = probe.find_equal(row)?;
                Ok(in_list(found.is_some(), unknown, *negated))
            }
            BoolOp::InLongs {
                of,
                list,
                null,
                negated,
            } => Ok(of
                .eval(row)?
                .and_then(|value| in_list(list.binary_search(&value).is_ok(), *null, *negated))),
            BoolOp::InTexts {
                of,
                list,
                null,
                negated,
            } => Ok(of.eval(row)?.and_then(|value| {
                let found = list.binary_search_by(|item| item.as_ref().cmp(&*value)).is_ok();
                in_list(found, *null, *negated)
            })),
            BoolOp::Like { .. } => self.like(row),
            BoolOp::OfInt(of) => Ok(of.eval(row)?.map(|value| value != 0)),
            BoolOp::OfText { of, lenient, at } => of_text(of, row, *lenient, *at),
        }
    }

    fn like(&self, row: &Row) -> Eval<bool> {
        let BoolOp::Like {
            of,
            pattern,
            known,
            escape,
            negated,
            at,
        } = self
        else {
            return Ok(None);
        };
        let text = of.eval(row)?;
        if let Some(known) = known {
            return Ok(text.map(|text| known.matches(&text) != *negated));
        }
        let (Some(text), Some(pattern)) = (text, pattern.eval(row)?) else {
            return Ok(None);
        };
        let compiled = Pattern::new(&pattern, *escape)
            .ok_or_else(|| Fault::of(What::Pattern(shortened(&pattern, VALUE_SHOWN_MAX)), *at))?;
        Ok(Some(compiled.matches(&text) != *negated))
    }
}

/// `AND` (`on` is true) or `OR`: decided by the first that is not `on`.
#[inline]
fn all(parts: &[Node<Bool>], row: &Row, on: bool) -> Eval<bool> {
    let mut result = Some(on);
    for part in parts {
        match part.eval(row)? {
            Some(value) if value != on => return Ok(Some(!on)),
            Some(_) => {}
            None => result = None,
        }
    }
    Ok(result)
}

fn in_list(found: bool, unknown: bool, negated: bool) -> Option<bool> {
    match (found, unknown) {
        (true, _) => Some(!negated),
        (false, true) => None,
        (false, false) => Some(negated),
    }
}

fn of_text(of: &Node<Text>, row: &Row, lenient: bool, at: At) -> Eval<bool> {
    let Some(text) = of.eval(row)? else {
        return Ok(None);
    };
    let word = text.trim();
    if word.eq_ignore_ascii_case("true") {
        Ok(Some(true))
    } else if word.eq_ignore_ascii_case("false") {
        Ok(Some(false))
    } else if lenient {
        Ok(None)
    } else {
        Err(Fault::cast(&text, Type::Bool, at))
    }
}
