use super::*;
use std::sync::Arc;

fn order(seed: u64, partition: i32, offset: i64) -> (String, String, i64) {
    let mut generator = Generator::new(seed, Shape::Orders { customers: 1000 });
    let at = generator.make(partition, offset);
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).expect("ASCII");
    (text(&generator.key), text(&generator.value), at)
}

#[test]
fn the_numbers_are_those_of_the_reference_implementation() {
    let mut random = SplitMix64::new(1_234_567);
    assert_eq!(random.next(), 6_457_827_717_110_365_317);
    assert_eq!(random.next(), 3_203_168_211_198_807_973);
    assert_eq!(SplitMix64::new(0).next(), 0xe220_a839_7b1d_cdaf);
}

#[test]
fn golden_orders() {
    let golden = [
        (
            0,
            0,
            0,
            r#"{"order":"0-0","customer":"c000433","amount":68280,"at":1700000000000}"#,
        ),
        (
            42,
            0,
            0,
            r#"{"order":"0-0","customer":"c000950","amount":81556,"at":1700000000000}"#,
        ),
        (
            42,
            3,
            1_000_000,
            r#"{"order":"3-1000000","customer":"c000986","amount":70499,"at":1700001000000}"#,
        ),
        (
            u64::MAX,
            1,
            7,
            r#"{"order":"1-7","customer":"c000172","amount":84169,"at":1700000000007}"#,
        ),
    ];
    for (seed, partition, offset, expected) in golden {
        assert_eq!(order(seed, partition, offset).1, expected);
    }
}

#[test]
fn key_value_and_timestamp_agree() {
    for offset in 0..1000 {
        let (key, value, at) = order(1, 2, offset);
        let value: serde_json::Value = serde_json::from_str(&value).expect("JSON");
        assert_eq!(value["customer"], key.as_str());
        assert_eq!(value["order"], format!("2-{offset}"));
        assert_eq!((value["at"].as_i64(), at), (Some(at), BASE_TIMESTAMP + offset));
        assert!((100..100_100).contains(&value["amount"].as_u64().expect("cents")));
    }
}

#[test]
fn seed_partition_and_offset_each_matter_and_customers_are_spread() {
    let amounts = |f: &dyn Fn(i64) -> (String, String, i64)| (0..50).map(|n| f(n).0).collect::<Vec<_>>();
    let base = amounts(&|n| order(1, 0, n));
    assert_ne!(base, amounts(&|n| order(2, 0, n)));
    assert_ne!(base, amounts(&|n| order(1, 1, n)));
    let distinct: std::collections::HashSet<_> = (0..20_000).map(|n| order(1, 0, n).0).collect();
    assert_eq!(distinct.len(), 1000);
}

#[test]
fn a_custom_shape_gets_empty_buffers() {
    let shape = Shape::Custom(Arc::new(
        |seed, partition, offset, key: &mut Vec<u8>, value: &mut Vec<u8>| {
            assert!(key.is_empty() && value.is_empty());
            key.push(seed as u8);
            value.extend([partition as u8, offset as u8]);
            offset * 10
        },
    ));
    let mut generator = Generator::new(9, shape);
    for offset in 0..3 {
        assert_eq!(generator.make(4, offset), offset * 10);
        assert_eq!(
            (&generator.key[..], &generator.value[..]),
            (&[9][..], &[4, offset as u8][..])
        );
    }
}
