//! The source topic becomes another one while the job runs.
use keyfold_e2e::worker::EXIT_CANNOT_GO_ON;
use keyfold_e2e::{Broker, Worker};

use crate::scene::{Scene, end_of, until};

/// A job that runs on an empty topic. Its position is 0, which fits every topic of that name: reading does not tell.
fn running(name: &str) -> (Scene<'static>, Worker) {
    let scene = Scene::new(Broker::shared(), name, 4);
    let mut worker = scene.worker("", &[]);
    until(&mut worker, "a start", |told| told.started.is_some());
    (scene, worker)
}

fn topics(scene: &Scene<'_>, args: &[&str]) {
    let args = [&["--topic", scene.input.as_str()], args].concat();
    scene.broker.tool("topics.sh", &args).expect("done");
}

fn ends_with(worker: Worker, said: &[&str]) {
    let (code, message, _) = end_of(worker);
    assert_eq!(code, EXIT_CANNOT_GO_ON, "{message}");
    for said in said {
        assert!(message.contains(said), "{said}: {message}");
    }
}

/// The topic was deleted and made again under the running job, which went on with the new one's records as if they were the former's.
#[test]
fn row_41_topic_made_anew_under_a_running_job_stops_it() {
    let (scene, worker) = running("row41-anew");
    topics(&scene, &["--delete"]);
    scene.broker.create_topic(&scene.input, 4, &[]).expect("made anew");
    ends_with(worker, &[&scene.input, "was made anew", "its id was", "new job id"]);
}

/// The topic was deleted and stayed away.
#[test]
fn row_41_topic_deleted_under_a_running_job_stops_it() {
    let (scene, worker) = running("row41-gone");
    topics(&scene, &["--delete"]);
    ends_with(worker, &[&scene.input, "was deleted", "new job id"]);
}

/// Partitions were added under the running job, which never read them, and saw only a part of what came for a key.
#[test]
fn row_42_partitions_added_under_a_running_job_stop_it() {
    let (scene, worker) = running("row42");
    topics(&scene, &["--alter", "--partitions", "6"]);
    ends_with(
        worker,
        &[&scene.input, "has 6 partitions", "started with 4", "new job id"],
    );
}
