//! EP-2: names of epochs are never used twice.
use keyfold_e2e::Broker;

use crate::scene::{Scene, ended, started};

/// Killed with an object written that no transaction names. The next run counts its epochs from 1 again: under another
/// random name it never meets what lies there. With one name for all runs it does, and cannot go on.
#[test]
fn ep_2_an_object_that_a_killed_run_left_behind_is_never_met_again() {
    let scene = killed_with_an_orphan("");
    let restarted = started(&scene.options("a", ""));
    scene.finish_right([restarted]);

    let scene = killed_with_an_orphan("break:EP-2;");
    let (code, said) = scene.refused(&scene.options("a", "break:EP-2"));
    assert_eq!(code, Some(13), "{said}");
    assert!(said.contains("0000000000000001-1"), "{said}");
}

fn killed_with_an_orphan(switch: &str) -> Scene {
    let scene = Scene::flowing(Broker::shared(), "ep2");
    let mut worker = scene.start("a", &format!("{switch}post_manifest=kill@4"));
    assert_eq!(ended(&mut worker).0, None, "it is killed, it does not exit");
    scene
}
