//! Functions by name.
use sqlparser::ast::{
    self, CeilFloorKind, DateTimeField, Function, FunctionArg, FunctionArgExpr, FunctionArguments, ObjectNamePart,
    TrimWhereField,
};

use super::super::error::{At, ExprError};
use super::super::node::{
    FloatOp, LongOp, NestedOp, Node, Rounding, Scaling, Target, TextOp, TrimSide, Typed, decimal_digits,
};
use super::Checker;
use super::operand::Checked;
use crate::nearest;
use crate::value::{DECIMAL_DIGITS_MAX, Type};
use std::sync::Arc;

/// Names of aggregates, which are refused inside of a scalar expression.
pub(in crate::expr) const AGGREGATES: [&str; 8] =
    ["count", "sum", "min", "max", "avg", "first", "last", "count_distinct"];

/// How each function is called.
const USAGE: [(&str, &str); 17] = [
    ("coalesce", "coalesce(a, b, ..)"),
    ("nullif", "nullif(a, b)"),
    ("lower", "lower(text)"),
    ("upper", "upper(text)"),
    ("trim", "trim(text) or trim(BOTH 'x' FROM text)"),
    ("length", "length(text)"),
    ("substr", "substr(text, from) or substr(text, from, length)"),
    ("substring", "substring(text FROM 2 FOR 3)"),
    ("concat", "concat(a, b, ..)"),
    ("split", "split(text) or split(text, separator)"),
    ("cardinality", "cardinality(array)"),
    ("abs", "abs(number)"),
    ("round", "round(number) or round(number, digits)"),
    ("floor", "floor(number)"),
    ("ceil", "ceil(number)"),
    ("date_trunc", "date_trunc('hour', timestamp)"),
    ("extract", "extract(hour FROM timestamp)"),
];

