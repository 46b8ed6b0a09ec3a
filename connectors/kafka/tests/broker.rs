//! The connector against a real broker, one for the whole binary.
mod figures;
mod group;
mod support;

use keyfold::sink::{Log, LogErrorKind, LogTarget};
use keyfold::source::{Source, SourceError};
use keyfold::types::output::encode_headers;
use keyfold::types::{Header, OutputRef, Partitioner};
use keyfold_kafka::{KafkaLog, KafkaSource, StartAt, kafka_target};
use std::time::Duration;
use support::{Lane, broker, entry, output, transaction};

/// EP-11: a reader of the source topic sees outputs only once their transaction is committed.
#[test]
fn outputs_become_visible_with_the_commit_and_not_before() {
    let b = broker();
    let (input, out) = (b.topic(1, &[]), b.topic(1, &[]));
    let mut log = b.log("visible", vec![(input.clone(), 0)], &[&out]);
    log.begin().expect("begin");
    log.send(&output(Some(b"k"), Some(b"one"))).expect("send");
    log.drain().expect("drain");
    log.send_offsets(&[entry(&input, 7, "k1;pointer")]).expect("offsets");
    let mut lane = b.read(&out, 0);
    lane.until(|seen| !seen.ends.is_empty()).expect("end of an empty topic");
    assert_eq!(
        lane.seen.ends[0].1, 0,
        "the last stable offset is before the open transaction"
    );
    assert!(lane.seen.records.is_empty());
    log.commit().expect("commit");
    lane.until(|seen| seen.ends.len() > 1).expect("reads on");
    assert_eq!(lane.values(), ["one"]);
    assert_eq!(
        lane.seen.ends[1],
        (0, 2, -1),
        "past the marker, whose leader epoch is not known"
    );
    lane.close();
    let committed = log.committed().expect("committed");
    assert_eq!(committed[0].offset, Some(7));
    assert_eq!(committed[0].metadata.as_deref(), Some(&b"k1;pointer"[..]));
    assert!(!log.group_has_members().expect("group"));
    assert!(!log.session_is_suspect());
    log.close();
}

#[test]
fn nothing_committed_is_none_and_needs_no_session() {
    let b = broker();
    let input = b.topic(2, &[]);
    let mut log = b.closed_log("nothing", vec![(input.clone(), 0), (input, 1)], &[]);
    let committed = log.committed().expect("committed");
    assert!(
        committed.len() == 2 && committed.iter().all(|c| c.offset.is_none() && c.metadata.is_none()),
        "{committed:?}"
    );
    assert!(!log.group_has_members().expect("group"));
    assert_eq!(log.begin().expect_err("no session").kind, LogErrorKind::SessionLost);
}

/// EP-7: whoever opened the session last is the only one who commits.
#[test]
fn an_older_session_is_fenced_by_a_newer_one() {
    let b = broker();
    let (input, out) = (b.topic(1, &[]), b.topic(1, &[]));
    let mut old = b.log("fenced", vec![(input.clone(), 0)], &[&out]);
    old.begin().expect("begin");
    old.send(&output(None, Some(b"zombie"))).expect("send");
    old.drain().expect("drain");
    old.send_offsets(&[entry(&input, 1, "old")]).expect("offsets");
    let mut new = b.log("fenced", vec![(input.clone(), 0)], &[&out]);
    assert_eq!(
        new.committed().expect("stable at once")[0].offset,
        None,
        "the zombie's transaction was aborted"
    );
    assert_eq!(old.commit().expect_err("fenced").kind, LogErrorKind::Fenced);
    assert!(old.session_is_suspect());
    transaction(&mut new, 1, "new", true);
    let mut lane = b.read(&out, 0);
    lane.until(|seen| seen.records.len() == 1).expect("reads");
    assert_eq!(lane.values(), ["new0"]);
    old.close();
}

