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

/// Where the clients of 4 partitions put these keys: partition and key group of 960 under murmur2, then under crc32. Made by code of others
/// (the Java client's murmur2 written down in Python, zlib's crc32); a change here would move keys to other shards.
const GOLDEN: [(&[u8], i32, u16, i32, u16); 10] = [
    (b"", 1, 921, 0, 0),
    (b"a", 0, 124, 3, 387),
    (b"abc", 3, 27, 2, 258),
    (b"21", 0, 300, 0, 52),
    (b"foobar", 2, 126, 1, 149),
    (b"customer-17", 0, 880, 3, 863),
    (b"a-little-bit-long-string", 0, 32, 2, 354),
    (&[0, 0, 0, 1], 0, 240, 2, 650),
    (&[0xff, 0xfe], 3, 651, 2, 342),
    (b"user:4711", 0, 780, 3, 515),
];

fn group_in(groups: &KeyGroups, key: &[u8], partition: i32) -> Result<KeyGroup, Misplaced> {
    groups.group_in_partition(key, groups.hash(key), partition)
}

#[test]
fn keys_are_placed_as_the_clients_place_them() {
    let murmur2 = KeyGroups::new(960, 4, Partitioner::Murmur2).expect("valid");
    let crc32 = KeyGroups::new(960, 4, Partitioner::Crc32).expect("valid");
    for (key, partition, group, ..) in GOLDEN {
        assert_eq!(group_in(&murmur2, key, partition), Ok(KeyGroup(group)), "{key:?}");
    }
    for (key, _, _, partition, group) in GOLDEN.into_iter().skip(1) {
        assert_eq!(group_in(&crc32, key, partition), Ok(KeyGroup(group)), "{key:?}");
    }
}

#[test]
fn a_key_fits_into_one_partition_and_the_refusal_names_who_would_have_put_it_elsewhere() {
    let groups = KeyGroups::new(960, 4, Partitioner::Murmur2).expect("valid");
    for (key, own, _, of_crc32, _) in GOLDEN.into_iter().skip(1) {
        for partition in (0..4).filter(|p| *p != own) {
            let fits = if partition == of_crc32 {
                vec![Partitioner::Crc32]
            } else {
                vec![]
            };
            let expected = Misplaced::Elsewhere {
                belongs: own as u32,
                under: Partitioner::Murmur2,
                fits,
            };
            assert_eq!(
                group_in(&groups, key, partition),
                Err(expected),
                "{key:?} in {partition}"
            );
        }
    }
}

/// librdkafka puts records with an empty key anywhere under consistent_random: that one of them lies in partition 0, where the empty key's
/// checksum would put it, says nothing about the next one.
#[test]
fn an_empty_key_has_no_place_under_crc32_and_is_never_said_to_fit_it() {
    let crc32 = KeyGroups::new(960, 4, Partitioner::Crc32).expect("valid");
    let murmur2 = KeyGroups::new(960, 4, Partitioner::Murmur2).expect("valid");
    for partition in 0..4 {
        assert_eq!(group_in(&crc32, b"", partition), Err(Misplaced::EmptyKey));
    }
    let elsewhere = group_in(&murmur2, b"", 0).expect_err("it belongs to partition 1");
    assert!(
        matches!(&elsewhere, Misplaced::Elsewhere { belongs: 1, fits, .. } if fits.is_empty()),
        "{elsewhere}"
    );
}

#[test]
fn with_an_unknown_partitioner_the_shard_of_a_key_group_is_the_records_partition() {
    for shards in [1, 4, 12, 960] {
        let groups = KeyGroups::new(960, shards, Partitioner::Unknown).expect("valid");
        let mut seen = std::collections::BTreeSet::new();
        for n in 0..2000u32 {
            let (key, partition) = (n.to_be_bytes(), (n % shards) as i32);
            let group = group_in(&groups, &key, partition).expect("fits anywhere");
            assert!(u32::from(group.0) < 960);
            assert_eq!(groups.shard_of(group), Shard(partition as u32));
            seen.insert(group);
        }
        assert!(
            seen.len() > 700,
            "{} of 960 key groups are used by {shards} shards",
            seen.len()
        );
    }
}

#[test]
fn a_partition_beyond_the_shards_has_no_key_groups() {
    for partitioner in [Partitioner::Murmur2, Partitioner::Crc32, Partitioner::Unknown] {
        let groups = KeyGroups::new(960, 4, partitioner).expect("valid");
        for partition in [-1, 4, i32::MAX] {
            assert_eq!(
                group_in(&groups, b"a", partition),
                Err(Misplaced::NoSuchShard { shards: 4 })
            );
        }
    }
}
