//! Starts that are refused: what is committed does not fit what is there.
use crate::support::{Bench, SUMS, assert_cannot_go_on, driver, pipe, record, sums, texts};
use keyfold::checkpoint::store::MemoryStore;
use keyfold::config::Config;
use keyfold::runtime::{ExitCode, Runtime, RuntimeError};
use keyfold::state::backend::memory::MemoryFactory;
use keyfold::testing::{MemoryBroker, Process};
use keyfold::topology::{Job, Topology, TopologyError};
use keyfold::types::Codec;
use keyfold::types::SystemClock;
use keyfold::types::codec::{Json, LongBe, Postcard, Utf8};
use std::sync::Arc;

fn stopped() -> Bench {
    let mut bench = Bench::new("");
    bench.start().expect("starts");
    bench.epoch(1).expect("an epoch");
    bench.driver.stop().expect("ends");
    bench
}

#[test]
fn ep_6_one_missing_offset_is_named() {
    let mut bench = stopped();
    let all = bench.driver.broker().offsets(SUMS);
    bench.driver.broker().lose_offsets(SUMS);
    for c in all.iter().filter(|c| c.partition != 2) {
        let offset = c.offset.expect("committed");
        bench
            .driver
            .broker()
            .set_offset(SUMS, "in", c.partition, offset, c.metadata.as_deref());
    }
    assert_cannot_go_on(bench.driver.start(), &["in", "2"]);
}

/// Row 44: an operator's tool wipes the metadata, also with `--to-current`.
#[test]
fn ep_6_a_reset_offset_is_refused() {
    let mut bench = stopped();
    let all = bench.driver.broker().offsets(SUMS);
    let first = all[0].offset.expect("committed");
    bench.driver.broker().set_offset(SUMS, "in", 0, first, None);
    assert_cannot_go_on(bench.driver.start(), &["in"]);
    bench
        .driver
        .broker()
        .set_offset(SUMS, "in", 0, first + 1, all[0].metadata.as_deref());
    assert_cannot_go_on(
        bench.driver.start(),
        &["in", &first.to_string(), &(first + 1).to_string()],
    );
    bench
        .driver
        .broker()
        .set_offset(SUMS, "in", 0, first, all[0].metadata.as_deref());
    bench.start().expect("starts with everything back");
}

/// Row 41: the topic was made anew.
#[test]
fn a_topic_that_was_made_anew_is_refused() {
    let mut bench = stopped();
    bench.driver.broker().create_topic("in", 4);
    assert_cannot_go_on(bench.driver.start(), &["topic in"]);
}

/// Row 42.
#[test]
fn added_partitions_are_refused() {
    let mut bench = stopped();
    bench.driver.broker().create_topic("in", 8);
    assert_cannot_go_on(bench.driver.start(), &["in"]);
}

/// Row 56.
#[test]
fn another_max_parallelism_is_refused() {
    let mut bench = stopped();
    bench.driver.configure(|c| c.max_parallelism = Some(240));
    assert_cannot_go_on(bench.driver.start(), &["max parallelism", "960", "240"]);
}

/// Row 53: another job's pointer, another topology.
#[test]
fn another_job_or_topology_under_the_same_group_is_refused() {
    let mut bench = stopped();
    let all = bench.driver.broker().offsets(SUMS);
    for c in &all {
        let offset = c.offset.expect("committed");
        bench
            .driver
            .broker()
            .set_offset("other.orders", "in", c.partition, offset, c.metadata.as_deref());
    }
    bench
        .driver
        .rebuild(|broker| rebuilt(broker, "other", "totals", LongBe));
    assert_cannot_go_on(bench.driver.start(), &["in"]);
    bench.driver.rebuild(|broker| {
        let job = Job::new("sums");
        job.source("orders", broker.source("in"), |r| Ok(r.offset))
            .key_by("by-offset", LongBe, |offset| *offset)
            .count("totals")
            .to("sink", broker.target("out"), LongBe);
        job.build()
    });
    assert_cannot_go_on(bench.driver.start(), &["totals"]);
}

fn rebuilt(
    broker: &MemoryBroker,
    job: &str,
    totals: &str,
    codec: impl Codec<i64> + 'static,
) -> Result<Topology, TopologyError> {
    let job = Job::new(job);
    job.source("orders", broker.source("in"), |r| {
        String::from_utf8_lossy(r.value.unwrap_or_default())
            .parse::<i64>()
            .map_err(|e| e.to_string())
    })
    .key_by_record_key("by-key")
    .fold(totals, codec, || 0i64, |total, value| *total += value)
    .map("as-text", |total| total.to_string())
    .to("sink", broker.target("out"), Utf8);
    job.build()
}

