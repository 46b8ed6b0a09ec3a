//! Bases and collection in group mode: shards go from instance to instance, and the store stays bounded.
use crate::group::{Cluster, Instance, eventually};
use keyfold::checkpoint::store::{Layout, Store};
use std::time::Duration;

const GRACE: Duration = Duration::from_secs(3);

fn cluster() -> Cluster {
    let mut cluster = Cluster::new();
    cluster.configure = |config| {
        config.chain_objects_max = 5;
        config.grace = GRACE;
    };
    cluster
}

fn bases(instances: &[&Instance]) -> u64 {
    instances.iter().map(|i| i.metrics.bases("committed")).sum()
}

/// Records and time until `done`.
fn flow(cluster: &mut Cluster, done: impl Fn() -> bool) {
    for n in 0..10_000 {
        if done() {
            return;
        }
        cluster.add(n % 7);
        cluster.until_answered();
        cluster.store.advance(GRACE / 20);
    }
    panic!("never");
}

/// What an instance that joins, or takes over, has never had is fetched from bases; what it leaves behind is picked up by others in the same way.
#[test]
fn shards_that_move_are_restored_from_bases_and_one_instance_collects() {
    let mut cluster = cluster();
    let a = cluster.start("a", "");
    let b = cluster.start("b", "");
    cluster.until_shared_by(2);
    flow(&mut cluster, || bases(&[&a, &b]) >= 8);
    let collected = |i: &Instance| i.metrics.collected_objects();
    flow(&mut cluster, || collected(&a) + collected(&b) > 20);
    let collectors = [&a, &b].into_iter().filter(|i| i.metrics.collections("swept") > 0);
    assert_eq!(collectors.count(), 1, "the owner of the first shard");
    let folder = Layout::new("sums", "orders").expect("valid").epochs();
    let epochs = cluster.store.list(&folder).expect("lists").len();
    assert!(epochs < 300, "{epochs} epochs");

    let c = cluster.start("c", "");
    cluster.until_shared_by(3);
    cluster.add(1);
    cluster.until_answered();
    // Of a partition that it was given it has no copy.
    eventually("c has fetched a base", || c.metrics.fetched_bytes() > 0);
    cluster.kill(a);
    b.stop.stop();
    assert!(b.thread.join().is_ok());
    for gone in ["a", "b"] {
        cluster.broker.expire_member(crate::support::SUMS, gone);
    }
    flow(&mut cluster, || bases(&[&c]) >= 4);
    flow(&mut cluster, || collected(&c) > 0);
    c.stop.stop();
    assert!(c.thread.join().is_ok());
    cluster.assert_exact();
}
