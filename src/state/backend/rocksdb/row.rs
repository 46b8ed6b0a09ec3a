//! The row that names the section which a local copy equals (docs/format/state.md).
use crate::state::Applied;
use crate::types::{Digest, EpochId, Incarnation};

/// Key of the row; sorts behind every state key.
pub(super) const APPLIED_KEY: &[u8] = b"\xff\xffapplied";

const ROW_BYTES: usize = 40;

/// The row's value: `sequence u64 | incarnation u64 | n u64 | footer digest 16 bytes`.
pub(super) fn encode(applied: &Applied) -> [u8; ROW_BYTES] {
    let mut row = [0; ROW_BYTES];
    row[..8].copy_from_slice(&applied.sequence.to_be_bytes());
    row[8..16].copy_from_slice(&applied.epoch.incarnation.0.to_be_bytes());
    row[16..24].copy_from_slice(&applied.epoch.n.to_be_bytes());
    row[24..].copy_from_slice(&applied.footer.0);
    row
}

/// Reads the row; strict.
pub(super) fn decode(row: &[u8]) -> Result<Applied, String> {
    let damaged = || format!("the applied row has {} bytes, not {ROW_BYTES}", row.len());
    let (sequence, rest) = row.split_first_chunk::<8>().ok_or_else(damaged)?;
    let (incarnation, rest) = rest.split_first_chunk::<8>().ok_or_else(damaged)?;
    let (n, footer) = rest.split_first_chunk::<8>().ok_or_else(damaged)?;
    Ok(Applied {
        sequence: u64::from_be_bytes(*sequence),
        epoch: EpochId {
            incarnation: Incarnation(u64::from_be_bytes(*incarnation)),
            n: u64::from_be_bytes(*n),
        },
        footer: Digest(footer.try_into().map_err(|_| damaged())?),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_applied_row_has_the_documented_bytes_and_is_read_strictly() {
        let applied = Applied {
            sequence: 7,
            epoch: EpochId {
                incarnation: Incarnation(0x0102_0304_0506_0708),
                n: 9,
            },
            footer: Digest([0xab; 16]),
        };
        let row = encode(&applied);
        assert_eq!(
            row[..24],
            *b"\0\0\0\0\0\0\0\x07\x01\x02\x03\x04\x05\x06\x07\x08\0\0\0\0\0\0\0\x09"
        );
        assert_eq!(row[24..], [0xab; 16]);
        assert_eq!(decode(&row), Ok(applied));
        assert!(decode(&row[..39]).is_err());
        assert!(decode(&[&row[..], &[0]].concat()).is_err());
    }
}
