//! The broker goes away.
use std::fs;
use std::time::{Duration, Instant};

use keyfold_e2e::{Broker, Worker};

use crate::scene::{Scene, end_of, until};

pub struct Own {
    pub broker: Broker,
    // After the broker: it has its data there.
    _dir: tempfile::TempDir,
}

pub fn own_broker(properties: &[&str]) -> Own {
    let dir = tempfile::tempdir().expect("directory");
    let options = keyfold_e2e::BrokerOptions {
        properties: properties.iter().map(|p| (*p).to_owned()).collect(),
        ..Default::default()
    };
    let port = keyfold_e2e::broker::free_port().expect("port");
    let broker = Broker::start_with(dir.path(), port, options).expect("broker");
    Own { broker, _dir: dir }
}

/// The broker was killed with half the outputs of a transaction sent, and came back: the worker went on by itself.
#[test]
fn row_14_broker_killed_in_the_middle_of_a_transaction() {
    let own = own_broker(&[]);
    let scene = Scene::new(&own.broker, "row14", 4);
    let (checker, watch, feed) = (scene.checker(), scene.watch(), scene.feed(1000));
    let mut worker = scene.worker("outputs_half_sent=sleep:3000@4", &[]);
    let pid = worker.pid();
    until(&mut worker, "the fail point", |told| {
        told.last_lines
            .iter()
            .any(|line| line.contains("outputs_half_sent: Sleep"))
    });
    own.broker.kill9().expect("killed");
    own.broker.restart().expect("restarted");
    assert_eq!(worker.pid(), pid);
    scene.finish(feed, 8000, checker, worker);
    let watched = watch.finish();
    assert!(watched.ok(), "{watched:?}");
}

/// CPU time of a process so far.
fn cpu_time(worker: &Worker) -> Duration {
    let stat = fs::read_to_string(format!("/proc/{}/stat", worker.pid())).expect("runs");
    // After the name in parentheses: the state is field 3, user and system time are fields 14 and 15, in hundredths of a second.
    let (_, fields) = stat.rsplit_once(')').expect("a name");
    let field = |n: usize| fields.split_whitespace().nth(n - 3).and_then(|f| f.parse::<u64>().ok());
    Duration::from_millis((field(14).unwrap_or(0) + field(15).unwrap_or(0)) * 10)
}

/// The broker stayed away for longer than the transaction's timeout. The worker stayed up without spinning, said that it was trying
/// again, made its producer anew and went on, exactly once.
#[test]
fn row_15_broker_away_for_longer_than_the_transaction_timeout() {
    let own = own_broker(&[]);
    let scene = Scene::new(&own.broker, "row15", 4);
    let (checker, watch, feed) = (scene.checker(), scene.watch(), scene.feed(1000));
    let mut worker = scene.worker("", &["--transaction-timeout-ms", "5000"]);
    until(&mut worker, "commits", |told| told.committed > 1000);
    own.broker.kill9().expect("killed");
    let (begin, before) = (Instant::now(), cpu_time(&worker));
    std::thread::sleep(Duration::from_secs(12));
    let (away, used) = (begin.elapsed(), cpu_time(&worker).saturating_sub(before));
    assert_eq!(worker.ended().expect("asked"), None, "{:?}", worker.told().last_lines);
    assert!(used < away / 5, "busy while the broker is away: {used:?} of {away:?}");
    own.broker.restart().expect("restarted");
    let told = scene.finish(feed, 8000, checker, worker);
    assert!(
        told.counter("rebuilds") > 0 && told.counter("retries") > 0,
        "{:?}",
        told.ended
    );
    let watched = watch.finish();
    assert!(watched.ok(), "{watched:?}");
}

/// The broker was down when the worker started, which ended with exit code 1 because of its output topic; for the input topic it would
/// have waited. Now it waits for both, ends when it is told to, and goes on when the broker is there.
#[test]
fn row_15_broker_away_when_the_worker_starts() {
    let own = own_broker(&[]);
    let scene = Scene::new(&own.broker, "row15-start", 4);
    own.broker.stop().expect("stopped");
    let waiting = || {
        let mut worker = scene.worker("", &[]);
        until(&mut worker, "a second look", |told| {
            told.last_lines
                .iter()
                .any(|line| line.contains("looking for the output topic again"))
        });
        worker
    };
    let mut told_to_stop = waiting();
    told_to_stop.signal(libc::SIGTERM).expect("it waits");
    let (code, message, _) = end_of(told_to_stop);
    assert!(code == 1 && message.contains("nothing had begun"), "{code}: {message}");
    let mut worker = waiting();
    own.broker.restart().expect("started");
    until(&mut worker, "a start", |told| told.started.is_some());
    let (checker, feed) = (scene.checker(), scene.feed(1000));
    scene.finish(feed, 1000, checker, worker);
}

/// A broker with a small `offset.metadata.max.bytes` would refuse every commit, and abort for ever: refused at the start instead.
#[test]
fn row_64_offset_metadata_limit_too_small() {
    let own = own_broker(&["offset.metadata.max.bytes=32"]);
    let scene = Scene::new(&own.broker, "row64", 1);
    let (code, message, told) = end_of(scene.worker("", &[]));
    assert_eq!(code, keyfold_e2e::worker::EXIT_CANNOT_GO_ON, "{message}");
    assert!(message.contains("offset.metadata.max.bytes"), "{message}");
    assert_eq!((told.counter("retries"), told.started), (0, None), "{message}");
    assert!(scene.committed().is_empty() && scene.objects().is_empty());
    own.broker.stop().expect("stopped");
}
