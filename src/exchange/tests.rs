use super::*;
use crate::types::Partitioner;

fn at(at: i64) -> Watermark {
    Watermark { at, idle: false }
}

fn origin(offset: i64) -> Origin {
    Origin {
        source: 0,
        partition: 0,
        offset,
    }
}

fn groups() -> KeyGroups {
    KeyGroups::new(240, 4, Partitioner::Murmur2).expect("valid")
}

fn key(bytes: &[u8]) -> RoutedKey<'_> {
    let hash = groups().hash(bytes);
    RoutedKey {
        bytes,
        hash,
        group: groups().group_of(hash),
    }
}

#[test]
fn records_of_a_key_go_to_one_lane_in_order_and_before_the_barrier() {
    let hub: Hub<i64, u64> = Hub::default();
    let mut router = hub.connect(2, groups());
    let mut lanes = [hub.take_inputs(0), hub.take_inputs(1)];
    for offset in 0..100 {
        let text = format!("k{}", offset % 7);
        router
            .send(key(text.as_bytes()), 0, origin(offset), 0, None, offset)
            .expect("lanes are there");
    }
    router.barrier(1, at(42)).expect("lanes are there");
    let mut seen: std::collections::HashMap<String, (usize, Vec<i64>)> = Default::default();
    for (lane, inputs) in lanes.iter_mut().enumerate() {
        loop {
            match inputs.next(|_| false, Duration::ZERO) {
                Arrival::Message(_, Message::Batch(batch)) => {
                    assert_eq!(batch.watermark, at(42));
                    let (keys, records) = batch.into_parts();
                    for r in &records {
                        let key = String::from_utf8(keys.of(r).to_vec()).expect("utf8");
                        let entry = seen.entry(key).or_insert((lane, Vec::new()));
                        assert_eq!(entry.0, lane);
                        entry.1.push(r.value);
                    }
                }
                Arrival::Message(_, Message::Barrier(epoch)) => break assert_eq!(epoch, 1),
                other => panic!("unexpected {other:?}"),
            }
        }
    }
    assert_eq!(seen.len(), 7);
    assert!(seen.values().all(|(_, offsets)| offsets.is_sorted()));
    assert_eq!(seen.values().map(|(_, o)| o.len()).sum::<usize>(), 100);
}

#[test]
fn a_held_input_waits_and_an_ended_one_is_told() {
    let hub: Hub<i64, u64> = Hub::default();
    let mut first = hub.connect(1, groups());
    let second = hub.connect(1, groups());
    let mut inputs = hub.take_inputs(0);
    first.send(key(b"a"), 0, origin(0), 0, None, 1).expect("lane is there");
    first.flush(at(0)).expect("lane is there");
    assert!(matches!(
        inputs.next(|i| i == 0, Duration::from_millis(1)),
        Arrival::Nothing
    ));
    assert!(matches!(
        inputs.next(|_| false, Duration::from_millis(1)),
        Arrival::Message(0, _)
    ));
    drop(second);
    assert!(matches!(
        inputs.next(|i| i == 0, Duration::from_millis(1)),
        Arrival::Ended(1)
    ));
}

#[test]
fn a_sender_learns_that_the_lane_is_gone() {
    let hub: Hub<i64, u64> = Hub::default();
    let mut router = hub.connect(1, groups());
    drop(hub.take_inputs(0));
    assert_eq!(router.barrier(1, at(0)), Err(LaneGone));
}

/// A lane that fell behind had eight batches of 1024 records waiting, and records of a megabyte made that gigabytes: only the keys' bytes
/// were counted.
#[test]
fn a_batch_is_bounded_by_the_bytes_of_its_records_too() {
    let sizes = |bytes: usize, extra: Option<Extra>| {
        let hub: Hub<i64, u64> = Hub::default();
        let mut router = hub.connect(1, groups());
        let mut inputs = hub.take_inputs(0);
        for offset in 0..8 {
            let extra = extra.clone().map(Box::new);
            router
                .send(key(b"k"), 0, origin(offset), bytes, extra, offset)
                .expect("lane is there");
        }
        let mut sizes = Vec::new();
        while let Arrival::Message(_, Message::Batch(batch)) = inputs.next(|_| false, Duration::ZERO) {
            assert!(batch.records.iter().all(|r| r.bytes == bytes));
            sizes.push(batch.records.len());
        }
        sizes
    };
    assert_eq!(sizes(BATCH_BYTES_MAX, None), [1; 8]);
    assert_eq!(sizes(BATCH_BYTES_MAX / 3, None), [3, 3], "two wait for more");
    assert_eq!(sizes(100, None), [0; 0], "all wait for more");
    let original = crate::types::Original {
        key: None,
        value: Some(&[0; BATCH_BYTES_MAX / 2]),
    };
    let with_original = Extra {
        headers: Vec::new(),
        original: Some(original.to_owned()),
    };
    assert_eq!(sizes(100, Some(with_original)), [2; 4], "what travels along counts");
    let header = Header {
        key: "h".to_owned(),
        value: Some(vec![0; BATCH_BYTES_MAX]),
    };
    let with_header = Extra {
        headers: vec![header],
        original: None,
    };
    assert_eq!(sizes(100, Some(with_header)), [1; 8]);
}

/// A lane whose keys had states of a megabyte each was sent batches of 1024 records as any other, and had to take what lay in the channel before
/// the barrier: gigabytes became dirty in one epoch.
#[test]
fn where_keys_have_large_states_batches_are_of_few_records() {
    let hub: Hub<i64, u64> = Hub::default();
    let mut router = hub.connect(1, groups());
    let mut inputs = hub.take_inputs(0);
    let mut next = |state_bytes| {
        inputs.expect(state_bytes);
        let full = (0..).take_while(|n| {
            let sent = router.send(key(b"a"), 0, origin(*n), 0, None, *n);
            !sent.expect("lane is there")
        });
        let sent = full.count() + 1;
        match inputs.next(|_| false, Duration::ZERO) {
            Arrival::Message(_, Message::Batch(batch)) => assert_eq!(batch.records.len(), sent),
            other => panic!("unexpected {other:?}"),
        }
        sent
    };
    assert_eq!(
        (next(200), next(BATCH_BYTES_MAX / 8), next(BATCH_BYTES_MAX)),
        (BATCH_RECORDS_MAX, 8, 1)
    );
}
