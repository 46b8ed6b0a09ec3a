//! The worker kills itself at a step of the commit protocol and is started again.
use std::collections::BTreeMap;

use keyfold_e2e::Broker;
use keyfold_e2e::worker::{Told, Worker};

use crate::scene::{Scene, killed, until};

/// Records of one run: the last third is produced when the second worker runs.
const RECORDS: u64 = 4000;

struct Killed {
    /// The epoch that the pointers named after the kill, and the objects of the store then and at the end.
    committed: String,
    objects_then: BTreeMap<String, Vec<u8>>,
    objects_now: BTreeMap<String, Vec<u8>>,
    /// What the second worker told.
    told: Told,
}

impl Killed {
    fn incarnation(&self) -> &str {
        self.committed.split('-').next().unwrap_or_default()
    }

    /// Complete objects of the killed worker that come after the committed epoch.
    fn orphans(&self) -> Vec<&String> {
        let number = |name: &str| {
            name.strip_prefix(self.incarnation())?
                .strip_prefix('-')?
                .parse::<u64>()
                .ok()
        };
        let committed = number(&self.committed).expect("an epoch id");
        let later = |name: &&String| number(name).is_some_and(|n| n > committed);
        self.objects_then.keys().filter(later).collect()
    }
}

/// The committed epoch, a worker that has gone on from it, and what that has told so far.
fn resumed(scene: &Scene, more: &[&str]) -> (String, Worker, Told) {
    let committed = scene.committed_epoch();
    let mut worker = scene.worker("", more);
    let told = until(&mut worker, "a start", |told| told.started.is_some());
    assert_eq!(
        told.started.as_deref(),
        Some(committed.as_str()),
        "resumed from another epoch"
    );
    (committed, worker, told)
}

/// Runs into the fail point with records folded and not committed, starts again, and finds everything exactly once.
fn kill_and_resume(name: &str, faults: &str, more: &[&str]) -> Killed {
    let scene = Scene::new(Broker::shared(), name, 4);
    let (checker, watch, feed) = (scene.checker(), scene.watch(), scene.feed(1000));
    let told = killed(scene.worker(faults, more));
    assert!(told.at_risk() > 0, "nothing was at risk: {told:?}");
    let objects_then = scene.objects();
    let (committed, worker, told) = resumed(&scene, more);
    scene.finish(feed, RECORDS, checker, worker);
    let watched = watch.finish();
    assert!(watched.ok(), "{watched:?}");
    Killed {
        committed,
        objects_then,
        objects_now: scene.objects(),
        told,
    }
}

/// A process died with an epoch aligned and nothing of it written. It went on from the epoch before and replayed.
#[test]
fn row_1_kill_before_the_snapshot() {
    for point in ["barrier_aligned", "object_built"] {
        let run = kill_and_resume("row1", &format!("{point}=kill@4"), &[]);
        assert!(run.orphans().is_empty(), "{point}: {:?}", run.orphans());
    }
}

/// A process died with its epoch object written beside its place and not renamed: nobody ever took the half for a whole.
#[test]
fn row_2_kill_with_the_object_staged() {
    let run = kill_and_resume("row2", "object_staged=kill@4", &[]);
    assert!(run.orphans().is_empty(), "{:?}", run.orphans());
    let staged = |name: &&String| name.contains(".tmp-");
    assert_eq!(run.objects_then.keys().filter(staged).count(), 1, "the staged file");
}

/// A process died with an epoch durable that no transaction had named: the object stayed an orphan, was never restored, and no later
/// epoch took its name.
#[test]
fn row_5_kill_after_the_object_is_durable() {
    let run = kill_and_resume("row5", "post_manifest=kill@4", &[]);
    let orphans = run.orphans();
    assert_eq!(orphans.len(), 1, "{orphans:?}");
    let orphan = orphans[0];
    assert_ne!(run.told.started.as_ref(), Some(orphan));
    assert_eq!(
        run.objects_now.get(orphan),
        run.objects_then.get(orphan),
        "the orphan changed"
    );
    let later = run
        .objects_now
        .keys()
        .filter(|name| !run.objects_then.contains_key(*name));
    let own: Vec<&String> = later.filter(|name| name.starts_with(run.incarnation())).collect();
    assert!(own.is_empty(), "ids of the dead session were given out again: {own:?}");
}

/// A process died between sending its offsets and the commit. With a new transactional id, or with a look at the stable offsets first,
/// its successor is stuck until the transaction times out (here 10 minutes); ours aborts it at once and goes on from the epoch before.
#[test]
fn row_6_kill_between_offsets_and_commit_does_not_hold_up_the_restart() {
    let run = kill_and_resume(
        "row6",
        "post_send_offsets=kill@4",
        &["--transaction-timeout-ms", "600000"],
    );
    assert_eq!(run.orphans().len(), 1, "{:?}", run.orphans());
}

/// A process died with its epoch committed and not applied to its local state: the epoch was adopted, and nothing of it done again.
#[test]
fn row_9_kill_after_the_commit() {
    let run = kill_and_resume("row9", "post_commit=kill@4", &[]);
    assert!(run.orphans().is_empty(), "{:?}", run.orphans());
    assert!(
        run.told.restored > 0,
        "the committed epoch is replayed into the local state: {:?}",
        run.told
    );
}

/// Row 11, B3 and B4: a process with an empty disk died in the middle of a restore, and its successor, on what it had left, again. A copy that
/// is half restored says which section it is at: the third one goes on from there, and with what had not been folded.
#[test]
fn row_11_kill_in_the_middle_of_a_restore() {
    let scene = Scene::new(Broker::shared(), "row11", 4);
    let (checker, watch, feed) = (scene.checker(), scene.watch(), scene.feed(1000));
    let mut worker = scene.worker("", &[]);
    until(&mut worker, "some epochs", |told| told.committed > 2000);
    worker.kill9().expect("killed");
    std::fs::remove_dir_all(scene.dir.path().join("state")).expect("an empty disk");
    // Of four shards with some sections each: with the first of them done, and nearly at the end.
    for k in [7, 20] {
        let told = killed(scene.worker(&format!("mid_restore=kill@{k}"), &[]));
        assert_eq!(told.folded, 0, "nothing is processed before all is restored: {told:?}");
    }
    let (_, worker, _) = resumed(&scene, &[]);
    scene.finish(feed, RECORDS, checker, worker);
    let watched = watch.finish();
    assert!(watched.ok(), "{watched:?}");
}
