//! From the syntax tree to nodes: names are looked up, types are checked, constants are computed.
mod arithmetic;
mod branch;
mod cast;
mod compare;
mod function;
mod literal;
mod operand;
mod path;
mod predicate;
mod time;
mod unsupported;

use sqlparser::ast;
use std::collections::BTreeSet;

pub(super) use function::AGGREGATES;
pub(super) use operand::Checked;

use super::error::{At, ExprError};
use super::node::Typed;
use super::parse::{SPLIT_UP, Tokens};
use crate::value::{Row, Schema, Type};

/// How deep an expression may be: chains of AND, OR and `||` count once, other operators for each. Checking and evaluation recurse that deep.
const DEPTH_MAX: usize = 128;

/// Checks one expression.
pub(super) struct Checker<'a> {
    text: &'a str,
    tokens: &'a Tokens,
    schema: &'a Schema,
    /// The fields that were read.
    columns: BTreeSet<usize>,
    /// Reads of fields so far: what adds none is a constant.
    reads: usize,
    depth: usize,
}

impl<'a> Checker<'a> {
    pub fn new(text: &'a str, tokens: &'a Tokens, schema: &'a Schema) -> Checker<'a> {
        Checker {
            text,
            tokens,
            schema,
            columns: BTreeSet::new(),
            reads: 0,
            depth: 0,
        }
    }

    pub fn columns(&self) -> Vec<usize> {
        self.columns.iter().copied().collect()
    }

    pub fn text_of(&self, at: At) -> String {
        super::error::shortened(self.text.get(at.range()).unwrap_or_default(), 80)
    }

    pub fn expr(&mut self, ast: &ast::Expr) -> Result<Checked, ExprError> {
        if self.depth == DEPTH_MAX {
            let message = format!("the expression is more than {DEPTH_MAX} operators deep");
            return Err(ExprError::new(self.tokens.whole(), message).help(SPLIT_UP));
        }
        let reads = self.reads;
        self.depth += 1;
        let checked = self.build(ast);
        self.depth -= 1;
        let Checked { at, typed } = checked?;
        let typed = match typed {
            Some((node, ty)) if self.reads == reads => Some((self.fold(node, &ty)?, ty)),
            typed => typed,
        };
        Ok(Checked { at, typed })
    }

    /// A constant for a part that reads no field; what is wrong with it is wrong for every row.
    fn fold(&self, node: Typed, ty: &Type) -> Result<Typed, ExprError> {
        if node.is_const() {
            return Ok(node);
        }
        match node.eval(&Row::default(), ty) {
            Ok(value) => Ok(operand::constant(value, ty)),
            Err(fault) => Err(ExprError::new(fault.at, fault.what.to_string())),
        }
    }

    fn build(&mut self, ast: &ast::Expr) -> Result<Checked, ExprError> {
        use ast::Expr;
        match ast {
            Expr::Identifier(name) => self.field(std::slice::from_ref(name)),
            Expr::CompoundIdentifier(names) => self.field(names),
            Expr::CompoundFieldAccess { root, access_chain } => self.access(root, access_chain),
            Expr::Value(value) => self.literal(value),
            Expr::TypedString(typed) => self.typed_string(typed),
            Expr::Nested(inner) => {
                let mut checked = self.expr(inner)?;
                checked.at = self.tokens.up_to(self.tokens.with_previous(checked.at), |_| true);
                Ok(checked)
            }
            Expr::BinaryOp { left, op, right } => self.binary(ast, left, op, right),
            Expr::UnaryOp { op, expr } => self.unary(op, expr),
            Expr::IsNull(_)
            | Expr::IsNotNull(_)
            | Expr::IsTrue(_)
            | Expr::IsNotTrue(_)
            | Expr::IsFalse(_)
            | Expr::IsNotFalse(_)
            | Expr::IsUnknown(_)
            | Expr::IsNotUnknown(_) => self.is(ast),
            Expr::In {
                expr, target, negated, ..
            } => self.in_list(expr, target, *negated),
            Expr::Between {
                expr,
                negated,
                low,
                high,
            } => self.between(expr, low, high, *negated),
            Expr::Like {
                negated,
                any: false,
                expr,
                pattern,
                escape_char,
            } => self.like(expr, pattern, escape_char.as_deref(), *negated),
            Expr::Case {
                operand,
                conditions,
                else_result,
                ..
            } => self.case(ast, operand.as_deref(), conditions, else_result.as_deref()),
            Expr::Cast {
                kind,
                expr,
                data_type,
                format: None,
            } => self.cast(kind, expr, data_type),
            Expr::Extract { field, expr, .. } => self.extract(field, expr),
            Expr::Ceil { expr, field } => self.floor_or_ceil(expr, field, super::node::Rounding::Up),
            Expr::Floor { expr, field } => self.floor_or_ceil(expr, field, super::node::Rounding::Down),
            Expr::Substring {
                expr,
                substring_from,
                substring_for,
                ..
            } => self.substring(expr, substring_from.as_deref(), substring_for.as_deref()),
            Expr::Trim {
                expr,
                trim_where,
                trim_what,
                trim_characters,
            } => self.trim(expr, *trim_where, trim_what.as_deref(), trim_characters.as_deref()),
            Expr::Function(function) => self.function(function),
            other => Err(self.unsupported(other)),
        }
    }
}
