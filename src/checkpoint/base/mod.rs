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
use crate::types::{BaseLink, Digest, Digesting, Shard};
use std::ops::ControlFlow;

/// The largest piece: it is held in memory as a whole when it is written. Smaller ones would make many objects.
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

/// A piece that was not read, or not taken.
#[derive(Debug)]
pub enum PieceError<E> {
    /// It cannot be used.
    Base(BaseError),
    /// Whoever took its parts has failed.
    Taken(E),
}

impl<E> From<BaseError> for PieceError<E> {
    fn from(error: BaseError) -> Self {
        PieceError::Base(error)
    }
}

/// Reads a piece part by part, hands each with its place in the piece to `take`, and verifies the whole. Whoever takes them must not use what it has
/// got before this returns: only then it is known to be what was written. Never more bytes than the piece has; some may come again.
///
/// # Errors
/// [`PieceError`]; a [`BaseError`] names the object.
pub fn read_piece<E>(
    store: &dyn Store,
    layout: &Layout,
    piece: &Piece,
    mut take: impl FnMut(u64, &[u8]) -> Result<(), E>,
) -> Result<(), PieceError<E>> {
    let path = layout.base_piece(piece.base, piece.number);
    let (mut reading, mut failed) = (Reading::of(piece), None);
    let read = store.get_parts(&path, &mut |at, part| {
        if !reading.part(at, part) {
            return ControlFlow::Break(());
        }
        failed = take(at, part).err();
        match failed {
            Some(_) => ControlFlow::Break(()),
            None => ControlFlow::Continue(()),
        }
    });
    read.map_err(BaseError::from)?;
    if let Some(error) = failed {
        return Err(PieceError::Taken(error));
    }
    reading.whole().map_err(|reason| damaged(&path, reason).into())
}

/// What has been read of a piece.
struct Reading<'a> {
    piece: &'a Piece,
    read: u64,
    digest: Digesting,
}

impl Reading<'_> {
    fn of(piece: &Piece) -> Reading<'_> {
        Reading {
            piece,
            read: 0,
            digest: Digesting::new(),
        }
    }

    /// The part at `at`; false when it goes beyond the end.
    fn part(&mut self, at: u64, part: &[u8]) -> bool {
        // The store has begun anew.
        if at == 0 {
            self.digest = Digesting::new();
        }
        self.read = at + part.len() as u64;
        self.digest.add(part);
        self.read <= self.piece.bytes
    }

    /// That it is all of it, and what was written.
    fn whole(&self) -> Result<(), String> {
        let (read, bytes) = (self.read, self.piece.bytes);
        if read != bytes {
            let has = if read > bytes { "more than " } else { "" };
            return Err(format!(
                "it has {has}{} bytes, its manifest says {bytes}",
                read.min(bytes)
            ));
        }
        if self.digest.digest() != self.piece.digest {
            return Err("its digest is not the one in its manifest".to_owned());
        }
        Ok(())
    }
}
