//! Disks that are full, read-only or hang, for real: a file system of a worker's own.
use std::path::PathBuf;
use std::time::Duration;

use keyfold_checker::Running;
use keyfold_e2e::worker::{Told, WorkerOptions};
use keyfold_e2e::{Broker, Worker};

use crate::disk::Disk;
use crate::records::ends;
use crate::scene::{Scene, until};

/// Epochs that come quickly: a local copy is written every 64 of them.
const EPOCH_MS: u64 = 50;

fn options(scene: &Scene<'_>, change: impl FnOnce(&mut WorkerOptions)) -> WorkerOptions {
    let mut options = scene.options("", &[]);
    options.epoch_ms = EPOCH_MS;
    change(&mut options);
    options
}

fn says(told: &Told, what: &str) -> bool {
    told.last_lines.iter().any(|line| line.contains(what))
}

/// It has said this, is up, shows nothing that is not durable, and holds no reader of its outputs up: no transaction is open.
fn waits(scene: &Scene<'_>, checker: &Running, worker: &mut Worker, what: &str) {
    until(worker, what, |told| says(told, what));
    // What it tells lags behind what it does, by little.
    std::thread::sleep(Duration::from_secs(2));
    let before = worker.told().committed;
    std::thread::sleep(Duration::from_secs(1));
    assert_eq!(worker.ended().expect("asked"), None);
    let (out, committed) = (checker.counts().records_out, worker.told().committed);
    assert!(
        out <= committed && committed == before,
        "{out} outputs, {before} records committed, then {committed}"
    );
    let outputs = |stable| ends(scene.broker, &scene.output, stable);
    assert_eq!(outputs(true), outputs(false), "a transaction is open");
}

/// Row 25: the file system of the checkpoint store is full to the last byte while records come. The job stays up and tries again, with no
/// transaction open, and goes on by itself when there is room.
#[test]
fn row_25_checkpoint_store_on_a_disk_that_is_full() {
    let scene = Scene::new(Broker::shared(), "row25-store", 4);
    let disk = Disk::new(scene.dir.path(), 16);
    let (checker, feed) = (scene.checker(), scene.feed(1000));
    let mut worker = disk.worker(&options(&scene, |o| o.store_dir = disk.folder("store")));
    until(&mut worker, "commits", |told| told.committed > 1000);
    disk.fill();
    waits(&scene, &checker, &mut worker, "No space left on device");
    disk.make_room();
    scene.finish(feed, 4000, checker, worker);
}

/// Row 26: the same with a file system that was made read-only.
#[test]
fn row_26_checkpoint_store_on_a_disk_that_is_read_only() {
    let scene = Scene::new(Broker::shared(), "row26", 4);
    let disk = Disk::new(scene.dir.path(), 16);
    let (checker, feed) = (scene.checker(), scene.feed(1000));
    let mut worker = disk.worker(&options(&scene, |o| o.store_dir = disk.folder("store")));
    until(&mut worker, "commits", |told| told.committed > 1000);
    disk.remount("ro");
    waits(&scene, &checker, &mut worker, "Read-only file system");
    disk.remount("rw");
    scene.finish(feed, 4000, checker, worker);
}

/// Row 25: the file system of the local copies is full when they are to be written. RocksDB keeps such an error; the copies are closed and opened
/// anew in place, as often as it takes while there is no room, and the job goes on when there is.
#[test]
fn row_25_state_directory_on_a_disk_that_is_full() {
    let scene = Scene::new(Broker::shared(), "row25-state", 4);
    let disk = Disk::new(scene.dir.path(), 64);
    let (checker, watch, feed) = (scene.checker(), scene.watch(), scene.feed(1000));
    let mut worker = disk.worker(&options(&scene, |o| o.state_dir = disk.folder("state")));
    until(&mut worker, "commits", |told| told.committed > 500);
    disk.fill();
    until(&mut worker, "the copies opened anew", |told| {
        says(told, "opened anew") || says(told, "No space left")
    });
    disk.make_room();
    scene.finish(feed, 4000, checker, worker);
    let watched = watch.finish();
    assert!(watched.ok(), "{watched:?}");
}

/// Row 31: a call to the checkpoint store does not come back, as on a network file system whose server is away. Nothing is out meanwhile, and no
/// transaction is open; when it comes back the job goes on.
#[test]
fn row_31_checkpoint_store_that_hangs() {
    let scene = Scene::new(Broker::shared(), "row31", 4);
    let back: PathBuf = scene.dir.path().join("back");
    let (checker, watch, feed) = (scene.checker(), scene.watch(), scene.feed(1000));
    let hangs = format!("object_staged=wait:{}@6", back.display());
    let mut worker = scene.worker(&hangs, &[]);
    waits(&scene, &checker, &mut worker, "object_staged: Wait");
    std::fs::write(&back, "").expect("written");
    scene.finish(feed, 4000, checker, worker);
    let watched = watch.finish();
    assert!(watched.ok(), "{watched:?}");
}
