//! Keyed state: one typed map per lane and state over one backend per shard.
//!
//! A record costs a hash look-up in the [`map`]; at the barrier the lane encodes its dirty entries into a [`changes::ChangeSet`]; entries
//! are pinned while dirty or in an epoch that has not been applied to the [`backend`] yet.
pub mod backend;
pub mod changes;
pub mod envelope;
pub mod expiry;
pub mod key;
pub mod map;
pub mod merged;

pub use backend::{Applied, Backend, BackendFactory, CopySizes, Image, ImageFile, ImageKind, Rebuild, Swept};
pub use changes::{Change, ChangeSet, Since};
pub use expiry::{Expiry, Ttl};
pub use key::{KeyRef, StateId};
pub use map::{Kept, MapCounters, MapLimits, MapObserver, TypedMap, Waiting};
pub use merged::Merged;

/// What went wrong with state.
#[derive(Debug, thiserror::Error)]
pub enum StateError {
    /// The local copy of a shard is damaged: thrown away and restored from the store.
    #[error("local state of shard {shard} at {path} is damaged: {reason}; it is restored from the checkpoint store")]
    Damaged {
        /// The shard.
        shard: u32,
        /// Directory of the local copy.
        path: String,
        /// What the backend said.
        reason: String,
    },
    /// A value of the state does not decode under the codec that the topology gives it.
    #[error("state {state}: {reason}; give the state the codec it was written with, or a new state name")]
    Codec {
        /// `operator/state`.
        state: String,
        /// What the codec said.
        reason: String,
    },
    /// A value envelope of a format that this version does not read.
    #[error("state {state}: {reason}; run the version that wrote it or a newer one")]
    Format {
        /// `operator/state`.
        state: String,
        /// What was found.
        reason: String,
    },
    /// State of a shard that this instance does not own (group mode).
    #[error(
        "state of shard {shard} was asked for, which this instance does not own; nothing of the epoch is committed; report this, it is a bug"
    )]
    NotOwned {
        /// The shard.
        shard: u32,
    },
    /// The machine: disk full, no permission.
    #[error("local state of shard {shard} at {path}: {reason}")]
    Io {
        /// The shard.
        shard: u32,
        /// Directory of the local copy.
        path: String,
        /// What the system said.
        reason: String,
    },
}
