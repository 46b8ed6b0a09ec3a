//! The evaluator: a tree of nodes that are typed when they are built, so that nothing looks at a type while a row is evaluated.
//!
//! A [`Kind`] is how values are held meanwhile: int64, decimal and timestamp are all an i64 ([`Long`]); texts, bytes, arrays and structs
//! are borrowed from the row where they can be.
mod arithmetic;
mod bool_op;
mod buffer;
mod bytes_op;
mod compare;
mod decimal;
mod float_op;
mod kinds;
mod like;
mod long_op;
mod nested_op;
mod probe;
mod text_op;
mod time;

pub(super) use arithmetic::Arithmetic;
pub(super) use bool_op::BoolOp;
pub(super) use buffer::{Buffer, TEXT_MAX};
pub(super) use bytes_op::BytesOp;
pub(super) use compare::{Cmp, Compare, Wide, compare_floats};
pub(super) use decimal::{Rounding, decimal_digits, float_to_decimal, mean, pow10};
pub(super) use float_op::{FloatOp, float_text, of_decimal};
pub(super) use kinds::{Bool, Bytes, BytesBuffer, Float, Kind, Long, Nested, Ordered, Text, TextBuffer};
pub(super) use like::Pattern;
pub(super) use long_op::{Decimals, LongOp, Scaling, Target};
pub(super) use nested_op::NestedOp;
pub(super) use probe::Probe;
pub(super) use text_op::{TextOp, TrimSide};
pub(super) use time::{Interval, TimeField, TimeUnit, parse as parse_time};

use std::borrow::Cow;
use std::cmp::Ordering;

use super::error::{At, Fault, What};
use crate::value::{Row, Type, Value};

/// What a node gives: a value, NULL, or what went wrong.
pub(super) type Eval<T> = Result<Option<T>, Box<Fault>>;

/// A part of an expression with values of one kind.
pub(super) enum Node<K: Kind> {
    /// A constant; None is NULL.
    Const(Option<K::Const>),
    /// A field of the row.
    Column(usize),
    /// Something inside of an array or a struct.
    Inside(Box<Inside>),
    Case(Box<Case<K>>),
    Coalesce(Vec<Node<K>>),
    NullIf(Box<NullIf<K>>),
    Op(Box<K::Op>),
}

impl<K: Kind> Node<K> {
    #[inline]
    pub fn eval<'a>(&'a self, row: &'a Row) -> Eval<K::Out<'a>> {
        match self {
            Node::Column(index) => read::<K>(row.get(*index)),
            Node::Const(value) => Ok(value.as_ref().map(K::constant)),
            Node::Op(op) => K::eval(op, row),
            other => other.eval_rare(row),
        }
    }

    fn eval_rare<'a>(&'a self, row: &'a Row) -> Eval<K::Out<'a>> {
        match self {
            Node::Inside(inside) => inside.eval::<K>(row),
            Node::Case(case) => case.eval(row),
            Node::Coalesce(nodes) => {
                for node in nodes {
                    if let Some(value) = node.eval(row)? {
                        return Ok(Some(value));
                    }
                }
                Ok(None)
            }
            Node::NullIf(null_if) => null_if.eval(row),
            Node::Column(_) | Node::Const(_) | Node::Op(_) => self.eval(row),
        }
    }

    pub fn op(op: K::Op) -> Node<K> {
        Node::Op(Box::new(op))
    }

    pub fn constant(value: K::Const) -> Node<K> {
        Node::Const(Some(value))
    }
}

/// A value of the row as one of the kind.
#[inline]
fn read<K: Kind>(value: &Value) -> Eval<K::Out<'_>> {
    match K::read(value) {
        Some(out) => Ok(Some(out)),
        None if value.is_null() => Ok(None),
        None => Err(Fault::of(What::Mismatch, At::default())),
    }
}

/// Both values; NULL if one of them is. Both are evaluated, so an error on the right is one whatever is on the left.
#[inline]
pub(super) fn both<'a, A: Kind, B: Kind>(
    a: &'a Node<A>,
    b: &'a Node<B>,
    row: &'a Row,
) -> Eval<(A::Out<'a>, B::Out<'a>)> {
    let a = a.eval(row)?;
    let b = b.eval(row)?;
    Ok(a.zip(b))
}

/// A way into an array or a struct.
pub(super) struct Inside {
    pub root: Node<Nested>,
    pub steps: Vec<Step>,
}

pub(super) enum Step {
    /// Field of a struct by its index.
    Field(usize),
    /// Element of an array, from 1 on; NULL where there is none.
    Element(Node<Long>),
}