/// The brokers could not be reached at first. What the client had reported by then was counted when the session was first looked at, so it
/// was taken for spoilt: an epoch after every such start was published in a session that was opened once more.
#[test]
fn what_was_reported_while_a_session_was_opened_does_not_make_it_suspect() {
    let b = broker();
    let out = b.topic(1, &[]);
    let late = support::LateDoor::new(&b.address);
    let targets = vec![LogTarget {
        topic: out,
        max_bytes: 900_000,
    }];
    let config = keyfold_kafka::KafkaConfig::new(&late.address);
    let mut log = KafkaLog::new(
        &config,
        "reported",
        "reported",
        vec![],
        targets,
        Duration::from_secs(15),
    );
    late.opens_after(Duration::from_secs(1));
    log.open_session().expect("a session");
    assert!(!log.session_is_suspect());
    transaction(&mut log, 1, "r", true);
    assert!(!log.session_is_suspect());
    log.close();
}

/// EP-11: markers and aborted records leave gaps; the end of the partition comes past them.
#[test]
fn aborted_transactions_are_never_handed_out_and_the_end_comes_past_them() {
    let b = broker();
    let topic = b.topic(1, &[]);
    let mut log = b.log("aborted", vec![], &[&topic]);
    transaction(&mut log, 3, "good", true); // 0..3, marker 3
    transaction(&mut log, 3, "bad", false); // 4..7, marker 7
    let mut lane = b.read(&topic, 0);
    lane.until(|seen| seen.ends.iter().any(|(_, offset, _)| *offset == 8))
        .expect("reads");
    assert_eq!(lane.values(), ["good0", "good1", "good2"]);
    assert!(lane.seen.records.iter().all(|r| r.leader_epoch == 0));
    lane.close();
}

/// What EP-11 protects from: the same topic with the protection off.
#[test]
fn broken_ep_11_hands_out_aborted_records() {
    let b = broker();
    let topic = b.topic(1, &[]);
    let mut log = b.log("broken", vec![], &[&topic]);
    transaction(&mut log, 3, "bad", false);
    let faults = keyfold::testing::faults::Faults::parse("break:EP-11").expect("valid");
    let mut lane = Lane::open(KafkaSource::topic(&b.config().faults(faults), &topic), &[(0, 0)]);
    lane.until(|seen| seen.records.len() == 3).expect("reads");
    assert_eq!(lane.values(), ["bad0", "bad1", "bad2"]);
}

#[test]
fn an_offset_that_is_gone_is_fatal_and_the_gap_is_named() {
    let b = broker();
    let topic = b.topic(1, &[]);
    let mut log = b.log("gap", vec![], &[&topic]);
    transaction(&mut log, 9, "r", true); // 0..9, marker 9
    b.delete_records(&topic, 5);
    let mut lane = b.read(&topic, 2);
    let Err(SourceError::Fatal(text)) = lane.until(|seen| !seen.records.is_empty()) else {
        panic!("not fatal")
    };
    assert!(
        text.contains(&topic) && text.contains("partition 0") && text.contains("from offset 2"),
        "{text}"
    );
    assert!(text.contains("5 to 10") && text.contains("3 offsets"), "{text}");
    let mut lane = b.read(&topic, 50);
    let Err(SourceError::Fatal(text)) = lane.until(|seen| !seen.records.is_empty()) else {
        panic!("not fatal")
    };
    assert!(text.contains("ends 40 offsets before"), "{text}");
}

#[test]
fn headers_nulls_tombstones_and_timestamps_pass_through() {
    let b = broker();
    let topic = b.topic(1, &[]);
    let mut log = b.log("through", vec![], &[&topic]);
    let headers = vec![
        Header {
            key: "a".into(),
            value: Some(vec![0, 255]),
        },
        Header {
            key: "a".into(),
            value: None,
        },
        Header {
            key: "empty".into(),
            value: Some(vec![]),
        },
    ];
    let encoded = encode_headers(&headers).expect("headers");
    log.begin().expect("begin");
    let record = |key, value, timestamp| OutputRef {
        timestamp,
        headers: &encoded,
        ..output(key, value)
    };
    log.send(&record(Some(b"key"), Some(b"value"), 1_700_000_000_123))
        .expect("send");
    log.send(&record(None, Some(b""), 1)).expect("send");
    log.send(&output(Some(b""), None)).expect("send");
    log.drain().expect("drain");
    log.commit().expect("commit");
    let mut lane = b.read(&topic, 0);
    lane.until(|seen| seen.records.len() == 3).expect("reads");
    let [first, second, third] = &lane.seen.records[..] else {
        panic!("three")
    };
    assert_eq!(
        (first.key.as_deref(), first.value.as_deref()),
        (Some(&b"key"[..]), Some(&b"value"[..]))
    );
    assert_eq!(
        (first.timestamp, first.headers.as_slice()),
        (1_700_000_000_123, headers.as_slice())
    );
    assert_eq!(
        (second.key.as_deref(), second.value.as_deref(), second.timestamp),
        (None, Some(&b""[..]), 1)
    );
    assert_eq!((third.key.as_deref(), third.value.as_deref()), (Some(&b""[..]), None));
    assert!(third.headers.is_empty());
}

