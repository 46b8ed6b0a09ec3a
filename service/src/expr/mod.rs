//! SQL scalar expressions and aggregates: parsed by `sqlparser`, checked against a schema, compiled once to typed nodes.
//!
//! ```text
//! text -> tokens and tree (parse) -> checked types, constants computed (check) -> nodes (node) -> a value for every row
//! ```
//!
//! What users write is in docs/expressions.md.
mod aggregate;
mod check;
mod error;
mod node;
mod parse;

#[cfg(test)]
mod tests;

use std::sync::Arc;

pub use aggregate::{Accumulator, Aggregate, Change, DISTINCT_BYTES_MAX, DISTINCT_MAX};
pub use error::{EvalError, ExprError};

use crate::value::{Row, Schema, Type, Value};
use check::Checker;
use error::{At, Fault};
use node::Typed;

/// A checked, compiled scalar expression. A clone shares it.
#[derive(Clone)]
pub struct Expr {
    inner: Arc<Inner>,
}

struct Inner {
    text: Arc<str>,
    node: Typed,
    ty: Type,
    columns: Vec<usize>,
}

impl Expr {
    /// Compiles the expression that stands in `text` over rows of the schema.
    ///
    /// # Errors
    /// The text is no expression, or none over this schema; the error says where in the text.
    pub fn compile(text: &str, schema: &Schema) -> Result<Expr, ExprError> {
        let parsed = parse::parse(text)?;
        let mut checker = Checker::new(text, &parsed.tokens, schema);
        let checked = checker.expr(&parsed.ast)?;
        let Some((node, ty)) = checked.typed else {
            let error = ExprError::new(checked.at, "NULL alone has no type");
            return Err(error.help("CAST(NULL AS string)"));
        };
        Ok(Expr {
            inner: Arc::new(Inner {
                text: Arc::from(text),
                node,
                ty,
                columns: checker.columns(),
            }),
        })
    }

    /// As [`Expr::compile`], for a condition.
    ///
    /// # Errors
    /// As [`Expr::compile`]; also when the result is of another type than bool.
    pub fn compile_bool(text: &str, schema: &Schema) -> Result<Expr, ExprError> {
        let expr = Expr::compile(text, schema)?;
        if *expr.ty() == Type::Bool {
            return Ok(expr);
        }
        let at = At {
            start: 0,
            end: u32::try_from(text.len()).unwrap_or(u32::MAX),
        };
        let error = ExprError::new(at, format!("a condition is bool, and this is {}", expr.ty()));
        Err(error.help(format!("compare it with something, as in {} IS NOT NULL", text.trim())))
    }

    /// The type of its values.
    #[must_use]
    pub fn ty(&self) -> &Type {
        &self.inner.ty
    }

    /// The text that it was compiled from.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.inner.text
    }

    /// The fields of the schema that it reads, in ascending order.
    #[must_use]
    pub fn columns(&self) -> &[usize] {
        &self.inner.columns
    }

    /// Its value for a row. Called on the lanes, for every record.
    ///
    /// # Errors
    /// The row cannot be computed with: overflow, division by zero, a bad cast.
    pub fn eval(&self, row: &Row) -> Result<Value, EvalError> {
        let result = self.inner.node.eval(row, &self.inner.ty);
        result.map_err(|fault| self.error(&fault))
    }

    /// Whether it is TRUE for a row; not when it is FALSE or NULL, or no condition at all.
    ///
    /// # Errors
    /// As [`Expr::eval`].
    pub fn is_true(&self, row: &Row) -> Result<bool, EvalError> {
        match &self.inner.node {
            Typed::Bool(node) => match node.eval(row) {
                Ok(value) => Ok(value == Some(true)),
                Err(fault) => Err(self.error(&fault)),
            },
            _ => Ok(false),
        }
    }

    #[cold]
    fn error(&self, fault: &Fault) -> EvalError {
        EvalError::new(fault, &self.inner.text)
    }
}

impl std::fmt::Debug for Expr {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Expr({} -> {})", self.inner.text, self.inner.ty)
    }
}
