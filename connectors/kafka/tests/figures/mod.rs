//! What source and log tell of themselves, against a real broker.
use crate::support::{Lane, broker, output, transaction};
use keyfold::sink::Log;
use keyfold::source::{PartitionEnd, Source, SourceFigures};
use keyfold_kafka::KafkaSource;
use std::time::{Duration, Instant};

/// Serves and asks as the control thread does, until the figures are such, at most 30 s. Nothing is read meanwhile.
fn figures(source: &mut KafkaSource, are: impl Fn(&SourceFigures) -> bool) -> SourceFigures {
    let until = Instant::now() + Duration::from_secs(30);
    loop {
        source.serve().expect("served");
        let figures = source.figures();
        if are(&figures) {
            return figures;
        }
        assert!(Instant::now() < until, "{figures:?}");
        std::thread::sleep(Duration::from_millis(100));
    }
}

fn end(partition: i32, stable: i64, end: i64) -> PartitionEnd {
    PartitionEnd {
        partition,
        stable: Some(stable),
        end: Some(end),
    }
}

/// The end that a consumer's fetches tell of is the stable one, and none while nothing is fetched: so both are asked for. An open transaction
/// lies between them.
#[test]
fn both_ends_of_a_partition_are_told_while_nothing_is_read() {
    let b = broker();
    let topic = b.topic(2, &[]);
    let mut log = b.log("ends", vec![], &[&topic]);
    transaction(&mut log, 3, "good", true); // 0..3, marker 3
    log.begin().expect("begin");
    log.send(&output(Some(b"k"), Some(b"open"))).expect("send");
    log.drain().expect("drain");
    let mut lane = Lane::open(KafkaSource::topic(&b.config(), &topic), &[(0, 0), (1, 0)]);
    assert_eq!(lane.source.figures().ends, [], "nothing is known yet");
    let known = figures(&mut lane.source, |f| {
        f.ends.len() == 2 && f.ends.iter().all(|e| e.stable.is_some() && e.end.is_some())
    });
    assert_eq!(known.ends, [end(0, 4, 5), end(1, 0, 0)]);
    log.commit().expect("commit");
    figures(&mut lane.source, |f| f.ends.contains(&end(0, 6, 6)));
    lane.close();
    log.close();
}

/// What is read ahead is told in bytes, once for each lane, and is gone when it was taken.
#[test]
fn what_is_read_ahead_is_told_in_bytes() {
    let b = broker();
    let topic = b.topic(2, &[]);
    let mut log = b.log("ahead", vec![], &[&topic]);
    let value = "v".repeat(10_000);
    transaction(&mut log, 100, &value, true);
    let config = b.config().prefetch_bytes(100 << 20);
    let mut lane = Lane::open(KafkaSource::topic(&config, &topic), &[(0, 0), (1, 0)]);
    let used = |f: &SourceFigures| f.prefetch.and_then(|p| p.used_bytes);
    let known = figures(&mut lane.source, |f| used(f).is_some_and(|bytes| bytes > 0));
    let bytes = used(&known).expect("known");
    assert!((1_000_000..1_300_000).contains(&bytes), "{bytes}");
    assert_eq!(known.prefetch.expect("known").limit_bytes, 50 * 1024 * 1000);
    lane.until(|seen| seen.records.len() == 100).expect("reads");
    figures(&mut lane.source, |f| used(f) == Some(0));
    lane.close();
    log.close();
}

/// The producer's queue is counted by our own hand: up when it takes a message, down with the report.
#[test]
fn the_producers_queue_is_told_in_bytes() {
    let b = broker();
    let topic = b.topic(1, &[]);
    let mut log = b.log("queue", vec![], &[&topic]);
    let queue = log.queue().expect("told");
    assert_eq!(queue.bytes(), 0);
    log.begin().expect("begin");
    log.send(&output(Some(b"key"), Some(&[b'v'; 97]))).expect("send");
    assert_eq!(queue.bytes(), 100);
    log.drain().expect("drain");
    assert_eq!(queue.bytes(), 0);
    log.send(&output(Some(b"key"), None)).expect("send");
    // A session of its own begins with an empty queue, and the report of what was purged takes nothing off it.
    log.open_session().expect("a session");
    assert_eq!(queue.bytes(), 0);
    transaction(&mut log, 3, "x", true);
    assert_eq!(queue.bytes(), 0);
    log.close();
}
