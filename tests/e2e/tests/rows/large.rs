//! Keys as large as a record may be, and one key with very many records.
use keyfold_e2e::Broker;
use rdkafka::producer::Producer;

use crate::records::{made, producer, send};
use crate::scene::{LONG, Scene, stop, until, wait};

const KEYS: usize = 120;
const KEY_BYTES: usize = 900_000;
const ROUNDS: usize = 3;
/// Values of the one key.
const VALUES: usize = 500_000;

/// Row 38: keys of 900 kB, more of them than the memory budget holds, again and again, and one key with half a million values. Epochs are
/// committed, and every record has its output.
#[test]
fn row_38_huge_keys_and_very_many_values_of_one_key() {
    let scene = Scene::new(Broker::shared(), "row38", 2);
    let checker = scene.checker();
    let mut worker = scene.worker("", &["--memory-mib", "64"]);
    until(&mut worker, "a start", |told| told.started.is_some());
    let source = producer(scene.broker, None, "none");
    for round in 0..ROUNDS {
        for n in 0..KEYS {
            let key = format!("{n}{}", "x".repeat(KEY_BYTES));
            send(&source, &scene.input, &made(&key, &round.to_string()));
            if n % 20 == 0 {
                source.flush(LONG).expect("flush");
            }
        }
    }
    for n in 0..VALUES {
        send(&source, &scene.input, &made("one", &(n % 10).to_string()));
        if n % 10_000 == 0 {
            source.flush(LONG).expect("flush");
        }
    }
    source.flush(LONG).expect("flush");
    let all = (KEYS * ROUNDS + VALUES) as u64;
    wait("all outputs", || {
        assert_eq!(checker.violation(), None);
        (checker.counts().records_out >= all).then_some(())
    });
    stop(worker);
    let report = scene.judge(checker);
    assert!(
        report.ok() && report.counts.records_in == all,
        "{report}: {:?}",
        report.offenders
    );
}
