//! The pointer in the metadata of a committed offset, by `docs/format/pointer.md`.
use std::fmt;

use anyhow::{Context, Result, bail, ensure};

/// The first 16 bytes of a BLAKE3 hash.
pub type Digest = [u8; 16];

/// The digest of these bytes.
#[must_use]
pub fn digest(bytes: &[u8]) -> Digest {
    let mut short = [0; 16];
    short.copy_from_slice(&blake3::hash(bytes).as_bytes()[..16]);
    short
}

/// Bytes as lower-case hex digits.
#[must_use]
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}

/// Names an epoch: who wrote it and its number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EpochName {
    /// Drawn by each run of an instance.
    pub incarnation: u64,
    /// From 1.
    pub n: u64,
}

impl fmt::Display for EpochName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}-{}", self.incarnation, self.n)
    }
}

/// A parsed pointer.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Pointer {
    /// Of job and stage, 16 hex digits.
    pub job_hash: String,
    /// Of the store, 16 hex digits.
    pub store_id: String,
    /// The epoch.
    pub epoch: EpochName,
    /// Of the object's footer body.
    pub digest: Digest,
}

impl Pointer {
    /// Parses by the grammar, to the letter.
    ///
    /// # Errors
    /// Says which part is wrong.
    pub fn parse(text: &str) -> Result<Pointer> {
        ensure!(text.len() <= 128, "longer than 128 bytes");
        let parts: Vec<&str> = text.split(';').collect();
        let [format, job, store, epoch, footer] = parts[..] else {
            bail!("{} parts instead of 5", parts.len())
        };
        ensure!(format == "k1", "format {format:?}");
        let (incarnation, n) = epoch.split_once('-').context("epoch id without '-'")?;
        Ok(Pointer {
            job_hash: hex_digits(job, 16).context("job hash")?.into(),
            store_id: hex_digits(store, 16).context("store id")?.into(),
            epoch: EpochName {
                incarnation: u64::from_str_radix(hex_digits(incarnation, 16).context("incarnation")?, 16)?,
                n: number(n).context("epoch number")?,
            },
            digest: u128::from_str_radix(hex_digits(footer, 32).context("digest")?, 16)?.to_be_bytes(),
        })
    }

    /// The hash that pointers of this job and stage carry.
    #[must_use]
    pub fn job_hash_of(job: &str, stage: &str) -> String {
        let hash = blake3::hash(&[job.as_bytes(), &[0], stage.as_bytes()].concat());
        hex(&hash.as_bytes()[..8])
    }
}

fn hex_digits(text: &str, length: usize) -> Result<&str> {
    ensure!(text.len() == length, "{} characters instead of {length}", text.len());
    ensure!(
        text.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f')),
        "not 0-9a-f"
    );
    Ok(text)
}

fn number(text: &str) -> Result<u64> {
    ensure!(
        (1..=19).contains(&text.len()) && !text.starts_with('0'),
        "from 1, no leading zero, at most 19 digits"
    );
    ensure!(text.bytes().all(|b| b.is_ascii_digit()), "not decimal");
    text.parse().context("too large")
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = "k1;0123456789abcdef;fedcba9876543210;00000000000000ff-17;000102030405060708090a0b0c0d0e0f";

    #[test]
    fn a_pointer_is_parsed() {
        let pointer = Pointer::parse(GOOD).expect("valid");
        assert_eq!(
            pointer.epoch,
            EpochName {
                incarnation: 255,
                n: 17
            }
        );
        assert_eq!(pointer.epoch.to_string(), "00000000000000ff-17");
        assert_eq!(hex(&pointer.digest), "000102030405060708090a0b0c0d0e0f");
    }

    #[test]
    fn anything_else_is_refused() {
        let bad = [
            GOOD.replace("k1", "k2"),
            GOOD.replace("-17", "-017"),
            GOOD.replace("-17", "-0"),
            GOOD.replace("-17", "-+7"),
            GOOD.replace("-17", "17"),
            GOOD.replace("abcdef;", "ABCDEF;"),
            GOOD.replace("fedcba9876543210", "../../etc/passwd"),
            format!("{GOOD} "),
            format!("{GOOD};x"),
            String::new(),
        ];
        for text in bad {
            assert!(Pointer::parse(&text).is_err(), "{text}");
        }
    }
}
