//! Constants as they are written.
use sqlparser::ast::{self, Value as Literal, ValueWithSpan};

use super::super::error::{At, ExprError};
use super::super::node::{Node, Typed, parse_time};
use super::Checker;
use super::operand::Checked;
use crate::value::{DECIMAL_DIGITS_MAX, Type, parse_decimal};

impl Checker<'_> {
    pub(super) fn literal(&mut self, literal: &ValueWithSpan) -> Result<Checked, ExprError> {
        let at = self.tokens.at(literal.span);
        match &literal.value {
            Literal::Null => Ok(Checked::null(at)),
            Literal::Boolean(value) => Ok(Checked::bool(at, Node::constant(*value))),
            Literal::Number(text, false) => number(text, at),
            Literal::SingleQuotedString(text) => Ok(Checked::new(
                at,
                Typed::Text(Node::constant(text.as_str().into())),
                Type::String,
            )),
            Literal::HexStringLiteral(text) => match hex(text) {
                Some(bytes) => Ok(Checked::new(
                    at,
                    Typed::Bytes(Node::constant(bytes.into())),
                    Type::Bytes,
                )),
                None => Err(ExprError::new(at, "X'..' takes pairs of hexadecimal digits")),
            },
            other => Err(ExprError::new(at, format!("`{other}` is not supported"))
                .help("texts are written 'in single quotes', bytes as X'00ff', numbers as 12.50")),
        }
    }

    /// `TIMESTAMP '2026-03-01 10:00:00'`.
    pub(super) fn typed_string(&mut self, typed: &ast::TypedString) -> Result<Checked, ExprError> {
        let value = self.tokens.at(typed.value.span);
        let at = self.tokens.with_previous(value);
        let (ast::DataType::Timestamp(..), Literal::SingleQuotedString(text)) = (&typed.data_type, &typed.value.value)
        else {
            let message = format!("constants of the form {} '..' are not supported", typed.data_type);
            return Err(ExprError::new(at, message).help("TIMESTAMP '2026-03-01 10:00:00', or CAST('..' AS a type)"));
        };
        match parse_time(text.trim()) {
            Some(time) => Ok(Checked::new(at, Typed::Long(Node::constant(time)), Type::Timestamp)),
            None => Err(ExprError::new(value, format!("'{text}' is no timestamp"))
                .help("as in TIMESTAMP '2026-03-01', '2026-03-01 10:00:00' (UTC) or '2026-03-01T10:00:00.250+01:00'")),
        }
    }
}

/// `5` is int64, `5.0` is decimal(2,1), `5e0` is float64.
pub(super) fn number(text: &str, at: At) -> Result<Checked, ExprError> {
    if text.contains(['e', 'E']) {
        return match text.parse::<f64>() {
            Ok(value) if value.is_finite() => Ok(Checked::new(at, Typed::Float(Node::constant(value)), Type::Float)),
            _ => Err(ExprError::new(at, format!("{text} is beyond the range of float64"))),
        };
    }
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    if !text.contains('.') {
        return match text.parse() {
            Ok(value) => Ok(Checked::new(at, Typed::Long(Node::constant(value)), Type::Int)),
            Err(_) => Err(ExprError::new(at, format!("{text} is beyond the range of int64"))
                .help(format!("as float64: {text}e0"))),
        };
    }
    let digits = whole.trim_start_matches('-').trim_start_matches('0').len() + fraction.len();
    let (Ok(scale), true) = (u8::try_from(fraction.len()), digits <= usize::from(DECIMAL_DIGITS_MAX)) else {
        return Err(ExprError::new(
            at,
            format!("{text} has more than the {DECIMAL_DIGITS_MAX} digits of a decimal"),
        )
        .help(format!("as float64: {text}e0")));
    };
    // A number may begin or end with its point.
    let (sign, whole) = whole.strip_prefix('-').map_or(("", whole), |whole| ("-", whole));
    let full = format!("{sign}0{whole}.{fraction}0");
    match parse_decimal(&full, DECIMAL_DIGITS_MAX, scale) {
        Ok(value) => {
            let precision = u8::try_from(digits).unwrap_or(DECIMAL_DIGITS_MAX).max(scale).max(1);
            Ok(Checked::new(
                at,
                Typed::Long(Node::constant(value)),
                Type::Decimal { precision, scale },
            ))
        }
        Err(error) => Err(ExprError::new(at, format!("{text}: {error}"))),
    }
}

fn hex(text: &str) -> Option<Vec<u8>> {
    let digits: Option<Vec<u8>> = text.chars().map(|c| c.to_digit(16).map(|d| d as u8)).collect();
    let digits = digits.filter(|digits| digits.len() % 2 == 0)?;
    Some(digits.chunks(2).map(|pair| pair[0] << 4 | pair[1]).collect())
}
