//! Aggregates: what many records of a key are folded into.
//!
//! ```text
//! sum(amount) -- compile --> Aggregate          start() -> Accumulator -- change(row), apply --> .. -- value() --> a value
//!                                                             \-- encode, decode: as it lies in the state (codec)
//! ```
mod accumulator;
mod call;
mod codec;

use std::sync::Arc;

use sqlparser::ast;

pub use accumulator::{Accumulator, Change};
pub use call::{DISTINCT_BYTES_MAX, DISTINCT_MAX};

use super::check::{AGGREGATES, Checked, Checker};
use super::error::{At, EvalError, ExprError};
use super::parse::{self, Tokens};
use crate::nearest;
use crate::value::{Row, Schema, Type, Value};
use call::Call;

/// A checked, compiled call of an aggregate: `count()`, `count(x)`, `sum`, `min`, `max`, `avg`, `first`, `last`, `count_distinct` (also
/// `count(DISTINCT x)`), over any expression. NULLs are left out, as SQL does. A clone shares it.
#[derive(Clone)]
pub struct Aggregate {
    inner: Arc<Inner>,
}

struct Inner {
    text: Arc<str>,
    call: Call,
    ty: Type,
    columns: Vec<usize>,
}

impl Aggregate {
    /// Compiles the call that stands in `text` over rows of the schema.
    ///
    /// # Errors
    /// The text is no call of an aggregate, or none over this schema; the error says where in the text.
    pub fn compile(text: &str, schema: &Schema) -> Result<Aggregate, ExprError> {
        let parsed = parse::parse(text)?;
        let ast::Expr::Function(function) = &parsed.ast else {
            return Err(no_call(parsed.tokens.whole(), &parsed.tokens));
        };
        let mut checker = Checker::new(text, &parsed.tokens, schema);
        let (name, at) = checker.function_name(function)?;
        if !AGGREGATES.contains(&name.as_str()) {
            let message = format!("`{name}` is no aggregate");
            return Err(ExprError::new(at, message).help(nearest::help(&name, AGGREGATES)));
        }
        let whole = checker.call_place(function, at);
        let (name, argument) = argument(&mut checker, function, name, whole)?;
        let (call, ty) = Call::new(&checker, &name, argument, whole)?;
        Ok(Aggregate {
            inner: Arc::new(Inner {
                text: Arc::from(text),
                call,
                ty,
                columns: checker.columns(),
            }),
        })
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

    /// That of no records.
    #[must_use]
    pub fn start(&self) -> Accumulator {
        self.inner.call.start()
    }

    /// What a row makes of the accumulator. Nothing is changed yet: of several aggregates over one row all can be asked before the first is
    /// changed, so that a row is folded into all of them or into none.
    ///
    /// # Errors
    /// The argument cannot be computed, the sum overflows, or there are too many distinct values.
    pub fn change(&self, accumulator: &Accumulator, row: &Row) -> Result<Change, EvalError> {
        let change = self.inner.call.change(accumulator, row);
        change.map_err(|fault| EvalError::new(&fault, &self.inner.text))
    }

    /// Makes the change that [`Aggregate::change`] found.
    pub fn apply(&self, accumulator: &mut Accumulator, change: Change) {
        accumulator.apply(change);
    }

    /// Folds a row into the accumulator: [`Aggregate::change`] and [`Aggregate::apply`].
    ///
    /// # Errors
    /// As [`Aggregate::change`]; the accumulator is as it was.
    pub fn add(&self, accumulator: &mut Accumulator, row: &Row) -> Result<(), EvalError> {
        let change = self.change(accumulator, row)?;
        self.apply(accumulator, change);
        Ok(())
    }

    /// The value so far.
    #[must_use]
    pub fn value(&self, accumulator: &Accumulator) -> Value {
        self.inner.call.value(accumulator)
    }

    /// Name and version of the accumulator's encoding with the type that it depends on, as in `sum(decimal:2)/1`. It is kept with the state: an
    /// accumulator is decoded only by the aggregate that says the same.
    #[must_use]
    pub fn state_schema(&self) -> String {
        codec::schema(&self.inner.call)
    }

    /// Appends the accumulator's encoding, see docs/format/accumulator.md.
    pub fn encode(&self, accumulator: &Accumulator, out: &mut Vec<u8>) {
        codec::encode(&self.inner.call, accumulator, out);
    }

    /// Takes an accumulator from the front of `bytes`.
    ///
    /// # Errors
    /// The bytes are none of [`Aggregate::encode`] under the same [`Aggregate::state_schema`].
    pub fn decode(&self, bytes: &mut &[u8]) -> Result<Accumulator, String> {
        codec::decode(&self.inner.call, bytes)
    }
}

impl std::fmt::Debug for Aggregate {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Aggregate({} -> {})", self.inner.text, self.inner.ty)
    }
}

fn no_call(at: At, tokens: &Tokens) -> ExprError {
    let named = AGGREGATES.iter().any(|name| tokens.word(&[name]) != at);
    let error = ExprError::new(at, format!("an aggregate is one call: {}", AGGREGATES.join(", ")));
    match named {
        true => error.help("compute with its result in a `map` step behind"),
        false => error.help("last(x) keeps the last value"),
    }
}

/// The checked argument, and the name: `count(DISTINCT x)` is `count_distinct(x)`.
fn argument(
    checker: &mut Checker<'_>,
    function: &ast::Function,
    name: String,
    at: At,
) -> Result<(String, Option<Checked>), ExprError> {
    let refused = |message: &str, help: &str| ExprError::new(at, message).help(help);
    if function.over.is_some() {
        return Err(refused(
            "window functions (OVER) are not supported",
            "an aggregate folds all records of a key",
        ));
    }
    if function.filter.is_some() {
        return Err(refused(
            "FILTER is not supported",
            "sum(CASE WHEN paid THEN amount END)",
        ));
    }
    if !function.within_group.is_empty() || function.null_treatment.is_some() {
        return Err(refused(
            "an aggregate takes nothing but its argument",
            "NULLs are left out",
        ));
    }
    let ast::FunctionArguments::List(list) = &function.args else {
        return Err(refused("subqueries are not supported", "sum(amount)"));
    };
    let distinct = list.duplicate_treatment == Some(ast::DuplicateTreatment::Distinct);
    if distinct && name != "count" {
        return Err(refused("DISTINCT stands in count only", "count(DISTINCT x)"));
    }
    if !list.clauses.is_empty() {
        return Err(refused("an aggregate takes nothing but its argument", "sum(amount)"));
    }
    match list.args.as_slice() {
        [] | [ast::FunctionArg::Unnamed(ast::FunctionArgExpr::Wildcard)] if name == "count" && !distinct => {
            Ok((name, None))
        }
        [ast::FunctionArg::Unnamed(ast::FunctionArgExpr::Expr(argument))] => {
            let name = if distinct { "count_distinct".to_owned() } else { name };
            Ok((name, Some(checker.expr(argument)?)))
        }
        _ => Err(refused(
            &format!("{name} takes one argument"),
            &format!("{name}(amount)"),
        )),
    }
}
