//! The value envelope: `format u8 (1) | event timestamp i64 | encoded value` (docs/format/state.md).
use crate::types::TimestampMs;

#[cfg(test)]
mod tests;

/// The format that this program writes.
pub const FORMAT: u8 = 1;

/// Bytes in front of the encoded value.
pub const HEADER_BYTES: usize = 9;

/// Bytes that are not an envelope of a known format.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum EnvelopeError {
    /// Written by a newer program: run that version or a newer one.
    #[error("value envelope has format {0}, newer than {FORMAT}, the newest this version reads")]
    Newer(u8),
    /// No program writes this.
    #[error("value envelope of {len} bytes with format {format:?} is damaged")]
    Damaged {
        /// The first byte, None without one.
        format: Option<u8>,
        /// Length of what was found.
        len: usize,
    },
}

/// Appends the envelope's header; the encoded value follows it.
pub fn write_header(timestamp: TimestampMs, out: &mut Vec<u8>) {
    out.push(FORMAT);
    out.extend_from_slice(&timestamp.to_be_bytes());
}

/// Takes an envelope apart: timestamp and encoded value.
///
/// # Errors
/// [`EnvelopeError`]
pub fn parse(bytes: &[u8]) -> Result<(TimestampMs, &[u8]), EnvelopeError> {
    let damaged = EnvelopeError::Damaged {
        format: bytes.first().copied(),
        len: bytes.len(),
    };
    match bytes.split_first() {
        Some((&FORMAT, rest)) => {
            let (timestamp, value) = rest.split_first_chunk::<8>().ok_or(damaged)?;
            Ok((TimestampMs::from_be_bytes(*timestamp), value))
        }
        Some((&format, _)) if format > FORMAT => Err(EnvelopeError::Newer(format)),
        _ => Err(damaged),
    }
}
