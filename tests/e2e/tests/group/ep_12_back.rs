//! EP-12 and EP-4: a shard leaves and comes back, and what its first owner had in hand belongs to its old assignment.
use keyfold_e2e::Broker;

use crate::members::{Gate, options, set, start_with, until_it_owns};
use crate::scene::{Scene, ended, until_it_commits};

/// The first instance is held between a commit and its apply, with records in its channels and changed entries in its maps. Half of its
/// shards go to another instance, which moves them on and leaves: they come back, before the first has applied its old epoch, or while it
/// works on the rest. What it had read, folded and not committed is gone, its local copy is brought up to the pointer, and the records that
/// the other has folded are not folded again.
#[test]
fn ep_12_a_shard_that_comes_back_goes_on_from_its_pointer_and_not_from_what_was_in_hand() {
    for back_before_the_apply in [true, false] {
        let scene = Scene::flowing(Broker::shared(), "back");
        let gate = Gate::new(&scene);
        let mut of_first = options(&scene, "first", &gate.at("pre_apply", 17));
        set(&mut of_first, "--revoke-budget-ms", 300);
        set(&mut of_first, "--stall-after-ms", 120_000);
        let mut first = start_with(&scene, "first", &of_first, 4);
        scene.until_it_says("first", "fail point pre_apply");
        let mut of_second = options(&scene, "second", "");
        of_second.more.push("--leave".into());
        let mut second = start_with(&scene, "second", &of_second, 2);
        until_it_commits(&mut second);
        if !back_before_the_apply {
            gate.open();
            until_it_owns(&scene, "first", 2);
        }
        second.signal(libc::SIGTERM).expect("alive");
        assert_eq!(ended(&mut second).0, Some(0), "{:?}", second.told());
        gate.open();
        until_it_owns(&scene, "first", 4);
        until_it_commits(&mut first);
        scene.finish_right([first]);
    }
}
