//! Runs over a whole topic.
use super::check;
use super::program::{Running, fetch, forget};
use super::settings::{FLINK_USUAL, KAFKA_STREAMS_USUAL, Peer, Program, THEIR_BEST};
use super::watch::Outputs;
use crate::load::Input;
use crate::report::{Report, median};
use crate::run::{Mode, Run, keyfold_into, line};
use crate::scene::Scene;
use anyhow::{Context, Result};
use keyfold_benches::{Sample, Window};

const KEYS: u64 = 1_000_000;

/// Keyfold, Kafka Streams, Flink, Keyfold, Kafka Streams, Flink, Keyfold: medians. Then the peers with other settings, once each, and
/// Keyfold again.
pub fn throughput(scene: &mut Scene, report: &mut Report) -> Result<()> {
    fetch()?;
    let input = Input::uniform(scene.args.records, KEYS);
    let (mut ours, mut streams, mut flink) = (vec![keyfold(scene, report, &input)?], Vec::new(), Vec::new());
    for _ in 0..2 {
        streams.push(peer(scene, report, &input, &KAFKA_STREAMS_USUAL)?);
        flink.push(peer(scene, report, &input, &FLINK_USUAL)?);
        ours.push(keyfold(scene, report, &input)?);
    }
    let (mut streams_best, mut flink_best) = (streams.clone(), flink.clone());
    for best in THEIR_BEST {
        let run = peer(scene, report, &input, best)?;
        match best.program {
            Program::KafkaStreams => streams_best.push(run),
            Program::Flink => flink_best.push(run),
        }
    }
    ours.push(keyfold(scene, report, &input)?);
    let cpu = |runs: &[Run]| median(runs.iter().map(|run| run.window.cpu_per_million));
    let rate = |runs: &[Run]| median(runs.iter().map(|run| run.window.rate));
    let least = |runs: &[Run]| {
        runs.iter()
            .map(|run| run.window.cpu_per_million)
            .fold(f64::MAX, f64::min)
    };
    let most = |runs: &[Run]| runs.iter().map(|run| run.window.rate).fold(0.0, f64::max);
    report.ratio("vs_kafka_streams_cpu", cpu(&streams) / cpu(&ours), Some((5.0, true)));
    report.ratio("vs_flink_cpu", cpu(&flink) / cpu(&ours), Some((6.0, true)));
    report.ratio("vs_kafka_streams_rate", rate(&ours) / rate(&streams), None);
    report.ratio("vs_flink_rate", rate(&ours) / rate(&flink), None);
    report.ratio("vs_kafka_streams_best_cpu", least(&streams_best) / cpu(&ours), None);
    report.ratio("vs_flink_best_cpu", least(&flink_best) / cpu(&ours), None);
    report.ratio("vs_kafka_streams_best_rate", rate(&ours) / most(&streams_best), None);
    report.ratio("vs_flink_best_rate", rate(&ours) / most(&flink_best), None);
    report.runs("keyfold", ours);
    report.runs("kafka_streams", streams_best);
    report.runs("flink", flink_best);
    Ok(())
}

fn keyfold(scene: &mut Scene, report: &mut Report, input: &Input) -> Result<Run> {
    let (from, to) = (scene.input(*input)?, scene.topic("output")?);
    let run = keyfold_into(scene, &from, &to, input.records, Mode::USUAL)?;
    checked(scene, report, input, &to, &run)?;
    scene.forget(&to)?;
    Ok(run)
}

fn peer(scene: &mut Scene, report: &mut Report, input: &Input, peer: &Peer) -> Result<Run> {
    let (from, to) = (scene.input(*input)?, scene.topic("output")?);
    let dir = scene.dir.join(&to);
    let outputs = Outputs::of(&scene.broker.bootstrap(), &to)?;
    let before = scene.broker_cpu()?;
    let mut running = Running::start(scene, peer, (&from, &to), &to, &dir, report)?;
    let samples = running.until(&outputs, input.records)?;
    // Markers were counted too, so a few outputs may be left for the next commit.
    running.settle(&outputs, peer.interval_ms)?;
    let broker = scene.broker_cpu()?.saturating_sub(before);
    running.kill()?;
    let run = Run {
        write_p999_ms: None,
        name: peer.name(),
        window: window(&samples, scene.args.skip, input.records).context("too few commits for a window")?,
        broker_cpu_per_million: broker.as_secs_f64() / (input.records as f64 / 1e6),
    };
    eprintln!("bench: {}", line(&run));
    checked(scene, report, input, &to, &run)?;
    forget(scene, peer, &to, &dir)?;
    Ok(run)
}

/// From the first sample that counts to the last commit before the end: the commit of the last records waits for its interval, without
/// work. With few commits, to the end.
fn window(samples: &[Sample], skip: u64, records: u64) -> Option<Window> {
    let full: Vec<Sample> = samples
        .iter()
        .copied()
        .filter(|sample| sample.committed < records)
        .collect();
    let mut window = Window::of(&full, skip).or_else(|| Window::of(samples, skip))?;
    window.peak_rss_mib = samples.last()?.peak_rss as f64 / f64::from(1 << 20);
    Some(window)
}

/// A row is of a program that does the job.
fn checked(scene: &Scene, report: &mut Report, input: &Input, output: &str, run: &Run) -> Result<()> {
    let outputs = Outputs::of(&scene.broker.bootstrap(), output)?;
    check::all(&outputs, input).with_context(|| format!("{}: its outputs are wrong", run.name))?;
    report.row(line(run));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use keyfold_benches::At;

    #[test]
    fn the_commit_of_the_last_records_is_left_out() {
        let sample = |seconds, committed| Sample {
            seconds,
            committed,
            cpu_seconds: seconds,
            peak_rss: committed << 20,
            write_p999_ms: None,
            at: At::Processing,
            restored_in: None,
        };
        let samples = [sample(10.0, 20), sample(20.0, 40), sample(30.0, 60), sample(40.0, 61)];
        let found = window(&samples, 10, 61).expect("a window");
        assert_eq!((found.records, found.rate, found.peak_rss_mib), (40, 2.0, 61.0));
        // One commit before the end is none to measure from.
        let found = window(&samples[2..], 10, 61).expect("a window");
        assert_eq!((found.records, found.rate), (1, 0.1));
    }
}
