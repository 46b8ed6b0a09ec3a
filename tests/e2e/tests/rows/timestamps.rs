//! Timestamps that nobody should believe.
use std::time::{SystemTime, UNIX_EPOCH};

use keyfold_e2e::Broker;
use keyfold_e2e::worker::EXIT_CANNOT_GO_ON;

use crate::oracle::{assert_exact, assert_prefix};
use crate::records::{Found, Made, made, produce, read};
use crate::scene::{Scene, end_of, stop, until};

const DAY_MS: i64 = 24 * 3600 * 1000;

fn now() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970");
    since.as_millis() as i64
}

fn at(timestamp: i64, value: i64) -> Made {
    Made {
        timestamp: Some(timestamp),
        ..made("k", &value.to_string())
    }
}

/// Topics that take any timestamp and never delete an old record.
fn scene(name: &str) -> Scene<'static> {
    let broker = Broker::shared();
    let plain = Scene::new(broker, name, 1);
    let max = i64::MAX.to_string();
    let settings = [
        ("retention.ms", "-1"),
        ("message.timestamp.before.max.ms", max.as_str()),
        ("message.timestamp.after.max.ms", max.as_str()),
    ];
    let (input, output) = (format!("{}-any", plain.input), format!("{}-any", plain.output));
    broker.create_topic(&input, 1, &settings).expect("topic");
    broker.create_topic(&output, 1, &settings[..1]).expect("topic");
    Scene::over(broker, name, input, output)
}

fn is_good(record: &Found) -> bool {
    record.timestamp == -1 || (0..now() + DAY_MS).contains(&record.timestamp)
}

/// One record from the far future or with a negative timestamp neither stopped its key nor moved anything else: it was refused before
/// any state was touched, counted, and the outputs of the others carry their own timestamps. None at all (-1) is allowed.
#[test]
fn row_49_timestamps_from_the_far_future_and_negative_ones_are_skipped() {
    let scene = scene("row49");
    let now = now();
    let records = [
        at(now - 5000, 1),
        at(now + 30 * DAY_MS, 2),
        at(i64::MAX / 2, 3),
        at(-5, 4),
        at(now - 4000, 5),
        at(-1, 6),
        at(now - 9 * DAY_MS, 7),
        at(now - 3000, 8),
    ];
    produce(scene.broker, &scene.input, &records);
    let found: Vec<i64> = read(scene.broker, &scene.input).iter().map(|r| r.timestamp).collect();
    let produced: Vec<Option<i64>> = records.iter().map(|r| r.timestamp).collect();
    assert_eq!(
        found.iter().map(|t| Some(*t)).collect::<Vec<_>>(),
        produced,
        "as the broker keeps them"
    );
    let mut worker = scene.worker("", &["--skip"]);
    until(&mut worker, "all committed", |told| told.committed >= 8);
    let told = stop(worker);
    assert_eq!(told.counter("timestamp"), 3, "{:?}", told.ended);
    assert_exact(&scene, is_good);
    assert_eq!(read(scene.broker, &scene.output).len(), 5);
}

/// Under `fail` the job stopped at such a record and named it; state was not touched by it.
#[test]
fn row_49_timestamps_that_are_refused_stop_the_job_by_default() {
    for (timestamp, reason) in [(now() + 30 * DAY_MS, "max_future"), (-5, "negative")] {
        let scene = scene("row49b");
        produce(
            scene.broker,
            &scene.input,
            &[at(now(), 1), at(timestamp, 2), at(now(), 3)],
        );
        let (code, message, _) = end_of(scene.worker("", &[]));
        assert_eq!(code, EXIT_CANNOT_GO_ON, "{message}");
        for part in [&format!("{}-0 offset 1:", scene.input), "step input: timestamp", reason] {
            assert!(message.contains(part), "{part} is not named: {message}");
        }
        assert!(scene.committed().iter().all(|c| c.offset <= 1));
        assert_prefix(&scene, is_good);
    }
}