#[test]
fn a_stopped_batch_goes_on_where_it_stopped() {
    let b = broker();
    let topic = b.topic(1, &[]);
    let mut log = b.log("stop", vec![], &[&topic]);
    transaction(&mut log, 5000, "", true);
    let mut lane = b.read(&topic, 0);
    lane.seen.stop_after = 7;
    lane.until(|seen| seen.records.len() >= 5000).expect("reads");
    let offsets: Vec<i64> = lane.seen.records.iter().map(|r| r.offset).collect();
    assert_eq!(offsets, (0..5000).collect::<Vec<_>>());
    lane.close();
}

/// Anybody may have written the metadata.
#[test]
fn metadata_that_is_not_utf_8_comes_back_raw() {
    let b = broker();
    let input = b.topic(1, &[]);
    support::raw::commit_metadata(&b.address, "raw", &input, 3, b"\xff\x00/../\xfe");
    let mut log = b.closed_log("raw", vec![(input, 0)], &[]);
    let committed = log.committed().expect("committed");
    assert_eq!(committed[0].offset, Some(3));
    let metadata = committed[0].metadata.as_deref().expect("some");
    assert!(
        metadata.ends_with(b"\xfe") || metadata.windows(4).any(|w| w == b"/../"),
        "{metadata:?}"
    );
}

/// EP-8: a refusal is told from a fault, and the transaction can be aborted and the next one committed.
#[test]
fn an_output_that_is_too_large_is_refused_and_the_transaction_can_be_aborted() {
    let b = broker();
    let topic = b.topic(1, &[("max.message.bytes", "10000")]);
    let mut log = b.log("large", vec![], &[&topic]);
    log.begin().expect("begin");
    let error = log
        .send(&output(Some(b"key"), Some(&vec![1; 2_000_000])))
        .expect_err("the client refuses");
    assert_eq!(error.kind, LogErrorKind::OutputRefused);
    log.send(&output(Some(b"key"), Some(&vec![1; 20_000])))
        .expect("the client takes it");
    let error = log.drain().expect_err("the broker refuses");
    assert_eq!(error.kind, LogErrorKind::OutputRefused, "{error}");
    assert!(
        error.to_string().contains(&topic) && error.to_string().contains("20000 bytes"),
        "{error}"
    );
    log.abort().expect("abort");
    assert!(
        log.session_is_suspect(),
        "what librdkafka purges later must not hit the next transaction"
    );
    log.open_session().expect("a new session");
    transaction(&mut log, 1, "fits", true);
    let mut lane = b.read(&topic, 0);
    lane.until(|seen| !seen.records.is_empty()).expect("reads");
    assert_eq!(lane.values(), ["fits0"]);
}

#[test]
fn a_target_knows_its_topics_limit_and_small_messages_are_not_refused_for_their_company() {
    let b = broker();
    let topic = b.topic(1, &[("max.message.bytes", "4000")]);
    let target = kafka_target(&b.config(), &topic).expect("target");
    assert_eq!(
        target,
        LogTarget {
            topic: topic.clone(),
            max_bytes: 4000 - 512
        }
    );
    let largest = vec![7; target.max_bytes - 3];
    let mut log = KafkaLog::new(
        &b.config(),
        "small",
        "small",
        vec![],
        vec![target],
        Duration::from_secs(15),
    );
    log.open_session().expect("session");
    transaction(&mut log, 2000, "value-of-some-bytes-", true);
    log.begin().expect("begin");
    log.send(&output(Some(b"key"), Some(&largest))).expect("send");
    log.drain().expect("the largest output fits");
    log.commit().expect("commit");
    let error = kafka_target(&b.config(), "no-such-topic").expect_err("unknown");
    assert!(error.to_string().contains("create it"), "{error}");
}

