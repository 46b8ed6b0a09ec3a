//! The coordinator of a group or of a transaction goes away in the middle of a commit.
use std::time::Duration;

use keyfold_e2e::proxy::{Action, END_TXN, LIST_GROUPS, TXN_OFFSET_COMMIT};
use keyfold_e2e::{Broker, Cluster, Coordinated, Rule};

use crate::group::{Shared, until_said};
use crate::scene::{LONG, Scene};

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

/// A job in group mode and one in single mode, on three brokers.
struct Jobs<'a> {
    cluster: &'a Cluster,
    shared: Shared<'a>,
    alone: Shared<'a>,
}

impl Jobs<'_> {
    fn new(cluster: &Cluster) -> Jobs<'_> {
        let job = |name| {
            let mut scene = Scene::new(cluster.any(), name, 4);
            scene.stable = true;
            Shared::over(scene, RATE)
        };
        Jobs {
            cluster,
            shared: job("row16-shared"),
            alone: job("row16-alone"),
        }
    }

    /// Consumer group and transactional id of each producer: two instances in group mode, one in single mode.
    fn producers(&self) -> [(String, String); 3] {
        let (shared, alone) = (self.shared.scene.group(), self.alone.scene.group());
        [
            (shared.clone(), format!("{shared}.a")),
            (shared.clone(), format!("{shared}.b")),
            (alone.clone(), alone),
        ]
    }

    fn coordinator(&self, of: Coordinated<'_>) -> i32 {
        self.cluster.coordinator(of).expect("a coordinator")
    }

    /// Kills the coordinator when each producer that it is the coordinator of has come to this request and waits for it.
    fn kill_under_a_request(&self, of: Coordinated<'_>, api_key: i16, action: Action) -> i32 {
        let id = self.coordinator(of);
        let concerned = |(group, transactions): &(String, String)| match of {
            Coordinated::Group(_) => self.coordinator(Coordinated::Group(group)) == id,
            Coordinated::Transactions(_) => self.coordinator(Coordinated::Transactions(transactions)) == id,
        };
        let waiting = self.producers().iter().filter(|producer| concerned(producer)).count() as u64;
        let proxy = self.cluster.proxy(id);
        let rule = proxy.add(Rule::every(api_key, action));
        assert!(proxy.wait_until_acted(rule, waiting, LONG), "{of:?}: no such request");
        self.kill(id);
        proxy.clear();
        self.goes_on_without(of, id);
        id
    }

    fn kill(&self, id: i32) {
        self.cluster.kill9(id).expect("killed");
    }

    /// The jobs go on while the broker is away, with another coordinator.
    fn goes_on_without(&self, of: Coordinated<'_>, id: i32) {
        for job in [&self.shared, &self.alone] {
            job.every_partition_goes_on(&format!("without broker {id}, which coordinated {of:?}"));
        }
        assert_ne!(self.coordinator(of), id, "{of:?}");
    }

    /// It comes back, so that the next one may go.
    fn comes_back(&self, id: i32) {
        self.cluster.restart(id).expect("restarted");
    }
}

/// The broker that coordinated the group or the transaction died in the middle of a commit and stayed away: another one took its place.
/// Whatever of the commit it had taken with it or handed on, both jobs had to go on by themselves, exactly once. In single mode the job waited
/// for as long as the broker was away: when it opened its session anew it asked all brokers for the members of its group.
#[test]
fn row_16_coordinator_moves_to_another_broker_in_the_middle_of_a_commit() {
    let cluster = Cluster::start().expect("brokers");
    let jobs = Jobs::new(&cluster);
    let go = jobs.shared.scene.dir.path().join("go");
    let mut a = jobs
        .shared
        .start("a", &format!("outputs_sent=wait:{}@6", go.display()), &["--leave"]);
    let b = jobs.shared.at_work("b");
    let (group, single) = (jobs.shared.scene.group(), jobs.alone.scene.group());
    let of_a = format!("{group}.a");

    // Outputs are sent, offsets are not: they go to the new coordinator.
    until_said(&mut a, "fail point outputs_sent");
    let id = jobs.coordinator(Coordinated::Group(&group));
    jobs.kill(id);
    // To clients that start now the dead broker is one of three for a few seconds more.
    let alone = jobs.alone.scene.worker("", &[]);
    std::fs::write(&go, "").expect("written");
    jobs.goes_on_without(Coordinated::Group(&group), id);
    jobs.comes_back(id);

    // The old coordinator has the offsets, and its answer is lost with it.
    let id = jobs.kill_under_a_request(Coordinated::Group(&single), TXN_OFFSET_COMMIT, Action::DropResponse);
    jobs.comes_back(id);
    // It has decided the commit, and nobody was told.
    let id = jobs.kill_under_a_request(Coordinated::Transactions(&of_a), END_TXN, Action::DropResponse);
    jobs.comes_back(id);
    // It has never heard of the commit, and stays away.
    let hold = Action::HoldRequestUntilReleased;
    jobs.kill_under_a_request(Coordinated::Transactions(&single), END_TXN, hold);

    // That question goes to every broker, and is not answered while one of them is away: single mode asked it of its group.
    let asked = [1, 2, 3].map(|id| cluster.proxy(id).counters(LIST_GROUPS).requests);
    assert_eq!(asked, [0; 3], "lists of groups asked of each broker");
    jobs.shared.finish(vec![a, b]);
    jobs.alone.finish(vec![alone]);
}
