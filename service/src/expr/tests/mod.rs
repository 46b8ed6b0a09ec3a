//! Tables of expressions and what they give. Every table is over one row, [`row`], and results are told as text: see [`told`].
#![allow(
    clippy::unwrap_used,
    reason = "the tables name the row that failed; an expression of a test compiles"
)]
mod aggregates;
mod arithmetic;
mod casts;
mod documentation;
mod errors;
mod limits;
mod logic;
mod nested;
mod properties;
mod texts;
mod times;

use std::sync::Arc;

use super::{Aggregate, EvalError, Expr};
use crate::value::{Field, Row, Schema, Type, Value, write_decimal, write_timestamp};

pub(super) fn decimal(precision: u8, scale: u8) -> Type {
    Type::Decimal { precision, scale }
}

pub(super) fn text(text: &str) -> Value {
    Value::String(text.into())
}

fn array(values: Vec<Value>) -> Value {
    Value::Array(values.into())
}

fn structure(values: Vec<Value>) -> Value {
    Value::Struct(values.into())
}

/// The fields of the tables, and their values. That of docs/expressions.md is a part of it.
fn fields() -> Vec<(&'static str, Type, Value)> {
    let address = Schema::new(vec![field("city", Type::String), field("zip", Type::Int)]);
    let item = Schema::new(vec![field("name", Type::String), field("price", decimal(18, 2))]);
    let list = |ty: Type| Type::Array(Arc::new(ty));
    vec![
        ("orders", Type::Int, Value::Int(7)),
        ("zero", Type::Int, Value::Int(0)),
        ("least", Type::Int, Value::Int(i64::MIN)),
        ("most", Type::Int, Value::Int(i64::MAX)),
        ("amount", decimal(18, 2), Value::Decimal(1250)),
        ("rate", decimal(4, 3), Value::Decimal(125)),
        ("huge", decimal(18, 0), Value::Decimal(999_999_999_999_999_999)),
        ("fine", decimal(18, 18), Value::Decimal(1)),
        ("weight", Type::Float, Value::Float(1.5)),
        ("odd", Type::Float, Value::Float(f64::NAN)),
        ("endless", Type::Float, Value::Float(f64::INFINITY)),
        ("paid", Type::Bool, Value::Bool(true)),
        ("late", Type::Bool, Value::Bool(false)),
        ("maybe", Type::Bool, Value::Null),
        ("customer", Type::String, text("Ada")),
        ("line", Type::String, text("to be  or not")),
        ("word", Type::String, text("stra\u{df}e \u{1f600}")),
        ("empty", Type::String, text("")),
        ("raw", Type::Bytes, Value::Bytes(Arc::from(&[0xff_u8, 0x00, 0x41][..]))),
        ("at", Type::Timestamp, Value::Timestamp(1_772_359_200_123)),
        ("beyond", Type::Timestamp, Value::Timestamp(i64::MAX)),
        (
            "tags",
            list(Type::String),
            array(vec![text("new"), Value::Null, text("gift")]),
        ),
        (
            "grid",
            list(list(Type::Int)),
            array(vec![array(vec![Value::Int(1), Value::Int(2)]), Value::Null]),
        ),
        (
            "address",
            Type::Struct(Arc::new(address)),
            structure(vec![text("Turin"), Value::Null]),
        ),
        (
            "items",
            list(Type::Struct(Arc::new(item))),
            array(vec![structure(vec![text("pen"), Value::Decimal(199)])]),
        ),
        ("nothing", Type::Int, Value::Null),
        ("no_amount", decimal(18, 2), Value::Null),
        ("no_text", Type::String, Value::Null),
        ("no_time", Type::Timestamp, Value::Null),
        ("no_tags", list(Type::String), Value::Null),
    ]
}

pub(super) fn field(name: &str, ty: Type) -> Field {
    let name = name.to_owned();
    Field { name, ty }
}

pub(super) fn schema() -> Schema {
    Schema::new(fields().into_iter().map(|(name, ty, _)| field(name, ty)).collect())
}

pub(super) fn row() -> Row {
    Row(fields().into_iter().map(|(_, _, value)| value).collect())
}

/// What an expression gives: `12.50 decimal(18,2)`; `overflow: ..` for a record error; `no: message at part` for one that does not compile, with
/// `; help` if there is one.
pub(super) fn told(expr: &str) -> String {
    match Expr::compile(expr, &schema()) {
        Err(error) => refused(expr, &error),
        Ok(compiled) => match compiled.eval(&row()) {
            Ok(value) => format!("{} {}", shown(&value, compiled.ty()), compiled.ty()),
            Err(error) => failed(&error),
        },
    }
}

fn refused(expr: &str, error: &super::ExprError) -> String {
    let part = expr
        .get(error.span.clone())
        .expect("the span lies in the text, between characters");
    let help = error.help.as_ref().map_or_else(String::new, |help| format!("; {help}"));
    format!("no: {} at {part}{help}", error.message)
}

fn failed(error: &EvalError) -> String {
    assert!(error.text().get(error.span()).is_some(), "the span lies in the text");
    format!("{}: {error}", error.reason().label())
}

/// A value as one would write it.
pub(super) fn shown(value: &Value, ty: &Type) -> String {
    match (value, ty) {
        (Value::Null, _) => "NULL".to_owned(),
        (Value::Bool(true), Type::Bool) => "TRUE".to_owned(),
        (Value::Bool(false), Type::Bool) => "FALSE".to_owned(),
        (Value::Int(value), Type::Int) => value.to_string(),
        (Value::Float(value), Type::Float) => format!("{value:?}"),
        (Value::Decimal(value), Type::Decimal { precision, scale }) => {
            assert!(
                value.unsigned_abs() < 10_u64.pow(u32::from(*precision)),
                "{value} is none of {ty}"
            );
            let mut out = Vec::new();
            write_decimal(*value, *scale, &mut out);
            String::from_utf8(out).unwrap()
        }
        (Value::Timestamp(value), Type::Timestamp) => {
            let mut out = Vec::new();
            match write_timestamp(*value, &mut out) {
                true => String::from_utf8(out).unwrap(),
                false => value.to_string(),
            }
        }
        (Value::String(text), Type::String) => format!("'{text}'"),
        (Value::Bytes(bytes), Type::Bytes) => {
            let digits: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
            format!("X'{digits}'")
        }
        (Value::Array(values), Type::Array(ty)) => {
            let values: Vec<String> = values.iter().map(|value| shown(value, ty)).collect();
            format!("[{}]", values.join(", "))
        }
        (Value::Struct(values), Type::Struct(schema)) => {
            let fields = schema.fields().iter().zip(values.iter());
            let fields: Vec<String> = fields
                .map(|(field, value)| format!("{}: {}", field.name, shown(value, &field.ty)))
                .collect();
            format!("{{ {} }}", fields.join(", "))
        }
        _ => panic!("{value:?} is none of {ty}"),
    }
}

/// Every line is `expression => what it gives`. All lines that are wrong are told at once.
#[track_caller]
pub(super) fn table(lines: &str) {
    let mut wrong = Vec::new();
    let mut count = 0;
    for line in lines.lines().map(str::trim).filter(|line| !line.is_empty()) {
        let (expr, wanted) = line.split_once(" => ").expect("expression => what it gives");
        let got = told(expr.trim());
        count += 1;
        if got != wanted.trim() {
            wrong.push(format!("{} => {got}\n    wanted {}", expr.trim(), wanted.trim()));
        }
    }
    assert!(
        wrong.is_empty(),
        "{} of {count} lines:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
}
