use super::*;
use crate::yaml::Diagnostic;
use crate::yaml::{self, Kind};
use std::path::Path;

fn environment() -> Environment {
    Environment::new(KafkaConfig::new("127.0.0.1:9092"))
}

/// Reads the keys of a source (or a sink) that names its connector; all that is wrong with them, one message a line.
fn read(text: &str, source: bool) -> Result<String, String> {
    let file = yaml::Source::new("p.yaml", text);
    let tree = file.parse().map_err(|e| e.to_string())?;
    let Kind::Map(entries) = &tree.kind else {
        panic!("a mapping")
    };
    let at = tree.get("connector").expect("named");
    let keys = entries.iter().filter(|(key, _)| key.text != "connector");
    let keys = keys
        .map(|(key, value)| Key {
            name: &key.text,
            at: key,
            value,
        })
        .collect();
    let mut keys = Keys::new(&file, Path::new("folder"), "source orders", at, keys);
    let environment = environment();
    let connector = environment.connector(&at.text).expect("there is one");
    let made = match source {
        true => connector
            .source(&mut keys)
            .map(|s| format!("{} as {}", s.describe, s.topic)),
        false => connector.sink(&mut keys).map(|s| s.describe),
    };
    let errors = keys.finish(&["connector", "value"]);
    let message = |e: &Diagnostic| format!("{} ({})", e.message, e.help.as_deref().unwrap_or_default());
    let errors: Vec<String> = errors.iter().map(message).collect();
    match errors.is_empty() {
        true => Ok(made.expect("made")),
        false => Err(errors.join("\n")),
    }
}

#[test]
fn each_connector_takes_its_own_keys() {
    let source = |text| read(text, true).expect("good");
    assert_eq!(
        source("{ connector: kafka, topic: orders, start: latest }"),
        "kafka topic orders as orders"
    );
    assert_eq!(
        source("{ connector: files, dir: in/orders, timestamp_field: at }"),
        "files folder/in/orders as orders"
    );
    assert_eq!(
        source("{ connector: files, dir: /in, topic: orders, lines: envelope }"),
        "files /in as orders"
    );
    let datagen = "{ connector: datagen, name: made, partitions: 2, records_per_partition: 10, seed: 7, rate_per_second: 5, customers: 3 }";
    assert_eq!(source(datagen), "generator made as made");
    let sink = |text| read(text, false).expect("good");
    assert_eq!(sink("{ connector: kafka, topic: totals }"), "kafka topic totals");
    assert_eq!(sink("{ connector: files, dir: out }"), "files folder/out");
}

#[test]
fn keys_that_are_wrong_are_all_told_with_the_way_out() {
    let wrong = |text, source| read(text, source).expect_err("refused");
    assert_eq!(
        wrong("{ connector: kafka, topik: orders, start: early }", true),
        "source orders: `topic` is missing (add `topic: orders`)\n\
         source orders: `start: early` is no place to start at (one of: earliest, latest)\n\
         source orders: unknown key `topik` (did you mean `topic`?)"
    );
    assert_eq!(
        wrong("{ connector: kafka, topic: 'a b' }", false),
        "source orders: `a b` is no name of a topic (use 1 to 249 characters of a-z, A-Z, 0-9, `.`, `_` and `-`)"
    );
    assert_eq!(
        wrong("{ connector: files, dir: [in], lines: jsonl, line_bytes_max: 0 }", true),
        "source orders: `dir` is a list where a text is expected (quote it if it is one)\n\
         source orders: `lines: jsonl` is no kind of line (one of: value, envelope)\n\
         source orders: `line_bytes_max: 0` is no whole number from 1 on (write `line_bytes_max: 1`)"
    );
    assert_eq!(
        wrong("{ connector: datagen, name: made, partitions: many }", true),
        "source orders: `partitions: many` is no whole number from 1 on (write `partitions: 1`)"
    );
    assert_eq!(
        wrong("{ connector: datagen, name: made }", false),
        "source orders: a generator takes no outputs (write to `connector: kafka` or `connector: files`)"
    );
    assert_eq!(environment().names().collect::<Vec<_>>(), ["datagen", "files", "kafka"]);
    assert!(environment().connector("kafkaa").is_none());
}
