//! Types and schemas as a pipeline file writes them.
use super::report::Report;
use super::spec::{Fields, column_name};
use crate::nearest;
use crate::value::{DECIMAL_DIGITS_MAX, Field, Schema, Type};
use crate::yaml::{Kind, Node};
use std::sync::Arc;

const NAMES: [&str; 9] = [
    "bool",
    "int64",
    "float64",
    "decimal(18,2)",
    "string",
    "bytes",
    "timestamp",
    "int",
    "double",
];
const SHAPE: &str =
    "write `schema: { customer: string, amount: decimal(18,2), tags: [string], address: { city: string } }`";

/// A schema, and the names of columns whose type could not be read.
pub fn schema(node: &Node, report: &mut Report<'_>) -> Option<(Schema, Vec<String>)> {
    let entries = Fields::of(node, SHAPE, report)?.rest();
    if entries.is_empty() {
        report.at(node, "a schema without columns", SHAPE);
        return None;
    }
    let mut fields = Vec::new();
    let mut poisoned = Vec::new();
    for (name, ty) in entries {
        let good = column_name(name, report);
        let name = name.text.clone();
        match read(ty, report).filter(|_| good) {
            Some(ty) => fields.push(Field { name, ty }),
            None => poisoned.push(name),
        }
    }
    Some((Schema::new(fields), poisoned))
}

/// A type.
pub fn read(node: &Node, report: &mut Report<'_>) -> Option<Type> {
    match &node.kind {
        Kind::List(items) => match items.as_slice() {
            [of] => Some(Type::Array(Arc::new(read(of, report)?))),
            _ => {
                report.at(node, "an array has one type", "write `tags: [string]`");
                None
            }
        },
        Kind::Map(_) => {
            let (schema, poisoned) = schema(node, report)?;
            poisoned.is_empty().then(|| Type::Struct(Arc::new(schema)))
        }
        _ => named(node, report),
    }
}

fn named(node: &Node, report: &mut Report<'_>) -> Option<Type> {
    let text: String = node.text.to_ascii_lowercase().split_whitespace().collect();
    let ty = match text.as_str() {
        "bool" => Type::Bool,
        "int" | "int64" => Type::Int,
        "double" | "float64" => Type::Float,
        "string" => Type::String,
        "bytes" => Type::Bytes,
        "timestamp" => Type::Timestamp,
        _ if text.starts_with("decimal") => return decimal(node, &text, report),
        _ => {
            let help = format!(
                "{}; an array is `[string]`, a struct `{{ city: string }}`",
                nearest::help(&node.text, NAMES)
            );
            report.at(node, format!("unknown type `{}`", node.text), help);
            return None;
        }
    };
    Some(ty)
}

fn decimal(node: &Node, text: &str, report: &mut Report<'_>) -> Option<Type> {
    let digits = text.strip_prefix("decimal(").and_then(|rest| rest.strip_suffix(')'));
    let parsed = digits.and_then(|digits| {
        let (precision, scale) = digits.split_once(',').unwrap_or((digits, "0"));
        Some((precision.parse::<u8>().ok()?, scale.parse::<u8>().ok()?))
    });
    match parsed {
        Some((precision, scale)) if (1..=DECIMAL_DIGITS_MAX).contains(&precision) && scale <= precision => {
            Some(Type::Decimal { precision, scale })
        }
        _ => {
            report.at(
                node,
                format!("`{}` is no decimal", node.text),
                format!(
                    "write decimal(18,2): 1 to {DECIMAL_DIGITS_MAX} digits in all, and at most as many behind the point"
                ),
            );
            None
        }
    }
}
