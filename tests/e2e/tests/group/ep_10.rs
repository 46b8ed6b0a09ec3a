//! EP-10: a shard whose pointer is undecided keeps no other waiting.
use std::time::Duration;

use keyfold_e2e::proxy::{Action, END_TXN};
use keyfold_e2e::{Rule, Worker};
use rdkafka::producer::Producer;

use crate::members::{Owns, options, owned, start, until_it_owns, wait};
use crate::scene::{LONG, Scene, proxied, until, until_it_commits};

/// A transaction holds the offsets of one partition open for as long as it likes, as that of a dead instance does. The instance that is
/// given all partitions begins with the three others and commits them; the fourth joins in when it is decided. That held only until a commit
/// was slow: the session was opened anew then, the pointers were read back, and with them the undecided one, for which all waited.
#[test]
fn ep_10_an_undecided_shard_keeps_no_other_of_its_instance_waiting() {
    let held = proxied();
    let scene = Scene::flowing(&held.broker, "ep10-group");
    let mut worker = start(&scene, "a", "", 4);
    until_it_commits(&mut worker);
    worker.kill9().expect("killed");
    let foreign = scene.undecided_offsets(2..3);
    let mut worker = Worker::start(&options(&scene, "a", "")).expect("worker");
    let partly = Some(Owns { flowing: 3, missing: 1 });
    wait("three at work", || scene.log("a"), || owned(&scene, "a") == partly);
    let rebuilds = worker.told().rebuilds;
    let slow = Action::HoldResponse(Duration::from_millis(700));
    let rule = held.proxy.add(Rule::nth(END_TXN, 1, slow));
    assert!(held.proxy.wait_until_acted(rule, 1, LONG));
    until(&mut worker, "opened a session anew", |t| t.rebuilds > rebuilds);
    let before = scene.glanced_offsets();
    for _ in 0..5 {
        until_it_commits(&mut worker);
    }
    let after = scene.glanced_offsets();
    let moved: Vec<i32> = (0..4).filter(|p| before[p] != after[p]).collect();
    assert_eq!(moved, [0, 1, 3], "{before:?} {after:?}");
    foreign.abort_transaction(LONG).expect("aborted");
    until_it_owns(&scene, "a", 4);
    scene.finish_right([worker]);
}
