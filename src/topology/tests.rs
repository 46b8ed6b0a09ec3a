use super::*;
use crate::barrier::Cut;
use crate::config::Guarantee;
use crate::operator::bad_records::{BadRecordPolicy, StepPolicies};
use crate::operator::context::{LaneGauges, LaneSetup, SinkRoute, SourceInfo};
use crate::operator::keyed_lane::{KeyedLane, LaneStep};
use crate::operator::process::{KeyedProcess, ProcessContext, ProcessError};
use crate::operator::source_lane::SourceLane;
use crate::operator::{LaneError, LaneShare};
use crate::sink::SpillDir;
use crate::source::RecordSink;
use crate::state::backend::Unowned;
use crate::state::backend::memory::MemoryFactory;
use crate::state::{Backend, BackendFactory, StateId};
use crate::telemetry::Metrics;
use crate::testing::{Faults, ManualClock, MemoryBroker, MemorySource};
use crate::types::codec::{LongBe, Utf8};
use crate::types::output::decode_headers;
use crate::types::{
    KeyGroups, NoHeaders, OutputRef, Partitioner, Position, RecordRef, Shard, Sharding, Shards, Watermark,
};
use std::sync::Arc;
use std::time::Duration;

fn source(topic: &str) -> Box<MemorySource> {
    let broker = MemoryBroker::default();
    broker.create_topic(topic, 4);
    broker.source(topic)
}

fn lines(job: &Job) -> Stream<String> {
    job.source("lines", source("in"), |_| Ok(String::new()))
}

fn why(job: Job) -> Result<(), String> {
    job.build().expect("builds").record_keyed()
}

#[test]
fn streams_keyed_by_the_records_own_key_may_be_shared_by_partition() {
    let job = Job::new("job");
    let more = job.source("more", source("more"), |_| Ok(String::new()));
    let all = lines(&job)
        .map("map", |l| l)
        .merge("both", &more)
        .filter("some", |_| true);
    drop(all.key_by_record_key("by-key").count("counts").map("next", |n| n));
    drop(all.key_by_record_key("again").count("others"));
    assert_eq!(why(job), Ok(()));
    let job = Job::new("job");
    lines(&job).to("copy", MemoryBroker::default().target("out"), Utf8);
    assert_eq!(why(job), Ok(()), "without any keys");
}

/// Taking the headers of each record apart was a twentieth of the time of a job that never looked at one. They cross an exchange where something
/// behind it may look, and nowhere else.
#[test]
fn headers_cross_an_exchange_where_something_behind_it_may_look_at_them() {
    let cross = |build: &dyn Fn(&Job, &Stream<String>)| {
        let job = Job::new("job");
        build(&job, &lines(&job));
        job.build().expect("builds").source_infos()[0].keep_headers
    };
    let out = || MemoryBroker::default().target("out");
    let counts = |s: &Stream<String>| s.key_by_record_key("by-key").count("counts");
    assert!(!cross(&|_, s| counts(s).to("sink", out(), LongBe)));
    assert!(!cross(&|_, s| counts(s).to_encoded("sink", out(), |_, _| Ok(()))));
    assert!(
        !cross(&|_, s| s.to_with("sink", out(), |_, _, _| Ok(()))),
        "at the source"
    );
    assert!(cross(&|_, s| counts(s).to_with("sink", out(), |_, _, _| Ok(()))));
    assert!(cross(&|_, s| counts(s)
        .unkeyed()
        .to_with("sink", out(), |_, _, _| Ok(()))));
    struct Pass;
    impl KeyedProcess<u64, u64> for Pass {
        fn process(&mut self, item: u64, context: &mut ProcessContext<'_, u64>) -> Result<(), ProcessError> {
            context.emit(item);
            Ok(())
        }
    }
    assert!(cross(&|_, s| drop(counts(s).process("pass", |_| Pass))));
    assert!(cross(&|job, s| {
        let letters = job.dead_letters("letters", out());
        job.on_bad_records("counts", BadRecords::DeadLetter(letters));
        drop(counts(s));
    }));
}

