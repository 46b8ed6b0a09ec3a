//! From producing to a `read_committed` receipt, at the rate and with the receiver of the case `latency`.
use super::program::{Running, fetch, forget};
use super::settings::Peer;
use crate::latency::{measured, tell, through};
use crate::report::Report;
use crate::scene::Scene;
use anyhow::Result;
use std::time::Duration;

/// Their code is compiled while they run.
const WARM: Duration = Duration::from_secs(30);

const PEERS: [(&str, Peer); 3] = [
    ("kafka_streams", Peer::kafka_streams("RocksDB", 100, &[])),
    ("flink", flink(100)),
    ("flink", flink(200)),
];

const fn flink(interval_ms: u64) -> Peer {
    // Records do not wait for a buffer to be full.
    Peer::flink(
        "RocksDB",
        interval_ms,
        &["state.backend.type=rocksdb", "execution.buffer-timeout.interval=5 ms"],
    )
}

/// Keyfold with epochs of 100 ms, and the peers.
pub fn latency(scene: &mut Scene, report: &mut Report) -> Result<()> {
    fetch()?;
    let millis = measured(scene, 100)?;
    tell(report, "Keyfold, 100 ms", "latency", 100, None, millis)?;
    for (key, peer) in &PEERS {
        let (input, output) = (scene.topic("input")?, scene.topic("output")?);
        let dir = scene.dir.join(&output);
        let mut running = Running::start(scene, peer, (&input, &output), &output, &dir, report)?;
        let millis = through(&scene.broker.bootstrap(), &input, &output, WARM)?;
        running.alive()?;
        running.kill()?;
        // Who does not keep up has a row that says so.
        if let Err(error) = tell(
            report,
            &peer.name(),
            &format!("{key}_latency"),
            peer.interval_ms,
            None,
            millis,
        ) {
            eprintln!("bench: {error:#}");
            report.row(format!("{error:#}"));
        }
        scene.forget(&input)?;
        forget(scene, peer, &output, &dir)?;
    }
    Ok(())
}
