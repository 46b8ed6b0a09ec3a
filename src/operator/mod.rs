//! Operators: what happens to a record between its source and its sinks. Each lane has its own instances, chained by [`Push`].
pub mod bad_records;
mod chain;
pub mod chain_factory;
pub mod context;
pub mod error;
pub mod keyed;
pub mod keyed_lane;
pub mod last_per_epoch;
mod map_meter;
pub mod process;
pub mod share;
pub mod source_lane;
pub mod split;
pub mod stateless;
pub mod states;
pub mod terminal;

pub use chain::{FanOut, Push};
pub use context::{LaneContext, LaneSetup, Meta};
pub use error::{BadReason, BadRecord, LaneError, Refused, StepError};
pub use process::{KeyedProcess, ProcessContext, ProcessError};
pub use share::LaneShare;
pub use states::{StateScope, ValueState};
