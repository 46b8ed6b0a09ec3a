//! EP-7: a member that its own former self has fenced.
use keyfold_e2e::Rule;
use keyfold_e2e::proxy::{Action, HEARTBEAT};

use crate::members::{assignments, start, wait};
use crate::scene::{Scene, proxied, until_it_commits};

/// An overloaded broker answers no heartbeat for a session. The client joins again over the connection in which the heartbeat hangs, gives it up with
/// the heartbeat, and joins once more over another one, which is quick. Then the broker gets what lay on the former connection: a request to
/// join under the same name. The instance was fenced and exited with 12, although nobody else had its name.
#[test]
fn ep_7_a_member_that_its_former_request_to_join_has_fenced_drops_what_it_has_and_joins_again() {
    let held = proxied();
    let scene = Scene::flowing(&held.broker, "former-self");
    let mut one = start(&scene, "one", "", 4);
    until_it_commits(&mut one);
    let hangs = held
        .proxy
        .add(Rule::nth(HEARTBEAT, 1, Action::HoldRequestUntilReleased));
    wait(
        "it joins again",
        || scene.log("one"),
        || assignments(&scene, "one") == 2,
    );
    until_it_commits(&mut one);
    held.proxy.release(hangs);
    wait(
        "fenced",
        || scene.log("one"),
        || scene.log("one").contains("fenced: another member has this name"),
    );
    wait(
        "it joins a third time",
        || scene.log("one"),
        || assignments(&scene, "one") == 3,
    );
    until_it_commits(&mut one);
    scene.finish_right([one]);
}