/// In group mode a record stays in the shard of its partition, so another key is refused before anything runs: its items would have to
/// go to other instances.
#[test]
fn operators_that_give_items_another_key_are_named() {
    let refused = |build: &dyn Fn(&Stream<String>)| {
        let job = Job::new("job");
        build(&lines(&job));
        why(job).expect_err("refused")
    };
    let cases = [
        refused(&|s| drop(s.key_by("other", Utf8, String::clone))),
        refused(&|s| {
            drop(s.key_by_record_key("by-key"));
            drop(s.map("map", |l| l).key_by("other", Utf8, String::clone));
        }),
        refused(&|s| {
            drop(
                s.key_by_record_key("by-key")
                    .count("counts")
                    .unkeyed()
                    .key_by_record_key("other"),
            )
        }),
        refused(&|s| {
            let behind = s.key_by_record_key("by-key").unkeyed().map("map", |l| l);
            drop(s.merge("both", &behind).key_by_record_key("other"));
        }),
    ];
    for message in cases {
        assert!(
            message.contains("operator other ") && message.contains("key_by_record_key"),
            "{message}"
        );
    }
}

/// In group mode the shards of an instance come with watermarks of their own: what has expired by a shard's may have been removed by its former
/// owner, though this lane's barriers are behind it.
#[test]
fn what_expires_is_decided_by_the_records_time_the_shards_watermark_and_the_last_barriers() {
    use crate::operator::context::{LaneContext, Meta};
    use crate::types::{KeyGroup, Origin};
    let groups = KeyGroups::new(960, 4, Partitioner::Murmur2).expect("valid");
    let dir = tempfile::tempdir().expect("a directory");
    let spill = SpillDir::create(&dir.path().join("spill")).expect("a directory");
    let mut setup = setup(groups, Sharding::ByKey, BadRecordPolicy::Fail, spill);
    setup.horizons = Arc::new([i64::MIN, 500, i64::MIN, i64::MIN]);
    let mut lane = LaneContext::new(setup);
    let time = |lane: &LaneContext, shard, timestamp| {
        lane.expiry_time(&Meta {
            timestamp,
            origin: Origin {
                source: 0,
                partition: 0,
                offset: 0,
            },
            bytes: 0,
            key: None,
            hash: 0,
            group: KeyGroup(shard as u16),
            shard: Shard(shard),
            headers: &NoHeaders,
            original: None,
        })
    };
    assert_eq!(
        (time(&lane, 0, 100), time(&lane, 1, 100), time(&lane, 1, 501)),
        (100, 500, 501)
    );
    lane.horizon = 300;
    assert_eq!(
        (time(&lane, 0, 100), time(&lane, 1, 100), time(&lane, 0, 301)),
        (300, 500, 301)
    );
}

/// A source lane that counts by key, its keyed lane, and what they share.
struct Lanes {
    source: SourceLane,
    keyed: Box<dyn KeyedLane>,
    metrics: Metrics,
    groups: KeyGroups,
    _spill: tempfile::TempDir,
}

/// Partition and shard that the lanes own, of 4.
const OWN: i32 = 1;

fn setup(groups: KeyGroups, sharding: Sharding, policy: BadRecordPolicy, spill: SpillDir) -> LaneSetup {
    let copies = MemoryFactory::new(Faults::none());
    let backend = |shard: u32| -> Arc<dyn Backend> {
        if shard == OWN as u32 || sharding == Sharding::ByKey {
            copies.open(Shard(shard)).expect("opens")
        } else {
            Arc::new(Unowned::new(Shard(shard)))
        }
    };
    let info = SourceInfo {
        id: "lines".to_owned(),
        topic: "in".to_owned(),
        policy,
        keep_originals: false,
        keep_headers: false,
    };
    LaneSetup {
        name: "lane".to_owned(),
        index: 0,
        keyed_lanes: 1,
        groups,
        sharding,
        state_ids: Arc::new([(("counts".to_owned(), "value".to_owned()), StateId(1))].into()),
        backends: (0..4).map(backend).collect(),
        sources: Arc::new([info]),
        step_policies: Arc::<StepPolicies>::default(),
        sinks: Arc::new([SinkRoute::Log { max_bytes: 4096 }]),
        spill,
        output_bytes_max: 1 << 20,
        map_bytes_max: 1 << 20,
        guarantee: Guarantee::ExactlyOnce,
        eager: None,
        applied: Arc::default(),
        gauges: Arc::<LaneGauges>::default(),
        clock: Arc::new(ManualClock::new(0)),
        max_future: Duration::ZERO,
        watermark: Watermark::NONE,
        horizons: Arc::new([i64::MIN; 4]),
        metrics: Metrics::new(),
        faults: Faults::none(),
    }
}

