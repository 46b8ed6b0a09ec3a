//! Making epochs durable and finding them again: object format, stores, pointers, the pure decisions of the protocol, and restores.
//!
//! The folder is the path of an epoch: it is encoded as an [`object`], put in a [`store`] under a name that a [`Layout`] builds, named by
//! a [`Pointer`], allowed to commit or refused by the [`protocol`], and found again along its [`chain`].
pub mod base;
pub mod chain;
pub mod commit_log;
pub mod object;
pub mod pin;
pub mod pointer;
pub mod protocol;
pub mod reach;
pub mod store;
pub mod store_clock;
#[cfg(test)]
pub(crate) mod tests;

pub use chain::{Chain, ResolvedEpoch, RestoreError, ShardState, Tail, first_sequence, store_knows};
pub use commit_log::StoreLog;
pub use object::{EncodedObject, FormatError, Header, ObjectError, ObjectReader, Section, StateInfo};
pub use pointer::Pointer;
pub use store::{DirectoryStore, Layout, MemoryStore, ObjectPath, Store, StoreError, StoreErrorKind};
