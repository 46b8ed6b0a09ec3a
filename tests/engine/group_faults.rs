//! What goes wrong inside of an instance of group mode: its local copies, and its threads.
use crate::group::{Cluster, Instance, eventually};
use crate::support::SUMS;
use keyfold::checkpoint::store::{Layout, MemoryStore, ObjectPath, Store};
use keyfold::runtime::{ExitCode, MembershipFactory};
use keyfold::sink::LogErrorKind;
use keyfold::source::{GroupEvent, Membership, MembershipError};
use keyfold::testing::{Call, Fault};
use keyfold::types::Shard;
use keyfold::types::hash::murmur2;
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// A job of one instance that has answered something.
fn at_work(cluster: &mut Cluster) -> Instance {
    let instance = cluster.start("a", "");
    cluster.add(1);
    cluster.until_answered();
    instance
}

/// Damages a copy of a running instance, and waits until it was found and made again: an epoch is answered before it is applied.
fn damage(cluster: &mut Cluster, instance: &Instance, shard: Shard, value: i64) {
    let before = instance.progress.replayed_sections();
    cluster.copies["a"].damage(shard);
    cluster.add(value);
    eventually("restored", || instance.progress.replayed_sections() > before);
    // The first answer may be of before it was found; another damage in the middle of the restore would be one with this.
    cluster.add(value);
    cluster.until_answered();
}

/// A damaged copy of a shard ended an instance of group mode, although all that it holds lies in the checkpoint store.
#[test]
fn a_copy_that_is_found_damaged_in_group_mode_is_thrown_away_and_restored() {
    let mut cluster = Cluster::new();
    let instance = at_work(&mut cluster);
    damage(&mut cluster, &instance, Shard(1), 2);
    cluster.stop(instance);
    // Found when it is opened.
    cluster.copies["a"].damage(Shard(2));
    let again = cluster.start("a", "");
    cluster.add(3);
    cluster.until_answered();
    assert!(again.progress.replayed_sections() > 0, "restored");
    cluster.assert_exact();
    cluster.stop(again);
}

#[test]
fn a_copy_that_is_damaged_again_and_again_in_group_mode_ends_the_run() {
    let mut cluster = Cluster::new();
    let instance = at_work(&mut cluster);
    for value in 2..=3 {
        damage(&mut cluster, &instance, Shard(1), value);
    }
    cluster.copies["a"].damage(Shard(1));
    cluster.add(4);
    let error = Cluster::failed(instance);
    assert_eq!(error.exit_code(), ExitCode::CannotGoOn, "{error}");
    assert!(error.to_string().contains("check the disk"), "{error}");
}

/// A thread that panicked left the driver waiting for what it would never send, and nobody was told.
#[test]
fn a_panic_while_pointers_are_read_ends_the_run_and_is_named() {
    let mut cluster = Cluster::new();
    let instance = at_work(&mut cluster);
    instance.process.fault(Call::Committed, 1, Fault::Panic);
    // Everything is taken back and given anew.
    cluster.broker.expire_member(SUMS, "a");
    let error = Cluster::failed(instance);
    assert_eq!(error.exit_code(), ExitCode::CannotGoOn, "{error}");
    assert!(error.to_string().contains("reading the pointers panicked"), "{error}");
}

#[test]
fn a_panic_in_a_restore_of_group_mode_ends_the_run_and_names_the_shard() {
    let mut cluster = Cluster::new();
    let instance = at_work(&mut cluster);
    cluster.stop(instance);
    // A machine without local copies has something to restore.
    let newcomer = cluster.start_as("a", "elsewhere", "mid_restore=crash");
    let error = Cluster::failed(newcomer);
    assert_eq!(error.exit_code(), ExitCode::CannotGoOn, "{error}");
    let text = error.to_string();
    assert!(
        text.contains("restoring shard ") && text.contains(" panicked"),
        "{text}"
    );
    assert!(
        cluster.broker.group(SUMS).members.is_empty(),
        "nobody is kept waiting for it"
    );
}

/// A hold that ended by an error waited for its restorers, and those for a store that stayed away: exit 13 came when the store did.
#[test]
fn a_hold_that_ends_by_an_error_does_not_wait_for_a_store_that_stays_away() {
    let mut cluster = Cluster::new();
    let instance = at_work(&mut cluster);
    let process = &instance.process;
    // All together, then two halves, of which one is settled and waits for the store. The other one is not: each for itself, and a moment
    // later both again, which ends the hold.
    for k in [1, 3, 4, 5] {
        process.fault(Call::Committed, k, Fault::Fail(LogErrorKind::Retriable));
    }
    process.fault(Call::Committed, 6, Fault::Panic);
    for k in 1..=1000 {
        process.fault(Call::Read, k, Fault::Fail(LogErrorKind::Retriable));
    }
    cluster.broker.expire_member(SUMS, "a");
    let error = Cluster::failed(instance);
    assert_eq!(error.exit_code(), ExitCode::CannotGoOn, "{error}");
    assert!(error.to_string().contains("reading the pointers panicked"), "{error}");
}

