//! Three brokers that keep copies of each other's data: one may go away for good, and what it led or coordinated moves to another.
use std::net::SocketAddr;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail};
use rdkafka::config::ClientConfig;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::metadata::Metadata;
use tempfile::TempDir;

use crate::broker::{Broker, BrokerOptions, free_port};
use crate::proxy::Proxy;

/// Brokers, and copies of everything.
const NODES: usize = 3;
/// What is acknowledged is on two of them, so that no one of them takes it along. Both coordinators' topics have as many partitions as
/// [`COORDINATED`] says.
const SETTINGS: [&str; 9] = [
    "offsets.topic.num.partitions=4",
    "transaction.state.log.num.partitions=4",
    "default.replication.factor=3",
    "offsets.topic.replication.factor=3",
    "transaction.state.log.replication.factor=3",
    "share.coordinator.state.topic.replication.factor=3",
    "min.insync.replicas=2",
    "transaction.state.log.min.isr=2",
    "share.coordinator.state.topic.min.isr=2",
];
/// Partitions of the topic of the groups, and of that of the transactions.
const COORDINATED: i32 = 4;
/// 16 random bytes would do, in base64; no two of our clusters ever meet.
const CLUSTER_ID: &str = "S2V5Zm9sZC1yb3ctMTYtMw";
/// A broker lives for a minute: what takes long to compile does not pay.
const JVM: &str = "-Xmx512m -XX:+UseSerialGC -XX:TieredStopAtLevel=1";
/// Far beyond what a start or a move takes on a busy machine.
const LONG: Duration = Duration::from_secs(120);

