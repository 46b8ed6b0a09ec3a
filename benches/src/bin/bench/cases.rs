//! Runs over a whole topic.
use crate::load::Input;
use crate::report::{Report, median};
use crate::run::{Mode, Run, baseline, keyfold};
use crate::scene::Scene;
use anyhow::Result;

const MILLION: u64 = 1_000_000;

/// (ii), Keyfold, (ii), Keyfold, (ii): medians. With 10 million keys a run of each, reported.
pub fn throughput(scene: &mut Scene, report: &mut Report) -> Result<()> {
    let records = scene.args.records;
    for (keys, rounds) in [(MILLION, 2), (10_000, 2), (10 * MILLION, 1)] {
        let input = scene.input(Input::uniform(records, keys))?;
        let (mut base, mut ours) = (vec![baseline(scene, &input, records)?], Vec::new());
        for _ in 0..rounds {
            ours.push(keyfold(scene, &input, records, Mode::USUAL)?);
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
            Some((scene.args.memory_mib as f64 + 51.0, false)),
        );
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
        let seldom = keyfold(scene, &input, records, Mode { epoch_ms: 30_000 })?;
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
