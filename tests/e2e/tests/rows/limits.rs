//! Outputs that are too large, for the client or for the broker (EP-8).
use std::time::Duration;

use keyfold_e2e::Broker;
use keyfold_e2e::broker::block_on;
use keyfold_e2e::worker::EXIT_CANNOT_GO_ON;
use rdkafka::admin::{AdminClient, AdminOptions, AlterConfig, ResourceSpecifier};
use rdkafka::client::DefaultClientContext;
use rdkafka::config::ClientConfig;

use crate::oracle::{assert_prefix, fold, lines};
use crate::records::{Found, Made, good, made, produce, read};
use crate::scene::{Scene, end_of, stop, until};

/// The value of the one record whose output is large.
const LARGE: i64 = 1_000;

/// Ten good records, one with a large output (offset 10), ten more.
fn records() -> Vec<Made> {
    [good(10), vec![made("big", &LARGE.to_string())], good(10)].concat()
}

fn is_large(record: &Found) -> bool {
    record.key.as_deref() == Some(b"big")
}

/// Above the client's limit of 1,000,000 bytes.
const ABOVE_THE_CLIENTS: [&str; 4] = ["--output-bytes", "1100000", "--pad-from", "1000"];
/// Above a topic's limit of 5,000 bytes.
const ABOVE_THE_TOPICS: [&str; 4] = ["--output-bytes", "6000", "--pad-from", "1000"];

fn scenes(name: &str) -> [(Scene<'static>, [&'static str; 4]); 2] {
    let broker = Broker::shared();
    let limited = Scene::new(broker, name, 1);
    let output = format!("{}-limited", limited.output);
    broker
        .create_topic(&output, 1, &[("max.message.bytes", "5000")])
        .expect("topic");
    let limited = Scene::over(broker, name, limited.input, output);
    [
        (Scene::new(broker, name, 1), ABOVE_THE_CLIENTS),
        (limited, ABOVE_THE_TOPICS),
    ]
}

/// An output larger than the client's or the topic's limit stopped the job with the record's place; nothing was committed without it.
#[test]
fn row_36_output_above_the_limit_of_client_or_topic_stops_the_job() {
    for (scene, large) in scenes("row36") {
        produce(scene.broker, &scene.input, &records());
        let (code, message, told) = end_of(scene.worker("", &large));
        assert_eq!(code, EXIT_CANNOT_GO_ON, "{message}");
        for part in [&format!("{}-0 offset 10:", scene.input), "step output: too_large"] {
            assert!(message.contains(part), "{part} is not named: {message}");
        }
        assert_eq!(told.counter("retries"), 0, "{message}");
        assert!(scene.committed().iter().all(|c| c.offset <= 10));
        assert_prefix(&scene, |_| true);
    }
}

/// The same under the policy `dead letter`: the epoch was committed with the dead letter in place of the output.
#[test]
fn row_36_output_above_the_limit_becomes_a_dead_letter() {
    for (scene, large) in scenes("row36b") {
        let letters = scene.broker.fresh_topic("row36b-dead", 1).expect("topic");
        produce(scene.broker, &scene.input, &records());
        let more = [large.as_slice(), &["--dead-letters", &letters]].concat();
        let mut worker = scene.worker("", &more);
        until(&mut worker, "all committed", |told| told.committed >= 21);
        let told = stop(worker);
        assert_eq!(told.counter("too_large"), 1, "{:?}", told.ended);
        let inputs = read(scene.broker, &scene.input);
        assert_eq!(
            lines(&read(scene.broker, &scene.output)),
            fold(&inputs, |r| !is_large(r))
        );
        let found = read(scene.broker, &letters);
        assert_eq!(found.len(), 1, "{found:?}");
        assert_eq!(
            (found[0].key.clone(), found[0].value.clone()),
            (inputs[10].key.clone(), inputs[10].value.clone())
        );
        assert_eq!(found[0].header("keyfold.offset").as_deref(), Some("10"));
        assert_eq!(found[0].header("keyfold.reason").as_deref(), Some("too_large"));
    }
}

fn lower_limit(broker: &Broker, topic: &str, bytes: &str) {
    let admin: AdminClient<DefaultClientContext> = ClientConfig::new()
        .set("bootstrap.servers", broker.bootstrap())
        .create()
        .expect("admin");
    let change = AlterConfig::new(ResourceSpecifier::Topic(topic)).set("max.message.bytes", bytes);
    let options = AdminOptions::new().operation_timeout(Some(Duration::from_secs(30)));
    let results = block_on(admin.alter_configs([&change], &options)).expect("asked");
    results.into_iter().for_each(|result| _ = result.expect("changed"));
}

/// A topic's limit was lowered below what the worker had been told at its start. The broker refused the output at its delivery, again
/// and again, and with it the whole batch that it was in: after a few tries the job stopped and named topic and key of this one, and nothing was committed without the output.
#[test]
fn row_37_output_that_only_the_broker_refuses_stops_the_job_after_bounded_tries() {
    let scene = Scene::new(Broker::shared(), "row37", 1);
    produce(scene.broker, &scene.input, &good(10));
    let mut worker = scene.worker("", &ABOVE_THE_TOPICS);
    until(&mut worker, "all committed", |told| told.committed >= 10);
    lower_limit(scene.broker, &scene.output, "2000");
    // In one epoch, or in a few: all the small ones around are refused with it, for their company.
    produce(
        scene.broker,
        &scene.input,
        &[good(150), vec![made("big", "1000")], good(150)].concat(),
    );
    let (code, message, told) = end_of(worker);
    assert_eq!(code, EXIT_CANNOT_GO_ON, "{message}");
    for part in [scene.output.as_str(), "key big", "nothing of the epoch was committed"] {
        assert!(message.contains(part), "{part} is not named: {message}");
    }
    let tries = told.counter("retries");
    assert!((1..20).contains(&tries), "{tries} retries: {message}");
    assert!(scene.committed().iter().all(|c| c.offset <= 160));
    assert_prefix(&scene, |_| true);
    // With the limit raised again it goes on.
    lower_limit(scene.broker, &scene.output, "100000");
    let mut worker = scene.worker("", &ABOVE_THE_TOPICS);
    until(&mut worker, "all committed", |told| told.committed >= 151);
    stop(worker);
    crate::oracle::assert_exact(&scene, |_| true);
}

/// The epoch of an output that the client refuses was committed without it: a record was lost. The switch does this on purpose, so that
/// we know that the checker sees it.
#[test]
fn ep_8_an_epoch_never_commits_without_one_of_its_outputs() {
    let scene = Scene::new(Broker::shared(), "ep8", 1);
    produce(scene.broker, &scene.input, &records());
    let (code, message, _) = end_of(scene.worker("", &ABOVE_THE_CLIENTS));
    assert_eq!(code, EXIT_CANNOT_GO_ON, "{message}");
    assert_prefix(&scene, |_| true);
    let checker = scene.checker();
    let mut worker = scene.worker("break:EP-8", &ABOVE_THE_CLIENTS);
    until(&mut worker, "all committed", |told| told.committed >= 21);
    stop(worker);
    let report = scene.judge(checker);
    assert_eq!(
        (report.counts.lost, report.counts.duplicated),
        (1, 0),
        "{report}: {:?}",
        report.offenders
    );
}
