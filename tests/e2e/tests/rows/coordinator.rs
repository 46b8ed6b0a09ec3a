//! The coordinator of a group or of a transaction goes away in the middle of a commit.
use std::time::Duration;

use keyfold_e2e::cluster::stay_together;
use keyfold_e2e::proxy::{Action, END_TXN, LIST_GROUPS, TXN_OFFSET_COMMIT};
use keyfold_e2e::{Broker, Cluster, Coordinated, Rule};

use crate::group::{Shared, until_said};
use crate::scene::{LONG, Scene, until};

/// The broker of the group's and the transactions' coordinator goes away in the middle of a commit, and comes back.
#[test]
fn row_16_coordinator_goes_away_in_the_middle_of_a_commit_in_group_mode() {
    let dir = tempfile::tempdir().expect("directory");
    let port = keyfold_e2e::broker::free_port().expect("port");
    let broker = Broker::start(dir.path(), port).expect("broker");
    let shared = Shared::on(&broker, "row16");
    let mut a = shared.start("a", "post_send_offsets=sleep:1500@6", &["--leave"]);
    let b = shared.at_work("b");
    until_said(&mut a, "fail point post_send_offsets");
    broker.kill9().expect("killed");
    std::thread::sleep(Duration::from_millis(500));
    broker.restart().expect("started");
    shared.every_partition_goes_on("after the restart");
    shared.finish(vec![a, b]);
}

/// Records a second for each job: every one of them is written three times and passes a proxy.
const RATE: u64 = 200;

/// A job in group mode and one in single mode, on three brokers. Their groups have one coordinator, and so have the transactions of the
/// instance `a` and of the job in single mode.
struct Jobs<'a> {
    cluster: &'a Cluster,
    shared: Shared<'a>,
    alone: Shared<'a>,
    /// The name of that instance.
    a: String,
}

impl Jobs<'_> {
    fn new(cluster: &Cluster) -> Jobs<'_> {
        let mut scene = Scene::new(cluster.any(), "row16-shared", 4);
        scene.stable = true;
        let group = scene.group();
        let a = (0..)
            .map(|n| format!("a{n}"))
            .find(|a| stay_together(&format!("{group}.{a}"), &group))
            .expect("a name");
        let mut alone = Scene::new(cluster.any(), "row16-alone", 4);
        alone.stable = true;
        let job = alone.job.clone();
        // Group and transactional id have the same name in single mode.
        alone.job = (0..)
            .map(|n| format!("{job}-{n}"))
            .find(|job| stay_together(&format!("{job}.input"), &group))
            .expect("a name");
        Jobs {
            cluster,
            shared: Shared::over(scene, RATE),
            alone: Shared::over(alone, RATE),
            a,
        }
    }

    /// The broker that coordinates both groups.
    fn of_groups(&self) -> i32 {
        let group = self.shared.scene.group();
        self.cluster.coordinator(Coordinated::Group(&group)).expect("there")
    }

    /// The broker that coordinates the transactions of `a` and of the job in single mode.
    fn of_transactions(&self) -> i32 {
        let id = self.alone.scene.group();
        self.cluster.coordinator(Coordinated::Transactions(&id)).expect("there")
    }

    /// Broker `id` is away, and the jobs go on.
    fn go_on_without(&self, id: i32) {
        for job in [&self.shared, &self.alone] {
            job.every_partition_goes_on(&format!("without broker {id}"));
        }
        assert!(self.of_groups() != id && self.of_transactions() != id);
    }
}

/// The broker that coordinated the group or the transaction died in the middle of a commit and stayed away: another one took its place.
/// Whatever of the commit it had taken with it or handed on, both jobs had to go on by themselves, exactly once. In single mode the job waited
/// for as long as the broker was away: when it opened its session anew it asked all brokers for the members of its group.
#[test]
fn row_16_coordinator_moves_to_another_broker_in_the_middle_of_a_commit() {
    let cluster = Cluster::start().expect("brokers");
    let jobs = Jobs::new(&cluster);
    let b = jobs.shared.at_work("b");
    let mut alone = jobs.alone.scene.worker("", &[]);
    until(&mut alone, "a commit", |told| told.committed > 0);
    let go = jobs.shared.scene.dir.path().join("go");
    let faults = format!("outputs_sent=wait:{}@3", go.display());
    let mut a = jobs.shared.start(&jobs.a, &faults, &["--leave"]);

    // Of the instance `a` the outputs are sent, and the offsets go to the new coordinator. Of the others the old one has the offsets, and
    // its answers are lost with it.
    until_said(&mut a, "fail point outputs_sent");
    let id = jobs.of_groups();
    let lost = cluster
        .proxy(id)
        .add(Rule::every(TXN_OFFSET_COMMIT, Action::DropResponse));
    assert!(cluster.proxy(id).wait_until_acted(lost, 2, LONG), "no offsets");
    cluster.kill9(id).expect("killed");
    std::fs::write(&go, "").expect("written");
    jobs.go_on_without(id);
    cluster.proxy(id).clear();
    cluster.restart(id).expect("restarted");

    // One commit is decided, and nobody was told. Of the other the old coordinator has never heard.
    let id = jobs.of_transactions();
    let proxy = cluster.proxy(id);
    let decided = proxy.add(Rule::nth(END_TXN, 1, Action::DropResponse));
    let unheard = proxy.add(Rule::every(END_TXN, Action::HoldRequestUntilReleased));
    for rule in [decided, unheard] {
        assert!(proxy.wait_until_acted(rule, 1, LONG), "no commit");
    }
    cluster.kill9(id).expect("killed");
    proxy.clear();
    jobs.go_on_without(id);

    // That question goes to every broker, and is not answered while one of them is away: single mode asked it of its group.
    let asked = [1, 2, 3].map(|id| cluster.proxy(id).counters(LIST_GROUPS).requests);
    assert_eq!(asked, [0; 3], "lists of groups asked of each broker");
    jobs.shared.finish(vec![a, b]);
    jobs.alone.finish(vec![alone]);
}
