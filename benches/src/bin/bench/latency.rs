//! From producing to a read_committed receipt, at a steady rate.
use crate::load::send;
use crate::report::Report;
use crate::run::{Mode, counts, start};
use crate::scene::Scene;
use anyhow::{Context, Result, ensure};
use keyfold_e2e::rng::Rng;
use rdkafka::config::ClientConfig;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::message::Message;
use rdkafka::producer::BaseProducer;
use rdkafka::{Offset, TopicPartitionList};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

const RATE: u64 = 20_000;
const KEYS: u64 = 100_000;
const WARM: Duration = Duration::from_secs(10);
const MEASURED: Duration = Duration::from_secs(30);

/// An output has the timestamp of its record, which is when it was produced.
pub fn latency(scene: &mut Scene, report: &mut Report) -> Result<()> {
    for (epoch_ms, most) in [(100, 130.0), (50, 90.0)] {
        let millis = measured(scene, epoch_ms)?;
        tell(report, "Keyfold", "latency", epoch_ms, Some((most, false)), millis)?;
    }
    Ok(())
}

/// Reports the quantiles, as `{key}_p99_ms.{interval_ms}` and so on.
pub fn tell(
    report: &mut Report,
    name: &str,
    key: &str,
    interval_ms: u64,
    must: Option<(f64, bool)>,
    mut millis: Vec<u64>,
) -> Result<()> {
    let (seen, least) = (millis.len() as u64, RATE * MEASURED.as_secs() * 95 / 100);
    ensure!(
        seen >= least,
        "{name}: {seen} outputs in {MEASURED:?} are fewer than {least}: it does not keep up"
    );
    millis.sort_unstable();
    let at = |q: f64| {
        let index = (millis.len() as f64 * q) as usize;
        millis
            .get(index.min(millis.len().saturating_sub(1)))
            .copied()
            .unwrap_or_default() as f64
    };
    let row = format!(
        "{name}: latency with {interval_ms} ms: {} outputs, p50 {} p99 {} p99.9 {}",
        millis.len(),
        at(0.5),
        at(0.99),
        at(0.999)
    );
    eprintln!("bench: {row}");
    report.row(row);
    report.ratio(&format!("{key}_p50_ms.{interval_ms}"), at(0.5), None);
    report.ratio(&format!("{key}_p99_ms.{interval_ms}"), at(0.99), must);
    report.ratio(&format!("{key}_p999_ms.{interval_ms}"), at(0.999), None);
    Ok(())
}

pub fn measured(scene: &mut Scene, epoch_ms: u64) -> Result<Vec<u64>> {
    let (input, output) = (scene.topic("input")?, scene.topic("output")?);
    let dir = format!("latency-{epoch_ms}");
    let mode = Mode {
        epoch_ms,
        ..Mode::USUAL
    };
    let (mut job, mut samples) = start(scene, counts(scene, &input, &output, &dir, mode)?)?;
    samples.next().context("the job has ended")?;
    let brokers = scene.broker.bootstrap();
    let found = std::thread::scope(|scope| {
        scope.spawn(|| samples.by_ref().for_each(drop));
        let found = through(&brokers, &input, &output, WARM);
        let ended = job.try_wait()?;
        job.kill()?;
        job.wait()?;
        ensure!(ended.is_none(), "the job ended in the middle: {ended:?}");
        found
    });
    scene.forget(&input)?;
    scene.forget(&output)?;
    found
}

/// Milliseconds of the outputs of a job that runs between the topics; the first ones are not counted.
pub fn through(brokers: &str, input: &str, output: &str, warm: Duration) -> Result<Vec<u64>> {
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let paced = scope.spawn(|| produce(brokers, input, &over));
        let found = receive(brokers, output, warm);
        over.store(true, Ordering::SeqCst);
        let produced = paced.join().map_err(|_| anyhow::anyhow!("the producer panicked"));
        produced??;
        found
    })
}

fn produce(brokers: &str, topic: &str, over: &AtomicBool) -> Result<()> {
    let producer: BaseProducer = ClientConfig::new()
        .set("bootstrap.servers", brokers)
        .set("partitioner", "murmur2_random")
        .set("linger.ms", "1")
        .create()?;
    let (began, mut sent, mut rng) = (Instant::now(), 0u64, Rng::new(3));
    while !over.load(Ordering::SeqCst) {
        let due = began.elapsed().as_millis() as u64 * RATE / 1000;
        while sent < due {
            send(&producer, topic, &rng.below(KEYS).to_be_bytes())?;
            sent += 1;
        }
        producer.poll(Duration::ZERO);
        std::thread::sleep(Duration::from_millis(1));
    }
    Ok(())
}

fn receive(brokers: &str, topic: &str, warm: Duration) -> Result<Vec<u64>> {
    let consumer: BaseConsumer = ClientConfig::new()
        .set("bootstrap.servers", brokers)
        .set("group.id", "bench-latency")
        .set("isolation.level", "read_committed")
        .set("enable.auto.commit", "false")
        .set("fetch.wait.max.ms", "5")
        .create()?;
    let mut partitions = TopicPartitionList::new();
    for partition in 0..crate::scene::PARTITIONS {
        partitions.add_partition_offset(topic, partition, Offset::Beginning)?;
    }
    consumer.assign(&partitions)?;
    let (began, mut millis) = (Instant::now(), Vec::new());
    while began.elapsed() < warm + MEASURED {
        let Some(message) = consumer.poll(Duration::from_millis(100)) else {
            continue;
        };
        let now = SystemTime::now().duration_since(UNIX_EPOCH)?.as_millis() as u64;
        let produced = message?.timestamp().to_millis().unwrap_or_default().unsigned_abs();
        if began.elapsed() >= warm {
            millis.push(now.saturating_sub(produced));
        }
    }
    Ok(millis)
}
