//! Committed offsets that lead nowhere: the records behind them are gone, or somebody has reset them.
#[path = "../../../../connectors/kafka/tests/support/raw.rs"]
#[allow(dead_code)]
mod raw;

use keyfold_e2e::worker::EXIT_CANNOT_GO_ON;
use keyfold_e2e::{Broker, Worker};

use crate::oracle::{assert_exact, fold, lines};
use crate::records::{good, produce, read};
use crate::scene::{Scene, end_of, stop, until};

/// Deletes the records of partition 0 before this offset, as retention does.
fn delete_records(scene: &Scene<'_>, before: i64) {
    raw::delete_records(&scene.broker.direct(), &scene.input, before);
}

fn delete_offsets(scene: &Scene<'_>) {
    let group = scene.group();
    scene
        .broker
        .tool("consumer-groups.sh", &["--delete", "--group", &group])
        .expect("deleted");
}

/// A job with the offsets 0 to 19 folded and committed; the worker runs.
fn running(name: &str) -> (Scene<'static>, Worker) {
    let scene = Scene::new(Broker::shared(), name, 1);
    produce(scene.broker, &scene.input, &good(20));
    let mut worker = scene.worker("", &[]);
    until(&mut worker, "all committed", |told| told.committed >= 20);
    (scene, worker)
}

/// It ends with 13 and says all of this; nothing is committed and nothing written.
fn refuses(scene: &Scene<'_>, worker: Worker, said: &[&str]) -> String {
    let before = read(scene.broker, &scene.output);
    let (code, message, _) = end_of(worker);
    assert_eq!(code, EXIT_CANNOT_GO_ON, "{message}");
    for part in said {
        assert!(message.contains(part), "{part} is not named: {message}");
    }
    assert_eq!(read(scene.broker, &scene.output), before);
    message
}

/// The way out that the message names: the offsets of the group are deleted, and state begins anew at the start of the topic, at `first`.
fn begins_anew(scene: &Scene<'_>, first: i64) {
    let written = read(scene.broker, &scene.output).len();
    delete_offsets(scene);
    let mut worker = scene.worker("", &["--accept-lost-pointers"]);
    let there = read(scene.broker, &scene.input);
    until(&mut worker, "all committed", |told| {
        told.committed >= there.len() as u64
    });
    stop(worker);
    let anew = read(scene.broker, &scene.output).split_off(written);
    assert!(there.iter().all(|r| r.offset >= first), "{there:?}");
    assert_eq!(lines(&anew), fold(&there, |_| true));
}

/// Rows 40, B14 and B24: retention took records that a stopped job had not read. Others wipe their state, jump over the gap or stand still; this
/// one stopped, said how many offsets are gone and how to go on without them.
#[test]
fn row_40_records_that_are_gone_before_they_were_read_stop_the_job_at_its_start() {
    let (scene, worker) = running("row40");
    stop(worker);
    produce(scene.broker, &scene.input, &good(20));
    delete_records(&scene, 33);
    let gone = [
        "from offset 20",
        "holds offsets 33 to 40: 13 offsets",
        "accept_lost_pointers",
    ];
    let committed = scene.committed();
    for _ in 0..2 {
        refuses(
            &scene,
            scene.worker("", &[]),
            &[&[scene.input.as_str()], &gone[..]].concat(),
        );
        let offsets = scene.committed();
        assert_eq!((offsets[0].offset, committed[0].offset), (20, 20), "it did not jump");
    }
    begins_anew(&scene, 33);
}

/// The same under a running job, which had stood still meanwhile.
#[test]
fn row_40_records_that_are_gone_under_a_running_job_stop_it() {
    let (scene, mut worker) = running("row40-up");
    worker.signal(libc::SIGSTOP).expect("runs");
    produce(scene.broker, &scene.input, &good(20));
    delete_records(&scene, 40);
    worker.signal(libc::SIGCONT).expect("stopped");
    let gone = [
        scene.input.as_str(),
        "holds offsets 40 to 40: 20 offsets",
        "accept_lost_pointers",
    ];
    refuses(&scene, worker, &gone);
    assert_eq!(scene.committed()[0].offset, 20);
}

/// Row 44: an operator reset the offsets with Kafka's tool, which leaves them without the pointer, also when they stay where they are. The job
/// refused, whatever the offset was, and began anew when it was told to.
#[test]
fn row_44_offsets_that_were_reset_are_refused_until_a_new_beginning_is_asked_for() {
    let (scene, worker) = running("row44");
    stop(worker);
    for to in ["--to-current", "--to-earliest", "--to-latest"] {
        let group = scene.group();
        let arguments = [
            "--reset-offsets",
            "--group",
            &group,
            "--topic",
            &scene.input,
            to,
            "--execute",
        ];
        scene.broker.tool("consumer-groups.sh", &arguments).expect("reset");
        let first = format!("{}-0", scene.input);
        let said = [first.as_str(), "without a pointer", "accept_lost_pointers"];
        refuses(&scene, scene.worker("", &[]), &said);
        refuses(&scene, scene.worker("", &["--accept-lost-pointers"]), &said);
    }
    begins_anew(&scene, 0);
}

/// Rows 59 and B35: metadata with NUL, with what is no UTF-8 and with a path in it is refused and shown harmlessly, in both modes. (A client that
/// takes it for text panics.)
#[test]
fn row_59_metadata_that_somebody_has_crafted_is_refused_without_a_panic() {
    let long = [b'a'; 4000];
    let crafted: [&[u8]; 5] = [b"k1;\0;..", b"\xff\xfe/../\xfe", b"../../etc/x", b"%2e%2e", &long];
    for more in [&[][..], &["--group", "--instance", "one", "--leave"]] {
        let scene = Scene::new(Broker::shared(), "row59", 1);
        produce(scene.broker, &scene.input, &good(20));
        let mut worker = scene.worker("", more);
        until(&mut worker, "all committed", |told| told.committed >= 20);
        stop(worker);
        for metadata in crafted {
            raw::commit_metadata(&scene.broker.direct(), &scene.group(), &scene.input, 20, metadata);
            let first = format!("offset 20 of {}-0 is no pointer", scene.input);
            let message = refuses(&scene, scene.worker("", more), &[&first]);
            assert!(message.is_ascii() && !message.contains("panicked"), "{message}");
        }
        assert_exact(&scene, |_| true);
    }
}
