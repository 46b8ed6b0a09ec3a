//! Names of epochs, shards and links between sections.
use std::fmt;
use std::str::FromStr;

/// A shard's index, `0..S` (design: the unit of ownership and of correctness).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Shard(pub u32);

impl fmt::Display for Shard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// Every so many-th shard, and perhaps one more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shards {
    every: u32,
    at: u32,
    also: Option<Shard>,
}

impl Shards {
    /// Every shard.
    pub const ALL: Shards = Shards::every(1, 0);
    /// None.
    pub const NONE: Shards = Shards::every(1, 1);

    /// Those whose index leaves `at` when it is divided by `every`, which is not 0.
    #[must_use]
    pub const fn every(every: u32, at: u32) -> Shards {
        Shards { every, at, also: None }
    }

    /// These, and one more.
    #[must_use]
    pub fn and(self, also: Option<Shard>) -> Shards {
        Shards { also, ..self }
    }

    /// Whether these are all that there are.
    #[must_use]
    pub fn are_all(self) -> bool {
        (self.every, self.at) == (1, 0)
    }

    /// Whether `shard` is one of them.
    #[must_use]
    pub fn contain(self, shard: Shard) -> bool {
        shard.0 % self.every == self.at || self.also == Some(shard)
    }
}

/// A section's place in the committed history of its shard: its parent's plus one. Genesis is 0.
pub type Sequence = u64;

/// 64 random bits, drawn anew whenever the producer session is (re)built.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Incarnation(pub u64);

/// `<incarnation>-<n>`: unique per attempt, never used again (EP-2). `n` counts from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct EpochId {
    /// The session that made the epoch.
    pub incarnation: Incarnation,
    /// The count inside the session, from 1.
    pub n: u64,
}

impl fmt::Display for EpochId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}-{}", self.incarnation.0, self.n)
    }
}

/// A text that is not an epoch id, a digest or another fixed-grammar name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("not a valid {what}")]
pub struct GrammarError {
    /// What was expected.
    pub what: &'static str,
}

/// Exactly `digits` lower-case hexadecimal digits.
///
/// # Errors
/// Any other text.
pub fn parse_hex_u64(text: &str, what: &'static str) -> Result<u64, GrammarError> {
    let ok = text.len() == 16 && text.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b));
    if !ok {
        return Err(GrammarError { what });
    }
    u64::from_str_radix(text, 16).map_err(|_| GrammarError { what })
}

impl FromStr for EpochId {
    type Err = GrammarError;
    /// Strict: 16 lower-case hex digits, `-`, a decimal from 1 without leading zero, at most 19 digits.
    fn from_str(text: &str) -> Result<Self, GrammarError> {
        const WHAT: &str = "epoch id";
        let bad = GrammarError { what: WHAT };
        let (left, right) = text.split_once('-').ok_or(bad.clone())?;
        let incarnation = Incarnation(parse_hex_u64(left, WHAT)?);
        let canonical = !right.is_empty()
            && right.len() <= 19
            && right.bytes().all(|b| b.is_ascii_digit())
            && !right.starts_with('0');
        if !canonical {
            return Err(bad);
        }
        let n = right.parse().map_err(|_| bad)?;
        Ok(EpochId { incarnation, n })
    }
}

/// The first 16 bytes of a BLAKE3 hash. Written as 32 lower-case hex digits.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Digest(pub [u8; 16]);

impl Digest {
    /// The digest of `bytes`.
    #[must_use]
    pub fn of(bytes: &[u8]) -> Digest {
        let mut out = [0u8; 16];
        out.copy_from_slice(&blake3::hash(bytes).as_bytes()[..16]);
        Digest(out)
    }
}

/// A digest of bytes that come part by part.
#[derive(Debug, Default)]
pub struct Digesting(blake3::Hasher);

impl Digesting {
    /// Of nothing yet.
    #[must_use]
    pub fn new() -> Digesting {
        Digesting::default()
    }

    /// The next bytes.
    pub fn add(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    /// [`Digest::of`] all bytes so far.
    #[must_use]
    pub fn digest(&self) -> Digest {
        let mut out = [0u8; 16];
        out.copy_from_slice(&self.0.finalize().as_bytes()[..16]);
        Digest(out)
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|b| write!(f, "{b:02x}"))
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

impl FromStr for Digest {
    type Err = GrammarError;
    /// Exactly 32 lower-case hex digits.
    fn from_str(text: &str) -> Result<Self, GrammarError> {
        const WHAT: &str = "digest";
        if text.len() != 32 || !text.is_ascii() {
            return Err(GrammarError { what: WHAT });
        }
        let high = parse_hex_u64(&text[..16], WHAT)?;
        let low = parse_hex_u64(&text[16..], WHAT)?;
        let mut out = [0u8; 16];
        out[..8].copy_from_slice(&high.to_be_bytes());
        out[8..].copy_from_slice(&low.to_be_bytes());
        Ok(Digest(out))
    }
}

/// 64 random bits, drawn for every try to make a base: no two tries ever write an object of the same name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct BaseId(pub u64);

impl fmt::Display for BaseId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

/// Names a base of a shard: what its local copy was at one committed section (docs/format/base.md).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct BaseLink {
    /// The base.
    pub id: BaseId,
    /// Digest of its manifest, which holds the digest of every piece.
    pub digest: Digest,
    /// The section that it equals.
    pub sequence: Sequence,
    /// Bytes of all its files.
    pub bytes: u64,
}

/// Where a section lies inside its epoch object, in bytes. A hint for range reads; the footer is the truth.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Place {
    /// From the start of the object.
    pub offset: u64,
    /// Length of the section.
    pub len: u64,
}

/// Names one section of a shard: epoch, digest of the object's footer, sequence and place (EP-2).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Link {
    /// The epoch object.
    pub epoch: EpochId,
    /// Digest of the object's footer, which holds the digest of every section.
    pub footer: Digest,
    /// The section's sequence.
    pub sequence: Sequence,
    /// Where the section lies.
    pub place: Place,
}
