//! From SIGKILL to the first committed output of the process that comes after.
use super::check;
use super::program::{Running, STUCK, fetch, forget};
use super::settings::{FLINK_USUAL, KAFKA_STREAMS_USUAL, Peer};
use super::watch::Outputs;
use crate::report::Report;
use crate::restart::{Disk, INTO_AN_EPOCH, fill, keyfold};
use crate::scene::Scene;
use anyhow::{Context, Result, ensure};
use std::time::{Duration, Instant};

/// Kafka Streams as a static member: the group takes the new process for the old one, and does not wait for its session to be over.
const STATIC: &[&str] = &["main.consumer.group.instance.id=bench"];
/// With the stores of 4.4 that survive (KIP-892).
const TRANSACTIONAL: &[&str] = &[
    "main.consumer.group.instance.id=bench",
    "enable.transactional.statestores=true",
];

/// Every key is in the state, and there is more to read.
pub fn restart(scene: &mut Scene, report: &mut Report) -> Result<()> {
    fetch()?;
    let (input, keys) = fill(scene, 1)?;
    for (disk, key) in [(Disk::Same, "restart_s"), (Disk::Wiped, "wiped_restart_s")] {
        let took = keyfold(scene, &input, keys, disk)?;
        tell(report, "Keyfold", key, disk, keys, took);
    }
    let kafka_streams = |what, settings| Peer::kafka_streams(what, 1_000, settings);
    let rows = [
        (
            kafka_streams("RocksDB, static", STATIC),
            Disk::Same,
            "kafka_streams_restart_s",
        ),
        (
            kafka_streams("RocksDB, static", STATIC),
            Disk::Wiped,
            "kafka_streams_wiped_restart_s",
        ),
        (
            kafka_streams("transactional RocksDB, static", TRANSACTIONAL),
            Disk::Same,
            "kafka_streams_transactional_restart_s",
        ),
        (
            KAFKA_STREAMS_USUAL,
            Disk::Same,
            "kafka_streams_default_session_restart_s",
        ),
        // What it has on disk but checkpoints is scratch space: each start is from a checkpoint.
        (FLINK_USUAL, Disk::Wiped, "flink_restart_s"),
    ];
    for (peer, disk, key) in rows {
        let took = measured(scene, report, &input, keys, &peer, disk)?;
        tell(report, &peer.name(), key, disk, keys, took);
    }
    scene.forget(&input)
}

fn tell(report: &mut Report, name: &str, key: &str, disk: Disk, keys: u64, took: f64) {
    let row = format!("{name}: first output {took:.2} s after SIGKILL, {keys} keys, {disk}");
    eprintln!("bench: {row}");
    report.row(row);
    report.ratio(&format!("{key}.{keys}"), took, None);
}

fn measured(scene: &mut Scene, report: &mut Report, input: &str, keys: u64, peer: &Peer, disk: Disk) -> Result<f64> {
    let output = scene.topic("output")?;
    let dir = scene.dir.join(&output);
    let outputs = Outputs::of(&scene.broker.bootstrap(), &output)?;
    let mut first = Running::start(scene, peer, (input, &output), &output, &dir, report)?;
    first.until(&outputs, keys)?;
    std::thread::sleep(INTO_AN_EPOCH);
    let began = Instant::now();
    first.kill()?;
    if disk == Disk::Wiped {
        peer.wipe(&dir)?;
    }
    let mut second = Running::start(scene, peer, (input, &output), &output, &dir, report)?;
    // A request of the killed process may have been on its way; its successor does not write as soon as it runs.
    let written = outputs.written()?;
    outputs.read_from(&written)?;
    while !outputs.next(Duration::from_millis(100))? {
        second.alive()?;
        ensure!(began.elapsed() < STUCK, "{} has no output in {STUCK:?}", peer.name());
    }
    let took = began.elapsed().as_secs_f64();
    second.kill()?;
    check::in_order(&outputs, keys).with_context(|| format!("{}: wrong after its restart", peer.name()))?;
    forget(scene, peer, &output, &dir)?;
    Ok(took)
}
