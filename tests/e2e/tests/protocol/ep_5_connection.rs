//! EP-5: connections that close, and coordinators that do not answer, while a transaction is ended.
use std::time::Duration;

use keyfold_e2e::Rule;
use keyfold_e2e::proxy::{Action, END_TXN, FIND_GROUP};

use crate::scene::{LONG, Proxied, Scene, proxied, until_it_commits};

/// The connection was closed in good order with the commit under way, as by a broker that is stopped or a balancer that is
/// tired of it. The client sent the commit again at once, by itself, was answered within 100 ms, and reported nothing: the
/// session went on, with the first copy perhaps still to come. The next transaction has a new session now, whether the
/// broker had got the first copy or not.
#[test]
fn ep_5_after_a_connection_closed_under_a_commit_the_next_transaction_has_a_new_session() {
    let held = proxied();
    for action in [Action::CloseInsteadOfResponse, Action::CloseInsteadOfRequest] {
        let right = closed_under_a_commit(&held, action, "");
        assert!(right > 0, "{action:?}: no new session");
    }
    let broken = closed_under_a_commit(&held, Action::CloseInsteadOfResponse, "break:EP-5");
    assert_eq!(broken, 0, "the switch has broken nothing");
}

/// Sessions that were opened anew after a commit whose connection was closed once.
fn closed_under_a_commit(held: &Proxied, action: Action, faults: &str) -> u64 {
    let scene = Scene::flowing(&held.broker, "ep5-closed");
    let mut worker = scene.start("a", faults);
    until_it_commits(&mut worker);
    let before = worker.told().rebuilds;
    let rule = held.proxy.add(Rule::nth(END_TXN, 1, action));
    assert!(held.proxy.wait_until_acted(rule, 1, LONG));
    until_it_commits(&mut worker);
    until_it_commits(&mut worker);
    let rebuilds = worker.told().rebuilds - before;
    scene.finish_right([worker]);
    held.proxy.clear();
    rebuilds
}

/// A new session looks for the group's coordinator when it sends its first offsets. The answer never came, and the client
/// waited for it for ever, past its own time-out: the job stood still. The call has a deadline of our own now, after which
/// the session is given up with the thread that waits in it, and the epoch is published in another.
#[test]
fn ep_5_offsets_that_wait_for_ever_for_a_coordinator_are_given_up_and_sent_in_a_new_session() {
    let held = proxied();
    let scene = Scene::flowing(&held.broker, "ep5-nobody");
    // Without the look for members of group mode, which comes before and would wait for the coordinator as well.
    let mut worker = scene.start_hasty("a", "break:EP-7");
    until_it_commits(&mut worker);
    let lost = held.proxy.add(Rule::every(FIND_GROUP, Action::DropResponse));
    let slow = Action::HoldResponse(Duration::from_millis(700));
    held.proxy.add(Rule::nth(END_TXN, 1, slow));
    scene.until_it_says("a", "no answer to the offsets in time");
    assert!(held.proxy.acted(lost) > 0);
    held.proxy.clear();
    until_it_commits(&mut worker);
    scene.finish_right([worker]);
}