/// An instance with another checkpoint store joined the group, took half of the partitions from the others, and only then found out.
#[test]
fn an_instance_of_another_store_is_refused_before_the_group_is_joined() {
    let mut cluster = Cluster::new();
    let instance = at_work(&mut cluster);
    let store = std::mem::replace(&mut cluster.store, MemoryStore::new(8));
    let error = Cluster::failed(cluster.start("b", ""));
    assert_eq!(error.exit_code(), ExitCode::CannotGoOn, "{error}");
    assert!(error.to_string().contains("leads into store"), "{error}");
    assert_eq!(instance.metrics.rebalances(), 0);
    cluster.store = store;
    cluster.add(2);
    cluster.until_answered();
    cluster.assert_exact();
    cluster.stop(instance);
}

/// The state directory of `a`, on a disk without room for this file.
fn full_for(cluster: &Cluster, file: &str) -> PathBuf {
    let dir = cluster.dir.path().join("a");
    std::fs::create_dir_all(&dir).expect("directory");
    let file = dir.join(file);
    std::os::unix::fs::symlink("/dev/full", &file).expect("link");
    file
}

/// An instance with a full disk joined the group and only then found that it cannot work; its restarts kept the partitions for it.
#[test]
fn a_state_directory_that_cannot_be_written_is_found_before_the_group_is_joined() {
    let mut cluster = Cluster::new();
    full_for(&cluster, "probe");
    let error = Cluster::failed(cluster.start("a", ""));
    assert_eq!(error.exit_code(), ExitCode::Failed, "{error}");
    assert!(error.to_string().contains("make room or make it writable"), "{error}");
    assert!(cluster.broker.group(SUMS).members.is_empty());
}

/// A disk that is full once the group was joined: the instance ended and kept its partitions for a restart that would fail as well.
#[test]
fn who_ends_because_of_its_own_machine_gives_its_partitions_away_at_once() {
    let mut cluster = Cluster::new();
    full_for(&cluster, "sessions.tmp");
    let full = cluster.start("a", "");
    let other = cluster.start("b", "");
    cluster.add(1);
    let error = Cluster::failed(full);
    assert_eq!(error.exit_code(), ExitCode::Failed, "{error}");
    assert!(error.to_string().contains("make room or make it writable"), "{error}");
    // Nobody ends the session of the one that is gone.
    cluster.until_answered();
    assert_eq!(cluster.broker.group(SUMS).members.len(), 1);
    cluster.assert_exact();
    cluster.stop(other);
}

/// A session had to be opened anew while the disk was full: that ended the run, though there was room again a moment later.
#[test]
fn a_disk_that_is_full_for_a_while_at_a_new_session_ends_nothing() {
    let mut cluster = Cluster::new();
    let instance = at_work(&mut cluster);
    let full = full_for(&cluster, "sessions.tmp");
    let sessions = instance.process.calls(Call::Session);
    instance
        .process
        .fault(Call::Commit, 1, Fault::Lost(LogErrorKind::SessionLost));
    cluster.add(2);
    eventually("tried again", || {
        instance.process.calls(Call::Session) > sessions + 1 || instance.thread.is_finished()
    });
    std::fs::remove_file(full).expect("room again");
    // What was answered so far may all be of the session that was lost.
    cluster.add(3);
    cluster.until_answered();
    cluster.assert_exact();
    cluster.stop(instance);
}

/// A membership with a bug.
struct Panics {
    inner: Box<dyn Membership>,
    now: Arc<AtomicBool>,
}

impl Membership for Panics {
    fn join(&mut self) -> Result<(), MembershipError> {
        self.inner.join()
    }
    fn poll(&mut self, max_wait: Duration) -> Result<Option<GroupEvent>, MembershipError> {
        assert!(!self.now.load(Ordering::SeqCst), "told to panic");
        self.inner.poll(max_wait)
    }
    fn release(&mut self) -> Result<(), MembershipError> {
        self.inner.release()
    }
    fn close(&mut self, leave: bool) {
        self.inner.close(leave);
    }
}

#[test]
fn a_panic_while_the_membership_is_kept_ends_the_run_and_is_named() {
    let mut cluster = Cluster::new();
    let now: Arc<AtomicBool> = Arc::default();
    let of_membership = now.clone();
    let wrap = move |make: MembershipFactory| -> MembershipFactory {
        Box::new(move |stage| {
            let inner = make(stage)?;
            Ok(Box::new(Panics {
                inner,
                now: of_membership,
            }))
        })
    };
    let instance = cluster.start_with("a", "a", "", wrap);
    cluster.add(1);
    cluster.until_answered();
    now.store(true, Ordering::SeqCst);
    let error = Cluster::failed(instance);
    assert_eq!(error.exit_code(), ExitCode::CannotGoOn, "{error}");
    assert!(error.to_string().contains("keeping the membership"), "{error}");
}

