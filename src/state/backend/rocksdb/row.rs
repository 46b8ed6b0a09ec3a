//! The row that names the section which a local copy equals (docs/format/state.md).
use crate::state::Applied;
use crate::types::{Digest, EpochId, Incarnation, Shard};

/// Key of the row; sorts behind every state key.
pub(super) const APPLIED_KEY: &[u8] = b"\xff\xffapplied";

const FORMAT: u8 = 2;
const ROW_BYTES: usize = 53;
/// Those of format 1, which begins with the sequence.
const FORMER_BYTES: usize = 40;

/// The row's value: `format u8 | job hash u64 | shard u32 | sequence u64 | incarnation u64 | n u64 | footer digest 16 bytes`.
pub(super) fn encode(applied: &Applied) -> [u8; ROW_BYTES] {
    let mut row = [0; ROW_BYTES];
    row[0] = FORMAT;
    row[1..9].copy_from_slice(&applied.job.to_be_bytes());
    row[9..13].copy_from_slice(&applied.shard.0.to_be_bytes());
    row[13..21].copy_from_slice(&applied.sequence.to_be_bytes());
    row[21..29].copy_from_slice(&applied.epoch.incarnation.0.to_be_bytes());
    row[29..37].copy_from_slice(&applied.epoch.n.to_be_bytes());
    row[37..].copy_from_slice(&applied.footer.0);
    row
}

/// Reads the row; strict. One of format 1 does not say whose copy it is, so that copy cannot be told from another's and is no good.
pub(super) fn decode(row: &[u8]) -> Result<Applied, String> {
    let damaged = || format!("the applied row has {} bytes, not {ROW_BYTES}", row.len());
    if row.len() == FORMER_BYTES {
        return Err("the applied row is of format 1, which does not say whose copy it is".to_owned());
    }
    let (format, rest) = row.split_first().ok_or_else(damaged)?;
    if *format != FORMAT {
        return Err(format!("the applied row is of format {format}, not {FORMAT}"));
    }
    let (job, rest) = rest.split_first_chunk::<8>().ok_or_else(damaged)?;
    let (shard, rest) = rest.split_first_chunk::<4>().ok_or_else(damaged)?;
    let (sequence, rest) = rest.split_first_chunk::<8>().ok_or_else(damaged)?;
    let (incarnation, rest) = rest.split_first_chunk::<8>().ok_or_else(damaged)?;
    let (n, footer) = rest.split_first_chunk::<8>().ok_or_else(damaged)?;
    Ok(Applied {
        job: u64::from_be_bytes(*job),
        shard: Shard(u32::from_be_bytes(*shard)),
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

    fn fixture(format: u32) -> Vec<u8> {
        let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures");
        std::fs::read(root.join(format!("format-{format}/applied-row.bin"))).expect("kept for ever")
    }

    #[test]
    fn the_applied_row_has_the_documented_bytes_and_is_read_strictly() {
        let applied = Applied {
            job: 0x1112_1314_1516_1718,
            shard: Shard(5),
            sequence: 7,
            epoch: EpochId {
                incarnation: Incarnation(0x0102_0304_0506_0708),
                n: 9,
            },
            footer: Digest([0xab; 16]),
        };
        let row = encode(&applied);
        assert_eq!(row[..13], *b"\x02\x11\x12\x13\x14\x15\x16\x17\x18\0\0\0\x05");
        assert_eq!(
            row[13..37],
            *b"\0\0\0\0\0\0\0\x07\x01\x02\x03\x04\x05\x06\x07\x08\0\0\0\0\0\0\0\x09"
        );
        assert_eq!(row[37..], [0xab; 16]);
        assert_eq!(row[..], fixture(2));
        assert_eq!(decode(&row), Ok(applied));
        assert!(decode(&row[..52]).is_err());
        assert!(decode(&[&row[..], &[0]].concat()).is_err());
        let newer = decode(&[&[3], &row[1..]].concat()).expect_err("unknown");
        assert!(newer.contains("format 3"), "{newer}");
    }

    /// A copy of the version before may be any shard's: it is thrown away and restored, once.
    #[test]
    fn a_row_of_format_1_is_of_no_known_shard() {
        let refused = decode(&fixture(1)).expect_err("whose?");
        assert!(refused.contains("format 1"), "{refused}");
    }
}
