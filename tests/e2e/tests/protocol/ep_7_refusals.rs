//! EP-2, EP-6 and EP-7: who is refused at the door, before it touches anything.
use keyfold_e2e::worker::EXIT_CANNOT_GO_ON;
use keyfold_e2e::{Broker, Worker};
use rdkafka::topic_partition_list::TopicPartitionList;

use crate::scene::{Scene, until_it_commits};

/// Row 53: somebody starts another job, or the same one with another store, topic or topology, under a group that has
/// state. Each is refused with the reason, and the job itself goes on as if nothing had been.
#[test]
fn ep_7_another_job_store_topic_or_topology_under_the_same_group_is_refused() {
    let broker = Broker::shared();
    let scene = Scene::flowing(broker, "ep7-other");
    let mut worker = scene.start("a", "");
    until_it_commits(&mut worker);
    worker.kill9().expect("killed");
    let before = scene.committed();
    let base = scene.options("b", "");

    let mut other_store = base.clone();
    other_store.store_dir = scene.dir.path().join("other-store");
    refused(&scene, &other_store, "store");
    let mut other_topic = base.clone();
    other_topic.input = broker.fresh_topic("ep7-other-topic", 4).expect("topic");
    refused(&scene, &other_topic, &other_topic.input);
    let mut other_topology = base.clone();
    other_topology.more = vec!["--key-id".into(), "renamed".into()];
    refused(&scene, &other_topology, "topology");

    assert_eq!(scene.committed(), before, "a refusal has moved the pointer");
    let worker = scene.start("a", "");
    scene.finish_right([worker]);
}

fn refused(scene: &Scene, options: &keyfold_e2e::WorkerOptions, names: &str) {
    let (code, said) = scene.refused(options);
    assert_eq!(code, Some(EXIT_CANNOT_GO_ON), "{said}");
    assert!(said.contains(names), "{names} is not named: {said}");
}

/// A pointer of one job is found under the group of another that reads the same topic and uses the same store: nothing
/// is restored across. (Two jobs of their own groups share topic and store in peace.)
#[test]
fn ep_7_a_pointer_of_another_job_is_refused_and_jobs_beside_each_other_are_not() {
    let broker = Broker::shared();
    let scene = Scene::flowing(broker, "ep7-two");
    let mut worker = scene.start("a", "");
    until_it_commits(&mut worker);
    let mut beside = scene.options("beside", "");
    beside.job = format!("{}-beside", scene.job);
    beside.output = broker.fresh_topic("ep7-two-beside", 4).expect("topic");
    let mut beside = crate::scene::started(&beside);
    assert_eq!(
        beside.told().started.as_deref(),
        Some(""),
        "it has restored another's state"
    );
    until_it_commits(&mut beside);

    let mut thief = Scene::new(broker, "ep7-thief");
    thief.input.clone_from(&scene.input);
    let mut list = TopicPartitionList::new();
    for element in scene.committed_list().elements() {
        let mut added = list.add_partition(element.topic(), element.partition());
        added.set_offset(element.offset()).expect("offset");
        added.set_metadata(element.metadata());
    }
    thief.plant(&list);
    let mut options = thief.options("thief", "");
    options.store_dir = scene.store_dir();
    options.take_over = true;
    let (code, said) = thief.refused(&options);
    assert_eq!(code, Some(EXIT_CANNOT_GO_ON), "{said}");
    assert!(said.contains("belongs to job"), "{said}");
    scene.finish_right([worker]);
}

/// Two processes on one state directory would write one RocksDB. The second is turned away, whatever its flags, and the
/// first does not notice.
#[test]
fn ep_7_a_second_process_on_the_same_state_directory_is_refused() {
    let scene = Scene::flowing(Broker::shared(), "ep7-dir");
    let mut first = scene.start("a", "");
    until_it_commits(&mut first);
    let mut options = scene.options("a", "");
    options.take_over = true;
    let mut second = Worker::start(&options).expect("worker");
    let (code, said) = crate::scene::ended(&mut second);
    assert!(code.is_some_and(|code| code != 0), "{said}");
    assert!(said.contains("another process uses it"), "{said}");
    until_it_commits(&mut first);
    assert_eq!(scene.fences("a"), 0);
    scene.finish_right([first]);
}
