//! `CAST` and `TRY_CAST`, and the names of types.
use sqlparser::ast::{self, CastKind, DataType, ExactNumberInfo};
use sqlparser::keywords::Keyword;
use sqlparser::tokenizer::Token;

use super::super::error::{At, ExprError};
use super::super::node::{
    BoolOp, BytesOp, FloatOp, Long, LongOp, Node, Rounding, Scaling, Target, TextOp, Typed, decimal_digits, pow10,
};
use super::Checker;
use super::operand::Checked;
use crate::value::{DECIMAL_DIGITS_MAX, Type};

const TYPES: &str = "the types are bool, int64, float64, decimal(18,2), string, bytes and timestamp";

/// Whether `CAST` leads from one type to another.
pub(super) fn is_castable(from: &Type, to: &Type) -> bool {
    match (from, to) {
        (from, to) if from == to => true,
        (Type::Array(_) | Type::Struct(_), _) | (_, Type::Array(_) | Type::Struct(_)) => false,
        (from, to) if from.is_numeric() && to.is_numeric() => true,
        (Type::String, _) | (_, Type::String) => true,
        (Type::Bool | Type::Timestamp, Type::Int) | (Type::Int, Type::Bool | Type::Timestamp) => true,
        _ => false,
    }
}

impl Checker<'_> {
    pub(super) fn cast(
        &mut self,
        kind: &CastKind,
        operand: &ast::Expr,
        data_type: &DataType,
    ) -> Result<Checked, ExprError> {
        let operand = self.expr(operand)?;
        let (at, type_at) = if *kind == CastKind::DoubleColon {
            // `a::int64`.
            let at = self.tokens.up_to(operand.at, |token| matches!(token, Token::Word(_)));
            (at, at)
        } else {
            self.cast_places(operand.at)
        };
        let to = type_of(data_type).map_err(|problem| match problem {
            TypeProblem::Unknown => {
                ExprError::new(type_at, format!("there is no type {}", self.text_of(type_at))).help(TYPES)
            }
            TypeProblem::Digits => ExprError::new(
                type_at,
                format!(
                    "{}: the digits are 1 to {DECIMAL_DIGITS_MAX}, of which those behind the point are a part",
                    self.text_of(type_at)
                ),
            )
            .help("decimal(18,2) has 16 digits before the point and two behind it"),
        })?;
        let lenient = match kind {
            CastKind::TryCast | CastKind::SafeCast => true,
            CastKind::Cast | CastKind::DoubleColon => false,
        };
        self.cast_to(operand, to, lenient, at)
    }

    /// The whole `CAST(operand AS type)`, and its type.
    fn cast_places(&self, operand: At) -> (At, At) {
        let from = self.tokens.down_to(operand, |token| {
            matches!(token, Token::Word(word) if matches!(word.keyword, Keyword::CAST | Keyword::TRY_CAST | Keyword::SAFE_CAST))
        });
        let named = self.up_to_keyword(operand, Keyword::AS);
        let closed = self.closed(named);
        let behind = self.tokens.between(named, closed);
        // decimal(18,2) closes a parenthesis of its own.
        let (whole, type_at) = match self.text_of(behind).contains('(') {
            true => (self.closed(closed), behind),
            false => (closed, self.tokens.without_last(behind)),
        };
        (from.to(whole), type_at)
    }

    fn cast_to(&self, operand: Checked, to: Type, lenient: bool, at: At) -> Result<Checked, ExprError> {
        let from = match operand.ty() {
            None => return Ok(Checked::new(at, super::arithmetic::null(&to), to)),
            Some(from) => from.clone(),
        };
        if !is_castable(&from, &to) {
            return Err(self.no_cast(&from, &to, at));
        }
        let Some((node, _)) = operand.typed else {
            return Ok(Checked::null(at));
        };
        let target = || Target {
            ty: to.clone(),
            lenient,
            at,
        };
        let node = match (node, &to) {
            (node, to) if from == *to => node,
            (Typed::Bool(of), Type::String) => Typed::Text(Node::op(TextOp::OfBool(of))),
            (Typed::Bool(of), _) => Typed::Long(Node::op(LongOp::OfBool(of))),
            (Typed::Long(of), Type::Bool) => Typed::Bool(Node::op(BoolOp::OfInt(of))),
            (Typed::Long(of), Type::String) if from == Type::Timestamp => {
                Typed::Text(Node::op(TextOp::OfTimestamp { of, lenient, at }))
            }
            (Typed::Long(of), Type::String) => Typed::Text(Node::op(TextOp::OfLong(of, decimal_digits(&from).1))),
            (Typed::Long(of), Type::Float) => Typed::Float(Node::op(FloatOp::OfLong(of, decimal_digits(&from).1))),
            (Typed::Long(of), Type::Timestamp) => Typed::Long(Node::op(LongOp::Timestamp { of, lenient, at })),
            // Milliseconds as they are.
            (Typed::Long(of), Type::Int) if from == Type::Timestamp => Typed::Long(of),
            (Typed::Long(of), _) => Typed::Long(rescale(of, &from, target())),
            (Typed::Float(of), Type::String) => Typed::Text(Node::op(TextOp::OfFloat(of))),
            (Typed::Float(of), _) => Typed::Long(Node::op(LongOp::OfFloat { of, to: target() })),
            (Typed::Text(of), Type::Bool) => Typed::Bool(Node::op(BoolOp::OfText { of, lenient, at })),
            (Typed::Text(of), Type::Float) => Typed::Float(Node::op(FloatOp::OfText { of, lenient, at })),
            (Typed::Text(of), Type::Bytes) => Typed::Bytes(Node::op(BytesOp::OfText(of))),
            (Typed::Text(of), _) => Typed::Long(Node::op(LongOp::OfText { of, to: target() })),
            (Typed::Bytes(of), _) => Typed::Text(Node::op(TextOp::OfBytes { of, lenient, at })),
            (Typed::Nested(_), to) => return Err(self.no_cast(&from, to, at)),
        };
        Ok(Checked::new(at, node, to))
    }

    fn no_cast(&self, from: &Type, to: &Type, at: At) -> ExprError {
        let error = ExprError::new(at, format!("no CAST leads from {from} to {to}"));
        match (from, to) {
            (Type::Array(_), _) => error.help("CAST one element: tags[1]"),
            (Type::Struct(_), _) => error.help("CAST one field: address.city"),
            (from, to) if is_castable(from, &Type::Int) && is_castable(&Type::Int, to) => {
                error.help(format!("by way of int64: CAST(CAST(.. AS int64) AS {to})"))
            }
            (from, to) if is_castable(from, &Type::String) && is_castable(&Type::String, to) => {
                error.help(format!("by way of string: CAST(CAST(.. AS string) AS {to})"))
            }
            _ => error,
        }
    }
}

