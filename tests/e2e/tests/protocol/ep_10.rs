//! EP-10: unchanged shards keep their pointer, which is committed again on a timer.
use std::time::{Duration, Instant};

use keyfold_e2e::broker::free_port;
use keyfold_e2e::{Broker, BrokerOptions, Worker};

use crate::scene::{Scene, started, until};

/// A job runs and its topic is silent for longer than the broker keeps offsets. It commits its pointer again all the
/// while, so that a restart finds it. Without that the offsets expire under a job that is up.
#[test]
fn ep_10_the_offsets_of_an_idle_job_do_not_expire() {
    let dir = tempfile::tempdir().expect("directory");
    let properties = [
        "offsets.retention.minutes=1",
        "offsets.retention.check.interval.ms=1000",
    ];
    let options = BrokerOptions {
        properties: properties.map(str::to_owned).to_vec(),
        ..BrokerOptions::default()
    };
    let broker = Broker::start_with(dir.path(), free_port().expect("port"), options).expect("broker");
    let (right, mut kept) = idle(&broker, "");
    let (broken, mut lost) = idle(&broker, "break:EP-10");
    // The broken one's offsets show that the time is over.
    let begin = Instant::now();
    while broken.committed().is_some() {
        assert!(begin.elapsed() < Duration::from_secs(300), "the offsets do not expire");
        std::thread::sleep(Duration::from_secs(1));
    }
    let (epoch, _) = right.committed().expect("the offsets have expired");
    lost.kill9().expect("killed");
    let (code, said) = broken.refused(&broken.options("a", ""));
    assert_eq!(code, Some(13), "{said}");
    kept.kill9().expect("killed");
    let mut right = right;
    let restarted = right.start("a", "");
    assert_eq!(restarted.told().started.as_deref(), Some(epoch.as_str()));
    right.feed_exactly(100);
    right.finish_right([restarted]);
}

/// A job that has folded what there was and is idle since.
fn idle(broker: &Broker, faults: &str) -> (Scene, Worker) {
    let mut scene = Scene::new(broker, "ep10");
    scene.feed_exactly(200);
    let mut options = scene.options("a", faults);
    options.more = vec!["--recommit-ms".into(), "2000".into()];
    let mut worker = started(&options);
    until(&mut worker, "done", |t| t.committed == 200);
    (scene, worker)
}
