//! Key groups, shards and lanes: which part of the key space belongs to whom.
use super::hash::Partitioner;
use super::ids::Shard;

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
mod tests {
    use super::*;

    #[test]
    fn the_default_max_parallelism_is_the_documented_one() {
        assert_eq!(KeyGroups::default_max_parallelism(4), 960);
        assert_eq!(KeyGroups::default_max_parallelism(1), 240);
        assert_eq!(KeyGroups::default_max_parallelism(20_000), 20_000);
        for p in [1, 3, 4, 7, 12, 50, 256, 1000, 30_000] {
            let g = KeyGroups::default_max_parallelism(p);
            assert!(g <= MAX_PARALLELISM && g.is_multiple_of(p), "p={p} g={g}");
        }
    }

    #[test]
    fn the_shard_of_a_key_is_its_partition_when_there_are_as_many_shards_as_partitions() {
        let groups = KeyGroups::new(960, 4, Partitioner::Murmur2).expect("valid");
        for key in ["a", "customer-17", "", "zz"] {
            let hash = groups.hash(key.as_bytes());
            assert_eq!(groups.shard_of(groups.group_of(hash)).0, hash % 4);
        }
    }

    #[test]
    fn shards_must_divide_the_key_groups() {
        assert!(KeyGroups::new(960, 7, Partitioner::Murmur2).is_err());
        assert!(KeyGroups::new(0, 1, Partitioner::Murmur2).is_err());
        assert!(KeyGroups::new(40_000, 1, Partitioner::Murmur2).is_err());
    }
}