impl Checker<'_> {
    pub(super) fn function(&mut self, function: &Function) -> Result<Checked, ExprError> {
        let (name, name_at) = self.function_name(function)?;
        let at = self.call_place(function, name_at);
        self.plain_call(function, &name, at)?;
        let mut arguments = Vec::new();
        for argument in self.arguments(function, at)? {
            arguments.push(self.expr(argument)?);
        }
        self.call(&name, arguments, name_at, at)
    }

    /// In lower case.
    pub(in crate::expr) fn function_name(&self, function: &Function) -> Result<(String, At), ExprError> {
        match function.name.0.as_slice() {
            [ObjectNamePart::Identifier(name)] => Ok((name.value.to_ascii_lowercase(), self.tokens.at(name.span))),
            _ => {
                let name = function.name.to_string();
                Err(ExprError::new(
                    self.tokens.whole(),
                    format!("there is no function `{name}`"),
                ))
            }
        }
    }

    /// The call with its parentheses.
    pub(in crate::expr) fn call_place(&self, function: &Function, name: At) -> At {
        match &function.args {
            FunctionArguments::None => name,
            _ => self.tokens.with_parentheses(name),
        }
    }

    /// Refuses what only aggregates and windows have.
    fn plain_call(&self, function: &Function, name: &str, at: At) -> Result<(), ExprError> {
        if function.over.is_some() {
            let message = "window functions (OVER) are not supported in an expression";
            return Err(ExprError::new(at, message).help("fold the records of a key in an `aggregate` step"));
        }
        if AGGREGATES.contains(&name) {
            let message = format!("{name} is an aggregate: it folds many records, and an expression sees one");
            let help = format!(
                "an `aggregate` step takes it: aggregate: {{ {name}: {} }}",
                self.text_of(at)
            );
            return Err(ExprError::new(at, message).help(help));
        }
        if matches!(
            name,
            "now" | "current_timestamp" | "current_date" | "current_time" | "localtime" | "localtimestamp"
        ) {
            let message = format!("there is no {name}: a record that is read again has to give the same result");
            return Err(ExprError::new(at, message).help("the time of the record: _timestamp"));
        }
        let plain = function.filter.is_none()
            && function.within_group.is_empty()
            && function.null_treatment.is_none()
            && matches!(function.parameters, FunctionArguments::None);
        match plain {
            true => Ok(()),
            false => Err(ExprError::new(
                at,
                format!("{name} takes nothing but arguments in parentheses"),
            )),
        }
    }

    /// The arguments of a call that has them in a list.
    pub(in crate::expr) fn arguments<'f>(
        &self,
        function: &'f Function,
        at: At,
    ) -> Result<Vec<&'f ast::Expr>, ExprError> {
        let list = match &function.args {
            FunctionArguments::None => return Ok(Vec::new()),
            FunctionArguments::Subquery(_) => return Err(ExprError::new(at, "subqueries are not supported")),
            FunctionArguments::List(list) => list,
        };
        if list.duplicate_treatment.is_some() || !list.clauses.is_empty() {
            return Err(ExprError::new(
                at,
                "DISTINCT, ORDER BY and the like are not supported here",
            ));
        }
        let one = |argument: &'f FunctionArg| match argument {
            FunctionArg::Unnamed(FunctionArgExpr::Expr(argument)) => Ok(argument),
            _ => Err(ExprError::new(
                at,
                "arguments are given by their place, without names and `*`",
            )),
        };
        list.args.iter().map(one).collect()
    }

    fn call(&mut self, name: &str, arguments: Vec<Checked>, name_at: At, at: At) -> Result<Checked, ExprError> {
        let Some((_, usage)) = USAGE.iter().find(|(known, _)| *known == name) else {
            let help = nearest::help(name, USAGE.iter().map(|(known, _)| *known));
            return Err(ExprError::new(name_at, format!("there is no function `{name}`")).help(help));
        };
        let count = arguments.len();
        let mut arguments = arguments.into_iter();
        let mut take = || arguments.next().unwrap_or_else(|| Checked::null(at));
        match (name, count) {
            ("coalesce", _) => self.coalesce(arguments.collect(), at),
            ("nullif", 2) => {
                let (of, other) = (take(), take());
                self.nullif(of, other, at)
            }
            ("lower", 1) => Ok(text(at, TextOp::Lower(self.text(take(), name)?, at))),
            ("upper", 1) => Ok(text(at, TextOp::Upper(self.text(take(), name)?, at))),
            ("length", 1) => self.length(take(), at),
            ("cardinality", 1) => self.cardinality(take(), at),
            ("concat", 1..) => {
                let parts: Result<Vec<_>, ExprError> = arguments.map(|part| self.text(part, name)).collect();
                let (parts, skip_null) = (parts?, true);
                Ok(text(at, TextOp::Concat { parts, skip_null, at }))
            }
            ("split", 1 | 2) => {
                let of = self.text(take(), name)?;
                let separator = if count == 2 {
                    Some(self.text(take(), name)?)
                } else {
                    None
                };
                let op = NestedOp::Split {
                    text: of,
                    separator,
                    at,
                };
                Ok(Checked::new(
                    at,
                    Typed::Nested(Node::op(op)),
                    Type::Array(Arc::new(Type::String)),
                ))
            }
            ("abs", 1) => self.abs(take(), at),
            ("round", 1) => self.round(take(), 0, at),
            ("round", 2) => {
                let (of, digits) = (take(), take());
                let Some(count) = digits.long_const().filter(|_| digits.ty() == Some(&Type::Int)) else {
                    let message = "the digits of round are a whole number, written out";
                    return Err(ExprError::new(digits.at, message).help("round(amount, 2)"));
                };
                self.round(of, count, at)
            }
            ("date_trunc", 2) => {
                let (unit, of) = (take(), take());
                self.date_trunc(unit, of, at)
            }
            _ => Err(ExprError::new(at, format!("{name} does not take {count} arguments")).help(*usage)),
        }
    }

    fn length(&self, of: Checked, at: At) -> Result<Checked, ExprError> {
        let error = self.mismatch(&of, "length", "string or bytes", None);
        match of.typed {
            None => Ok(Checked::new(at, super::arithmetic::null(&Type::Int), Type::Int)),
            Some((Typed::Text(of), _)) => Ok(Checked::int(at, LongOp::Characters(of))),
            Some((Typed::Bytes(of), _)) => Ok(Checked::int(at, LongOp::Octets(of))),
            Some((_, Type::Array(_))) => Err(error.help("cardinality counts the elements of an array")),
            Some(_) => Err(error),
        }
    }

    fn cardinality(&self, of: Checked, at: At) -> Result<Checked, ExprError> {
        let error = self.mismatch(&of, "cardinality", "an array", None);
        match of.typed {
            None => Ok(Checked::new(at, super::arithmetic::null(&Type::Int), Type::Int)),
            Some((Typed::Nested(of), Type::Array(_))) => Ok(Checked::int(at, LongOp::Elements(of))),
            Some((_, Type::String)) => Err(error.help("length counts the characters of a text")),
            Some(_) => Err(error),
        }
    }

    fn abs(&self, of: Checked, at: At) -> Result<Checked, ExprError> {
        if of.ty().is_some_and(|ty| !ty.is_numeric()) {
            return Err(self.mismatch(&of, "abs", "a number", None));
        }
        let typed = match of.typed {
            Some((Typed::Float(of), ty)) => Some((Typed::Float(Node::op(FloatOp::Absolute(of))), ty)),
            Some((Typed::Long(of), ty)) => Some((Typed::Long(Node::op(LongOp::Absolute(of, at))), ty)),
            other => other,
        };
        Ok(Checked { at, typed })
    }

    fn round(&self, of: Checked, digits: i64, at: At) -> Result<Checked, ExprError> {
        if of.ty().is_some_and(|ty| !ty.is_numeric()) {
            return Err(self.mismatch(&of, "round", "a number", Some(&Type::Float)));
        }
        let typed = match of.typed {
            Some((Typed::Float(of), ty)) => {
                let digits = i32::try_from(digits).unwrap_or(if digits < 0 { i32::MIN } else { i32::MAX });
                Some((Typed::Float(Node::op(FloatOp::Round(of, digits))), ty))
            }
            Some((Typed::Long(of), ty)) => Some(round_exact(of, ty, digits, Rounding::Half, at)),
            other => other,
        };
        Ok(Checked { at, typed })
    }

    pub(super) fn floor_or_ceil(
        &mut self,
        operand: &ast::Expr,
        field: &CeilFloorKind,
        rounding: Rounding,
    ) -> Result<Checked, ExprError> {
        let of = self.expr(operand)?;
        let at = self.closed(self.tokens.with_previous(self.tokens.with_previous(of.at)));
        if !matches!(field, CeilFloorKind::DateTimeField(DateTimeField::NoDateTime)) {
            let message = "floor and ceil take one number";
            return Err(ExprError::new(at, message).help("digits: round(x, 2); timestamps: date_trunc('hour', at)"));
        }
        if of.ty().is_some_and(|ty| !ty.is_numeric()) {
            return Err(self.mismatch(&of, "floor and ceil", "a number", Some(&Type::Float)));
        }
        let typed = match of.typed {
            Some((Typed::Float(of), ty)) => {
                let op = if rounding == Rounding::Up {
                    FloatOp::Ceil(of)
                } else {
                    FloatOp::Floor(of)
                };
                Some((Typed::Float(Node::op(op)), ty))
            }
            Some((Typed::Long(of), ty)) => Some(round_exact(of, ty, 0, rounding, at)),
            other => other,
        };
        Ok(Checked { at, typed })
    }

    pub(super) fn substring(
        &mut self,
        of: &ast::Expr,
        from: Option<&ast::Expr>,
        length: Option<&ast::Expr>,
    ) -> Result<Checked, ExprError> {
        let of = self.expr(of)?;
        let begin = self.tokens.with_previous(self.tokens.with_previous(of.at));
        let from = from.map(|from| self.expr(from)).transpose()?;
        let length = length.map(|length| self.expr(length)).transpose()?;
        let last = length.as_ref().or(from.as_ref()).map_or(of.at, |last| last.at);
        let at = self.closed(begin.to(last));
        let from = match from {
            Some(from) => self.int(from, "substr")?,
            None => Node::constant(1),
        };
        let length = length.map(|length| self.int(length, "substr")).transpose()?;
        let of = self.text(of, "substr")?;
        Ok(text(at, TextOp::Substring { of, from, length, at }))
    }

    pub(super) fn trim(
        &mut self,
        of: &ast::Expr,
        side: Option<TrimWhereField>,
        what: Option<&ast::Expr>,
        characters: Option<&[ast::Expr]>,
    ) -> Result<Checked, ExprError> {
        let what = match (what, characters) {
            (None, Some([one])) => Some(one),
            (what, None) => what,
            _ => {
                return Err(
                    ExprError::new(self.tokens.whole(), "trim takes one text of characters").help("trim(text, 'xyz')")
                );
            }
        };
        let of = self.expr(of)?;
        let what = what.map(|what| self.expr(what)).transpose()?;
        let inner = what.as_ref().map_or(of.at, |what| of.at.to(what.at));
        let begin = self
            .tokens
            .down_to(inner, |token| token.to_string().eq_ignore_ascii_case("trim"));
        let at = self.closed(begin);
        let of = self.text(of, "trim")?;
        let characters = what.map(|what| self.text(what, "trim")).transpose()?;
        let side = match side {
            None | Some(TrimWhereField::Both) => TrimSide::Both,
            Some(TrimWhereField::Leading) => TrimSide::Leading,
            Some(TrimWhereField::Trailing) => TrimSide::Trailing,
        };
        Ok(text(at, TextOp::Trim { of, side, characters }))
    }
}

