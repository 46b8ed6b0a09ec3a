//! EP-7: who was stopped past its session, and who meets another process under its name.
use std::time::{Duration, Instant};

use keyfold_e2e::proxy::{Action, END_TXN, TXN_OFFSET_COMMIT};
use keyfold_e2e::worker::EXIT_FENCED;
use keyfold_e2e::{Broker, Rule, Worker, WorkerOptions};

use crate::members::{assert_broken, options, set, start, start_with, until_it_owns, wait};
use crate::scene::{LONG, Proxied, Scene, ended, proxied, until, until_it_commits, until_it_stops_itself};

/// The offsets of an epoch hang in the network, and the process is stopped, past its session. Another member has its partitions and has
/// committed what the first was about to commit, when the offsets arrive. They carry the assignment under which the epoch was made, and are
/// refused; woken up, it joins again and works on. Sent as nobody's, which a classic group takes without a look, they are committed.
#[test]
fn ep_7_a_zombies_offsets_that_arrive_after_its_session_are_refused_and_it_joins_again() {
    let held = proxied();
    let (scene, zombie, other) = offsets_arrive_late(&held, "");
    until_it_owns(&scene, "zombie", 2);
    // It may have joined again by then: to the group its former self is another one under its name.
    let log = scene.log("zombie");
    let refused = |kind: &str| log.contains(&format!("step=Offsets kind={kind}"));
    assert!(refused("StaleAssignment") || refused("NameTaken"), "{log}");
    scene.finish_right([zombie, other]);

    let (scene, _zombie, _other) = offsets_arrive_late(&held, "break:EP-7");
    assert_broken(&scene, &["zombie", "other"]);
}

fn offsets_arrive_late(held: &Proxied, switch: &str) -> (Scene, Worker, Worker) {
    let scene = Scene::flowing(&held.broker, "late-offsets");
    let mut zombie = start_with(&scene, "zombie", &zombie_options(&scene, switch), 4);
    until_it_commits(&mut zombie);
    let late = Action::HoldRequestUntilReleased;
    let rule = held.proxy.add(Rule::nth(TXN_OFFSET_COMMIT, 1, late));
    assert!(held.proxy.wait_until_acted(rule, 1, LONG));
    zombie.signal(libc::SIGSTOP).expect("alive");
    let other = taken_over(&scene);
    held.proxy.release(rule);
    zombie.signal(libc::SIGCONT).expect("alive");
    (scene, zombie, other)
}

/// The broker must not end its transaction before it wakes up.
fn zombie_options(scene: &Scene, faults: &str) -> WorkerOptions {
    let mut of_zombie = options(scene, "zombie", faults);
    set(&mut of_zombie, "--transaction-timeout-ms", 120_000);
    of_zombie
}

/// Another member that has gone on where the zombie was.
fn taken_over(scene: &Scene) -> Worker {
    let mut other = start(scene, "other", "", 4);
    until_it_commits(&mut other);
    until_it_commits(&mut other);
    other
}

/// A member is stopped in the middle of a publish, its outputs sent and its offsets not. Woken up past its session it may hear that its
/// partitions are gone before it sends the offsets, or after: two protections stand one behind the other. With both off it commits what
/// the other one has committed already.
#[test]
fn ep_7_and_ep_12_a_zombie_woken_in_the_middle_of_a_publish_commits_nothing_and_joins_again() {
    let (scene, mut zombie, other) = woken_up("");
    until_it_owns(&scene, "zombie", 2);
    until_it_commits(&mut zombie);
    assert!(scene.log("zombie").contains("the assignment is dropped"));
    scene.finish_right([zombie, other]);

    let (scene, _zombie, _other) = woken_up("break:EP-7;break:EP-12;");
    assert_broken(&scene, &["zombie", "other"]);
}

fn woken_up(switches: &str) -> (Scene, Worker, Worker) {
    let scene = Scene::flowing(Broker::shared(), "zombie");
    let of_zombie = zombie_options(&scene, &format!("{switches}outputs_sent=stop@6"));
    let mut zombie = start_with(&scene, "zombie", &of_zombie, 4);
    until_it_stops_itself(&zombie);
    let other = taken_over(&scene);
    zombie.signal(libc::SIGCONT).expect("alive");
    (scene, zombie, other)
}