fn lanes(partitioner: Partitioner, sharding: Sharding, policy: BadRecordPolicy) -> Lanes {
    let groups = KeyGroups::new(960, 4, partitioner).expect("valid");
    let dir = tempfile::tempdir().expect("a directory");
    let spill = SpillDir::create(&dir.path().join("spill")).expect("a directory");
    let setup = setup(groups, sharding, policy, spill);
    let job = Job::new("job");
    drop(lines(&job).key_by_record_key("by-key").count("counts"));
    let topology = job.build().expect("builds");
    let positions = [Position {
        topic: "in".to_owned(),
        partition: OWN,
        offset: 0,
        leader_epoch: -1,
    }];
    let source = SourceLane::new(0, (topology.sources[0].open)(&setup), setup.clone(), &positions);
    let metrics = setup.metrics.clone();
    Lanes {
        source,
        keyed: topology.segments[0].segment.open(setup),
        metrics,
        groups,
        _spill: dir,
    }
}

impl Lanes {
    /// Reads records of these keys from the partition; None is a null key.
    fn read(&mut self, keys: &[Option<&[u8]>]) -> Result<(), LaneError> {
        self.source.start_poll();
        for (offset, key) in (0..).zip(keys) {
            self.source.record(&RecordRef {
                topic: "in",
                partition: OWN,
                offset,
                leader_epoch: 0,
                timestamp: 0,
                key: *key,
                value: Some(b"v"),
                headers: &NoHeaders,
            });
        }
        self.source.end_poll().map(|_| ())
    }

    /// Ends the epoch: the shares of the source lane and of the keyed lane.
    fn cut(&mut self) -> (LaneShare, LaneShare) {
        let of_source = self
            .source
            .barrier(Cut {
                epoch: 1,
                horizon: i64::MIN,
                taking: Shards::ALL,
            })
            .expect("a share");
        loop {
            match self.keyed.step(Duration::ZERO).expect("a step") {
                LaneStep::Share(share) => return (of_source, *share),
                LaneStep::Worked => {}
                other => panic!("{other:?} before the barrier"),
            }
        }
    }
}

/// Number of changed entries by shard.
fn changed(share: &LaneShare) -> Vec<usize> {
    share.changes.iter().map(crate::state::ChangeSet::len).collect()
}

/// Keys that murmur2 puts into partition 1 of 4; the second one lies there under crc32 too.
const FITTING: [&[u8]; 2] = [b"k0", b"k1"];

#[test]
fn records_that_fit_their_partition_change_its_shard_alone() {
    let mut lanes = lanes(Partitioner::Murmur2, Sharding::ByPartition, BadRecordPolicy::Fail);
    lanes.read(&FITTING.map(Some)).expect("both fit");
    let (_, share) = lanes.cut();
    assert_eq!(changed(&share), [0, 2, 0, 0]);
}

/// Folded into its key's shard the record would change what another instance owns; folded into its partition's, the key would have two
/// states. It is refused, and the message says what the topic's producers may have done.
#[test]
fn a_record_in_a_partition_that_is_not_its_keys_stops_the_job_and_the_message_says_what_fits() {
    let cases: [(Partitioner, &[u8], &[&str]); 4] = [
        (
            Partitioner::Murmur2,
            b"k3",
            &[
                "belongs to partition 0 under the partitioner murmur2",
                "to this one under crc32",
            ],
        ),
        (
            Partitioner::Crc32,
            b"k0",
            &[
                "belongs to partition 3 under the partitioner crc32",
                "to this one under murmur2",
            ],
        ),
        (
            Partitioner::Murmur2,
            b"a",
            &["neither murmur2 nor crc32", "partitioner unknown"],
        ),
        (Partitioner::Crc32, b"", &["empty", "partitioner unknown"]),
    ];
    for (partitioner, key, parts) in cases {
        let mut lanes = lanes(partitioner, Sharding::ByPartition, BadRecordPolicy::Fail);
        let error = lanes.read(&[Some(b"k1"), Some(key)]).expect_err("refused");
        assert!(
            matches!(
                error,
                LaneError::Bad {
                    partition: OWN,
                    offset: 1,
                    ..
                }
            ),
            "{error}"
        );
        let message = error.to_string();
        for part in [&["in-1 offset 1", "step by-key: misplaced"][..], parts].concat() {
            assert!(message.contains(part), "{part}: {message}");
        }
        assert_eq!(lanes.metrics.bad_records("misplaced"), 1);
    }
}