fn text(at: At, op: TextOp) -> Checked {
    Checked::new(at, Typed::Text(Node::op(op)), Type::String)
}

/// An int64 or a decimal with so many digits behind the point; with zeros before it, if less than 0.
fn round_exact(of: Node<super::super::node::Long>, ty: Type, digits: i64, rounding: Rounding, at: At) -> (Typed, Type) {
    let (whole, scale) = decimal_digits(&ty);
    if digits >= i64::from(scale) {
        return (Typed::Long(of), ty);
    }
    let kept = u8::try_from(digits).unwrap_or(0);
    let to = match ty {
        // Rounding up may take a digit more before the point.
        Type::Decimal { .. } => Type::Decimal {
            precision: (whole + 1 + kept).min(DECIMAL_DIGITS_MAX),
            scale: kept,
        },
        ty => ty,
    };
    let zeros = u32::try_from(digits.saturating_neg()).unwrap_or(if digits < 0 { u32::MAX } else { 0 });
    // From 20 zeros on nothing of 19 digits is left; that many make the divisor large enough.
    let (down, up) = if zeros >= 20 {
        (i128::MAX / 4, 0)
    } else {
        (10_i128.pow(u32::from(scale - kept) + zeros), 10_i128.pow(zeros))
    };
    let scaling = Scaling {
        of,
        up,
        down,
        rounding,
        to: Target {
            ty: to.clone(),
            lenient: false,
            at,
        },
    };
    (Typed::Long(Node::op(LongOp::Scale(scaling))), to)
}
