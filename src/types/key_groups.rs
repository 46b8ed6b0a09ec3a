//! Key groups, shards and lanes: which part of the key space belongs to whom.
use super::hash::Partitioner;
use super::ids::Shard;
use std::fmt;

/// A key group's number, `0..G`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct KeyGroup(pub u16);

/// The largest number of key groups; a key group is two bytes in a state key and 0xffff is kept for the backend's own rows.
pub const MAX_PARALLELISM: u32 = 32_768;

/// How keys map to key groups and key groups to shards. Fixed while a job runs, written in every epoch object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KeyGroups {
    /// `G`, the number of key groups (max parallelism).
    pub max_parallelism: u32,
    /// `S`, the number of shards; divides `G`.
    pub shards: u32,
    /// The hash.
    pub partitioner: Partitioner,
}

/// How the shard of a record is found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sharding {
    /// From its key alone (single mode).
    ByKey,
    /// It is the partition that the record came from (group mode): a key that does not belong there is refused, never folded elsewhere.
    ByPartition,
}

/// A key that does not belong to the partition its record came from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Misplaced {
    /// Under crc32 an empty key counts as none: it lies in any partition, and no shard is its own.
    EmptyKey,
    /// There are fewer shards than that.
    NoSuchShard {
        /// Number of shards.
        shards: u32,
    },
    /// The partitioner puts the key into another partition.
    Elsewhere {
        /// The partition it puts the key into.
        belongs: u32,
        /// The partitioner.
        under: Partitioner,
        /// Those that would have put the key where it lies.
        fits: Vec<Partitioner>,
    },
}

impl fmt::Display for Misplaced {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Misplaced::EmptyKey => f.write_str(
                "its key is empty, which the partitioner crc32 takes for none and puts into any partition: the key has no shard of its own; \
                 give such records a key, or run a new job with partitioner unknown, under which a record's shard is its partition",
            ),
            Misplaced::NoSuchShard { shards } => {
                write!(f, "the job has {shards} shards, one for each partition, and none for this one")
            }
            Misplaced::Elsewhere { belongs, under, fits } => {
                let under = under.name();
                write!(f, "its key belongs to partition {belongs} under the partitioner {under}")?;
                match fits[..] {
                    [] => f.write_str(
                        ", and neither murmur2 nor crc32 would have put it here; if the topic's producers place records by a rule of their \
                         own, run a new job with partitioner unknown, under which a record's shard is its partition",
                    ),
                    _ => {
                        let names: Vec<&str> = fits.iter().map(|p| p.name()).collect();
                        let names = names.join(" or ");
                        write!(
                            f,
                            ", and to this one under {names}; if the topic's producers use that, run a new job with it as partitioner"
                        )
                    }
                }
            }
        }
    }
}

impl KeyGroups {
    /// # Errors
    /// Says in words why `max_parallelism` and `shards` do not fit.
    pub fn new(max_parallelism: u32, shards: u32, partitioner: Partitioner) -> Result<KeyGroups, String> {
        if shards == 0 || max_parallelism == 0 || max_parallelism > MAX_PARALLELISM {
            return Err(format!(
                "max parallelism {max_parallelism} and shards {shards} must be from 1 to {MAX_PARALLELISM}"
            ));
        }
        if !max_parallelism.is_multiple_of(shards) {
            return Err(format!(
                "max parallelism {max_parallelism} is not a multiple of the number of shards {shards}"
            ));
        }
        Ok(KeyGroups {
            max_parallelism,
            shards,
            partitioner,
        })
    }

    /// The default `G` for `p` partitions or shards: lcm(p * 2^k, 240) with the largest k <= 4 that keeps it within
    /// [`MAX_PARALLELISM`], else the largest p * 2^k within it.
    #[must_use]
    pub fn default_max_parallelism(p: u32) -> u32 {
        let p = p.clamp(1, MAX_PARALLELISM);
        let gcd = |mut a: u64, mut b: u64| {
            while b != 0 {
                (a, b) = (b, a % b);
            }
            a
        };
        for k in (0..=4u32).rev() {
            let base = u64::from(p) << k;
            let lcm = base / gcd(base, 240) * 240;
            if lcm <= u64::from(MAX_PARALLELISM) {
                return lcm as u32;
            }
        }
        let mut g = p;
        while g <= MAX_PARALLELISM / 2 {
            g *= 2;
        }
        g
    }

    /// The key's hash; keep it, the key group and map look-ups derive from it.
    #[must_use]
    pub fn hash(&self, key: &[u8]) -> u32 {
        self.partitioner.hash(key)
    }

    /// The key group of a hash.
    #[must_use]
    pub fn group_of(&self, hash: u32) -> KeyGroup {
        KeyGroup((hash % self.max_parallelism) as u16)
    }

    /// The key group of a record in group mode, whose shard is the partition that the record came from.
    ///
    /// # Errors
    /// [`Misplaced`] when the key does not belong there.
    pub fn group_in_partition(&self, key: &[u8], hash: u32, partition: i32) -> Result<KeyGroup, Misplaced> {
        let shards = self.shards;
        let own = u32::try_from(partition).ok().filter(|p| *p < shards);
        let own = own.ok_or(Misplaced::NoSuchShard { shards })?;
        if self.partitioner == Partitioner::Unknown {
            let row = hash % (self.max_parallelism / shards);
            return Ok(KeyGroup((row * shards + own) as u16));
        }
        if self.partitioner == Partitioner::Crc32 && key.is_empty() {
            return Err(Misplaced::EmptyKey);
        }
        let group = self.group_of(hash);
        if self.shard_of(group) == Shard(own) {
            return Ok(group);
        }
        let known = [Partitioner::Murmur2, Partitioner::Crc32];
        Err(Misplaced::Elsewhere {
            belongs: self.shard_of(group).0,
            under: self.partitioner,
            fits: known.into_iter().filter(|p| p.fits(key, own, shards)).collect(),
        })
    }

    /// The shard that owns a key group.
    #[must_use]
    pub fn shard_of(&self, group: KeyGroup) -> Shard {
        Shard(u32::from(group.0) % self.shards)
    }

    /// The keyed lane, `0..lanes`, that owns a key group: the groups of each shard are spread over all lanes.
    #[must_use]
    pub fn lane_of(&self, group: KeyGroup, lanes: u32) -> u32 {
        (u32::from(group.0) / self.shards) % lanes
    }

    /// The shard whose section holds the position of a partition in single mode, and whose output buffer takes what
    /// stateless operators emit for its records.
    #[must_use]
    pub fn shard_of_partition(&self, partition: i32) -> Shard {
        Shard(partition.unsigned_abs() % self.shards)
    }
}

#[cfg(test)]
mod tests;