/// Two processes are started under one name, from a copied configuration. The newcomer has the name and goes on; the older one ends with
/// 12 and does not come back. A third instance does not notice more than two rebalances.
#[test]
fn ep_7_a_twin_takes_the_name_the_older_one_exits_and_they_do_not_fight() {
    let scene = Scene::flowing(Broker::shared(), "twin");
    let mut older = start(&scene, "one", "", 4);
    let mut third = start(&scene, "third", "", 2);
    until_it_commits(&mut older);
    let mut twin = twin_of_one(&scene);
    let (code, said) = ended(&mut older);
    assert_eq!(code, Some(EXIT_FENCED), "{said}");
    // The membership or the producer hears of it first.
    assert!(said.contains("keyfold: fenced: "), "{said}");
    until_it_owns(&scene, "twin", 2);
    for _ in 0..3 {
        until_it_commits(&mut twin);
        until_it_commits(&mut third);
    }
    // The older one may have taken the newcomer for a time-out once, before the group told it.
    assert!(scene.fences("twin") <= 1, "they fight: {}", scene.log("twin"));
    scene.finish_right([twin, third]);
}

/// The older one is stopped in the middle of a publish when the newcomer takes its name, so that it learns of it late: within its session
/// it is told, past it the client joins again as the newest under the name. Either way one of the two ends with 12, not both, the other
/// one works on, and what was about to be published is there once.
#[test]
fn ep_7_of_twins_of_which_one_was_stopped_meanwhile_one_exits_and_the_other_works_on() {
    let scene = Scene::flowing(Broker::shared(), "stopped-twin");
    let mut older = start(&scene, "one", "outputs_sent=stop@6", 4);
    until_it_stops_itself(&older);
    let mut twin = twin_of_one(&scene);
    until_it_commits(&mut twin);
    older.signal(libc::SIGCONT).expect("alive");
    let mut stays = the_one_that_stays(older, twin);
    for _ in 0..3 {
        until_it_commits(&mut stays);
    }
    scene.finish_right([stays]);
}

/// Waits until one of two ends, with 12; the other one.
fn the_one_that_stays(mut one: Worker, mut other: Worker) -> Worker {
    let begin = Instant::now();
    let first_ends = loop {
        let has_ended = |worker: &mut Worker| worker.ended().expect("asked").is_some();
        match (has_ended(&mut one), has_ended(&mut other)) {
            (false, false) => assert!(begin.elapsed() < LONG, "neither ends"),
            (first, _) => break first,
        }
        std::thread::sleep(Duration::from_millis(20));
    };
    let (mut goes, stays) = if first_ends { (one, other) } else { (other, one) };
    let (code, said) = ended(&mut goes);
    assert_eq!(code, Some(EXIT_FENCED), "{said}");
    stays
}

/// As on another machine: under the name `one` with a state directory of its own.
fn twin_of_one(scene: &Scene) -> Worker {
    let mut of_twin = scene.options("twin", "");
    of_twin.more = options(scene, "one", "").more;
    let mut twin = Worker::start(&of_twin).expect("worker");
    until(&mut twin, "started", |t| t.started.is_some());
    twin
}

/// A request to commit is held in the network, the client sends it again and goes on with the next epoch in a new session. The member is
/// stopped there; the first copy arrives and ends nothing; another member takes over.
#[test]
fn ep_7_a_late_copy_of_a_commit_does_not_end_the_next_transaction_of_a_member() {
    let held = proxied();
    let scene = Scene::flowing(&held.broker, "late");
    let rule = held.proxy.add(Rule::nth(END_TXN, 5, Action::HoldRequestUntilReleased));
    let mut of_zombie = options(&scene, "zombie", "outputs_sent=stop@6");
    set(&mut of_zombie, "--transaction-timeout-ms", 3000);
    let mut zombie = start_with(&scene, "zombie", &of_zombie, 4);
    until_it_stops_itself(&zombie);
    assert_eq!(held.proxy.acted(rule), 1);
    let before = held.proxy.counters(END_TXN).requests;
    held.proxy.release(rule);
    wait("the late copy", String::new, || {
        held.proxy.counters(END_TXN).requests > before
    });
    let mut other = start(&scene, "other", "", 4);
    until_it_commits(&mut other);
    zombie.signal(libc::SIGCONT).expect("alive");
    until_it_owns(&scene, "zombie", 2);
    scene.finish_right([zombie, other]);
}
