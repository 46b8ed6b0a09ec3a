//! The kinds of values: how they are held while an expression is evaluated.
use std::borrow::Cow;
use std::cmp::Ordering;
use std::sync::Arc;

use super::{BoolOp, Buffer, Eval, FloatOp, LongOp, NestedOp, TextOp, bytes_op::BytesOp, compare_floats};
use crate::value::{Row, Type, Value};

/// How values of some types are held while an expression is evaluated.
pub(in crate::expr) trait Kind: Sized + 'static {
    /// A value, perhaps borrowed from the row or the expression.
    type Out<'a>;
    /// A value that the expression holds.
    type Const: Send + Sync;
    /// What gives values of this kind.
    type Op: Send + Sync;

    /// A value of the row; None if it is NULL or of another kind.
    fn read(value: &Value) -> Option<Self::Out<'_>>;
    /// As `read`, of a value that nobody else holds.
    fn take<'a>(value: Value) -> Option<Self::Out<'a>>;
    fn constant(value: &Self::Const) -> Self::Out<'_>;
    fn keep(out: Self::Out<'_>) -> Self::Const;
    /// As a value of type `ty`.
    fn value(out: Self::Out<'_>, ty: &Type) -> Value;
    fn eval<'a>(op: &'a Self::Op, row: &'a Row) -> Eval<Self::Out<'a>>;
}

/// Kinds whose values are compared: all but arrays and structs.
pub(in crate::expr) trait Ordered: Kind {
    fn compare(a: &Self::Out<'_>, b: &Self::Out<'_>) -> Ordering;
}

/// bool.
pub(in crate::expr) struct Bool;

impl Kind for Bool {
    type Out<'a> = bool;
    type Const = bool;
    type Op = BoolOp;

    #[inline]
    fn read(value: &Value) -> Option<bool> {
        match value {
            Value::Bool(value) => Some(*value),
            _ => None,
        }
    }

    fn take<'a>(value: Value) -> Option<Self::Out<'a>> {
        Self::read(&value)
    }

    fn constant(value: &bool) -> bool {
        *value
    }

    fn keep(out: bool) -> bool {
        out
    }

    fn value(out: bool, _: &Type) -> Value {
        Value::Bool(out)
    }

    #[inline]
    fn eval<'a>(op: &'a BoolOp, row: &'a Row) -> Eval<bool> {
        op.eval(row)
    }
}

/// int64, decimals (unscaled) and timestamps (milliseconds).
pub(in crate::expr) struct Long;

impl Kind for Long {
    type Out<'a> = i64;
    type Const = i64;
    type Op = LongOp;

    #[inline]
    fn read(value: &Value) -> Option<i64> {
        match value {
            Value::Int(value) | Value::Decimal(value) | Value::Timestamp(value) => Some(*value),
            _ => None,
        }
    }

    fn take<'a>(value: Value) -> Option<Self::Out<'a>> {
        Self::read(&value)
    }

    fn constant(value: &i64) -> i64 {
        *value
    }

    fn keep(out: i64) -> i64 {
        out
    }

    fn value(out: i64, ty: &Type) -> Value {
        match ty {
            Type::Decimal { .. } => Value::Decimal(out),
            Type::Timestamp => Value::Timestamp(out),
            _ => Value::Int(out),
        }
    }

    #[inline]
    fn eval<'a>(op: &'a LongOp, row: &'a Row) -> Eval<i64> {
        op.eval(row)
    }
}

/// float64.
pub(in crate::expr) struct Float;

impl Kind for Float {
    type Out<'a> = f64;
    type Const = f64;
    type Op = FloatOp;

    #[inline]
    fn read(value: &Value) -> Option<f64> {
        match value {
            Value::Float(value) => Some(*value),
            _ => None,
        }
    }

    fn take<'a>(value: Value) -> Option<Self::Out<'a>> {
        Self::read(&value)
    }

    fn constant(value: &f64) -> f64 {
        *value
    }

    fn keep(out: f64) -> f64 {
        out
    }

    fn value(out: f64, _: &Type) -> Value {
        Value::Float(out)
    }

    #[inline]
    fn eval<'a>(op: &'a FloatOp, row: &'a Row) -> Eval<f64> {
        op.eval(row)
    }
}

/// string.
pub(in crate::expr) struct Text;

