//! What flows through a pipeline: rows of typed values, their schemas, and the text forms that formats and expressions share.
mod decimal;
mod row;
mod timestamp;
mod types;

pub use decimal::{DecimalError, parse_decimal, write_decimal};
pub use row::{Row, Value};
pub use timestamp::{
    DAY_MS, TIMESTAMP_MAX, TIMESTAMP_MIN, TimestampError, civil_date, days_of_month, days_since_epoch, parse_timestamp,
    write_timestamp,
};
pub use types::{DECIMAL_DIGITS_MAX, Field, Schema, Type};
