//! Records that the job cannot take.
use keyfold_e2e::Broker;
use keyfold_e2e::worker::EXIT_CANNOT_GO_ON;

use crate::oracle::{amount, assert_exact, assert_prefix};
use crate::records::{Found, Made, good, made, produce, read};
use crate::scene::{Scene, end_of, killed, stop, until};

fn garbage() -> Made {
    Made {
        key: Some(b"k1".to_vec()),
        value: Some(vec![0xff, 0x00, 0xfe]),
        headers: vec![("trace", "a"), ("trace", "b")],
        ..Made::default()
    }
}

fn is_good(record: &Found) -> bool {
    amount(record).is_some()
}

/// The worker ends because of a bad record that it names, and what it has committed ends before that record.
fn assert_refused(scene: &Scene<'_>, offset: i64, reason: &str) {
    let (code, message, _) = end_of(scene.worker("", &[]));
    assert_eq!(code, EXIT_CANNOT_GO_ON, "{message}");
    for part in [format!("{}-0 offset {offset}:", scene.input), reason.to_owned()] {
        assert!(message.contains(&part), "{part} is not named: {message}");
    }
    let committed = scene.committed();
    assert!(committed.iter().all(|c| c.offset <= offset), "{committed:?}");
    assert_prefix(scene, is_good);
}

/// Runs until so many records are committed; what it counted.
fn run(scene: &Scene<'_>, more: &[&str], records: u64) -> keyfold_e2e::worker::Told {
    let mut worker = scene.worker("", more);
    until(&mut worker, "all committed", |told| told.committed >= records);
    stop(worker)
}

/// A value that is no number stopped the job: the message named it, nothing of its epoch was committed, and with the policy `skip` the
/// job went on from there, leaving it out and counting it.
#[test]
fn row_34_poison_record_stops_the_job_and_is_skipped_when_asked() {
    let scene = Scene::new(Broker::shared(), "row34", 1);
    produce(scene.broker, &scene.input, &good(20));
    run(&scene, &[], 20);
    produce(
        scene.broker,
        &scene.input,
        &[good(5), vec![garbage()], good(5)].concat(),
    );
    assert_refused(&scene, 25, "step input: decode");
    // It is as bad at the next start.
    assert_refused(&scene, 25, "step input: decode");
    let told = run(&scene, &["--skip"], 6);
    assert_eq!(told.counter("decode"), 1, "{:?}", told.ended);
    assert_exact(&scene, is_good);
}

/// A bad record went to the dead-letter topic in the transaction of its epoch: with its bytes and where it came from, and once, although
/// the worker was killed when it had been sent.
#[test]
fn row_34_poison_record_becomes_one_dead_letter_over_a_kill() {
    let scene = Scene::new(Broker::shared(), "row34b", 1);
    let letters = scene.broker.fresh_topic("row34b-dead", 1).expect("topic");
    let policy = ["--dead-letters", letters.as_str()];
    produce(
        scene.broker,
        &scene.input,
        &[good(5), vec![garbage()], good(5)].concat(),
    );
    for faults in ["outputs_sent=kill@2", "post_send_offsets=kill@2", "post_commit=kill@2"] {
        killed(scene.worker(faults, &policy));
        produce(scene.broker, &scene.input, &good(5));
    }
    let mut worker = scene.worker("", &policy);
    crate::scene::wait("the end of the input", || {
        scene.committed().iter().any(|c| c.offset == 26).then_some(())
    });
    until(&mut worker, "a start", |told| told.started.is_some());
    stop(worker);
    assert_exact(&scene, is_good);
    let found = read(scene.broker, &letters);
    assert_eq!(found.len(), 1, "{found:?}");
    assert_eq!(
        (found[0].key.as_deref(), found[0].value.clone()),
        (Some(b"k1".as_slice()), garbage().value)
    );
    let said = |name: &str| found[0].header(&format!("keyfold.{name}")).unwrap_or_default();
    let place = [
        said("topic"),
        said("partition"),
        said("offset"),
        said("step"),
        said("reason"),
    ];
    assert_eq!(place, [scene.input.as_str(), "0", "5", "input", "decode"]);
    let traces: Vec<_> = found[0]
        .headers
        .iter()
        .filter(|(name, _)| name == "trace")
        .map(|(_, v)| v.clone())
        .collect();
    assert_eq!(traces, [Some(b"a".to_vec()), Some(b"b".to_vec())]);
}

/// Offsets: 0 good, 1 tombstone, 2 no key, 3 empty value, 4 good with headers of the same name, 5 good with an empty key, 6 nothing at all.
fn odd() -> Vec<Made> {
    let odd = |key: Option<&str>, value: Option<&str>| Made {
        key: key.map(Into::into),
        value: value.map(Into::into),
        headers: vec![("h", "1"), ("h", "1"), ("h", "2")],
        ..Made::default()
    };
    vec![
        made("a", "1"),
        odd(Some("a"), None),
        odd(None, Some("5")),
        odd(Some("a"), Some("")),
        odd(Some("a"), Some("7")),
        odd(Some(""), Some("8")),
        odd(None, None),
    ]
}

/// Tombstones, records without key or with empty values: under `skip` each is counted by its reason, and an empty key is a key.
#[test]
fn row_35_tombstones_null_keys_and_empty_values_are_skipped_by_reason() {
    let scene = Scene::new(Broker::shared(), "row35", 1);
    produce(scene.broker, &scene.input, &odd());
    let told = run(&scene, &["--skip"], 7);
    assert_eq!(
        (told.counter("decode"), told.counter("null_key")),
        (3, 1),
        "{:?}",
        told.ended
    );
    assert_exact(&scene, is_good);
}

/// The same as dead letters: null stays null, empty stays empty, and headers of the same name are all kept, in order.
#[test]
fn row_35_tombstones_null_keys_and_empty_values_stay_what_they_are_as_dead_letters() {
    let scene = Scene::new(Broker::shared(), "row35b", 1);
    let letters = scene.broker.fresh_topic("row35b-dead", 1).expect("topic");
    produce(scene.broker, &scene.input, &odd());
    run(&scene, &["--dead-letters", &letters], 7);
    assert_exact(&scene, is_good);
    let mut found: Vec<_> = read(scene.broker, &letters)
        .into_iter()
        .map(|f| {
            (
                f.header("keyfold.offset").unwrap_or_default(),
                f.key,
                f.value,
                f.headers[..3].to_vec(),
            )
        })
        .collect();
    found.sort();
    let header = |value: &str| ("h".to_owned(), Some(value.into()));
    let expected: Vec<_> = [1, 2, 3, 6]
        .map(|offset: usize| (offset.to_string(), odd()[offset].clone()))
        .map(|(offset, made)| {
            (
                offset,
                made.key,
                made.value,
                vec![header("1"), header("1"), header("2")],
            )
        })
        .into();
    assert_eq!(found, expected);
}

/// Under `fail`, the default, each of them stops the job and is named with its reason.
#[test]
fn row_35_tombstones_null_keys_and_empty_values_stop_the_job_by_default() {
    for (offset, reason) in [
        (1, "step input: decode"),
        (2, "step key: null_key"),
        (3, "step input: decode"),
    ] {
        let scene = Scene::new(Broker::shared(), "row35c", 1);
        produce(scene.broker, &scene.input, &[made("a", "1"), odd().swap_remove(offset)]);
        assert_refused(&scene, 1, reason);
    }
}
