//! What flows through a pipeline: rows of typed values, and their schemas.
mod row;
mod types;

pub use row::{Row, Value};
pub use types::{DECIMAL_DIGITS_MAX, Field, Schema, Type};