/// Row 55: a changed codec or version is refused with both names, nothing is decoded wrongly.
#[test]
fn a_changed_codec_is_refused_with_a_diff() {
    let mut bench = stopped();
    bench
        .driver
        .rebuild(|broker| rebuilt(broker, "sums", "totals", Json::new(1)));
    assert_cannot_go_on(bench.driver.start(), &["totals/value", "long/1", "json/1"]);
    bench
        .driver
        .rebuild(|broker| rebuilt(broker, "sums", "totals", Postcard::new(2)));
    assert_cannot_go_on(bench.driver.start(), &["totals/value", "long/1", "postcard/2"]);
    bench.driver.rebuild(sums);
    bench.start().expect("the former one");
}

/// A state's number is given out once: an operator in front of it does not move it, and one that comes back finds its state.
#[test]
fn state_is_found_by_its_ids_when_the_topology_changes() {
    let two = |first: bool, second: bool| {
        move |broker: &MemoryBroker| {
            let job = Job::new("two");
            let keyed = job
                .source("orders", broker.source("in"), |_| Ok(()))
                .key_by_record_key("by-key");
            if first {
                keyed
                    .count("a")
                    .map("a-text", |n| format!("a{n}"))
                    .to("a-sink", broker.target("out"), Utf8);
            }
            if second {
                keyed
                    .count("b")
                    .map("b-text", |n| format!("b{n}"))
                    .to("b-sink", broker.target("out"), Utf8);
            }
            job.build()
        }
    };
    let mut driver = driver(two(false, true));
    let mut run = |build: (bool, bool)| {
        driver.rebuild(two(build.0, build.1));
        driver.start().expect("starts");
        pipe(&driver, [record("k", "")]);
        driver.barrier().expect("an epoch");
        driver.stop().expect("ends");
        texts(&driver.outputs("out"))
    };
    assert_eq!(run((false, true)), ["k=b1"]);
    assert_eq!(run((true, true)), ["k=a1", "k=b2"]);
    assert_eq!(run((true, false)), ["k=a2"]);
    assert_eq!(run((true, true)), ["k=a3", "k=b3"]);
}

/// Row 55: under another name its state would begin empty, without a word.
#[test]
fn a_renamed_operator_is_refused() {
    let mut bench = stopped();
    bench
        .driver
        .rebuild(|broker| rebuilt(broker, "sums", "renamed", LongBe));
    assert_cannot_go_on(bench.driver.start(), &["totals/value", "renamed/value"]);
}

#[test]
fn a_group_with_members_is_refused() {
    let mut bench = Bench::new("");
    bench.driver.broker().set_group_member(SUMS, true);
    assert_cannot_go_on(bench.driver.start(), &[SUMS, "members"]);
    bench.driver.broker().set_group_member(SUMS, false);
    bench.start().expect("starts");
}

/// Two topics are read into one state, and one of them got more partitions. A key's records would lie in different shards, with a state
/// each, so the job is refused with both counts before it touches anything. With as many in both there is nothing to refuse.
#[test]
fn topics_that_are_not_partitioned_alike_are_refused_in_group_mode() {
    let Err(error) = two_topics(4, 6) else {
        panic!("it should have been refused");
    };
    assert_eq!(error.exit_code(), ExitCode::CannotGoOn, "{error}");
    for part in ["topic in has 4 partitions", "topic more has 6"] {
        assert!(error.to_string().contains(part), "{part}: {error}");
    }
    two_topics(4, 4).expect("it runs until it is stopped");
}

/// A run that is stopped at once.
fn two_topics(one: u32, other: u32) -> Result<(), RuntimeError> {
    let (broker, process) = (MemoryBroker::new(Arc::new(SystemClock::default())), Process::new());
    broker.create_topic("in", one);
    broker.create_topic("more", other);
    broker.create_topic("out", 1);
    let job = Job::new("two");
    let texts = |topic: &str| {
        job.source(topic, broker.source(topic), |r| {
            Ok(String::from_utf8_lossy(r.value.unwrap_or_default()).into_owned())
        })
    };
    texts("in")
        .merge("both", &texts("more"))
        .key_by_record_key("by-key")
        .fold("count", LongBe, || 0i64, |count, _| *count += 1)
        .map("as-text", |count| count.to_string())
        .to("sink", broker.target("out"), Utf8);
    let dir = tempfile::tempdir().expect("directory");
    let (log, membership) = (broker.log(process.clone()), broker.membership(process));
    let topology = job.build().expect("valid");
    let runtime = Runtime::group(
        topology,
        Config::new(dir.path()),
        log,
        membership,
        Arc::new(MemoryStore::new(7)),
    )
    .with_backends(Box::new(|_| Ok(Arc::new(MemoryFactory::default()))));
    runtime.stop_handle().stop();
    runtime.run()
}
