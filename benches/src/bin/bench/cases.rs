//! Runs over a whole topic.
use crate::load::Input;
use crate::report::{Report, median};
use crate::run::{Mode, Run, baseline, keyfold, large, prototype};
use crate::scene::Scene;
use anyhow::{Context, Result};

const MILLION: u64 = 1_000_000;
/// MiB that the program itself may take beside the budget.
const OF_THE_PROGRAM: f64 = 51.0;

/// Baseline, Keyfold, baseline, Keyfold, baseline: medians. With 10 million keys Keyfold runs once; reported. With a million the prototype follows
/// Keyfold each time, and shows what state alone takes.
pub fn throughput(scene: &mut Scene, report: &mut Report) -> Result<()> {
    let records = scene.args.records;
    for (keys, rounds) in [(MILLION, 2), (10_000, 2), (10 * MILLION, 1)] {
        let input = scene.input(Input::uniform(records, keys))?;
        let (mut base, mut ours) = (vec![baseline(scene, &input, records)?], Vec::new());
        let states: &[&str] = if keys == MILLION { &["map", "file", "copy"] } else { &[] };
        let mut prototypes = vec![Vec::new(); states.len()];
        for _ in 0..rounds {
            ours.push(keyfold(scene, &input, records, Mode::USUAL)?);
            for (runs, state) in prototypes.iter_mut().zip(states) {
                runs.push(prototype(scene, &input, records, state)?);
            }
            base.push(baseline(scene, &input, records)?);
        }
        let rate = |runs: &[Run]| median(runs.iter().map(|run| run.window.rate));
        let cpu = |runs: &[Run]| median(runs.iter().map(|run| run.window.cpu_per_million));
        let peak = ours.iter().map(|run| run.window.peak_rss_mib).fold(0.0, f64::max);
        report.ratio(
            &format!("throughput_ratio.{keys}"),
            rate(&ours) / rate(&base),
            (keys <= MILLION).then_some((0.6, true)),
        );
        report.ratio(
            &format!("cpu_ratio.{keys}"),
            cpu(&ours) / cpu(&base),
            (keys <= MILLION).then_some((1.8, false)),
        );
        report.ratio(
            &format!("peak_rss_mb.{keys}"),
            peak,
            Some((scene.args.memory_mib as f64 + OF_THE_PROGRAM, false)),
        );
        for runs in &prototypes {
            let name = runs[0].name.replace("prototype: ", "prototype_cpu_ratio.");
            report.ratio(&name, cpu(runs) / cpu(&base), None);
        }
        report.runs(&format!("prototype.{keys}"), prototypes.concat());
        report.runs(&format!("throughput.{keys}"), base.into_iter().chain(ours).collect());
    }
    Ok(())
}

/// The rate with an epoch each second, against the rate with one each 30 s; its marks end an epoch earlier when much has changed.
pub fn epoch_cost(scene: &mut Scene, report: &mut Report) -> Result<()> {
    let records = scene.args.records;
    for (keys, least) in [(10_000, 0.9), (MILLION, 0.75), (10 * MILLION, 0.75)] {
        let input = scene.input(Input::uniform(records, keys))?;
        let often = keyfold(scene, &input, records, Mode::USUAL)?;
        let rare = Mode {
            epoch_ms: 30_000,
            ..Mode::USUAL
        };
        let seldom = keyfold(scene, &input, records, rare)?;
        let whole = |run: &Run| run.window.rate;
        report.ratio(
            &format!("epoch_cost.{keys}"),
            whole(&often) / whole(&seldom),
            Some((least, true)),
        );
        report.runs(&format!("epoch_cost.{keys}"), vec![often, seldom]);
    }
    Ok(())
}

/// The rate with 80 % of the records in one of 4 partitions, against the uniform one.
pub fn skew(scene: &mut Scene, report: &mut Report) -> Result<()> {
    let records = scene.args.records;
    let uniform = Input::uniform(records, MILLION);
    let input = scene.input(uniform)?;
    let even = keyfold(scene, &input, records, Mode::USUAL)?;
    let input = scene.input(Input {
        first_of_100: Some(80),
        ..uniform
    })?;
    let skewed = keyfold(scene, &input, records, Mode::USUAL)?;
    report.ratio("skew", skewed.window.rate / even.window.rate, Some((0.8, true)));
    report.runs("skew", vec![even, skewed]);
    Ok(())
}

/// The most memory with 256 shards on one instance, each with a local copy of its own.
pub fn partitions(scene: &mut Scene, report: &mut Report) -> Result<()> {
    const MANY: i32 = 256;
    let records = scene.args.records;
    let input = scene.input(Input {
        partitions: MANY,
        ..Input::uniform(records, MILLION)
    })?;
    let mode = Mode {
        partitions: MANY,
        group: true,
        ..Mode::USUAL
    };
    let run = keyfold(scene, &input, records, mode)?;
    report.ratio(
        &format!("peak_rss_mb.{MANY}_partitions"),
        run.window.peak_rss_mib,
        Some((scene.args.memory_mib as f64 + OF_THE_PROGRAM, false)),
    );
    report.runs("partitions", vec![run]);
    Ok(())
}

/// How long epochs wait for the disk while compaction is at work on it: with many keys, and more epochs than usual, so that there is a p99.9.
pub fn write_phase(scene: &mut Scene, report: &mut Report) -> Result<()> {
    let records = scene.args.records;
    let input = scene.input(Input::uniform(records, 10 * MILLION))?;
    let mode = Mode {
        epoch_ms: 50,
        ..Mode::USUAL
    };
    let run = keyfold(scene, &input, records, mode)?;
    report.ratio("write_p999_ms", run.write_p999_ms.context("no epochs")?, None);
    report.runs("write_phase", vec![run]);
    Ok(())
}

/// The most memory where each key has a state of kilobytes, or of a megabyte: together a gibibyte.
pub fn large_states(scene: &mut Scene, report: &mut Report) -> Result<()> {
    for state_bytes in [4 << 10, 64 << 10, 1 << 20] {
        let keys = (1 << 30) / state_bytes;
        let run = large(scene, state_bytes, keys, keys * 2)?;
        report.ratio(
            &format!("peak_rss_mb.states_of_{state_bytes}"),
            run.window.peak_rss_mib,
            Some((scene.args.memory_mib as f64 + OF_THE_PROGRAM, false)),
        );
        report.runs(&format!("states_of_{state_bytes}"), vec![run]);
    }
    Ok(())
}