#[test]
fn a_pointer_larger_than_the_brokers_limit_is_fatal_with_the_remedy() {
    let b = broker();
    let input = b.topic(1, &[]);
    let mut log = b.log("metadata", vec![(input.clone(), 0)], &[]);
    log.check_metadata_limit(80).expect("the default is 4096");
    assert_eq!(
        log.check_metadata_limit(5000).expect_err("too small").kind,
        LogErrorKind::Fatal
    );
    log.begin().expect("begin");
    let error = log
        .send_offsets(&[entry(&input, 1, &"x".repeat(5000))])
        .expect_err("too large");
    assert_eq!(error.kind, LogErrorKind::Fatal, "{error}");
    assert!(error.reason.contains("offset.metadata.max.bytes"), "{error}");
    log.abort().expect("abort");
}

#[test]
fn a_topic_is_described_and_its_start_is_an_explicit_offset() {
    let b = broker();
    let topic = b.topic(2, &[]);
    let mut log = b.log("start", vec![], &[&topic]);
    transaction(&mut log, 4, "r", true); // partition 0: 0..4, marker 4
    let mut source = KafkaSource::topic(&b.config(), &topic);
    let info = source.topic_info().expect("info");
    assert_eq!((info.topic.as_str(), info.partitions), (topic.as_str(), 2));
    assert_ne!(info.id, [0; 16], "the broker tells the topic's id");
    let offsets = |start| {
        let mut source = KafkaSource::topic(&b.config(), &topic).start(start);
        source
            .start_positions()
            .expect("positions")
            .iter()
            .map(|p| p.offset)
            .collect::<Vec<_>>()
    };
    assert_eq!(offsets(StartAt::Earliest), [0, 0]);
    assert_eq!(offsets(StartAt::Latest), [5, 0]);
    assert_eq!(offsets(StartAt::Timestamp(1)), [0, 0]);
    assert_eq!(offsets(StartAt::Timestamp(1_800_000_000_000)), [5, 0]);
    let unknown = KafkaSource::topic(&b.config(), "no-such-topic").topic_info();
    assert!(matches!(unknown, Err(SourceError::Fatal(text)) if text.contains("create it")));
}

/// Our key-group maths and the producer's partitioner must agree.
#[test]
fn outputs_follow_the_partitioner_of_their_topic() {
    let b = broker();
    for partitioner in [Partitioner::Murmur2, Partitioner::Crc32] {
        let topic = b.topic(3, &[]);
        let config = b.config().partitioner(&topic, partitioner);
        let targets = vec![LogTarget {
            topic: topic.clone(),
            max_bytes: 900_000,
        }];
        let name = format!("partitioner-{partitioner:?}");
        let mut log = KafkaLog::new(&config, &name, &name, vec![], targets, Duration::from_secs(15));
        log.open_session().expect("session");
        log.begin().expect("begin");
        for n in 0..50 {
            let key = format!("key-{n}");
            log.send(&OutputRef {
                partition: -1,
                ..output(Some(key.as_bytes()), None)
            })
            .expect("send");
        }
        log.drain().expect("drain");
        log.commit().expect("commit");
        let mut lane = Lane::open(KafkaSource::topic(&config, &topic), &[(0, 0), (1, 0), (2, 0)]);
        lane.until(|seen| seen.records.len() == 50).expect("reads");
        for r in &lane.seen.records {
            let key = r.key.as_deref().expect("key");
            assert_eq!(r.partition as u32, partitioner.hash(key) % 3, "{partitioner:?} {key:?}");
        }
    }
}

#[test]
fn eager_outputs_are_visible_at_once() {
    let b = broker();
    let topic = b.topic(1, &[]);
    let mut log = b.closed_log("eager", vec![], &[&topic]);
    let mut eager = log.eager_sender().expect("made").expect("kafka has one");
    for n in 0..100 {
        eager
            .send(&output(None, Some(format!("{n}").as_bytes())))
            .expect("send");
    }
    let acknowledged = eager.drain(Duration::from_secs(30)).expect("drain");
    assert!(acknowledged);
    let mut lane = b.read(&topic, 0);
    lane.until(|seen| seen.records.len() == 100).expect("reads");
}
