//! The producer's own limits: a queue that is full, an id that the broker has forgotten.
use std::time::Duration;

use keyfold_e2e::Broker;

use crate::broker_faults::own_broker;
use crate::oracle::assert_exact;
use crate::records::{good, produce};
use crate::scene::{Scene, stop, until, wait};

/// Row 39: the client's queue takes ten messages, so that nearly every output finds it full once. It waits for room, and none is left out.
#[test]
fn row_39_outputs_wait_for_room_in_the_producers_queue() {
    let scene = Scene::new(Broker::shared(), "row39", 2);
    let (checker, feed) = (scene.checker(), scene.feed(2000));
    let more = ["--producer-property", "queue.buffering.max.messages=10"];
    let mut worker = scene.worker("", &more);
    until(&mut worker, "a start", |told| told.started.is_some());
    let told = scene.finish(feed, 4000, checker, worker);
    assert_eq!(
        told.counter("retries"),
        0,
        "a full queue is no failure: {:?}",
        told.ended
    );
}

/// Row 66: nothing was written for so long that the broker forgot the transactional id. The next epoch was refused with an error that is fatal to
/// the producer; a new session was opened and the epoch published again, and the job did not end.
#[test]
fn row_66_transactional_id_that_the_broker_has_forgotten_is_taken_anew() {
    let own = own_broker(&[
        "transactional.id.expiration.ms=3000",
        "transaction.remove.expired.transaction.cleanup.interval.ms=500",
        "producer.id.expiration.ms=3000",
        "producer.id.expiration.check.interval.ms=500",
    ]);
    let scene = Scene::new(&own.broker, "row66", 2);
    produce(&own.broker, &scene.input, &good(50));
    let mut worker = scene.worker("", &[]);
    until(&mut worker, "all committed", |told| told.committed >= 50);
    let before = worker.told().rebuilds;
    wait("the id forgotten", || {
        std::thread::sleep(Duration::from_millis(500));
        let known = own.broker.tool("transactions.sh", &["list"]).expect("tool");
        (!known.contains(&scene.group())).then_some(())
    });
    produce(&own.broker, &scene.input, &good(50));
    until(&mut worker, "all committed", |told| told.committed >= 100);
    let told = stop(worker);
    assert!(told.rebuilds > before, "it was not forgotten: {:?}", told.ended);
    assert_exact(&scene, |_| true);
}
