//! Checked parts of an expression, and their way to the type that is wanted.
use super::super::error::{At, ExprError};
use super::super::node::{
    Bool, Bytes, Float, FloatOp, Kind, Long, LongOp, Nested, Node, Rounding, Scaling, Target, Text, Typed,
    decimal_digits, pow10,
};
use super::Checker;
use crate::value::{DECIMAL_DIGITS_MAX, Type, Value};

/// A part of an expression that is sound.
pub(in crate::expr) struct Checked {
    pub at: At,
    /// None: NULL, which is of every type.
    pub typed: Option<(Typed, Type)>,
}

impl Checked {
    pub fn new(at: At, node: Typed, ty: Type) -> Checked {
        Checked {
            at,
            typed: Some((node, ty)),
        }
    }

    pub fn null(at: At) -> Checked {
        Checked { at, typed: None }
    }

    pub fn bool(at: At, node: Node<Bool>) -> Checked {
        Checked::new(at, Typed::Bool(node), Type::Bool)
    }

    pub fn int(at: At, op: LongOp) -> Checked {
        Checked::new(at, Typed::Long(Node::op(op)), Type::Int)
    }

    pub fn ty(&self) -> Option<&Type> {
        self.typed.as_ref().map(|(_, ty)| ty)
    }

    /// The constant that it is.
    pub fn long_const(&self) -> Option<i64> {
        match &self.typed {
            Some((Typed::Long(Node::Const(value)), _)) => *value,
            _ => None,
        }
    }
}

/// A constant of a type.
pub(super) fn constant(value: Value, ty: &Type) -> Typed {
    fn node<K: Kind>(value: Value) -> Node<K> {
        Node::Const(K::take(value).map(K::keep))
    }
    match ty {
        Type::Bool => Typed::Bool(node(value)),
        Type::Int | Type::Decimal { .. } | Type::Timestamp => Typed::Long(node(value)),
        Type::Float => Typed::Float(node(value)),
        Type::String => Typed::Text(node(value)),
        Type::Bytes => Typed::Bytes(node(value)),
        Type::Array(_) | Type::Struct(_) => Typed::Nested(node(value)),
    }
}

/// A field of the row.
pub(super) fn column(index: usize, ty: &Type) -> Typed {
    match ty {
        Type::Bool => Typed::Bool(Node::Column(index)),
        Type::Int | Type::Decimal { .. } | Type::Timestamp => Typed::Long(Node::Column(index)),
        Type::Float => Typed::Float(Node::Column(index)),
        Type::String => Typed::Text(Node::Column(index)),
        Type::Bytes => Typed::Bytes(Node::Column(index)),
        Type::Array(_) | Type::Struct(_) => Typed::Nested(Node::Column(index)),
    }
}

/// One of the node kinds out of a [`Typed`]; for NULL the constant NULL.
macro_rules! node_of {
    ($checked:expr, $variant:ident) => {
        match $checked.typed {
            None => Some(Node::Const(None)),
            Some((Typed::$variant(node), _)) => Some(node),
            Some(_) => None,
        }
    };
}

