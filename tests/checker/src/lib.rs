//! Judges from outside whether a job kept its promise. Shares no code with the engine: it knows the documented formats
//! and Kafka, nothing else.
//!
//! The job under judgement folds the values of each key and writes one output for **every** input record:
//!
//! | topic | key | value |
//! |---|---|---|
//! | input | text | a decimal integer in ASCII |
//! | output | the same key | `{"seq":<records of the key so far>,"sum":<their sum>,"p":<source partition>,"o":<source offset>}` |
//!
//! [`Checker`] reads both topics with `read_committed`, while the job runs and then to their end, and counts
//! - *lost*: input records without an output,
//! - *duplicated*: outputs beyond the first one of an input record,
//! - *stale*: outputs that are not the fold of their key's inputs up to and including the source offset they carry, that
//!   name no input record, or that come out of order.
//!
//! [`PointerWatch`] reads the committed offsets of the job's group all the time and checks that the epoch object that
//! they name exists, verifies, and that the sequences of every shard only grow along the links.
//!
//! [`OwnerWatch`] counts, with the broker's description of the group beside the pointers, how often a partition went from
//! one instance to another.
#![deny(missing_docs)]

pub mod base;
mod checker;
mod follow;
pub mod judge;
pub mod object;
pub mod owners;
pub mod pointer;
pub mod watch;

pub use checker::{Checker, Running};
pub use judge::{Counts, Judge, Offender, Report, Verdict};
pub use owners::{Handover, OwnerWatch, WatchingOwners};
pub use watch::{PointerWatch, WatchOptions, WatchReport, Watching};
