//! EP-12: an epoch is sent only under an assignment in which every shard that it names was owned.
use keyfold_e2e::{Broker, Worker};

use crate::members::{Gate, assert_broken, options, set, start, start_with, until_it_owns};
use crate::scene::{Scene, until_it_commits};

/// Half of the partitions are taken away while an epoch waits between two steps of its publish, for longer than the budget. Who gets them
/// goes on from what is committed. The epoch is dropped as a whole, or it would be committed on top of the other's.
fn taken_away_at(point: &str, switch: &str) -> (Scene, Worker, Worker) {
    let scene = Scene::flowing(Broker::shared(), "taken");
    let gate = Gate::new(&scene);
    let mut of_first = options(&scene, "first", &format!("{switch}{}", gate.at(point, 6)));
    set(&mut of_first, "--revoke-budget-ms", 300);
    // Neither the broker nor its own watchdog ends what waits here.
    set(&mut of_first, "--transaction-timeout-ms", 120_000);
    set(&mut of_first, "--stall-after-ms", 120_000);
    let first = start_with(&scene, "first", &of_first, 4);
    scene.until_it_says("first", &format!("fail point {point}"));
    let mut second = start(&scene, "second", "", 2);
    until_it_commits(&mut second);
    until_it_commits(&mut second);
    gate.open();
    (scene, first, second)
}

fn right_and_broken(point: &str) {
    let (scene, mut first, second) = taken_away_at(point, "");
    until_it_owns(&scene, "first", 2);
    until_it_commits(&mut first);
    assert!(scene.log("first").contains("the assignment is dropped"));
    scene.finish_right([first, second]);

    let (scene, _first, _second) = taken_away_at(point, "break:EP-12;");
    assert_broken(&scene, &["first", "second"]);
}

/// The object is durable, no transaction is open: the object stays behind, nothing names it.
#[test]
fn ep_12_taken_away_between_the_durable_object_and_its_publish_the_epoch_is_dropped() {
    right_and_broken("post_manifest");
}

/// Half of the outputs lie in an open transaction, those of the shards that go among them: it is aborted.
#[test]
fn ep_12_taken_away_in_the_middle_of_a_publish_the_transaction_is_aborted() {
    right_and_broken("outputs_half_sent");
}
