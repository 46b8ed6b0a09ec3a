//! The worker is told to stop (SIGTERM) in the middle of something.
use std::fs;
use std::time::{Duration, Instant};

use keyfold::runtime::backoff::STOP_GRACE;
use keyfold::testing::faults::POINTS;
use keyfold_e2e::Broker;

use crate::scene::{Scene, end_of, until};

/// What a stop takes beside its grace: closing clients and databases, on a busy machine.
const MARGIN: Duration = Duration::from_secs(20);

/// Steps of a start; the first of them is passed once in the life of a job.
const OF_A_START: [&str; 3] = ["pre_genesis_commit", "post_init", "mid_restore"];

/// Runs into the step, is told to stop while it lasts, and ends in time: with the last epoch committed, or, when nothing had begun, with 1.
fn stopped_at(scene: &Scene<'_>, point: &str) {
    let of_a_start = OF_A_START.contains(&point);
    if point == "mid_restore" {
        fs::remove_dir_all(scene.dir.path().join("state")).expect("an empty disk");
    }
    let k = if of_a_start { 1 } else { 3 };
    let mut worker = scene.worker(&format!("{point}=sleep:1500@{k}"), &[]);
    let reached = format!("{point}: Sleep");
    until(&mut worker, point, |told| {
        told.last_lines.iter().any(|line| line.contains(&reached))
    });
    let (begin, folded) = (Instant::now(), worker.told().folded);
    worker.signal(libc::SIGTERM).expect("runs");
    let (code, message, told) = end_of(worker);
    assert!(begin.elapsed() < STOP_GRACE + MARGIN, "{point}: {:?}", begin.elapsed());
    let fits = match code {
        // What was folded before the stop; what the lanes take until they end is read again.
        0 => told.committed >= folded,
        1 => of_a_start && told.started.is_none(),
        _ => false,
    };
    assert!(fits, "{point}: {code}, {told:?}: {message}");
}

/// Row 13, and B3: a process that was told to stop while it restored wrote down more than it had restored. Here it is told to at each step of
/// a start and of an epoch: it ends in time, its exit code tells whether the last epoch is committed, and the next start finds what the
/// pointers say.
#[test]
fn row_13_told_to_stop_at_each_step_it_ends_in_time_with_the_epoch_committed_or_not_begun() {
    let scene = Scene::new(Broker::shared(), "row13", 4);
    let (checker, watch, feed) = (scene.checker(), scene.watch(), scene.feed(500));
    let of_an_epoch = POINTS.into_iter().filter(|point| !OF_A_START.contains(point));
    for point in OF_A_START.into_iter().chain(of_an_epoch) {
        stopped_at(&scene, point);
    }
    let mut worker = scene.worker("", &[]);
    until(&mut worker, "a start", |told| told.started.is_some());
    scene.finish(feed, 1000, checker, worker);
    let watched = watch.finish();
    assert!(watched.ok(), "{watched:?}");
}