#[test]
fn misplaced_records_are_skipped_and_counted_where_the_source_says_so() {
    let mut lanes = lanes(Partitioner::Murmur2, Sharding::ByPartition, BadRecordPolicy::Skip);
    lanes
        .read(&[Some(b"k3"), Some(b"k0"), Some(b"a"), None])
        .expect("goes on");
    let (of_source, share) = lanes.cut();
    assert_eq!(changed(&share), [0, 1, 0, 0]);
    assert_eq!(of_source.positions[0].offset, 4);
    assert_eq!(lanes.metrics.bad_records("misplaced"), 2);
    assert_eq!(lanes.metrics.bad_records("null_key"), 1, "a null key stays what it is");
}

#[test]
fn misplaced_records_become_dead_letters_of_their_partitions_shard() {
    let mut lanes = lanes(
        Partitioner::Murmur2,
        Sharding::ByPartition,
        BadRecordPolicy::DeadLetter(0),
    );
    lanes.read(&[Some(b"k3")]).expect("goes on");
    let (of_source, share) = lanes.cut();
    assert_eq!(changed(&share), [0, 0, 0, 0]);
    let mut letters = Vec::new();
    let mut visit = |letter: &OutputRef<'_>| {
        letters.push((letter.key.map(<[u8]>::to_vec), decode_headers(letter.headers)));
        Ok::<(), ()>(())
    };
    of_source.outputs[OWN as usize].walk(&mut visit).expect("whole");
    let [(key, Some(headers))] = letters.as_slice() else {
        panic!("one letter with headers: {letters:?}");
    };
    let text = |key: &str| {
        let header = headers.iter().find(|h| h.key == key).and_then(|h| h.value.clone());
        String::from_utf8(header.unwrap_or_default()).expect("text")
    };
    assert_eq!(key.as_deref(), Some(&b"k3"[..]));
    assert_eq!(text("keyfold.reason"), "misplaced");
    assert!(
        text("keyfold.error").contains("in-1 offset 0"),
        "{}",
        text("keyfold.error")
    );
}

/// Under `unknown` any key may lie anywhere: its state is that of the partition.
#[test]
fn with_an_unknown_partitioner_every_record_stays_in_its_partitions_shard() {
    let mut lanes = lanes(Partitioner::Unknown, Sharding::ByPartition, BadRecordPolicy::Fail);
    lanes.read(&[b"a", &b""[..], b"k0", b"k3"].map(Some)).expect("all fit");
    let (_, share) = lanes.cut();
    assert_eq!(changed(&share), [0, 4, 0, 0]);
    for change in share.changes[OWN as usize].iter() {
        let group = u16::from_be_bytes([change.key[0], change.key[1]]);
        assert_eq!(lanes.groups.shard_of(crate::types::KeyGroup(group)), Shard(OWN as u32));
    }
}

/// Single mode owns all shards and finds them by key alone, whatever the partitioner.
#[test]
fn in_single_mode_a_record_goes_to_its_keys_shard() {
    for (partitioner, expected) in [
        (Partitioner::Murmur2, [2, 2, 0, 0]),
        (Partitioner::Unknown, [2, 2, 0, 0]),
        (Partitioner::Crc32, [1, 1, 0, 2]),
    ] {
        let mut lanes = lanes(partitioner, Sharding::ByKey, BadRecordPolicy::Fail);
        lanes.read(&[b"a", &b""[..], b"k0", b"k3"].map(Some)).expect("all fit");
        let (_, share) = lanes.cut();
        assert_eq!(changed(&share), expected, "{partitioner:?}");
    }
}
