//! When a shard needs a new base, when its chain is too long to grow, and how old what is written may be when it is named (EP-9).
//!
//! Everything that is written and not committed yet is young: a base is named within a third of the grace of its beginning, by an object that is
//! written by then, and an epoch is published within a third of its being written. So what a commit makes reachable is at most two thirds of the grace old, or was reachable
//! before, and collection takes nothing that is younger than the whole.
use std::time::Duration;

/// How long the chain of a shard may get.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ChainLimits {
    /// Sections.
    pub objects_max: u64,
    /// Bytes of sections, where a quarter of the last base is less.
    pub bytes_min: u64,
}

/// The sections of a shard behind its base.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ChainFacts {
    /// How many.
    pub objects: u64,
    /// How large all together.
    pub bytes: u64,
    /// The size of the base; 0 without one.
    pub base_bytes: u64,
}

/// A restore reads a base at the speed of a copy, and replays the chain behind it at about a tenth of that, so a chain should be a small part of
/// its base. On the other hand a base reads the whole copy once, to verify it, however little is new.
const BASES_PART: u64 = 4;

/// At so many times as many sections no epoch is taken any more, and at so many times the least bytes, at least so many bytes, and so many bases: until
/// then there is time to make one, on a slow store too, and a restore still ends in a time that has to do with the size of the state.
const FULL_TIMES: u64 = 4;
const FULL_BYTES: u64 = 256 << 20;
const FULL_BASES: u64 = 2;

/// Whether a restore is over sooner from the base than from a chain of so many bytes that leads to it.
#[must_use]
pub fn outweighs(chain_bytes: u64, base_bytes: u64) -> bool {
    chain_bytes > base_bytes / BASES_PART
}

impl ChainLimits {
    /// Whether a base has to be made.
    #[must_use]
    pub fn due(&self, chain: &ChainFacts) -> bool {
        chain.objects > self.objects_max || chain.bytes > self.bytes_min && outweighs(chain.bytes, chain.base_bytes)
    }

    /// Whether the chain must not grow any more.
    #[must_use]
    pub fn full(&self, chain: &ChainFacts) -> bool {
        self.load(chain) > 1.0
    }

    /// How much of what a chain may be it is: of several that are due the one that comes next to stand still is first.
    #[must_use]
    pub fn load(&self, chain: &ChainFacts) -> f64 {
        let least = self.bytes_min.saturating_mul(FULL_TIMES).max(FULL_BYTES);
        let bytes_max = least.max(chain.base_bytes.saturating_mul(FULL_BASES));
        let objects_max = self.objects_max.saturating_mul(FULL_TIMES).max(1);
        (chain.objects as f64 / objects_max as f64).max(chain.bytes as f64 / bytes_max as f64)
    }
}

/// Whether what was begun so long ago may still be named: by the store's clock, which may have been set back meanwhile.
#[must_use]
pub fn is_young(age_ms: i64, grace: Duration) -> bool {
    (0..=third_ms(grace)).contains(&age_ms)
}

/// What one step between writing and committing may take.
#[must_use]
pub fn third(grace: Duration) -> Duration {
    grace / 3
}

fn third_ms(grace: Duration) -> i64 {
    i64::try_from(third(grace).as_millis()).unwrap_or(i64::MAX)
}

/// Whether the store has to be asked for the age of an epoch before it is published. Far less than a third has passed by both of this machine's
/// clocks for nearly every epoch, and one of them notices a machine that stood still.
#[must_use]
pub fn age_is_in_doubt(elapsed: Duration, wall_ms: i64, grace: Duration) -> bool {
    let little = third(grace) / 4;
    let wall = Duration::from_millis(wall_ms.unsigned_abs());
    elapsed > little || wall > elapsed + little
}