impl Inside {
    fn eval<'a, K: Kind>(&'a self, row: &'a Row) -> Eval<K::Out<'a>> {
        match self.root.eval(row)? {
            None => Ok(None),
            Some(Cow::Borrowed(value)) => {
                let mut at = value;
                for step in &self.steps {
                    match step.follow(at, row)? {
                        Some(next) => at = next,
                        None => return Ok(None),
                    }
                }
                read::<K>(at)
            }
            // Made by this expression, so it cannot be borrowed from.
            Some(Cow::Owned(value)) => {
                let mut at = value;
                for step in &self.steps {
                    match step.follow(&at, row)?.cloned() {
                        Some(next) => at = next,
                        None => return Ok(None),
                    }
                }
                if at.is_null() {
                    return Ok(None);
                }
                K::take(at).map_or_else(|| Err(Fault::of(What::Mismatch, At::default())), |out| Ok(Some(out)))
            }
        }
    }
}

impl Step {
    fn follow<'v>(&self, value: &'v Value, row: &Row) -> Result<Option<&'v Value>, Box<Fault>> {
        match (self, value) {
            (_, Value::Null) => Ok(None),
            (Step::Field(index), Value::Struct(fields)) => Ok(fields.get(*index)),
            (Step::Element(index), Value::Array(elements)) => {
                let index = index.eval(row)?.and_then(|i| usize::try_from(i).ok());
                Ok(index.and_then(|i| elements.get(i.checked_sub(1)?)))
            }
            _ => Err(Fault::of(What::Mismatch, At::default())),
        }
    }
}

/// `NULLIF`: a value, or NULL where the other is equal to it.
pub(super) struct NullIf<K: Kind> {
    pub of: Node<K>,
    pub other: Node<K>,
    /// A function, since not every kind has it.
    pub compare: fn(&K::Out<'_>, &K::Out<'_>) -> Ordering,
}

impl<K: Kind> NullIf<K> {
    fn eval<'a>(&'a self, row: &'a Row) -> Eval<K::Out<'a>> {
        let Some(value) = self.of.eval(row)? else {
            return Ok(None);
        };
        let other = self.other.eval(row)?;
        let same = other.is_some_and(|other| (self.compare)(&value, &other).is_eq());
        Ok((!same).then_some(value))
    }
}

/// `CASE`: the first branch whose condition holds.
pub(super) struct Case<K: Kind> {
    pub when: When,
    /// A result for each condition.
    pub then: Vec<Node<K>>,
    pub otherwise: Node<K>,
}

pub(super) enum When {
    /// `CASE WHEN a > 1 THEN ..`
    True(Vec<Node<Bool>>),
    /// `CASE a WHEN 1 THEN ..`
    Equal(Probe),
}

impl When {
    /// The first that holds.
    fn first(&self, row: &Row) -> Result<Option<usize>, Box<Fault>> {
        match self {
            When::True(conditions) => {
                for (index, condition) in conditions.iter().enumerate() {
                    if condition.eval(row)? == Some(true) {
                        return Ok(Some(index));
                    }
                }
                Ok(None)
            }
            When::Equal(probe) => probe.find_equal(row).map(|(index, _)| index),
        }
    }
}

impl<K: Kind> Case<K> {
    fn eval<'a>(&'a self, row: &'a Row) -> Eval<K::Out<'a>> {
        let branch = self.when.first(row)?.and_then(|index| self.then.get(index));
        branch.unwrap_or(&self.otherwise).eval(row)
    }
}

/// A node of any kind.
pub(super) enum Typed {
    Bool(Node<Bool>),
    Long(Node<Long>),
    Float(Node<Float>),
    Text(Node<Text>),
    Bytes(Node<Bytes>),
    Nested(Node<Nested>),
}

/// Evaluates `$body` with the node of whatever kind as `$node`.
macro_rules! each_kind {
    ($typed:expr, $node:ident => $body:expr) => {
        match $typed {
            Typed::Bool($node) => $body,
            Typed::Long($node) => $body,
            Typed::Float($node) => $body,
            Typed::Text($node) => $body,
            Typed::Bytes($node) => $body,
            Typed::Nested($node) => $body,
        }
    };
}

impl Typed {
    /// The value, which is of type `ty`.
    #[inline]
    pub fn eval(&self, row: &Row, ty: &Type) -> Result<Value, Box<Fault>> {
        each_kind!(self, node => value(node, row, ty))
    }

    pub fn is_null(&self, row: &Row) -> Result<bool, Box<Fault>> {
        each_kind!(self, node => match node {
            Node::Column(index) => Ok(row.get(*index).is_null()),
            node => Ok(node.eval(row)?.is_none()),
        })
    }

    pub fn is_const(&self) -> bool {
        each_kind!(self, node => matches!(node, Node::Const(_)))
    }
}

fn value<K: Kind>(node: &Node<K>, row: &Row, ty: &Type) -> Result<Value, Box<Fault>> {
    Ok(node.eval(row)?.map_or(Value::Null, |out| K::value(out, ty)))
}
