//! Stops with and without leaving, and an instance that hangs.
use std::time::Duration;

use keyfold_e2e::{Broker, Worker};

use crate::members::{ENDLESS_MS, assignments, options, patient, set, start_with, until_it_owns};
use crate::scene::{LONG, Scene, ended, until_it_commits};

fn stopped(worker: &mut Worker) {
    worker.signal(libc::SIGTERM).expect("alive");
    assert_eq!(ended(worker).0, Some(0), "{:?}", worker.told());
}

/// An instance is stopped and started again under its name, as for an upgrade: the group keeps its partitions for it, and the other one is
/// not given anything anew.
#[test]
fn stopped_without_leaving_and_started_again_it_has_its_partitions_back_and_the_other_does_not_notice() {
    let scene = Scene::flowing(Broker::shared(), "restart");
    let mut stays = start_with(&scene, "stays", &patient(&scene, "stays"), 4);
    let mut goes = start_with(&scene, "goes", &patient(&scene, "goes"), 2);
    until_it_owns(&scene, "stays", 2);
    until_it_commits(&mut goes);
    let before = assignments(&scene, "stays");
    stopped(&mut goes);
    until_it_commits(&mut stays);
    let mut again = start_with(&scene, "goes", &patient(&scene, "goes"), 2);
    until_it_commits(&mut again);
    until_it_commits(&mut stays);
    assert_eq!(assignments(&scene, "stays"), before, "{}", scene.log("stays"));
    scene.finish_right([stays, again]);
}

/// Told to leave, it does so with its stop: the other one has all partitions long before a session could be over.
#[test]
fn stopped_with_leave_the_other_takes_over_at_once() {
    let scene = Scene::flowing(Broker::shared(), "leave");
    let mut stays = start_with(&scene, "stays", &patient(&scene, "stays"), 4);
    let mut of_goes = patient(&scene, "goes");
    of_goes.more.push("--leave".into());
    let mut goes = start_with(&scene, "goes", &of_goes, 2);
    until_it_owns(&scene, "stays", 2);
    until_it_commits(&mut goes);
    stopped(&mut goes);
    assert!(LONG < Duration::from_millis(ENDLESS_MS));
    until_it_owns(&scene, "stays", 4);
    until_it_commits(&mut stays);
    scene.finish_right([stays]);
}

/// A value that makes the first instance hang.
const POISON: i64 = 424_242;

/// A function of the user never returns. The process lives and its client answers, so nobody else would notice: but no barrier comes
/// through any more, so the group is polled no more, and the other instance has all partitions in the end. Nothing is lost.
#[test]
fn an_instance_whose_user_function_hangs_gives_its_partitions_to_the_other() {
    let scene = Scene::flowing(Broker::shared(), "hang");
    let hasty = |who: &str| {
        let mut options = options(&scene, who, "");
        set(&mut options, "--stall-after-ms", 2000);
        set(&mut options, "--max-poll-interval-ms", 4000);
        options
    };
    let mut of_hangs = hasty("hangs");
    of_hangs.more.extend(["--hang-at-value".into(), POISON.to_string()]);
    let mut hangs = start_with(&scene, "hangs", &of_hangs, 4);
    let mut other = start_with(&scene, "other", &hasty("other"), 2);
    until_it_commits(&mut hangs);
    for key in 0..20 {
        scene.produce(None, &format!("k{key}"), POISON);
    }
    scene.until_it_says(
        "hangs",
        "not progressing: until there is a sign of life the group is not polled",
    );
    until_it_owns(&scene, "other", 4);
    until_it_commits(&mut other);
    hangs.kill9().expect("killed");
    scene.finish_right([other]);
}
