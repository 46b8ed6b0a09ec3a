//! EP-7 and EP-12: a member's commit was sent, and nobody knows what became of it. The broker decides, and the next owner waits for that.
use std::collections::BTreeMap;
use std::sync::MutexGuard;

use keyfold_e2e::proxy::{Action, END_TXN};
use keyfold_e2e::scene::Proxied;
use keyfold_e2e::{Rule, RuleId, Worker};

use crate::members::{epochs, options, resumed, set, start, start_with, until_it_owns};
use crate::scene::{LONG, Scene, proxied, until_it_commits};

const WAITS: &str = "waiting until what a former owner has left undecided is decided";

/// A scene in which the zombie's commit is held in the network, its process stopped, its session over; the other one has all partitions
/// and waits.
struct Undecided {
    held: MutexGuard<'static, Proxied>,
    rule: RuleId,
    scene: Scene,
    zombie: Worker,
    other: Worker,
    /// The epochs that are committed, as nobody knows yet whether they stay it.
    before: BTreeMap<i32, String>,
}

fn undecided(transaction_timeout_ms: u64) -> Undecided {
    let held = proxied();
    let scene = Scene::flowing(&held.broker, "undecided");
    let mut of_zombie = options(&scene, "zombie", "");
    set(&mut of_zombie, "--transaction-timeout-ms", transaction_timeout_ms);
    let mut zombie = start_with(&scene, "zombie", &of_zombie, 4);
    until_it_commits(&mut zombie);
    let rule = held.proxy.add(Rule::nth(END_TXN, 1, Action::HoldRequestUntilReleased));
    assert!(held.proxy.wait_until_acted(rule, 1, LONG));
    zombie.signal(libc::SIGSTOP).expect("alive");
    let before = epochs(&scene.glanced_list());
    let other = Worker::start(&options(&scene, "other", "")).expect("worker");
    scene.until_it_says("other", WAITS);
    assert_eq!(other.told().started, None, "it did not wait");
    Undecided {
        held,
        rule,
        scene,
        zombie,
        other,
        before,
    }
}

/// The broker gets the commit at last, and it goes through: the new owner adopts the epoch of which the old one never heard.
#[test]
fn ep_7_a_zombies_commit_that_goes_through_late_is_adopted_by_the_new_owner() {
    let mut it = undecided(120_000);
    it.held.proxy.release(it.rule);
    until_it_owns(&it.scene, "other", 4);
    let resumed = resumed(&it.scene, "other");
    let moved = resumed.iter().filter(|(p, epoch)| it.before.get(p) != Some(epoch));
    assert!(moved.count() > 0, "nothing was adopted: {resumed:?} {:?}", it.before);
    until_it_commits(&mut it.other);
    it.zombie.signal(libc::SIGCONT).expect("alive");
    until_it_owns(&it.scene, "zombie", 2);
    it.scene.finish_right([it.zombie, it.other]);
}

/// The commit does not arrive in time, and the broker aborts: the new owner goes on from what was committed before, and the request that
/// arrives after all does nothing.
#[test]
fn ep_7_a_zombies_commit_that_comes_too_late_is_aborted_and_the_new_owner_goes_on() {
    // Long enough for the session to end and the pointers to be read before the broker decides.
    let mut it = undecided(20_000);
    until_it_owns(&it.scene, "other", 4);
    assert_eq!(resumed(&it.scene, "other"), it.before);
    until_it_commits(&mut it.other);
    it.held.proxy.release(it.rule);
    it.zombie.signal(libc::SIGCONT).expect("alive");
    until_it_owns(&it.scene, "zombie", 2);
    until_it_commits(&mut it.zombie);
    it.scene.finish_right([it.zombie, it.other]);
}

/// The broker has committed, its answer is held back, and meanwhile another member joins. The partitions are given back without an answer;
/// who gets them reads what was committed, and the one that still waits does not take it for its own when the answer comes.
#[test]
fn ep_12_a_commit_without_an_answer_is_released_and_the_next_owner_reads_it() {
    let held = proxied();
    let scene = Scene::flowing(&held.broker, "unanswered");
    let mut of_first = options(&scene, "first", "");
    set(&mut of_first, "--revoke-budget-ms", 300);
    set(&mut of_first, "--transaction-timeout-ms", 60_000);
    let mut first = start_with(&scene, "first", &of_first, 4);
    until_it_commits(&mut first);
    let before = epochs(&scene.committed_list());
    let rule = held.proxy.add(Rule::nth(END_TXN, 1, Action::HoldResponseUntilReleased));
    assert!(held.proxy.wait_until_acted(rule, 1, LONG));
    let told = first.told().committed;
    let mut second = start(&scene, "second", "", 2);
    until_it_commits(&mut second);
    assert_eq!(first.told().committed, told, "it did not wait for the answer");
    let resumed = resumed(&scene, "second");
    let moved = resumed.iter().filter(|(p, epoch)| before.get(p) != Some(epoch));
    assert!(moved.count() > 0, "nothing was committed: {resumed:?} {before:?}");
    held.proxy.release(rule);
    until_it_owns(&scene, "first", 2);
    until_it_commits(&mut first);
    scene.finish_right([first, second]);
}
