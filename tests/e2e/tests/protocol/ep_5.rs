//! EP-5: an unknown outcome of a commit is never taken for an abort. The proxy withholds the broker's answers.
use std::time::Duration;

use keyfold_e2e::proxy::{Action, END_TXN, TXN_OFFSET_COMMIT};
use keyfold_e2e::{Rule, Worker};

use crate::scene::{LONG, Proxied, Scene, proxied, until, until_it_commits, until_it_stops_itself};

/// The broker has committed epoch n, its answer is lost and the process killed (row 7). What the process believed does
/// not count: the restart reads n from the offsets and reprocesses nothing.
#[test]
fn ep_5_killed_without_the_answer_the_restart_resumes_from_the_commit_that_it_never_heard_of() {
    let held = proxied();
    let scene = Scene::flowing(&held.broker, "ep5-killed");
    let mut worker = scene.start("a", "");
    until_it_commits(&mut worker);
    let lost = held.proxy.add(Rule::every(END_TXN, Action::DropResponse));
    assert!(held.proxy.wait_until_acted(lost, 1, LONG));
    let told = worker.kill9().expect("killed");
    held.proxy.clear();
    let (epoch, records) = scene.committed().expect("a pointer");
    assert!(
        records > told.committed,
        "it was told of all {records} records: {told:?}"
    );
    let restarted = scene.start("a", "");
    assert_eq!(restarted.told().started.as_deref(), Some(epoch.as_str()));
    scene.finish_right([restarted]);
}

/// The same, and the process survives (row 8): every answer is lost until it gives up waiting. It opens a new session,
/// reads what became of the epoch and adopts it. Taken for an abort, the epoch is published a second time.
#[test]
fn ep_5_a_commit_whose_answer_is_lost_is_read_back_and_adopted() {
    let held = proxied();
    let (scene, worker) = answers_lost(&held, "");
    let told = worker.told();
    assert!(told.rebuilds > 0 && told.in_doubt > 0, "{told:?}");
    scene.finish_right([worker]);

    let (scene, worker) = answers_lost(&held, "break:EP-5");
    scene.finish_doubled([worker]);
}

fn answers_lost(held: &Proxied, faults: &str) -> (Scene, Worker) {
    let scene = Scene::flowing(&held.broker, "ep5-lost");
    let mut worker = scene.start_hasty("a", faults);
    until_it_commits(&mut worker);
    let before = worker.told().rebuilds;
    let lost = held.proxy.add(Rule::every(END_TXN, Action::DropResponse));
    until(&mut worker, "opened a session anew", move |t| t.rebuilds > before);
    assert!(held.proxy.acted(lost) > 0);
    held.proxy.clear();
    until_it_commits(&mut worker);
    (scene, worker)
}

/// The request to commit hangs in the network until the broker has timed the transaction out. It was an abort, but only
/// the pointers say so: the epoch is published again, and the requests that arrive late do no harm.
#[test]
fn ep_5_a_commit_that_never_arrived_is_read_back_and_published_again() {
    let held = proxied();
    let scene = Scene::flowing(&held.broker, "ep5-unsent");
    let mut worker = scene.start_hasty("a", "");
    until_it_commits(&mut worker);
    let before = worker.told();
    let hanging = held.proxy.add(Rule::every(END_TXN, Action::HoldRequestUntilReleased));
    until(&mut worker, "asked what became of it", move |t| {
        t.in_doubt > before.in_doubt && t.rebuilds > before.rebuilds
    });
    held.proxy.release(hanging);
    until_it_commits(&mut worker);
    scene.finish_right([worker]);
}

/// The answer to the offsets is lost, or later than the client waits: nobody knows whether they are in the transaction.
/// It is aborted and the epoch published again in a new session.
#[test]
fn ep_5_offsets_whose_answer_is_lost_or_late_are_sent_again_in_a_new_session() {
    let held = proxied();
    for action in [Action::DropResponse, Action::HoldResponse(Duration::from_secs(5))] {
        let scene = Scene::flowing(&held.broker, "ep5-offsets");
        let mut worker = scene.start_hasty("a", "");
        until_it_commits(&mut worker);
        let before = worker.told().rebuilds;
        let rule = held.proxy.add(Rule::nth(TXN_OFFSET_COMMIT, 1, action));
        until(&mut worker, "opened a session anew", move |t| t.rebuilds > before);
        assert_eq!(held.proxy.acted(rule), 1);
        until_it_commits(&mut worker);
        scene.finish_right([worker]);
        held.proxy.clear();
    }
}

/// A commit that took longer than 400 ms may have been sent twice inside the client, which does not tell. The next
/// transaction is begun in a new session, so that a second copy meets none of ours.
#[test]
fn ep_5_after_a_slow_commit_the_next_transaction_has_a_new_session() {
    let held = proxied();
    let right = slow_commit(&held, "");
    assert!(right > 0, "no new session after a slow commit");
    let broken = slow_commit(&held, "break:EP-5");
    assert_eq!(broken, 0, "the switch has broken nothing");
}

/// Sessions that were opened anew after a commit that took 700 ms.
fn slow_commit(held: &Proxied, faults: &str) -> u64 {
    let scene = Scene::flowing(&held.broker, "ep5-slow");
    let mut worker = scene.start("a", faults);
    until_it_commits(&mut worker);
    let before = worker.told().rebuilds;
    let slow = Action::HoldResponse(Duration::from_millis(700));
    let rule = held.proxy.add(Rule::nth(END_TXN, 1, slow));
    assert!(held.proxy.wait_until_acted(rule, 1, LONG));
    until_it_commits(&mut worker);
    until_it_commits(&mut worker);
    let rebuilds = worker.told().rebuilds - before;
    scene.finish_right([worker]);
    rebuilds
}

/// KAFKA-17754: a request to commit transaction n is held in the network, the client sends it again and goes on; the
/// first copy arrives in the middle of transaction n+1 (row 20). With a new session it is an old one's and refused. In
/// the same session it commits the outputs sent so far without their offsets, and a kill right then doubles them.
#[test]
fn ep_5_a_late_copy_of_a_commit_does_not_commit_half_of_the_next_transaction() {
    let held = proxied();
    let (scene, worker) = late_copy(&held, "");
    scene.finish_right([worker]);
    let (scene, worker) = late_copy(&held, "break:EP-5;");
    scene.finish_doubled([worker]);
}

fn late_copy(held: &Proxied, switch: &str) -> (Scene, Worker) {
    let scene = Scene::flowing(&held.broker, "ep5-late");
    // The fifth commit is held; what is sent of the sixth lies in an open transaction.
    let rule = held.proxy.add(Rule::nth(END_TXN, 5, Action::HoldRequestUntilReleased));
    let mut worker = scene.start_hasty("a", &format!("{switch}outputs_sent=stop@6"));
    until_it_stops_itself(&worker);
    assert_eq!(held.proxy.acted(rule), 1);
    let before = held.proxy.counters(END_TXN).requests;
    held.proxy.release(rule);
    while held.proxy.counters(END_TXN).requests == before {
        std::thread::sleep(Duration::from_millis(20));
    }
    // The broker works it off before it is asked for anything else about this transaction.
    std::thread::sleep(Duration::from_secs(1));
    worker.kill9().expect("killed");
    let restarted = scene.start_hasty("a", "");
    (scene, restarted)
}
