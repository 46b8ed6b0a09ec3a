//! EP-1: an epoch object is durable before a transaction names it.
use std::path::Path;
use std::time::Duration;

use keyfold_e2e::guard::sibling;
use keyfold_e2e::proxy::{END_TXN, TXN_OFFSET_COMMIT};
use keyfold_e2e::{Broker, Worker};

use crate::scene::{Scene, ended, until, until_it_commits};
use crate::trace::{self, Call};

/// A machine that loses power forgets what was not synced. If the offsets of an epoch can be committed before its
/// object is on disk, the broker names an object that nobody has. So: the staged object is synced, renamed, its
/// directory synced, and only then the offsets that name it are sent, and the end of the transaction after them.
#[test]
fn ep_1_object_is_synced_renamed_and_its_directory_synced_before_offsets_and_end_of_the_transaction_are_sent() {
    let right = traced("");
    assert!(right.epochs >= 3, "only {} epochs with an object", right.epochs);
    assert_eq!(right.wrong, Vec::<String>::new());
    let broken = traced("break:EP-1");
    assert!(
        broken.epochs >= 3 && broken.wrong.len() as u64 >= broken.epochs,
        "{:?}",
        broken.wrong
    );
}

struct Order {
    epochs: u64,
    wrong: Vec<String>,
}

fn traced(faults: &str) -> Order {
    let scene = Scene::flowing(Broker::shared(), "ep1-order");
    // The scene's own directory goes with it.
    let dir = tempfile::tempdir().expect("directory");
    let output = dir.path().join("trace");
    let program = trace::program(dir.path(), &sibling("worker").expect("built"), &output);
    let mut worker = Worker::start_program(&program, &scene.options("a", faults)).expect("worker");
    until(&mut worker, "started", |t| t.started.is_some());
    for _ in 0..3 {
        until_it_commits(&mut worker);
    }
    scene.finish_right([worker]);
    // The tracer writes the last lines when its worker has gone.
    std::thread::sleep(Duration::from_millis(500));
    judge(&trace::read(&output))
}

/// Looks at every TxnOffsetCommit whose pointer names an epoch, and at what was done for this epoch's object.
fn judge(calls: &[Call]) -> Order {
    let mut order = Order {
        epochs: 0,
        wrong: Vec::new(),
    };
    let offsets = calls.iter().filter(|c| c.api_key() == Some(TXN_OFFSET_COMMIT as u16));
    for sent in offsets {
        let epoch = named_epoch(sent).expect("a pointer in the offsets");
        order.epochs += 1;
        let end = calls
            .iter()
            .find(|c| c.begin > sent.begin && c.api_key() == Some(END_TXN as u16));
        let problem = match (durable_at(calls, &epoch), end) {
            (_, None) => Some("the transaction is not ended".to_owned()),
            (Err(why), _) => Some(why),
            (Ok(at), _) if at >= sent.begin => Some(format!("offsets were sent at {}, durable at {at}", sent.begin)),
            (Ok(_), Some(_)) => None,
        };
        order.wrong.extend(problem.map(|why| format!("epoch {epoch}: {why}")));
    }
    order
}

/// `k1;<job>;<store>;<epoch>;<digest>`
fn named_epoch(call: &Call) -> Option<String> {
    let pointer = call.arguments.split("k1;").nth(1)?;
    pointer.split(';').nth(2).map(str::to_owned)
}

/// The line at which the object of an epoch was durable, all steps in their order.
fn durable_at(calls: &[Call], epoch: &str) -> Result<usize, String> {
    let renamed = calls
        .iter()
        .find(|c| c.name.starts_with("rename") && c.arguments.contains(epoch));
    let renamed = renamed.ok_or("its object was not renamed")?;
    let mut quoted = renamed.arguments.split('"').skip(1).step_by(2);
    let (from, to) = (quoted.next().unwrap_or(""), quoted.next().unwrap_or(""));
    let directory = Path::new(to).parent().and_then(Path::to_str).unwrap_or("");
    let synced = |path: &str| {
        calls
            .iter()
            .filter(move |c| c.name.ends_with("sync") && c.file() == path)
            .collect::<Vec<_>>()
    };
    if !synced(from).iter().any(|c| c.end < renamed.begin) {
        return Err("its staged object was not synced before it was renamed".into());
    }
    let after = synced(directory).into_iter().find(|c| c.begin > renamed.end);
    after
        .map(|c| c.end)
        .ok_or_else(|| "its directory was not synced after the rename".into())
}

/// Killed right after the broker has acknowledged a commit: with the object written first the restart goes on from it,
/// with the order turned round it has nothing to go on from, and says which object is missing instead of guessing.
#[test]
fn ep_1_killed_after_the_commit_the_restart_finds_what_the_pointer_names() {
    let (scene, mut worker) = killed_after_commit("");
    let (epoch, _) = scene.committed().expect("a pointer");
    let restarted = scene.start("a", "");
    assert_eq!(restarted.told().started.as_deref(), Some(epoch.as_str()));
    scene.finish_right([restarted]);
    worker.kill9().ok();

    let (scene, _) = killed_after_commit("break:EP-1;");
    let (epoch, _) = scene.committed().expect("a pointer");
    let (code, said) = scene.refused(&scene.options("a", ""));
    assert_eq!(code, Some(13), "{said}");
    assert!(said.contains(&epoch), "{epoch} is not named: {said}");
}

fn killed_after_commit(switch: &str) -> (Scene, Worker) {
    let scene = Scene::flowing(Broker::shared(), "ep1-kill");
    let mut worker = scene.start("a", &format!("{switch}post_commit=kill@6"));
    assert_eq!(ended(&mut worker).0, None, "it is killed, it does not exit");
    (scene, worker)
}
