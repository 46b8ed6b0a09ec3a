//! Partitioner hashes. A key group must follow the partitioner of its topic (design section 7), so these are frozen.

/// The hash that places a key on a partition, and so in a key group. Fixed for the life of a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Partitioner {
    /// Java clients' default partitioner.
    Murmur2,
    /// librdkafka's `consistent_random`. An empty key counts as null there.
    Crc32,
    /// Nobody knows how the topic's records came to their partitions. In group mode a record's shard is the partition it lies in, whatever
    /// its key; key groups within it follow murmur2, as they all do in single mode.
    Unknown,
}

impl Partitioner {
    /// A non-negative hash of the key bytes; the partition is `hash % partitions`, the key group `hash % G`.
    #[must_use]
    pub fn hash(self, key: &[u8]) -> u32 {
        match self {
            Partitioner::Murmur2 | Partitioner::Unknown => murmur2(key) & 0x7fff_ffff,
            Partitioner::Crc32 => crc32(key),
        }
    }

    /// As the setting is written.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Partitioner::Murmur2 => "murmur2",
            Partitioner::Crc32 => "crc32",
            Partitioner::Unknown => "unknown",
        }
    }

    /// Whether this partitioner would have put the key into this of `partitions`. It says so of no key that it puts anywhere.
    #[must_use]
    pub fn fits(self, key: &[u8], partition: u32, partitions: u32) -> bool {
        match self {
            Partitioner::Unknown => true,
            Partitioner::Crc32 if key.is_empty() => false,
            known => known.hash(key) % partitions.max(1) == partition,
        }
    }
}

/// Spreads a partitioner's hash over 64 bits, for tables in memory: a lane's hashes share their remainder by the number of key groups, and
/// a table wants good low and good high bits.
#[must_use]
pub fn spread(hash: u32) -> u64 {
    let product = u64::from(hash).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    product ^ (product >> 32)
}

/// Kafka's murmur2 (`org.apache.kafka.common.utils.Utils.murmur2`), seed 0x9747b28c.
#[must_use]
pub fn murmur2(data: &[u8]) -> u32 {
    const M: u32 = 0x5bd1_e995;
    const R: u32 = 24;
    let mut h = 0x9747_b28c_u32 ^ (data.len() as u32);
    let mut chunks = data.chunks_exact(4);
    for chunk in &mut chunks {
        let mut k = u32::from_le_bytes([chunk[0], chunk[1], chunk[2], chunk[3]]);
        k = k.wrapping_mul(M);
        k ^= k >> R;
        k = k.wrapping_mul(M);
        h = h.wrapping_mul(M) ^ k;
    }
    let rest = chunks.remainder();
    for (i, byte) in rest.iter().enumerate() {
        h ^= u32::from(*byte) << (8 * i);
    }
    if !rest.is_empty() {
        h = h.wrapping_mul(M);
    }
    h ^= h >> 13;
    h = h.wrapping_mul(M);
    h ^ (h >> 15)
}

const CRC_TABLE: [u32; 256] = crc_table();

const fn crc_table() -> [u32; 256] {
    let mut table = [0u32; 256];
    let mut i = 0;
    while i < 256 {
        let mut c = i as u32;
        let mut bit = 0;
        while bit < 8 {
            c = if c & 1 == 1 { (c >> 1) ^ 0xedb8_8320 } else { c >> 1 };
            bit += 1;
        }
        table[i] = c;
        i += 1;
    }
    table
}

/// CRC-32 (IEEE, reflected), as `rd_crc32`.
#[must_use]
pub fn crc32(data: &[u8]) -> u32 {
    let step = |c: u32, b: &u8| (c >> 8) ^ CRC_TABLE[((c ^ u32::from(*b)) & 0xff) as usize];
    !data.iter().fold(!0u32, step)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Values of Kafka's own UtilsTest; a change here moves every key to another partition.
    #[test]
    fn murmur2_matches_the_java_client() {
        let cases: [(&[u8], i32); 6] = [
            (b"21", -973_932_308),
            (b"foobar", -790_332_482),
            (b"a-little-bit-long-string", -985_981_536),
            (b"a-little-bit-longer-string", -1_486_304_829),
            (b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58_897_971),
            (b"abc", 479_470_107),
        ];
        for (key, want) in cases {
            assert_eq!(murmur2(key) as i32, want, "{:?}", std::str::from_utf8(key));
        }
    }

    #[test]
    fn crc32_matches_the_check_value_of_the_ieee_polynomial() {
        assert_eq!(crc32(b"123456789"), 0xcbf4_3926);
        assert_eq!(crc32(b""), 0);
    }
}
