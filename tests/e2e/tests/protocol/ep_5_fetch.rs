//! EP-5 and EP-6: the answer that names the committed offsets is lost or late. Nobody goes on without it.
use std::time::Duration;

use keyfold_e2e::proxy::{Action, END_TXN, OFFSET_FETCH};
use keyfold_e2e::{Rule, Worker};
use rdkafka::producer::Producer;

use crate::scene::{LONG, PARTITIONS, Scene, proxied, until, until_it_commits};

/// At the start the first answer never comes and the next is late: the worker asks again, and does not take silence
/// for a job that begins.
#[test]
fn ep_5_a_start_waits_for_the_pointers_when_their_answer_is_lost_or_late() {
    let held = proxied();
    let scene = Scene::flowing(&held.broker, "ep5-start");
    let mut worker = scene.start("a", "");
    until_it_commits(&mut worker);
    worker.kill9().expect("killed");
    let (epoch, _) = scene.committed().expect("a pointer");
    let lost = held.proxy.add(Rule::nth(OFFSET_FETCH, 1, Action::DropResponse));
    let late = held
        .proxy
        .add(Rule::nth(OFFSET_FETCH, 2, Action::HoldResponse(Duration::from_secs(2))));
    let restarted = scene.start("a", "");
    assert_eq!((held.proxy.acted(lost), held.proxy.acted(late)), (1, 1));
    assert_eq!(restarted.told().started.as_deref(), Some(epoch.as_str()));
    scene.finish_right([restarted]);
}

/// The outcome of a commit is in doubt, and the answer that would settle it is lost too. The epoch is neither adopted
/// nor published again before the pointers are known.
#[test]
fn ep_5_an_epoch_in_doubt_waits_for_the_pointers_when_their_answer_is_lost_or_late() {
    let held = proxied();
    let scene = Scene::flowing(&held.broker, "ep5-doubt");
    let mut worker = scene.start_hasty("a", "");
    until_it_commits(&mut worker);
    let before = worker.told().in_doubt;
    held.proxy.add(Rule::every(END_TXN, Action::DropResponse));
    let lost = held.proxy.add(Rule::nth(OFFSET_FETCH, 1, Action::DropResponse));
    let late = held
        .proxy
        .add(Rule::nth(OFFSET_FETCH, 2, Action::HoldResponse(Duration::from_secs(2))));
    until(&mut worker, "read what became of it", move |t| t.in_doubt > before);
    assert_eq!((held.proxy.acted(lost), held.proxy.acted(late)), (1, 1));
    held.proxy.clear();
    until_it_commits(&mut worker);
    scene.finish_right([worker]);
}

/// A broker can lose the end of a transaction (KAFKA-20734): its offsets stay undecided for ever, every stable read of
/// the pointers runs out of time, and the worker said nothing but "timed out". It says what it waits for, takes nothing
/// for a fresh start meanwhile, and goes on by itself once somebody has ended the transaction.
#[test]
fn ep_5_a_start_names_the_transaction_that_has_no_end_and_goes_on_when_it_has_one() {
    let held = proxied();
    let scene = Scene::flowing(&held.broker, "ep5-undecided");
    let mut worker = scene.start("a", "");
    until_it_commits(&mut worker);
    worker.kill9().expect("killed");
    scene.wait_until_no_transaction_is_open();
    let (epoch, _) = scene.committed().expect("a pointer");
    let foreign = scene.undecided_offsets(0..PARTITIONS);
    let mut restarted = Worker::start(&scene.options("a", "")).expect("worker");
    until(&mut restarted, "said why it waits", |t| {
        t.last_lines.iter().any(|line| line.contains("has no end yet"))
    });
    assert_eq!(
        restarted.told().started,
        None,
        "it must not start on offsets that are undecided"
    );
    foreign.abort_transaction(LONG).expect("aborted");
    until(&mut restarted, "started", |t| t.started.is_some());
    assert_eq!(restarted.told().started.as_deref(), Some(epoch.as_str()));
    scene.finish_right([restarted]);
}