/// Between int64 and decimals, a half away from zero.
fn rescale(of: Node<Long>, from: &Type, to: Target) -> Node<Long> {
    let ((_, from_scale), (_, to_scale)) = (decimal_digits(from), decimal_digits(&to.ty));
    Node::op(LongOp::Scale(Scaling {
        of,
        up: i128::from(pow10(to_scale.saturating_sub(from_scale))),
        down: i128::from(pow10(from_scale.saturating_sub(to_scale))),
        rounding: Rounding::Half,
        to,
    }))
}

enum TypeProblem {
    Unknown,
    Digits,
}

/// The names of the pipeline file, and those of standard SQL that mean the same.
fn type_of(data_type: &DataType) -> Result<Type, TypeProblem> {
    match data_type {
        DataType::Bool | DataType::Boolean => Ok(Type::Bool),
        DataType::Int64 | DataType::Int(None) | DataType::Integer(None) | DataType::BigInt(None) => Ok(Type::Int),
        DataType::Float64
        | DataType::Double(ExactNumberInfo::None)
        | DataType::DoublePrecision
        | DataType::Float(ExactNumberInfo::None) => Ok(Type::Float),
        DataType::Decimal(digits) | DataType::Numeric(digits) | DataType::Dec(digits) => decimal(digits),
        DataType::String(None) | DataType::Text | DataType::Varchar(None) => Ok(Type::String),
        DataType::Bytes(None) | DataType::Bytea | DataType::Varbinary(None) => Ok(Type::Bytes),
        DataType::Timestamp(None, _) | DataType::TimestampNtz(None) => Ok(Type::Timestamp),
        _ => Err(TypeProblem::Unknown),
    }
}

fn decimal(digits: &ExactNumberInfo) -> Result<Type, TypeProblem> {
    let (precision, scale) = match digits {
        ExactNumberInfo::None => return Err(TypeProblem::Digits),
        ExactNumberInfo::Precision(precision) => (*precision, 0),
        ExactNumberInfo::PrecisionAndScale(precision, scale) => (*precision, *scale),
    };
    match (u8::try_from(precision), u8::try_from(scale)) {
        (Ok(precision @ 1..=DECIMAL_DIGITS_MAX), Ok(scale)) if scale <= precision => {
            Ok(Type::Decimal { precision, scale })
        }
        _ => Err(TypeProblem::Digits),
    }
}
