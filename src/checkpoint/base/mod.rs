//! Bases: what a shard's local copy was at one committed section, in pieces, with a manifest that lists them. Format 1 is described byte by
//! byte in docs/format/base.md.
//!
//! Written by the upkeep beside the commit path, read by restores and by the collector. A section names the manifest with its digest, and
//! the manifest each piece with its own: readers verify before they use.
mod manifest;
#[cfg(test)]
mod tests;

pub use manifest::{Manifest, Piece};

use super::store::{Layout, ObjectPath, Store, StoreError};
use crate::types::{BaseLink, Digest, Shard};

/// The largest piece: it is held in memory as a whole, several at a time. Smaller ones would make many objects.
pub const PIECE_BYTES: usize = 8 << 20;

/// A base that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BaseError {
    /// The store failed, or has no such object.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The bytes are not those that were written.
    #[error(
        "{path} of a base is damaged: {reason}; bring it back from a copy of the checkpoint store, do not delete it: the committed state \
         needs it. To begin again without it, with empty state at the start positions, delete the offsets of the whole group and start with \
         accept_lost_pointers"
    )]
    Damaged {
        /// The object's path.
        path: String,
        /// What does not fit.
        reason: String,
    },
    /// It was written by a later version.
    #[error(
        "{path} has format {format}, this version reads bases up to format 1; run the version that wrote it or a later one"
    )]
    Newer {
        /// The object's path.
        path: String,
        /// Its format.
        format: String,
    },
    /// It is another job's, or another kind of copy.
    #[error("{path} does not belong here: {reason}")]
    Foreign {
        /// The object's path.
        path: String,
        /// What does not fit, and the way out.
        reason: String,
    },
}

fn damaged(path: &ObjectPath, reason: impl ToString) -> BaseError {
    BaseError::Damaged {
        path: path.to_string(),
        reason: reason.to_string(),
    }
}

/// Reads the manifest that a section names, and verifies it.
///
/// # Errors
/// [`BaseError`], naming the object.
pub fn manifest_of(store: &dyn Store, layout: &Layout, shard: Shard, base: &BaseLink) -> Result<Manifest, BaseError> {
    let path = layout.base_manifest(base.id);
    let bytes = store.get(&path)?;
    if Digest::of(&bytes) != base.digest {
        // A later format is told from damage by its first bytes.
        manifest::check_magic(&bytes, &path)?;
        return Err(damaged(&path, "its digest is not the one in the section that names it"));
    }
    let manifest = Manifest::decode(&bytes, &path)?;
    let of = (
        manifest.job.as_str(),
        manifest.stage.as_str(),
        manifest.shard,
        manifest.id,
    );
    if of != (layout.job(), layout.stage(), shard, base.id) || manifest.applied.sequence != base.sequence {
        return Err(BaseError::Foreign {
            path: path.to_string(),
            reason: format!(
                "it is of job {} stage {} shard {}, of section {}; it was copied in by hand: bring the checkpoint store back as it was",
                manifest.job, manifest.stage, manifest.shard, manifest.applied.sequence
            ),
        });
    }
    Ok(manifest)
}

/// Reads a piece and verifies it.
///
/// # Errors
/// [`BaseError`], naming the object.
pub fn piece_of(store: &dyn Store, layout: &Layout, piece: &Piece) -> Result<Vec<u8>, BaseError> {
    let path = layout.base_piece(piece.base, piece.number);
    let bytes = store.get(&path)?;
    if bytes.len() as u64 != piece.bytes {
        let reason = format!("it has {} bytes, its manifest says {}", bytes.len(), piece.bytes);
        return Err(damaged(&path, reason));
    }
    if Digest::of(&bytes) != piece.digest {
        return Err(damaged(&path, "its digest is not the one in its manifest"));
    }
    Ok(bytes)
}
