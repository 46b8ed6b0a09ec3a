//! Outputs between lane and sink: what is refused at the start, how much may wait, and to whom an outbox is delivered.
use crate::support::{driver, record, sums};
use keyfold::checkpoint::MemoryStore;
use keyfold::config::Config;
use keyfold::runtime::{ExitCode, Runtime, store_log};
use keyfold::sink::{OutboxSink, SinkError};
use keyfold::testing::{DriverError, MemoryBroker};
use keyfold::topology::{Job, Topology, TopologyError};
use keyfold::types::codec::Utf8;
use keyfold::types::{OutputRef, Shard};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

/// A job read files and wrote to a topic. It started, folded records, and ended only when the first output was to be sent.
#[test]
fn a_stage_whose_log_takes_no_outputs_is_refused_before_it_reads_a_record() {
    let broker = MemoryBroker::default();
    broker.create_topic("in", 1);
    let dir = tempfile::tempdir().expect("a directory");
    let store = Arc::new(MemoryStore::new(1));
    let topology = sums(&broker).expect("built");
    let runtime = Runtime::single(topology, Config::new(dir.path()), store_log(store.clone()), store);
    let progress = runtime.progress();
    let error = runtime.run().expect_err("refused");
    assert_eq!(error.exit_code(), ExitCode::CannotGoOn);
    assert!(error.to_string().contains("writes to topic out"), "{error}");
    assert_eq!(progress.read(), 0);
}

type Delivered = Arc<Mutex<Vec<(u32, u64, String)>>>;

/// Takes outputs as a sink does that stores the sequence with them; fails while told to.
struct Shelf {
    taken: Delivered,
    broken: Arc<AtomicBool>,
}

impl OutboxSink for Shelf {
    fn describe(&self) -> String {
        "a shelf".to_owned()
    }
    fn open(&mut self, _: &str) -> Result<(), SinkError> {
        Ok(())
    }
    fn deliver(
        &mut self,
        shard: Shard,
        sequence: u64,
        outputs: &mut dyn Iterator<Item = OutputRef<'_>>,
    ) -> Result<(), SinkError> {
        let mut taken = self.taken.lock().expect("not poisoned");
        if taken.iter().any(|(s, n, _)| *s == shard.0 && *n >= sequence) {
            return Ok(());
        }
        for out in outputs {
            if self.broken.load(Ordering::SeqCst) {
                return Err(SinkError::Fatal("broken".to_owned()));
            }
            let text = String::from_utf8_lossy(out.value.unwrap_or_default()).into_owned();
            taken.push((shard.0, sequence, text));
        }
        Ok(())
    }
}

#[derive(Clone, Default)]
struct Shelves {
    plain: Delivered,
    loud: Delivered,
    broken: Arc<AtomicBool>,
}

impl Shelves {
    fn shelf(&self, taken: &Delivered) -> Shelf {
        Shelf {
            taken: taken.clone(),
            broken: self.broken.clone(),
        }
    }
}

fn values(taken: &Delivered) -> Vec<String> {
    let taken = taken.lock().expect("not poisoned");
    taken.iter().map(|(_, _, text)| text.clone()).collect()
}

/// Values go to `plain`, and in capitals to `loud`; which sink is built first, and which are there at all, is given.
fn shelved(
    shelves: &Shelves,
    order: &'static [&'static str],
) -> impl Fn(&MemoryBroker) -> Result<Topology, TopologyError> + 'static {
    let shelves = shelves.clone();
    move |broker| {
        let job = Job::new("shelved");
        let texts = job.source("texts", broker.source("in"), |r| {
            Ok(String::from_utf8_lossy(r.value.unwrap_or_default()).into_owned())
        });
        for id in order {
            match *id {
                "plain" => texts.to("plain", shelves.shelf(&shelves.plain), Utf8),
                _ => texts
                    .map("capitals", |t| t.to_uppercase())
                    .to("loud", shelves.shelf(&shelves.loud), Utf8),
            }
        }
        job.build()
    }
}

/// A job was killed between a commit and its delivery, and came back with its sinks in another order: the outputs that waited went to
/// the sink that had their number now. With a sink gone they were dropped.
#[test]
fn waiting_outputs_go_to_the_sink_of_their_id_and_nowhere_else() {
    let shelves = Shelves::default();
    let mut driver = driver(shelved(&shelves, &["plain", "loud"]));
    driver.start().expect("starts");
    driver.pipe("in", record("a", "first")).expect("taken");
    driver.crash_at("post_apply").expect("armed");
    let _ = driver.barrier();
    assert!(values(&shelves.plain).is_empty() && values(&shelves.loud).is_empty());

    driver.rebuild(shelved(&shelves, &["plain"]));
    match driver.restart() {
        Err(DriverError::Ended(error)) => {
            assert_eq!(error.exit_code(), ExitCode::CannotGoOn);
            assert!(error.to_string().contains("sink loud"), "{error}");
        }
        other => panic!("{other:?}"),
    }
    assert!(values(&shelves.plain).is_empty());

    driver.rebuild(shelved(&shelves, &["loud", "plain"]));
    driver.restart().expect("starts");
    driver.pipe("in", record("a", "second")).expect("taken");
    driver.barrier().expect("an epoch");
    assert_eq!(values(&shelves.plain), ["first", "second"]);
    assert_eq!(values(&shelves.loud), ["FIRST", "SECOND"]);
}

/// The pointers were lost and that was accepted. Sequences began at 0 again, and a sink that had taken higher ones swallowed what came.
#[test]
fn outputs_after_an_accepted_loss_are_delivered() {
    let shelves = Shelves::default();
    let mut driver = driver(shelved(&shelves, &["plain"]));
    driver.configure(|c| c.shards = 1);
    driver.start().expect("starts");
    for value in ["a", "b", "c"] {
        driver.pipe("in", record("k", value)).expect("taken");
        driver.barrier().expect("an epoch");
    }
    driver.stop().expect("ends well");
    driver.broker().lose_offsets("shelved.texts");
    assert!(driver.start().is_err());
    driver.configure(|c| c.accept_lost_pointers = true);
    driver.restart().expect("begins again");
    driver.barrier().expect("an epoch");
    assert_eq!(values(&shelves.plain), ["a", "b", "c", "a", "b", "c"]);
}
