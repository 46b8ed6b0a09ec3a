//! Judges the outputs against the input. Nothing here knows the engine: files are read line by line, topics with a
//! plain consumer.
pub mod files;
mod ledger;
pub mod topics;

pub use ledger::{Ledger, Row, Verdict};

use serde::Deserialize;

/// An order as it lies in the input.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Order {
    /// The partition of the input.
    pub partition: i32,
    /// The offset in the partition.
    pub offset: i64,
    /// The customer.
    pub customer: String,
    /// In cents.
    pub amount: i64,
}

/// An output: a customer's running totals, and the order that they include last.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Output {
    /// The customer.
    pub customer: String,
    /// Orders so far.
    pub orders: u64,
    /// Cents so far.
    pub cents: i64,
    /// The partition of the last order.
    pub partition: i32,
    /// The offset of the last order.
    pub offset: i64,
}

/// The members of an order's JSON text that count.
#[derive(Debug, Deserialize)]
struct OrderText {
    customer: String,
    amount: i64,
}
