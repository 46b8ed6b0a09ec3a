//! The pointer: what the metadata of a committed offset says, see docs/format/pointer.md.
use crate::types::ids::{GrammarError, parse_hex_u64};
use crate::types::{Digest, EpochId};
use std::fmt;

#[cfg(test)]
mod tests;

/// Names the epoch object that belongs to a committed offset (EP-2). Parsed by a strict grammar, never used as a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Pointer {
    /// [`job_hash`] of job and stage.
    pub job: u64,
    /// The store's id.
    pub store: u64,
    /// The epoch object.
    pub epoch: EpochId,
    /// Digest of the object's footer.
    pub footer: Digest,
}

/// The first 8 bytes of BLAKE3 over job, a zero byte, and stage.
#[must_use]
pub fn job_hash(job: &str, stage: &str) -> u64 {
    let text = [job.as_bytes(), &[0], stage.as_bytes()].concat();
    let digest = Digest::of(&text).0;
    digest
        .iter()
        .take(8)
        .fold(0, |hash, byte| (hash << 8) | u64::from(*byte))
}

impl Pointer {
    /// The longest text a pointer can have. A broker whose limit for offset metadata is lower is refused at start.
    pub const MAX_LEN: usize = 2 + 1 + 16 + 1 + 16 + 1 + (16 + 1 + 19) + 1 + 32;

    /// Parses metadata, which anybody may have written.
    ///
    /// # Errors
    /// Anything but the exact text that [`fmt::Display`] writes.
    pub fn parse(metadata: &[u8]) -> Result<Pointer, GrammarError> {
        const BAD: GrammarError = GrammarError { what: "pointer" };
        if metadata.len() > Pointer::MAX_LEN || !metadata.is_ascii() {
            return Err(BAD);
        }
        let text = std::str::from_utf8(metadata).map_err(|_| BAD)?;
        let mut parts = text.split(';');
        let mut next = || parts.next().ok_or(BAD);
        if next()? != "k1" {
            return Err(BAD);
        }
        let job = parse_hex_u64(next()?, "pointer (job hash)")?;
        let store = parse_hex_u64(next()?, "pointer (store id)")?;
        let epoch = next()?.parse()?;
        let footer = next()?.parse()?;
        match parts.next() {
            None => Ok(Pointer {
                job,
                store,
                epoch,
                footer,
            }),
            Some(_) => Err(BAD),
        }
    }
}

impl fmt::Display for Pointer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "k1;{:016x};{:016x};{};{}",
            self.job, self.store, self.epoch, self.footer
        )
    }
}
