//! EP-7: a member that its own former self has fenced.
use std::time::{Duration, Instant};

use keyfold_e2e::Rule;
use keyfold_e2e::proxy::{Action, HEARTBEAT};

use crate::members::{assignments, start, wait};
use crate::scene::{Scene, proxied, until_it_commits};

/// What the instance says of it.
const FENCED: &str = "fenced: another member has this name";
/// So soon the broker gets a request that was held, and the instance its answer.
const FENCED_WITHIN: Duration = Duration::from_secs(5);
/// Most times that the two requests are made to race; the former one is last in most of them.
const TRIES: usize = 10;

/// An overloaded broker answers no heartbeat for a session. The client joins again over the connection in which the heartbeat hangs, gives it up with
/// the heartbeat, and joins once more over another one, which is quick. Then the broker gets what lay on the former connection: a request to
/// join under the same name. The instance was fenced and exited with 12, although nobody else had its name.
#[test]
fn ep_7_a_member_that_its_former_request_to_join_has_fenced_drops_what_it_has_and_joins_again() {
    let held = proxied();
    let scene = Scene::flowing(&held.broker, "former-self");
    let mut one = start(&scene, "one", "", 4);
    until_it_commits(&mut one);
    // Which of the two requests the broker gets last is for the client and the machine to say: again, until it is the former one.
    let fenced = || scene.log("one").contains(FENCED);
    for _ in 0..TRIES {
        let before = assignments(&scene, "one");
        let hangs = held
            .proxy
            .add(Rule::nth(HEARTBEAT, 1, Action::HoldRequestUntilReleased));
        wait(
            "it joins again",
            || scene.log("one"),
            || fenced() || assignments(&scene, "one") > before,
        );
        until_it_commits(&mut one);
        held.proxy.release(hangs);
        let begin = Instant::now();
        while !fenced() && begin.elapsed() < FENCED_WITHIN {
            std::thread::sleep(Duration::from_millis(20));
        }
        if fenced() {
            break;
        }
    }
    assert!(fenced(), "never fenced: {}", scene.log("one"));
    wait(
        "it joins once more",
        || scene.log("one"),
        || {
            let log = scene.log("one");
            let after = log.rsplit(FENCED).next().unwrap_or_default();
            after.contains(": assigned generation=")
        },
    );
    until_it_commits(&mut one);
    scene.finish_right([one]);
}
