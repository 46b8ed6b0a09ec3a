//! EP-6: "no committed offset" is never taken for a fresh start.
use keyfold_e2e::Broker;

use crate::scene::{Scene, until_it_commits};

/// Somebody deletes the group's offsets while the job is down, or they expire. The store knows the job, so its offsets
/// are missing, not new: it refuses and names the way out. Taken for a new job, it would write all outputs again.
#[test]
fn ep_6_deleted_offsets_are_missed_and_not_taken_for_a_new_job() {
    let broker = Broker::shared();
    for whole_group in [true, false] {
        let scene = without_offsets(broker, whole_group);
        let (code, said) = scene.refused(&scene.options("a", ""));
        assert_eq!(code, Some(13), "{said}");
        assert!(
            said.contains("accept_lost_pointers") && said.contains(&scene.input),
            "{said}"
        );
        let (code, said) = scene.refused(&scene.options("elsewhere", ""));
        assert_eq!(code, Some(13), "with an empty state directory: {said}");
        if whole_group {
            let worker = scene.start("a", "break:EP-6");
            scene.finish_doubled([worker]);
        }
    }
}

fn without_offsets(broker: &Broker, whole_group: bool) -> Scene {
    let scene = Scene::flowing(broker, "ep6");
    let mut worker = scene.start("a", "");
    until_it_commits(&mut worker);
    worker.kill9().expect("killed");
    let group = scene.group();
    let arguments = match whole_group {
        true => vec!["--delete", "--group", &group],
        false => vec!["--delete-offsets", "--group", &group, "--topic", &scene.input],
    };
    let told = broker.tool("consumer-groups.sh", &arguments).expect("deleted");
    assert!(scene.committed().is_none(), "{told}");
    scene
}