impl Checker<'_> {
    /// `what` takes a type, and gets another.
    pub(super) fn mismatch(&self, checked: &Checked, what: &str, wanted: &str, cast_to: Option<&Type>) -> ExprError {
        let ty = checked.ty().map_or_else(|| "NULL".to_owned(), Type::to_string);
        let part = self.text_of(checked.at);
        let error = ExprError::new(checked.at, format!("{what} takes {wanted}, but `{part}` is {ty}"));
        match (cast_to, checked.ty()) {
            (Some(to), Some(from)) if super::cast::is_castable(from, to) => error.help(format!("CAST({part} AS {to})")),
            _ => error,
        }
    }

    pub(super) fn bool(&self, checked: Checked, what: &str) -> Result<Node<Bool>, ExprError> {
        let error = self.mismatch(&checked, what, "bool", Some(&Type::Bool));
        node_of!(checked, Bool).ok_or(error)
    }

    pub(super) fn text(&self, checked: Checked, what: &str) -> Result<Node<Text>, ExprError> {
        let error = self.mismatch(&checked, what, "string", Some(&Type::String));
        node_of!(checked, Text).ok_or(error)
    }

    pub(super) fn int(&self, checked: Checked, what: &str) -> Result<Node<Long>, ExprError> {
        let error = self.mismatch(&checked, what, "int64", Some(&Type::Int));
        match checked.ty() {
            None | Some(Type::Int) => node_of!(checked, Long).ok_or(error),
            Some(_) => Err(error),
        }
    }

    pub(super) fn timestamp(&self, checked: Checked, what: &str) -> Result<Node<Long>, ExprError> {
        let error = self.mismatch(&checked, what, "timestamp", Some(&Type::Timestamp));
        match checked.ty() {
            None | Some(Type::Timestamp) => node_of!(checked, Long).ok_or(error),
            Some(_) => Err(error),
        }
    }

    /// A number as float64.
    pub(super) fn float(&self, checked: Checked) -> Node<Float> {
        match checked.typed {
            Some((Typed::Float(node), _)) => node,
            Some((Typed::Long(Node::Const(value)), ty)) => {
                let (_, scale) = decimal_digits(&ty);
                Node::Const(value.map(|value| super::super::node::of_decimal(value, scale)))
            }
            Some((Typed::Long(node), ty)) => Node::op(FloatOp::OfLong(node, decimal_digits(&ty).1)),
            _ => Node::Const(None),
        }
    }

    /// A value of the type that several are brought to: see [`Checker::common`].
    pub(super) fn widen(&self, checked: Checked, to: &Type) -> Result<Typed, ExprError> {
        let at = checked.at;
        match (checked.typed, to) {
            (None, to) => Ok(constant(Value::Null, to)),
            (Some((node, from)), to) if from == *to => Ok(node),
            (Some((node @ Typed::Long(_), from)), Type::Float) => {
                Ok(Typed::Float(self.float(Checked::new(at, node, from))))
            }
            (Some((Typed::Long(node), from)), Type::Decimal { scale, .. }) => self.rescale(node, &from, *scale, to, at),
            (typed, to) => Err(self.mismatch(&Checked { at, typed }, "this place", &to.to_string(), Some(to))),
        }
    }

    /// An int64 or a decimal with at least as many digits behind the point.
    fn rescale(&self, of: Node<Long>, from: &Type, scale: u8, to: &Type, at: At) -> Result<Typed, ExprError> {
        let up = i128::from(pow10(scale.saturating_sub(decimal_digits(from).1)));
        let scaling = Scaling {
            of,
            up,
            down: 1,
            rounding: Rounding::Half,
            to: Target {
                ty: to.clone(),
                lenient: false,
                at,
            },
        };
        let is_const = matches!(scaling.of, Node::Const(_));
        let node = Typed::Long(Node::op(LongOp::Scale(scaling)));
        if is_const {
            return self.fold(node, to);
        }
        Ok(node)
    }

    /// The one type that values of both types are brought to: itself, or that of numbers. None if there is none.
    pub(super) fn common(a: &Type, b: &Type) -> Option<Type> {
        if a == b {
            return Some(a.clone());
        }
        if !a.is_numeric() || !b.is_numeric() {
            return None;
        }
        if *a == Type::Float || *b == Type::Float {
            return Some(Type::Float);
        }
        let ((whole_a, scale_a), (whole_b, scale_b)) = (decimal_digits(a), decimal_digits(b));
        let scale = scale_a.max(scale_b);
        let precision = whole_a.max(whole_b).saturating_add(scale).min(DECIMAL_DIGITS_MAX);
        Some(Type::Decimal { precision, scale })
    }

    /// The type of all of them; None if all are NULL.
    pub(super) fn common_of(&self, all: &[Checked], what: &str) -> Result<Option<Type>, ExprError> {
        let mut common: Option<Type> = None;
        for checked in all {
            let Some(ty) = checked.ty() else {
                continue;
            };
            common = match &common {
                None => Some(ty.clone()),
                Some(before) => Some(
                    Self::common(before, ty)
                        .ok_or_else(|| self.mismatch(checked, what, &format!("{before} here"), Some(before)))?,
                ),
            };
        }
        Ok(common)
    }
}

/// The nodes of one kind; the types were checked.
pub(super) fn nodes<K: NodeOf>(typed: impl IntoIterator<Item = Typed>) -> Vec<Node<K>> {
    typed.into_iter().map(K::node_of).collect()
}

/// Takes the node out of a [`Typed`] that is known to be of the kind.
pub(super) trait NodeOf: Kind {
    fn node_of(typed: Typed) -> Node<Self>;
}

macro_rules! impl_node_of {
    ($($kind:ident)*) => {
        $(impl NodeOf for $kind {
            fn node_of(typed: Typed) -> Node<$kind> {
                match typed {
                    Typed::$kind(node) => node,
                    // invariant: all of one type are of one kind.
                    _ => Node::Const(None),
                }
            }
        })*
    };
}
impl_node_of!(Bool Long Float Text Bytes Nested);
