//! A record that lies in another partition than its key says.
use keyfold_e2e::worker::EXIT_CANNOT_GO_ON;
use keyfold_e2e::{Broker, Worker};

use crate::members::{options, wait};
use crate::scene::{PARTITIONS, Scene, ended};

/// A program with another partitioner writes to the topic. Its record would be folded into a state that its key does not have there. It is
/// not: the job ends and says which record it was and which partitioner it expects; asked to skip such records it counts and goes on.
#[test]
fn a_misplaced_record_ends_the_job_with_its_place_or_is_skipped_and_counted() {
    let mut scene = Scene::new(Broker::shared(), "misplaced");
    scene.feed_exactly(200);
    let (right, _) = scene.produce(None, "k1", 5);
    let (wrong, at) = scene.produce(Some((right + 1) % PARTITIONS), "k1", 5);

    let mut worker = Worker::start(&options(&scene, "a", "")).expect("worker");
    let (code, said) = ended(&mut worker);
    assert_eq!(code, Some(EXIT_CANNOT_GO_ON), "{said}");
    let place = format!("{}-{wrong} offset {at}", scene.input);
    for part in [place.as_str(), "wrong partition", "murmur2"] {
        assert!(said.contains(part), "{part} is not named: {said}");
    }

    let mut of_skipping = options(&scene, "a", "");
    of_skipping.more.push("--skip".into());
    let mut worker = Worker::start(&of_skipping).expect("worker");
    wait(
        "past it",
        || scene.log("a"),
        || scene.glanced_offsets()[&wrong] == at + 1,
    );
    worker.signal(libc::SIGTERM).expect("alive");
    assert_eq!(ended(&mut worker).0, Some(0));
    assert_eq!(worker.told().counter("misplaced"), 1, "{:?}", worker.told());
}
