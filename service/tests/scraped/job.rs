//! The job of these tests, and the process that runs it: two steps refuse records, and what they refuse goes to a topic.
use crate::topics::Topics;
use keyfold::operator::{BadReason, Refused};
use keyfold::runtime::StopHandle;
use keyfold::testing::Faults;
use keyfold::topology::{Job, SourceOptions, Topology};
use keyfold::types::RecordRef;
use keyfold::types::codec::{LongBe, Utf8};
use keyfold_kafka::{KafkaConfig, KafkaSource, kafka_target};
use keyfold_service::console::Console;
use keyfold_service::logging;
use keyfold_service::run::{Commits, RunnableJob, run};
use keyfold_service::settings::Layers;
use serde_json::Value;

/// The variable that makes the test [`child`] a process of the job: its id and its topics.
pub const TOPICS: &str = "SCRAPED_TOPICS";

fn decode(record: &RecordRef<'_>) -> Result<(String, i64), String> {
    let order: Value = serde_json::from_slice(record.value.unwrap_or_default()).map_err(|e| e.to_string())?;
    let customer = order["customer"].as_str().ok_or("no customer")?;
    let amount = order["amount"].as_i64().ok_or("no amount")?;
    Ok((customer.to_owned(), amount))
}

fn topology(kafka: &KafkaConfig, [job, orders, totals, letters]: [&str; 4]) -> Result<Topology, String> {
    let target = |topic: &str| kafka_target(kafka, topic).map_err(|e| e.to_string());
    let source = Box::new(KafkaSource::topic(kafka, orders));
    let options = SourceOptions::dead_letter(target(letters)?);
    let job = Job::new(job);
    job.source_with("orders", source, options, decode)
        .try_map("shares", |(customer, amount): (String, i64)| {
            let by_zero = || Refused {
                reason: BadReason::DivisionByZero,
                message: "100 / (amount - 7)".to_owned(),
            };
            let share = 100i64.checked_div(amount - 7).ok_or_else(by_zero)?;
            Ok::<_, Refused>((customer, share))
        })
        .key_by("by-customer", Utf8, |(customer, _)| customer.clone())
        .fold("totals", LongBe, || 0i64, |total, (_, share)| *total += share)
        .to("sink", target(totals)?, LongBe);
    job.build().map_err(|e| e.to_string())
}

/// Not a test by itself: the process that the others start.
#[test]
fn child() {
    let Ok(named) = std::env::var(TOPICS) else { return };
    let layers = Layers {
        variables: std::env::vars().filter(|(name, _)| name.starts_with("KEYFOLD_")).collect(),
        ..Layers::default()
    };
    let (settings, console) = (layers.load().unwrap_or_else(|wrong| panic!("{wrong:?}")), Console::stderr());
    logging::start(&settings.log(), &console);
    let kafka = settings.kafka().clone();
    let id = Topics::unpack(&named)[0].to_owned();
    let job = RunnableJob {
        id,
        commits: Commits::Kafka,
        single_because: Some("its keys are not the records' own".to_owned()),
        topology: Box::new(move |_: &StopHandle| topology(&kafka, Topics::unpack(&named))),
    };
    let ended = run(job, &settings, Faults::none(), &console);
    std::process::exit(ended.map_or_else(|error| error.exit_code() as i32, |()| 0));
}
