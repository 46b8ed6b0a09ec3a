//! Settings of the source.
use keyfold::types::TimestampMs;
use serde::Deserialize;
use std::fmt;
use std::sync::Arc;

/// Makes the record at (seed, partition, offset): appends to the empty key and value and returns the timestamp. Must be a pure function
/// of the three numbers: a record is made again after a restart.
pub type CustomShape = dyn Fn(u64, i32, i64, &mut Vec<u8>, &mut Vec<u8>) -> TimestampMs + Send + Sync;

/// What the records look like.
#[derive(Clone, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Shape {
    /// Key: customer `c000123`; value: `{"order":"<partition>-<offset>","customer":"c000123","amount":<cents>,"at":<ms>}` with an amount of
    /// 100 to 100,099 cents; timestamp: [`crate::BASE_TIMESTAMP`] + offset.
    Orders {
        /// Number of customers, at least 1. Every partition has orders of every customer.
        customers: u64,
    },
    /// Made by a function.
    #[serde(skip)]
    Custom(Arc<CustomShape>),
}

impl Default for Shape {
    fn default() -> Self {
        Shape::Orders { customers: 1000 }
    }
}

impl fmt::Debug for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Shape::Orders { customers } => f.debug_struct("Orders").field("customers", customers).finish(),
            Shape::Custom(_) => f.write_str("Custom"),
        }
    }
}

/// Settings of [`crate::DatagenSource`].
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DatagenConfig {
    /// The name that positions carry.
    pub name: String,
    /// Number of partitions.
    #[serde(default = "one")]
    pub partitions: u32,
    /// Where each partition ends; never by default. May be raised between two runs of a job, not lowered.
    #[serde(default)]
    pub records_per_partition: Option<u64>,
    /// Another seed gives other records. Changing it, or the shape, below a running job changes records that it has not read yet.
    #[serde(default)]
    pub seed: u64,
    /// Records a second over all partitions, spread evenly; as fast as they are taken by default.
    #[serde(default)]
    pub rate_per_second: Option<u64>,
    /// What the records look like.
    #[serde(default)]
    pub shape: Shape,
}

fn one() -> u32 {
    1
}

impl DatagenConfig {
    /// The defaults.
    #[must_use]
    pub fn new(name: impl Into<String>) -> Self {
        DatagenConfig {
            name: name.into(),
            partitions: 1,
            records_per_partition: None,
            seed: 0,
            rate_per_second: None,
            shape: Shape::default(),
        }
    }
}
