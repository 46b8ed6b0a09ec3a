//! Other people's programs on our topics: those that Kafka ships.
use keyfold_e2e::Broker;

use crate::control_records::lag;
use crate::oracle::{assert_exact, fold};
use crate::records::{good, produce, read};
use crate::scene::{Scene, stop, until, wait};

/// What the job writes is for others to read: Kafka's console consumer reads every output once, and Kafka's group tool shows the group,
/// its offsets and its lag.
#[test]
fn console_consumer_and_consumer_groups_see_outputs_and_lag() {
    let scene = Scene::new(Broker::shared(), "tools", 2);
    produce(scene.broker, &scene.input, &good(100));
    let mut worker = scene.worker("", &[]);
    until(&mut worker, "all committed", |told| told.committed >= 100);
    wait("no lag", || (lag(&scene) == [0, 0]).then_some(()));
    stop(worker);
    let inputs = read(scene.broker, &scene.input);
    let arguments = [
        "--topic",
        &scene.output,
        "--from-beginning",
        "--isolation-level",
        "read_committed",
    ];
    let bounds = ["--max-messages", "100", "--timeout-ms", "60000"];
    let text = scene
        .broker
        .tool("console-consumer.sh", &[arguments.as_slice(), &bounds].concat())
        .expect("tool");
    let mut values: Vec<String> = text.lines().map(str::to_owned).collect();
    let mut expected: Vec<String> = fold(&inputs, |_| true).into_iter().map(|(_, value, _)| value).collect();
    values.sort();
    expected.sort();
    assert_eq!(values, expected);
    produce(scene.broker, &scene.input, &good(30));
    assert_eq!(lag(&scene).iter().sum::<i64>(), 30, "while the job is stopped");
    let groups = scene.broker.tool("consumer-groups.sh", &["--list"]).expect("tool");
    assert!(groups.lines().any(|group| group == scene.group()), "{groups}");
    let open = scene
        .broker
        .tool("transactions.sh", &["find-hanging", "--broker-id", "1"])
        .expect("tool");
    assert!(!open.contains(&scene.output), "{open}");
    let mut worker = scene.worker("", &[]);
    until(&mut worker, "all committed", |told| told.committed >= 30);
    stop(worker);
    assert_exact(&scene, |_| true);
}
