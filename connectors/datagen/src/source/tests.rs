use super::*;
use std::fs;

/// Partition, offset, timestamp, key, value.
type Owned = (i32, i64, i64, Vec<u8>, Vec<u8>);

#[derive(Default)]
struct Collected {
    records: Vec<Owned>,
    ends: Vec<(i32, i64)>,
    stop_every: Option<usize>,
    is_stopped: bool,
}

impl RecordSink for Collected {
    fn record(&mut self, r: &RecordRef<'_>) -> Flow {
        assert!(!self.is_stopped, "a record after a stop");
        assert_eq!(r.topic, "gen");
        let bytes = |b: Option<&[u8]>| b.expect("present").to_vec();
        self.records
            .push((r.partition, r.offset, r.timestamp, bytes(r.key), bytes(r.value)));
        self.is_stopped = self.stop_every.is_some_and(|n| self.records.len().is_multiple_of(n));
        if self.is_stopped { Flow::Stop } else { Flow::Continue }
    }
    fn end_of_partition(&mut self, _: &str, partition: i32, offset: i64, _: i32) {
        assert!(!self.is_stopped, "an end after a stop");
        self.ends.push((partition, offset));
    }
}

fn source() -> DatagenSource {
    DatagenSource::new("gen")
        .partitions(3)
        .records_per_partition(Some(5000))
        .seed(42)
}

fn at(partition: i32, offset: i64) -> Position {
    Position {
        topic: "gen".into(),
        partition,
        offset,
        leader_epoch: -1,
    }
}

fn reader(source: &mut DatagenSource, lane: &[Position]) -> Box<dyn SourceReader> {
    source.open(&[lane.to_vec()]).expect("open").pop().expect("one reader")
}

fn read_all(lane: &[Position], stop_every: Option<usize>) -> Collected {
    let mut out = Collected {
        stop_every,
        ..Collected::default()
    };
    let mut reader = reader(&mut source(), lane);
    while out.ends.len() < lane.len() {
        out.is_stopped = false;
        reader.poll(Duration::ZERO, &mut out).expect("poll");
    }
    let (records, ends) = (out.records.len(), out.ends.len());
    out.is_stopped = false;
    reader.poll(Duration::ZERO, &mut out).expect("poll");
    assert_eq!(
        (out.records.len(), out.ends.len()),
        (records, ends),
        "an end is reported once"
    );
    out
}

#[test]
fn a_reader_resumes_at_any_offset_with_the_same_rest() {
    let whole = read_all(&[at(1, 0)], None);
    assert_eq!((whole.records.len(), &whole.ends[..]), (5000, &[(1, 5000)][..]));
    for offset in [1, 2, 255, 256, 257, 4095, 4096, 4097, 4999, 5000] {
        let rest = read_all(&[at(1, offset)], None);
        assert_eq!(rest.records, whole.records[offset as usize..]);
        assert_eq!(rest.ends, [(1, 5000)]);
    }
}

#[test]
fn stop_loses_and_repeats_nothing() {
    for stop_every in [1, 255, 256, 257, 5000] {
        let out = read_all(&[at(0, 0), at(1, 0), at(2, 0)], Some(stop_every));
        for p in 0..3 {
            let of_p: Vec<_> = out.records.iter().filter(|r| r.0 == p).cloned().collect();
            assert_eq!(of_p, read_all(&[at(p, 0)], None).records);
        }
    }
}

#[test]
fn poll_is_bounded_and_takes_partitions_in_turns() {
    let mut reader = reader(&mut source().records_per_partition(None), &[at(0, 0), at(2, 0)]);
    let mut out = Collected::default();
    reader.poll(Duration::ZERO, &mut out).expect("poll");
    assert_eq!(out.records.len() as u64, POLL_RECORDS_MAX);
    assert_eq!(
        out.records.iter().filter(|r| r.0 == 2).count() as u64,
        POLL_RECORDS_MAX / 2
    );
}

#[test]
fn the_rate_is_shared_by_partitions_and_lost_time_is_not_made_up_for() {
    let mut pace = Pace {
        records: 1000 * 2,
        nanos: NANOS * 4,
        handed: 0,
    };
    assert_eq!(pace.due(Duration::from_millis(100)), 50);
    pace.handed += 50;
    assert_eq!(pace.due(Duration::from_millis(100)), 0);
    assert_eq!(pace.due(Duration::from_millis(102)), 1);
    assert_eq!(pace.due(Duration::from_secs(60)), 500);
}

#[test]
fn a_slow_rate_hands_out_in_turns() {
    let mut reader = reader(
        &mut source().rate_per_second(Some(1000)),
        &[at(0, 0), at(1, 0), at(2, 0)],
    );
    let (mut out, clock) = (Collected::default(), SystemClock::default());
    let mut polls = 0;
    while out.records.len() < 60 {
        reader.poll(Duration::from_millis(20), &mut out).expect("poll");
        polls += 1;
    }
    assert!(clock.elapsed() >= Duration::from_millis(50), "{:?}", clock.elapsed());
    let of_0 = out.records.iter().filter(|r| r.0 == 0).count();
    assert!(
        of_0.abs_diff(out.records.len() / 3) <= polls + 1,
        "{of_0} of {} in {polls}",
        out.records.len()
    );
}

#[test]
fn a_position_outside_and_a_setting_without_meaning_are_refused() {
    for position in [
        at(3, 0),
        at(-1, 0),
        at(0, -1),
        at(0, 5001),
        Position {
            topic: "x".into(),
            ..at(0, 0)
        },
    ] {
        assert!(matches!(source().open(&[vec![position]]), Err(SourceError::Fatal(_))));
    }
    let bad = [
        source().partitions(0),
        source().rate_per_second(Some(0)),
        source().shape(Shape::Orders { customers: 0 }),
        source().records_per_partition(Some(u64::MAX)),
    ];
    for mut source in bad {
        assert!(matches!(source.topic_info(), Err(SourceError::Fatal(_))));
    }
}

#[test]
fn the_topic_has_the_partitions_and_starts_at_zero() {
    let info = source().topic_info().expect("info");
    assert_eq!(
        info,
        TopicInfo {
            topic: "gen".into(),
            id: [0; 16],
            partitions: 3
        }
    );
    assert_eq!(
        source().start_positions().expect("positions"),
        [at(0, 0), at(1, 0), at(2, 0)]
    );
}

#[test]
fn files_hold_the_values_of_the_same_records() {
    let dir = tempfile::tempdir().expect("a directory");
    crate::write_files(&source(), dir.path().join("in")).expect("written");
    for p in 0..3 {
        let text = fs::read(dir.path().join(format!("in/{p}.jsonl"))).expect("read");
        let expected: Vec<u8> = read_all(&[at(p, 0)], None)
            .records
            .into_iter()
            .flat_map(|r| [r.4, b"\n".to_vec()].concat())
            .collect();
        assert!(text == expected);
    }
    assert!(crate::write_files(&source().records_per_partition(None), dir.path()).is_err());
}
