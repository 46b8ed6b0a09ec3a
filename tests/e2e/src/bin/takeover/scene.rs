//! Broker, records, instances.
use std::fs;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use keyfold_e2e::broker::free_port;
use keyfold_e2e::{Broker, BrokerOptions, Feed, FeedOptions, Worker, WorkerOptions};
use rdkafka::config::ClientConfig;
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::producer::{BaseProducer, BaseRecord, DefaultProducerContext, Producer};

use crate::Args;
use crate::reader::Reader;

const INPUT: &str = "takeover-in";
const OUTPUT: &str = "takeover-out";
const JOB: &str = "takeover";
/// What the instances share.
pub const PARTITIONS: i32 = 4;
/// Marks the directory as ours to empty.
const MARK: &str = "keyfold-takeover";
/// Far beyond what anything takes.
pub const LONG: Duration = Duration::from_secs(300);

/// What runs beside the instances.
pub struct Scene {
    pub args: Args,
    pub reader: Reader,
    broker: Broker,
    feed: Option<Feed>,
    dir: PathBuf,
}

impl Scene {
    /// Starts a broker and puts every key into the state.
    pub fn set(args: &Args) -> Result<Scene> {
        let dir = empty_dir(args)?;
        let options = BrokerOptions {
            // Kafka's own default: instances that start together get their shares at once.
            properties: vec!["group.initial.rebalance.delay.ms=3000".into()],
            ..BrokerOptions::default()
        };
        let broker = Broker::start_with(&dir.join("broker"), free_port()?, options)?;
        for topic in [INPUT, OUTPUT] {
            broker.create_topic(topic, PARTITIONS, &[])?;
        }
        let reader = Reader::start(&broker.bootstrap(), OUTPUT, PARTITIONS)?;
        let mut scene = Scene {
            args: args.clone(),
            reader,
            broker,
            feed: None,
            dir,
        };
        scene.preload()?;
        let options = FeedOptions {
            brokers: scene.broker.bootstrap(),
            topic: INPUT.to_owned(),
            rate: args.rate,
            keys: args.keys,
            seed: 1,
        };
        scene.feed = Some(Feed::start(options)?);
        Ok(scene)
    }

    fn preload(&self) -> Result<()> {
        produce_each(&self.broker.bootstrap(), self.args.keys)?;
        let mut both = ["a", "b"].map(|name| self.instance("preload", name, &["--leave"]));
        let begin = Instant::now();
        while self.reader.outputs() < self.args.keys {
            for worker in both.iter_mut().flatten() {
                ensure!(worker.ended()?.is_none(), "an instance has ended");
            }
            ensure!(begin.elapsed() < LONG, "not all keys are in the state in time");
            std::thread::sleep(Duration::from_millis(50));
        }
        for worker in both {
            stop(worker?)?;
        }
        Ok(())
    }

    /// Starts the instance `name` of a run.
    pub fn instance(&self, run: &str, name: &str, more: &[&str]) -> Result<Worker> {
        let dir = self.dir.join(run);
        fs::create_dir_all(&dir)?;
        let flags = ["--group", "--instance", name];
        Worker::start(&WorkerOptions {
            brokers: self.broker.bootstrap(),
            input: INPUT.into(),
            output: OUTPUT.into(),
            job: JOB.into(),
            state_dir: dir.join(name),
            store_dir: self.dir.join("store"),
            epoch_ms: self.args.epoch_ms,
            take_over: false,
            at_least_once: false,
            faults: None,
            more: flags.iter().chain(more).map(|flag| (*flag).to_owned()).collect(),
            log: self.log(run, name),
        })
    }

    /// Where an instance's log lies.
    pub fn log(&self, run: &str, name: &str) -> PathBuf {
        self.dir.join(run).join(format!("{name}.log"))
    }

    /// The local state of a run that is over is not needed any more.
    pub fn clear(&self, run: &str) -> Result<()> {
        for name in ["a", "b", "c"] {
            let dir = self.dir.join(run).join(name);
            if dir.exists() {
                fs::remove_dir_all(&dir).with_context(|| format!("removing {}", dir.display()))?;
            }
        }
        Ok(())
    }

    /// Waits until outputs of all partitions keep coming and none lag behind by more than a few epochs.
    pub fn until_steady(&self) -> Result<()> {
        let epoch = Duration::from_millis(self.args.epoch_ms);
        let lag = self.args.rate * (3 * self.args.epoch_ms).div_ceil(1000);
        let (begin, mut since) = (Instant::now(), Instant::now());
        while since.elapsed() < 3 * epoch {
            ensure!(begin.elapsed() < LONG, "the instances do not come to work");
            let recent = self.reader.last().iter().all(|last| last.elapsed() < 2 * epoch);
            let feed = self.feed.as_ref().map_or(0, Feed::acknowledged);
            if !recent || self.reader.outputs() + lag < self.args.keys + feed {
                since = Instant::now();
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        Ok(())
    }

    /// How many records there were, and how many outputs they have led to.
    pub fn finish(mut self) -> Result<(u64, u64)> {
        let feed = self.feed.take().context("invariant: the feed runs")?;
        let expected = self.args.keys + feed.finish(0, LONG)?;
        let last = self.instance("last", "a", &["--leave"])?;
        let begin = Instant::now();
        while self.reader.outputs() < expected && begin.elapsed() < LONG {
            std::thread::sleep(Duration::from_millis(50));
        }
        stop(last)?;
        // What is doubled comes at the end.
        std::thread::sleep(Duration::from_secs(1));
        Ok((expected, self.reader.outputs()))
    }
}

/// SIGTERM, and waits until it has ended well.
pub fn stop(mut worker: Worker) -> Result<()> {
    worker.signal(libc::SIGTERM)?;
    let status = worker.wait(LONG)?.context("an instance does not stop")?;
    ensure!(status.success(), "{status}: {:?}", worker.told().last_lines);
    Ok(())
}

fn empty_dir(args: &Args) -> Result<PathBuf> {
    let dir = &args.dir;
    let mark = dir.join(MARK);
    if dir.exists() {
        ensure!(mark.exists(), "{} is there and not ours to empty", dir.display());
        fs::remove_dir_all(dir)?;
    }
    fs::create_dir_all(dir)?;
    fs::write(&mark, "")?;
    Ok(dir.canonicalize()?)
}

/// One record for each key.
fn produce_each(brokers: &str, keys: u64) -> Result<()> {
    let producer: BaseProducer<DefaultProducerContext> = ClientConfig::new()
        .set("bootstrap.servers", brokers)
        .set("enable.idempotence", "true")
        .set("partitioner", "murmur2_random")
        .set("linger.ms", "20")
        .set("log_level", "2")
        .create()?;
    for number in 0..keys {
        let key = format!("k{number}");
        let mut record = BaseRecord::to(INPUT).key(&key).payload("1");
        loop {
            match producer.send(record) {
                Ok(()) => break,
                Err((KafkaError::MessageProduction(RDKafkaErrorCode::QueueFull), back)) => record = back,
                Err((error, _)) => return Err(error.into()),
            }
            producer.poll(Duration::from_millis(10));
        }
    }
    producer.flush(LONG)?;
    ensure!(producer.in_flight_count() == 0, "records are not acknowledged");
    Ok(())
}