/// What the brokers share out among themselves by its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Coordinated<'a> {
    /// The consumer group of this id.
    Group(&'a str),
    /// The transactions of this transactional id.
    Transactions(&'a str),
}

/// The cluster, each broker behind a proxy. Dropping it kills the brokers and removes their data.
#[derive(Debug)]
pub struct Cluster {
    nodes: Vec<(Broker, Proxy)>,
    // After the brokers, which have their data there.
    _dir: TempDir,
}

impl Cluster {
    /// Starts three brokers, and waits until each has a copy of everything.
    ///
    /// # Errors
    /// With what the scripts say.
    pub fn start() -> Result<Cluster> {
        let dir = tempfile::tempdir().context("a directory for the brokers")?;
        let ports = (0..NODES).map(|_| free_port()).collect::<Result<Vec<u16>>>()?;
        let proxy = |port: &u16| Proxy::start(SocketAddr::from(([127, 0, 0, 1], *port))).context("a proxy");
        let proxies = ports.iter().map(proxy).collect::<Result<Vec<Proxy>>>()?;
        let addresses: Vec<String> = proxies.iter().map(Proxy::address).collect();
        let voter = |(at, port): (usize, &u16)| format!("{}@127.0.0.1:{}", at + 1, port + 1);
        let voters: Vec<String> = ports.iter().enumerate().map(voter).collect();
        let start = |at: usize| {
            let own = [
                format!("node.id={}", at + 1),
                format!("controller.quorum.voters={}", voters.join(",")),
            ];
            let options = BrokerOptions {
                advertised: Some(addresses[at].clone()),
                bootstrap: Some(addresses.join(",")),
                cluster_id: Some(CLUSTER_ID.to_owned()),
                properties: own.into_iter().chain(SETTINGS.map(str::to_owned)).collect(),
                heap: Some(JVM.to_owned()),
                remove: true,
            };
            Broker::start_with(&dir.path().join(format!("{}", at + 1)), ports[at], options)
        };
        // One that is alone waits for another.
        let brokers = thread::scope(|scope| {
            let starts: Vec<_> = (0..NODES).map(|at| scope.spawn(move || start(at))).collect();
            let joined = |s: thread::ScopedJoinHandle<'_, Result<Broker>>| s.join().map_err(|_| anyhow!("a panic"))?;
            starts.into_iter().map(joined).collect::<Result<Vec<Broker>>>()
        })?;
        let cluster = Cluster {
            nodes: brokers.into_iter().zip(proxies).collect(),
            _dir: dir,
        };
        cluster.wait_until_whole()?;
        Ok(cluster)
    }

    /// One of the brokers, for whatever does not matter which: its [`Broker::bootstrap`] names all of them.
    #[must_use]
    pub fn any(&self) -> &Broker {
        &self.nodes[0].0
    }

    /// What clients of broker `id` go through.
    ///
    /// # Panics
    /// When there is no such broker.
    #[must_use]
    pub fn proxy(&self, id: i32) -> &Proxy {
        &self.node(id).1
    }

    /// Kills broker `id` with SIGKILL and waits until it is gone, and its proxy with it; its data stays.
    ///
    /// # Errors
    /// When it does not run, or does not go.
    pub fn kill9(&self, id: i32) -> Result<()> {
        let (broker, proxy) = self.node(id);
        broker.kill9()?;
        proxy.unreachable(true).context("closing a proxy")
    }

    /// Starts broker `id` again, and waits until it has caught up with the others.
    ///
    /// # Errors
    /// With what the script says.
    pub fn restart(&self, id: i32) -> Result<()> {
        let (broker, proxy) = self.node(id);
        broker.restart()?;
        proxy.unreachable(false).context("opening a proxy")?;
        self.wait_until_whole()
    }

    /// The broker that coordinates this now, waiting until there is one.
    ///
    /// # Errors
    /// When there is none for long.
    pub fn coordinator(&self, of: Coordinated<'_>) -> Result<i32> {
        let (topic, name) = match of {
            Coordinated::Group(name) => ("__consumer_offsets", name),
            Coordinated::Transactions(name) => ("__transaction_state", name),
        };
        self.ask(&format!("the coordinator of {name}"), |metadata| {
            let partitions = metadata.topics().iter().find(|t| t.name() == topic)?.partitions();
            let leader = partitions.iter().find(|p| p.id() == partition_of(name))?.leader();
            (leader > 0).then_some(leader)
        })
    }

    /// Waits until every partition has its copies on all brokers.
    fn wait_until_whole(&self) -> Result<()> {
        self.ask("copies of everything on all brokers", |metadata| {
            let copied = |p: &rdkafka::metadata::MetadataPartition| p.leader() > 0 && p.isr().len() == NODES;
            let whole = metadata.topics().iter().all(|t| t.partitions().iter().all(copied));
            (whole && metadata.brokers().len() == NODES).then_some(())
        })
    }

    fn ask<T>(&self, what: &str, answer: impl Fn(&Metadata) -> Option<T>) -> Result<T> {
        let client: BaseConsumer = ClientConfig::new()
            .set("bootstrap.servers", self.any().bootstrap())
            .set("log_level", "2")
            .create()?;
        let begin = Instant::now();
        while begin.elapsed() < LONG {
            // A broker that has just been killed may be the one that is asked.
            let metadata = client.fetch_metadata(None, Duration::from_secs(5));
            if let Some(answer) = metadata.ok().as_ref().and_then(&answer) {
                return Ok(answer);
            }
            thread::sleep(Duration::from_millis(50));
        }
        bail!("not within {LONG:?}: {what}")
    }

    fn node(&self, id: i32) -> &(Broker, Proxy) {
        let at = usize::try_from(id - 1).ok();
        at.and_then(|at| self.nodes.get(at)).expect("a broker of the cluster")
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        // In good order the last one would wait for a majority that is gone.
        for (broker, _) in &self.nodes {
            let _ = broker.kill9();
        }
    }
}

/// Whether two groups, or two transactional ids, have the same coordinator whatever happens.
#[must_use]
pub fn stay_together(one: &str, other: &str) -> bool {
    partition_of(one) == partition_of(other)
}

/// The partition of its coordinator's topic that a name falls to: Java's `String.hashCode`, made positive as Kafka's `Utils.abs` does.
fn partition_of(name: &str) -> i32 {
    let hash = name
        .encode_utf16()
        .fold(0_i32, |hash, unit| hash.wrapping_mul(31).wrapping_add(i32::from(unit)));
    hash.checked_abs().unwrap_or(0) % COORDINATED
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_falls_to_the_partition_that_java_says() {
        // Their hash codes are 99162322, 3 and Integer.MIN_VALUE.
        let partitions = ["hello", "\u{3}", "polygenelubricants"].map(partition_of);
        assert_eq!(partitions, [2, 3, 0]);
        assert!(stay_together("Aa", "BB"));
    }
}