/// The topic had been given partitions while the job was stopped. The refusal spoke of a max parallelism, and then of a number of shards, neither
/// of which is a setting in group mode.
#[test]
fn partitions_that_were_added_before_a_start_are_named_with_the_way_out() {
    let mut cluster = Cluster::new();
    let instance = at_work(&mut cluster);
    cluster.stop(instance);
    cluster.broker.create_topic("in", 6);
    let error = Cluster::failed(cluster.start("a", ""));
    assert_eq!(error.exit_code(), ExitCode::CannotGoOn, "{error}");
    let told = error.to_string();
    assert!(
        told.contains("topic in has 6 partitions")
            && told.contains("was made from 4")
            && told.contains("another job id"),
        "{told}"
    );
    assert!(!told.contains("max parallelism"), "{told}");
}

/// A state directory was removed under a running instance: its lock went with it, and it went on without one.
#[test]
fn an_instance_whose_state_directory_was_removed_ends_and_goes_on_from_the_store() {
    let mut cluster = Cluster::new();
    let instance = at_work(&mut cluster);
    std::fs::remove_dir_all(cluster.dir.path().join("a")).expect("removed");
    cluster.add(2);
    let error = Cluster::failed(instance);
    assert_eq!(error.exit_code(), ExitCode::Failed, "{error}");
    assert!(error.to_string().contains("was removed or replaced"), "{error}");
    let again = cluster.start("a", "");
    cluster.until_answered();
    cluster.assert_exact();
    cluster.stop(again);
}

/// A membership that notes whether it was told to leave.
struct Noted {
    inner: Box<dyn Membership>,
    left: Arc<AtomicBool>,
}

impl Membership for Noted {
    fn join(&mut self) -> Result<(), MembershipError> {
        self.inner.join()
    }
    fn poll(&mut self, max_wait: Duration) -> Result<Option<GroupEvent>, MembershipError> {
        self.inner.poll(max_wait)
    }
    fn release(&mut self) -> Result<(), MembershipError> {
        self.inner.release()
    }
    fn close(&mut self, leave: bool) {
        self.left.store(leave, Ordering::SeqCst);
        self.inner.close(leave);
    }
}

/// An instance was stopped to leave, and its last epoch was taken back with its partitions: it kept its place, and the group waited a session for
/// somebody who would not come back.
#[test]
fn who_is_stopped_to_leave_leaves_also_when_its_last_epoch_is_lost() {
    let mut cluster = Cluster::new();
    cluster.configure = |config| config.leave_group = true;
    let left: Arc<AtomicBool> = Arc::default();
    let noted = left.clone();
    let wrap = move |make: MembershipFactory| -> MembershipFactory {
        Box::new(move |stage| {
            let inner = make(stage)?;
            Ok(Box::new(Noted { inner, left: noted }))
        })
    };
    let instance = cluster.start_with("a", "a", "", wrap);
    cluster.add(1);
    cluster.until_answered();
    (1..=1000).for_each(|k| {
        instance
            .process
            .fault(Call::Put, k, Fault::Fail(LogErrorKind::Retriable))
    });
    cluster.add(2);
    eventually("tried again", || instance.metrics.retries("write") > 0);
    instance.stop.stop();
    cluster.broker.expire_member(SUMS, "a");
    let error = Cluster::failed(instance);
    assert_eq!(error.exit_code(), ExitCode::Failed, "{error}");
    assert!(error.to_string().contains("are not committed"), "{error}");
    assert!(left.load(Ordering::SeqCst), "it leaves");
}

fn epochs(cluster: &Cluster) -> BTreeSet<ObjectPath> {
    let layout = Layout::new("sums", "orders").expect("valid");
    let listed = cluster.store.list(&layout.epochs()).expect("listed");
    listed.into_iter().map(|(path, _)| path).collect()
}

/// The object of one instance's shard was gone. Another instance, which never had that shard, was started again under its name, and was refused
/// because of it: after a rolling restart nobody worked.
#[test]
fn a_missing_object_of_another_ones_shard_does_not_keep_an_instance_from_starting_again() {
    let mut cluster = Cluster::new();
    let instances = ["a", "b"].map(|name| cluster.start(name, ""));
    cluster.until_shared_by(2);
    cluster.add(1);
    cluster.until_answered();
    let partition = ((murmur2(b"key-0") & 0x7fff_ffff) % 4) as i32;
    let owns = |partitions: &[(String, i32)]| partitions.iter().any(|(_, p)| *p == partition);
    let members = cluster.broker.group(SUMS).members;
    let (owners, others): (Vec<_>, Vec<_>) = instances.into_iter().partition(|i| owns(&members[&i.name]));
    let (owner, other) = (
        owners.into_iter().next().expect("one"),
        others.into_iter().next().expect("one"),
    );
    let name = other.name.clone();
    cluster.stop(other);
    let before = epochs(&cluster);
    cluster.add_one("key-0", 2);
    cluster.until_answered();
    let of_owner: Vec<ObjectPath> = epochs(&cluster).difference(&before).cloned().collect();
    assert!(!of_owner.is_empty());
    of_owner
        .iter()
        .for_each(|path| cluster.store.delete(path).expect("removed"));
    let again = cluster.start(&name, "");
    cluster.add(3);
    cluster.until_answered();
    cluster.assert_exact();
    cluster.stop(again);
    cluster.stop(owner);
}
