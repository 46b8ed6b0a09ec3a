//! Fail points, an in-memory log with transactions, a manual clock and a driver for topologies: the engine's own tests and its users'
//! run on these.
//!
//! [`TestDriver`] runs a topology on the runtime's own modules without a broker: pipe records in, cut an epoch, read what was committed,
//! crash at any step of the commit protocol and start again. [`MemoryBroker`] is what it runs on: topics, transactions, fencing,
//! offsets and consumer groups as Kafka has them. A [`Process`] stands for the process that a runtime runs in: it counts calls, and dies or fails on request.
mod broker;
mod clock;
mod conformance;
mod driver;
pub mod faults;
mod inspect;
mod log;
mod member;
mod process;
mod record;
mod source;
mod store;

pub use broker::{CommitRecord, GroupView, MemoryBroker};
pub use clock::ManualClock;
pub use conformance::{store_conformance, store_lists_ages};
pub use driver::{DriverError, TestDriver};
pub use faults::Faults;
pub use log::MemoryLog;
pub use member::MemoryMembership;
pub use process::{Call, Fault, Process, RunEnd};
pub use record::TestRecord;
pub use source::MemorySource;
pub use store::ProcessStore;
