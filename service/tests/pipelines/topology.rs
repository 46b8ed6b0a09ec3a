//! What a pipeline says of itself.
use crate::support::{environment, load, root};
use keyfold_service::pipeline;

fn sample(name: &str) -> pipeline::LoadedPipeline {
    pipeline::load(&root().join("config/pipelines").join(name), &environment()).unwrap_or_else(|e| panic!("{e}"))
}

#[test]
fn a_topology_is_shown_as_text_and_as_a_chart() {
    let description = sample("dead-letters.yaml").describe();
    let expected = "\
job dead-letters
  single mode: step by-account gives rows another key than their record's; for group mode key them by `_key` alone

source payments
  kafka topic payments, json
  { account: string, amount: decimal(12,2), parts: int64 }
  on_error: dead letter to kafka topic payments-bad

step real <- payments
  filter CAST(substr(account, 5) AS int64) > 0
  on_error: skip

step shares <- real
  map account = account, share = CAST(amount / parts AS decimal(12,2))
  { account: string, share: decimal(12,2) }

step route <- shares
  branch large: share >= 100, small: else

step by-account <- route.small
  key_by account, aggregate payments = count(), total = sum(share), emit epoch
  { account: string, payments: int64, total: decimal(18,2) }

sink large <- route.large
  kafka topic large-payments, json

sink small <- by-account
  kafka topic small-totals, json
";
    assert_eq!(description.text(), expected);
    let chart = description.mermaid();
    assert!(
        chart.starts_with("flowchart LR\n  n0[(\"<b>payments</b><br/>kafka topic payments, json\")]\n"),
        "{chart}"
    );
    assert!(chart.contains("share #gt;= 100"), "{chart}");
    let edges: Vec<&str> = chart
        .lines()
        .filter(|line| line.contains("--"))
        .map(str::trim)
        .collect();
    assert_eq!(
        edges,
        [
            "n0 --> n1",
            "n1 --> n2",
            "n2 --> n3",
            "n3 -- small --> n4",
            "n3 -- large --> n5",
            "n4 --> n6"
        ]
    );
}

#[test]
fn a_pipeline_that_is_keyed_by_the_records_key_alone_can_run_in_group_mode() {
    let text = "job: group\n\
         sources: { input: { connector: kafka, topic: in, value: string } }\n\
         steps:\n  - { id: long, filter: length(value) > 1 }\n  - { id: counts, key_by: _key, aggregate: { n: count() } }\n  \
         - { id: more, filter: n > 1 }\n  - { id: last, key_by: _key, aggregate: { top: max(n) } }\n\
         sinks: { out: { connector: kafka, topic: out, value: json } }\n";
    let loaded = load(text, &environment()).expect("good");
    assert_eq!((loaded.job.as_str(), loaded.record_keyed.clone()), ("group", Ok(())));
    let other = load(&text.replace("key_by: _key", "key_by: value"), &environment()).expect("good");
    let why = other.record_keyed.expect_err("single mode");
    assert!(why.contains("step counts") && why.contains("_key"), "{why}");
    assert!(sample("customer-totals.yaml").record_keyed.is_err());
}

/// What a step leaves as it was is not repeated; a source has its columns from nobody.
#[test]
fn every_source_is_shown_with_its_columns() {
    let source = |topic| format!("{topic}: {{ connector: kafka, topic: {topic}, value: string }}");
    let text = format!(
        "job: two\nsources: {{ {}, {} }}\nsteps: [{{ id: long, filter: length(value) > 1 }}]\n\
         sinks: {{ out: {{ connector: kafka, topic: out, value: json }} }}\n",
        source("a"),
        source("b")
    );
    let shown = load(&text, &environment()).expect("good").describe().text();
    assert_eq!(shown.matches("{ value: string }").count(), 2, "{shown}");
}
