//! EP-7 in single mode: a spare waits, who is fenced ends and does not fight.
use keyfold_e2e::worker::EXIT_FENCED;
use keyfold_e2e::{Broker, Worker, WorkerOptions};

use crate::scene::{Scene, ended, started, until, until_it_commits, until_it_stops_itself};

/// A second instance is started beside the first, on another machine as it were. It waits while the first commits, and
/// takes over by itself when that one is killed.
#[test]
fn ep_7_a_spare_waits_while_the_pointer_moves_and_takes_over_from_a_killed_one() {
    let scene = Scene::flowing(Broker::shared(), "ep7-spare");
    let mut first = scene.start("first", "");
    until_it_commits(&mut first);
    // It watches for three of its own epochs: an owner on a busy machine does not count as gone.
    let mut options = scene.options("spare", "");
    options.epoch_ms = 3000;
    let mut spare = Worker::start(&options).expect("worker");
    until(&mut spare, "a spare", |t| t.spare);
    for _ in 0..5 {
        until_it_commits(&mut first);
    }
    assert_eq!(
        (spare.told().started, scene.fences("first")),
        (None, 0),
        "it did not wait"
    );
    first.kill9().expect("killed");
    until(&mut spare, "taken over", |t| t.started.is_some());
    scene.finish_right([spare]);
}

/// `--take-over` ends the first instance (row 54: the same transactional id twice). The older one exits 12 and does not
/// come back: nobody opens session after session.
#[test]
fn ep_7_taken_over_the_older_instance_exits_and_does_not_fight() {
    let scene = Scene::flowing(Broker::shared(), "ep7-over");
    let second = take_over(&scene, |options| options);
    scene.finish_right([second]);
}

/// The same under at-least-once, where outputs pass without a transaction: the pointer's transaction still fences.
/// Records may be answered twice there, none goes missing.
#[test]
fn ep_7_taken_over_under_at_least_once_the_older_instance_exits_and_does_not_fight() {
    let scene = Scene::flowing(Broker::shared(), "ep7-alo");
    let second = take_over(&scene, |mut options| {
        options.at_least_once = true;
        options
    });
    let report = scene.finish([second]);
    assert_eq!(report.counts.input_faults, 0, "{report}");
    assert!(report.counts.records_out >= report.counts.records_in, "{report}");
}

/// Who takes over is slow: the older one is fenced long before the newcomer commits anything, and finds its own pointer,
/// as after a time-out. It used to open a new session at once, which fenced the newcomer in turn, and to commit: the
/// newcomer exited. Now it watches the pointer for a while first.
#[test]
fn ep_7_a_newcomer_that_is_slow_to_commit_is_not_fenced_by_the_one_that_it_takes_over_from() {
    for point in ["post_init", "mid_restore"] {
        let scene = Scene::flowing(Broker::shared(), "ep7-slow");
        let second = take_over(&scene, |mut options| {
            if options.take_over {
                options.faults = Some(format!("{point}=sleep:1500"));
            }
            options
        });
        scene.finish_right([second]);
    }
}

fn take_over(scene: &Scene, with: impl Fn(WorkerOptions) -> WorkerOptions) -> Worker {
    let mut first = started(&with(scene.options("first", "")));
    until_it_commits(&mut first);
    let mut options = scene.options("second", "");
    options.take_over = true;
    let mut second = started(&with(options));
    let (code, said) = ended(&mut first);
    assert_eq!(code, Some(EXIT_FENCED), "{said}");
    for _ in 0..5 {
        until_it_commits(&mut second);
    }
    // Each may take the other for a time-out once, the newcomer looks again a few times before its first commit.
    let fences = (scene.fences("first"), scene.fences("second"));
    assert!(fences.0 <= 2 && fences.1 <= 3, "they fight: {fences:?}");
    second
}

/// Nothing flows when the second one takes over, so the first does not notice before it has something to commit: the
/// pointer, on its timer, or the next records. Then it exits 12, and its outputs are not there.
#[test]
fn ep_7_taken_over_while_nothing_flows_the_older_instance_exits_with_its_next_commit() {
    for recommit in [true, false] {
        let mut scene = Scene::new(Broker::shared(), "ep7-idle");
        scene.feed_exactly(300);
        let mut options = scene.options("first", "");
        if recommit {
            options.more = vec!["--recommit-ms".into(), "1000".into()];
        }
        let mut first = started(&options);
        until(&mut first, "done", |t| t.committed == 300);
        let mut options = scene.options("second", "");
        options.take_over = true;
        let second = started(&options);
        if recommit {
            assert_eq!(ended(&mut first).0, Some(EXIT_FENCED), "{:?}", first.told());
        }
        scene.flow();
        assert_eq!(ended(&mut first).0, Some(EXIT_FENCED), "{:?}", first.told());
        assert!(scene.fences("second") <= 3, "{:?}", second.told());
        scene.finish_right([second]);
    }
}

/// The owner is stopped in the middle of a transaction, longer than anybody waits; the spare takes over. Woken up, the
/// old owner is fenced, finds a pointer that is not its own and exits 12. If it went on instead, as whoever is fenced
/// by a time-out does, it would publish its epoch on top of another's.
#[test]
fn ep_7_woken_up_after_a_take_over_the_old_owner_exits_and_doubles_nothing() {
    for point in ["outputs_sent", "post_send_offsets"] {
        let (scene, mut owner, mut spare) = woken_up(&format!("{point}=stop@6"));
        let (code, said) = ended(&mut owner);
        assert_eq!(code, Some(EXIT_FENCED), "{said}");
        until_it_commits(&mut spare);
        assert_eq!(scene.fences("spare"), 0, "{:?}", spare.told());
        scene.finish_right([spare]);
    }
    let (scene, owner, _spare) = woken_up("post_send_offsets=stop@6;break:EP-7");
    assert!(scene.wait_for_violation().is_some(), "the switch has broken nothing");
    drop(owner);
}

/// An owner stopped at a fail point and woken up, and the spare that has taken over meanwhile.
fn woken_up(faults: &str) -> (Scene, Worker, Worker) {
    let scene = Scene::flowing(Broker::shared(), "ep7-woken");
    let mut owner = scene.start_hasty("owner", faults);
    until_it_stops_itself(&owner);
    let mut spare = started(&scene.hasty("spare", ""));
    until_it_commits(&mut spare);
    until_it_commits(&mut spare);
    owner.signal(libc::SIGCONT).expect("alive");
    (scene, owner, spare)
}
