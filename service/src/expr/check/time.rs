//! Timestamps: intervals, `date_trunc`, `extract`.
use sqlparser::ast::{self, DateTimeField};

use super::super::error::{At, ExprError};
use super::super::node::{Arithmetic, Interval, LongOp, Node, TimeField, TimeUnit, Typed};
use super::Checker;
use super::operand::Checked;
use crate::nearest;
use crate::value::Type;

const INTERVALS: &str = "INTERVAL '1 day', INTERVAL '2 hours 30 minutes', INTERVAL '1' MONTH";

impl Checker<'_> {
    /// `at + INTERVAL '1 day'`; None if neither side is an interval.
    pub(super) fn shift(
        &mut self,
        op: Arithmetic,
        left: &ast::Expr,
        right: &ast::Expr,
    ) -> Result<Option<Checked>, ExprError> {
        let (of, interval) = match (as_interval(left), as_interval(right)) {
            (None, None) => return Ok(None),
            (None, Some(interval)) => (left, interval),
            (Some(interval), None) if op == Arithmetic::Add => (right, interval),
            (Some(interval), _) => {
                let at = self.interval_place(interval);
                let message = "an interval is added to a timestamp or taken from one";
                return Err(ExprError::new(at, message).help(format!("at + {}", self.text_of(at))));
            }
        };
        let interval_at = self.interval_place(interval);
        let of = self.expr(of)?;
        let at = of.at.to(interval_at);
        let sign = match op {
            Arithmetic::Add => 1,
            Arithmetic::Subtract => -1,
            _ => {
                return Err(ExprError::new(
                    at,
                    "an interval is added to a timestamp or taken from one, nothing else",
                ));
            }
        };
        let by = self.interval(interval, interval_at)?.times(sign);
        let by = by.ok_or_else(|| ExprError::new(interval_at, "the interval is too long"))?;
        let of = self.timestamp(of, "an interval is added to what is a timestamp; it")?;
        Ok(Some(timestamp(at, LongOp::Shift { of, by, at })))
    }

    fn interval_place(&self, interval: &ast::Interval) -> At {
        let value = match interval.value.as_ref() {
            ast::Expr::Value(value) => self.tokens.at(value.span),
            _ => self.tokens.whole(),
        };
        let at = self.tokens.with_previous(value);
        match &interval.leading_field {
            Some(_) => self.tokens.up_to(at, |_| true),
            None => at,
        }
    }

    /// `'1' DAY`, `'1 day'`, `'1 day 2 hours'`.
    fn interval(&self, interval: &ast::Interval, at: At) -> Result<Interval, ExprError> {
        let wrong = |what: &str| ExprError::new(at, format!("{what} is no interval")).help(INTERVALS);
        let text = match interval.value.as_ref() {
            ast::Expr::Value(value) => match &value.value {
                ast::Value::SingleQuotedString(text) | ast::Value::Number(text, false) => text.clone(),
                other => return Err(wrong(&other.to_string())),
            },
            _ => return Err(wrong("this")),
        };
        if interval.last_field.is_some() || interval.leading_precision.is_some() {
            return Err(wrong("a span of fields (YEAR TO MONTH)"));
        }
        let mut words: Vec<String> = text.split_whitespace().map(str::to_owned).collect();
        if let Some(unit) = &interval.leading_field {
            words.push(unit.to_string());
        }
        if words.is_empty() || words.len() % 2 == 1 {
            return Err(wrong(&format!("'{text}'")));
        }
        let mut sum = Interval::default();
        for pair in words.chunks(2) {
            let [count, unit] = pair else {
                continue;
            };
            let unit = Interval::unit(unit).ok_or_else(|| wrong(&format!("'{count} {unit}'")))?;
            let count: i64 = count.parse().map_err(|_| wrong(&format!("'{text}'")))?;
            let part = unit.times(count).and_then(|part| sum.plus(part));
            sum = part.ok_or_else(|| ExprError::new(at, "the interval is too long"))?;
        }
        Ok(sum)
    }

    pub(super) fn date_trunc(&self, unit: Checked, of: Checked, at: At) -> Result<Checked, ExprError> {
        let names = || TimeUnit::NAMES.iter().map(|(name, _)| *name);
        let unit_at = unit.at;
        let found = match self.text(unit, "the unit of date_trunc")? {
            Node::Const(Some(name)) => {
                let lower = name.to_ascii_lowercase();
                let unit = TimeUnit::NAMES.iter().find(|(known, _)| *known == lower);
                unit.map(|(_, unit)| *unit).ok_or_else(|| {
                    (
                        format!("'{name}' is no unit of date_trunc"),
                        nearest::help(&name, names()),
                    )
                })
            }
            _ => Err((
                "the unit of date_trunc is written out".to_owned(),
                nearest::help("", names()),
            )),
        };
        let unit = found.map_err(|(message, help)| ExprError::new(unit_at, message).help(help))?;
        let of = self.timestamp(of, "date_trunc")?;
        Ok(timestamp(at, LongOp::Truncate { of, unit, at }))
    }

    pub(super) fn extract(&mut self, field: &DateTimeField, of: &ast::Expr) -> Result<Checked, ExprError> {
        let of = self.expr(of)?;
        let begin = self
            .tokens
            .down_to(of.at, |token| token.to_string().eq_ignore_ascii_case("extract"));
        let at = self.closed(begin);
        let field = match field {
            DateTimeField::Year => TimeField::Year,
            DateTimeField::Quarter => TimeField::Quarter,
            DateTimeField::Month => TimeField::Month,
            DateTimeField::Week(None) | DateTimeField::IsoWeek => TimeField::Week,
            DateTimeField::Day => TimeField::Day,
            DateTimeField::Dow | DateTimeField::DayOfWeek => TimeField::DayOfWeek,
            DateTimeField::Isodow => TimeField::IsoDayOfWeek,
            DateTimeField::Doy | DateTimeField::DayOfYear => TimeField::DayOfYear,
            DateTimeField::Hour => TimeField::Hour,
            DateTimeField::Minute => TimeField::Minute,
            DateTimeField::Second => TimeField::Second,
            DateTimeField::Millisecond | DateTimeField::Milliseconds => TimeField::Millisecond,
            DateTimeField::Epoch => TimeField::Epoch,
            other => {
                let help =
                    "year, quarter, month, week, day, dow, isodow, doy, hour, minute, second, millisecond, epoch";
                return Err(ExprError::new(at, format!("{other} is not extracted")).help(help));
            }
        };
        let of = self.timestamp(of, "extract")?;
        Ok(Checked::int(at, LongOp::Extract { of, field, at }))
    }
}

fn timestamp(at: At, op: LongOp) -> Checked {
    Checked::new(at, Typed::Long(Node::op(op)), Type::Timestamp)
}

fn as_interval(ast: &ast::Expr) -> Option<&ast::Interval> {
    match ast {
        ast::Expr::Interval(interval) => Some(interval),
        ast::Expr::Nested(inner) => as_interval(inner),
        _ => None,
    }
}
