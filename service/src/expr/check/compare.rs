//! Comparisons, and the sides of `IN`, `BETWEEN` and `CASE a WHEN`.
use sqlparser::ast;

use super::super::error::ExprError;
use super::super::node::{
    Bool, BoolOp, Bytes, Cmp, Compare, Float, Kind, Long, Node, Probe, Text, Typed, Wide, decimal_digits, pow10,
};
use super::Checker;
use super::operand::{Checked, nodes};
use crate::value::Type;

/// One side of a comparison of numbers without a float: what it is times which power of ten.
struct Side {
    node: Node<Long>,
    scale: u8,
}

impl Checker<'_> {
    pub(super) fn comparison(&mut self, cmp: Cmp, left: &ast::Expr, right: &ast::Expr) -> Result<Checked, ExprError> {
        let (left, right) = (self.expr(left)?, self.expr(right)?);
        let at = left.at.to(right.at);
        let node = match self.probe(left, vec![right])? {
            None => Node::Const(None),
            Some(probe) => Node::op(BoolOp::Compare(cmp, pair(probe))),
        };
        Ok(Checked::bool(at, node))
    }

    /// What is compared with several. None if the value, or all of the others, are NULL without a type: then nothing is equal, less or greater.
    pub(super) fn probe(&self, of: Checked, others: Vec<Checked>) -> Result<Option<Probe>, ExprError> {
        let Some(of_ty) = of.ty().cloned() else {
            return Ok(None);
        };
        if matches!(of_ty, Type::Array(_) | Type::Struct(_)) {
            let message = format!(
                "`{}` is {of_ty}; arrays and structs are not compared",
                self.text_of(of.at)
            );
            return Err(ExprError::new(of.at, message).help("compare their parts: tags[1], address.city"));
        }
        for other in &others {
            let Some(ty) = other.ty() else {
                continue;
            };
            if Self::common(&of_ty, ty).is_none() {
                return Err(self.incomparable(&of, other));
            }
        }
        if others.iter().all(|other| other.typed.is_none()) {
            return Ok(None);
        }
        let float = of_ty == Type::Float || others.iter().any(|other| other.ty() == Some(&Type::Float));
        if of_ty.is_numeric() && float {
            let others = others.into_iter().map(|other| self.float(other)).collect();
            return Ok(Some(Probe::Floats(self.float(of), others)));
        }
        let typed = |checked: Checked| {
            checked
                .typed
                .map_or_else(|| super::arithmetic::null(&of_ty), |(node, _)| node)
        };
        if of_ty.is_numeric() {
            let of = side(of);
            return Ok(Some(longs(of, others.into_iter().map(side).collect())));
        }
        let others: Vec<Typed> = others.into_iter().map(typed).collect();
        Ok(of.typed.map(|(node, _)| match node {
            Typed::Bool(node) => Probe::Bools(node, nodes::<Bool>(others)),
            Typed::Long(node) => Probe::Longs(node, nodes::<Long>(others)),
            Typed::Float(node) => Probe::Floats(node, nodes::<Float>(others)),
            Typed::Text(node) => Probe::Texts(node, nodes::<Text>(others)),
            Typed::Bytes(node) => Probe::Bytes(node, nodes::<Bytes>(others)),
            // invariant: refused above.
            Typed::Nested(_) => Probe::Bools(Node::Const(None), Vec::new()),
        }))
    }

    fn incomparable(&self, a: &Checked, b: &Checked) -> ExprError {
        let name = |side: &Checked| {
            let ty = side.ty().map_or_else(|| "NULL".to_owned(), Type::to_string);
            (self.text_of(side.at), ty)
        };
        let ((text_a, ty_a), (text_b, ty_b)) = (name(a), name(b));
        let error = ExprError::new(
            a.at.to(b.at),
            format!("{ty_a} and {ty_b} are not compared: `{text_a}` and `{text_b}`"),
        );
        match (a.ty(), b.ty()) {
            (Some(Type::Timestamp), Some(Type::String)) if text_b.starts_with('\'') => {
                error.help(format!("TIMESTAMP {text_b}"))
            }
            (Some(Type::String), Some(Type::Timestamp)) if text_a.starts_with('\'') => {
                error.help(format!("TIMESTAMP {text_a}"))
            }
            // A text becomes what it stands beside, rather than the other way round.
            (Some(to), Some(from @ Type::String)) if super::cast::is_castable(from, to) => {
                error.help(format!("CAST({text_b} AS {to})"))
            }
            (Some(from), Some(to)) if super::cast::is_castable(from, to) => {
                error.help(format!("CAST({text_a} AS {to})"))
            }
            (Some(to), Some(from)) if super::cast::is_castable(from, to) => {
                error.help(format!("CAST({text_b} AS {to})"))
            }
            _ => error,
        }
    }
}

fn side(checked: Checked) -> Side {
    match checked.typed {
        Some((Typed::Long(node), ty)) => Side {
            node,
            scale: decimal_digits(&ty).1,
        },
        _ => Side {
            node: Node::Const(None),
            scale: 0,
        },
    }
}

/// At one scale as they are, if constants can be brought to it; else wide.
fn longs(of: Side, others: Vec<Side>) -> Probe {
    // `0 < amount`: the constant is on the left.
    let scale = match &of.node {
        Node::Const(_) => others.iter().map(|other| other.scale).max().unwrap_or(0),
        _ => of.scale,
    };
    let fits = |side: &Side| match &side.node {
        Node::Const(None) => true,
        Node::Const(Some(value)) => at_scale(*value, side.scale, scale).is_some(),
        _ => side.scale == scale,
    };
    if fits(&of) && others.iter().all(fits) {
        let bring = |side: Side| match side.node {
            Node::Const(value) => Node::Const(value.and_then(|value| at_scale(value, side.scale, scale))),
            node => node,
        };
        return Probe::Longs(bring(of), others.into_iter().map(bring).collect());
    }
    let scale = others.iter().map(|other| other.scale).max().unwrap_or(0).max(of.scale);
    let wide = |side: Side| Wide {
        up: i128::from(pow10(scale - side.scale)),
        of: side.node,
    };
    Probe::Wide(wide(of), others.into_iter().map(wide).collect())
}

/// The same number at another scale, if that can be said in an i64.
fn at_scale(value: i64, from: u8, to: u8) -> Option<i64> {
    if from <= to {
        return value.checked_mul(pow10(to - from));
    }
    let down = pow10(from - to);
    (value % down == 0).then(|| value / down)
}

/// A probe with one other.
fn pair(probe: Probe) -> Compare {
    fn node<K: Kind>(mut others: Vec<Node<K>>) -> Node<K> {
        others.pop().unwrap_or(Node::Const(None))
    }
    match probe {
        Probe::Bools(of, others) => Compare::Bools(of, node(others)),
        Probe::Longs(of, others) => Compare::Longs(of, node(others)),
        Probe::Wide(of, mut others) => {
            let null = Wide {
                of: Node::Const(None),
                up: 1,
            };
            Compare::Wide(of, others.pop().unwrap_or(null))
        }
        Probe::Floats(of, others) => Compare::Floats(of, node(others)),
        Probe::Texts(of, others) => Compare::Texts(of, node(others)),
        Probe::Bytes(of, others) => Compare::Bytes(of, node(others)),
    }
}