/// A text while it is evaluated.
pub(in crate::expr) type TextBuffer<'a> = Buffer<'a, str, String>;

impl Kind for Text {
    type Out<'a> = TextBuffer<'a>;
    type Const = Arc<str>;
    type Op = TextOp;

    #[inline]
    fn read(value: &Value) -> Option<TextBuffer<'_>> {
        match value {
            Value::String(value) => Some(Buffer::Shared(value)),
            _ => None,
        }
    }

    fn take<'a>(value: Value) -> Option<Self::Out<'a>> {
        match value {
            Value::String(value) => Some(Buffer::Owned(value.as_ref().to_owned())),
            _ => None,
        }
    }

    fn constant(value: &Arc<str>) -> TextBuffer<'_> {
        Buffer::Shared(value)
    }

    fn keep(out: TextBuffer<'_>) -> Arc<str> {
        out.keep()
    }

    fn value(out: TextBuffer<'_>, _: &Type) -> Value {
        Value::String(out.keep())
    }

    #[inline]
    fn eval<'a>(op: &'a TextOp, row: &'a Row) -> Eval<TextBuffer<'a>> {
        op.eval(row)
    }
}

/// bytes.
pub(in crate::expr) struct Bytes;

/// Bytes while they are evaluated.
pub(in crate::expr) type BytesBuffer<'a> = Buffer<'a, [u8], Vec<u8>>;

impl Kind for Bytes {
    type Out<'a> = BytesBuffer<'a>;
    type Const = Arc<[u8]>;
    type Op = BytesOp;

    #[inline]
    fn read(value: &Value) -> Option<BytesBuffer<'_>> {
        match value {
            Value::Bytes(value) => Some(Buffer::Shared(value)),
            _ => None,
        }
    }

    fn take<'a>(value: Value) -> Option<Self::Out<'a>> {
        match value {
            Value::Bytes(value) => Some(Buffer::Owned(value.to_vec())),
            _ => None,
        }
    }

    fn constant(value: &Arc<[u8]>) -> BytesBuffer<'_> {
        Buffer::Shared(value)
    }

    fn keep(out: BytesBuffer<'_>) -> Arc<[u8]> {
        out.keep()
    }

    fn value(out: BytesBuffer<'_>, _: &Type) -> Value {
        Value::Bytes(out.keep())
    }

    fn eval<'a>(op: &'a BytesOp, row: &'a Row) -> Eval<BytesBuffer<'a>> {
        op.eval(row)
    }
}

/// Arrays and structs.
pub(in crate::expr) struct Nested;

impl Kind for Nested {
    type Out<'a> = Cow<'a, Value>;
    type Const = Value;
    type Op = NestedOp;

    fn read(value: &Value) -> Option<Cow<'_, Value>> {
        matches!(value, Value::Array(_) | Value::Struct(_)).then_some(Cow::Borrowed(value))
    }

    fn take<'a>(value: Value) -> Option<Self::Out<'a>> {
        matches!(value, Value::Array(_) | Value::Struct(_)).then_some(Cow::Owned(value))
    }

    fn constant(value: &Value) -> Cow<'_, Value> {
        Cow::Borrowed(value)
    }

    fn keep(out: Cow<'_, Value>) -> Value {
        out.into_owned()
    }

    fn value(out: Cow<'_, Value>, _: &Type) -> Value {
        out.into_owned()
    }

    fn eval<'a>(op: &'a NestedOp, row: &'a Row) -> Eval<Cow<'a, Value>> {
        op.eval(row)
    }
}

impl Ordered for Bool {
    #[inline]
    fn compare(a: &bool, b: &bool) -> Ordering {
        a.cmp(b)
    }
}

impl Ordered for Long {
    #[inline]
    fn compare(a: &i64, b: &i64) -> Ordering {
        a.cmp(b)
    }
}

impl Ordered for Float {
    #[inline]
    fn compare(a: &f64, b: &f64) -> Ordering {
        compare_floats(*a, *b)
    }
}

impl Ordered for Text {
    #[inline]
    fn compare(a: &TextBuffer<'_>, b: &TextBuffer<'_>) -> Ordering {
        str::cmp(a, b)
    }
}

impl Ordered for Bytes {
    #[inline]
    fn compare(a: &BytesBuffer<'_>, b: &BytesBuffer<'_>) -> Ordering {
        <[u8]>::cmp(a, b)
    }
}
