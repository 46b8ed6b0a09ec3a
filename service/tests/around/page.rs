//! `docs/metrics.md` against the enum.
use crate::files::read;
use keyfold::telemetry::{MetricKind, MetricName};
use std::collections::BTreeSet;

const PAGE: &str = "docs/metrics.md";

/// The cells of the rows that begin with a metric.
fn rows(page: &str) -> Vec<Vec<&str>> {
    let of_metric = |line: &&str| line.starts_with("| `keyfold_") || line.starts_with("| `process_");
    let rows = page.lines().filter(of_metric);
    rows.map(|line| line.trim().trim_matches('|').split('|').map(str::trim).collect())
        .collect()
}

/// What is wrong with a row.
fn wrong(row: &[&str]) -> Option<String> {
    let [name, kind, unit, labels, meaning, act] = row else {
        return Some(format!("{row:?} has not six cells"));
    };
    let name = name.trim_matches('`');
    let Some(metric) = MetricName::ALL.iter().find(|m| m.as_str() == name) else {
        return Some(format!("{name} is no metric"));
    };
    let kind_is = match metric.kind() {
        MetricKind::Counter => "counter",
        MetricKind::Gauge => "gauge",
        MetricKind::Histogram => "histogram",
    };
    let labels_are = match metric.labels() {
        [] => "-".to_owned(),
        labels => labels.iter().map(|l| format!("`{l}`")).collect::<Vec<_>>().join(", "),
    };
    let unit_is = ["seconds", "bytes", "offsets"].iter().find(|unit| {
        let stem = name.trim_end_matches("_total");
        stem.ends_with(&format!("_{unit}"))
    });
    [
        (*kind != kind_is).then(|| format!("{name} is a {kind_is}")),
        (*labels != labels_are).then(|| format!("{name} has the labels {labels_are}")),
        unit_is.filter(|is| *is != unit).map(|is| format!("{name} is in {is}")),
        (!meaning.ends_with('.')).then(|| format!("{name}: its meaning is a sentence")),
        act.is_empty().then(|| format!("{name}: what to do, or -")),
    ]
    .into_iter()
    .flatten()
    .next()
}

/// The page is what an operator reads at night: a metric that it does not have, or has wrongly, is worse than none.
#[test]
fn the_page_of_metrics_and_the_enum_are_the_same() {
    let page = read(PAGE);
    let rows = rows(&page);
    let findings: Vec<String> = rows.iter().filter_map(|row| wrong(row)).collect();
    assert!(findings.is_empty(), "{PAGE}: {}", findings.join("\n"));
    let told: Vec<&str> = rows.iter().map(|row| row[0].trim_matches('`')).collect();
    let once: BTreeSet<&str> = told.iter().copied().collect();
    assert_eq!(told.len(), once.len(), "{PAGE} has a metric twice");
    let all: BTreeSet<&str> = MetricName::ALL.iter().map(|m| m.as_str()).collect();
    assert_eq!(once, all);
}

#[test]
fn a_row_that_is_wrong_is_found() {
    let found = |row: &[&str], words: &str| {
        let told = wrong(row).unwrap_or_default();
        assert!(told.contains(words), "{row:?}: {told:?}");
    };
    found(&["`keyfold_no_such`", "gauge", "-", "-", "A.", "-"], "no metric");
    found(&["`keyfold_stalled`", "counter", "-", "-", "A.", "-"], "is a gauge");
    found(&["`keyfold_phase`", "gauge", "-", "-", "A.", "-"], "`phase`");
    found(
        &["`keyfold_backoff_seconds`", "gauge", "bytes", "-", "A.", "-"],
        "seconds",
    );
    found(&["`keyfold_stalled`", "gauge", "-", "-", "A", "-"], "sentence");
    found(&["`keyfold_stalled`", "gauge", "-"], "six");
    assert_eq!(wrong(&["`keyfold_stalled`", "gauge", "-", "-", "A.", "-"]), None);
}
