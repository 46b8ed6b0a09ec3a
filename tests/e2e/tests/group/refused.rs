//! Instances that end with exit code 13, and what the others have to do with it.
use keyfold_e2e::worker::EXIT_CANNOT_GO_ON;
use keyfold_e2e::{Broker, Worker};

use crate::members::{assignments, options, patient, start_with, until_it_owns, wait};
use crate::scene::{PARTITIONS, Scene, ended, until_it_commits};

/// An instance with another checkpoint directory, or of another version of the job, joined the group before it found out, and the others stood
/// still for the rebalance, and then for the session of the one that was gone. It does not get that far.
#[test]
fn an_instance_of_another_store_or_topology_is_refused_before_it_joins() {
    let scene = Scene::flowing(Broker::shared(), "refused");
    let mut stays = start_with(&scene, "stays", &patient(&scene, "stays"), 4);
    until_it_commits(&mut stays);
    let before = assignments(&scene, "stays");
    let mut other_store = patient(&scene, "store");
    other_store.store_dir = scene.dir.path().join("other-store");
    let mut other_topology = patient(&scene, "topology");
    other_topology.more.extend(["--key-id".into(), "renamed".into()]);
    for (options, named) in [
        (other_store, "leads into store"),
        (other_topology, "fingerprint of keys"),
    ] {
        let (code, said) = scene.refused(&options);
        assert_eq!(code, Some(EXIT_CANNOT_GO_ON), "{said}");
        assert!(said.contains(named), "{named}: {said}");
        until_it_commits(&mut stays);
    }
    assert_eq!(assignments(&scene, "stays"), before, "{}", scene.log("stays"));
    scene.finish_right([stays]);
}

/// What was wrong showed only in the restore, so it had joined: it ended with 13 and kept its partitions from the other for a session, and
/// once more with every start. It leaves, and the other has them back long before a session could be over.
#[test]
fn an_instance_that_cannot_go_on_leaves_the_group_and_the_other_has_its_partitions_at_once() {
    let scene = Scene::flowing(Broker::shared(), "thirteen");
    let mut stays = start_with(&scene, "stays", &patient(&scene, "stays"), 4);
    until_it_commits(&mut stays);
    let before = assignments(&scene, "stays");
    let mut of_goes = patient(&scene, "goes");
    of_goes.faults = Some("mid_restore=crash".to_owned());
    let (code, said) = scene.refused(&of_goes);
    assert_eq!(code, Some(EXIT_CANNOT_GO_ON), "{said}");
    assert!(said.contains("panicked"), "{said}");
    let log = || scene.log("stays");
    wait("given all back", log, || assignments(&scene, "stays") >= before + 2);
    until_it_owns(&scene, "stays", 4);
    until_it_commits(&mut stays);
    scene.finish_right([stays]);
}

/// The topic was given more partitions under a job of several instances. Each of them ends, at the latest when the others have left, and says
/// what has happened and what to do; so does one that is started then.
#[test]
fn partitions_that_were_added_end_every_instance_with_the_cause_and_the_way_out() {
    let scene = Scene::flowing(Broker::shared(), "grown");
    let mut members: Vec<Worker> = Vec::new();
    for (who, owns) in [("a", 4), ("b", 2)] {
        members.push(start_with(&scene, who, &options(&scene, who, ""), owns));
    }
    let broker = Broker::shared();
    let grown = (PARTITIONS + 2).to_string();
    let args = ["--topic", scene.input.as_str(), "--alter", "--partitions", &grown];
    broker.tool("topics.sh", &args).expect("grown");
    let mut ends: Vec<_> = members.iter_mut().map(ended).collect();
    ends.push(scene.refused(&options(&scene, "late", "")));
    for (code, said) in ends {
        assert_eq!(code, Some(EXIT_CANNOT_GO_ON), "{said}");
        for part in [scene.input.as_str(), "partitions", "job id"] {
            assert!(said.contains(part), "{part} is not named: {said}");
        }
    }
}
