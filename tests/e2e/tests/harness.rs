//! The harness itself, against a real broker: a harness that cannot fail proves nothing.
use std::time::{Duration, Instant};

use keyfold_checker::Checker;
use keyfold_e2e::proxy::{Action, END_TXN, PRODUCE, TXN_OFFSET_COMMIT};
use keyfold_e2e::{Broker, Feed, FeedOptions, Rule};
use rdkafka::config::ClientConfig;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::message::{BorrowedMessage, Message};
use rdkafka::producer::{BaseRecord, DefaultProducerContext, Producer, ThreadedProducer};
use rdkafka::topic_partition_list::{Offset, TopicPartitionList};
use rdkafka::util::Timeout;

const LONG: Duration = Duration::from_secs(60);

type Transactional = ThreadedProducer<DefaultProducerContext>;

fn transactional(brokers: &str, id: &str) -> Transactional {
    let producer: Transactional = ClientConfig::new()
        .set("bootstrap.servers", brokers)
        .set("transactional.id", id)
        .set("partitioner", "murmur2_random")
        .create()
        .expect("producer");
    producer.init_transactions(LONG).expect("init_transactions");
    producer
}

fn send(producer: &Transactional, topic: &str, key: &str, value: &str) {
    producer
        .send(BaseRecord::to(topic).key(key).payload(value))
        .map_err(|(e, _)| e)
        .expect("send");
}

fn feed(broker: &Broker, topic: &str, rate: u64) -> Feed {
    let options = FeedOptions {
        brokers: broker.bootstrap(),
        topic: topic.into(),
        rate,
        keys: 200,
        seed: 1,
    };
    Feed::start(options).expect("feed")
}

/// Folds the input as the job does, with whatever faults a test wants: `write` gets each right output.
fn fold(broker: &Broker, input: &str, count: u64, mut write: impl FnMut(u64, &str, String)) {
    let consumer: BaseConsumer = ClientConfig::new()
        .set("bootstrap.servers", broker.bootstrap())
        .set("group.id", "fold")
        .create()
        .expect("consumer");
    let mut list = TopicPartitionList::new();
    (0..4).for_each(|p| {
        list.add_partition_offset(input, p, Offset::Beginning)
            .expect("partition")
    });
    consumer.assign(&list).expect("assign");
    let mut state: std::collections::HashMap<String, (u64, i64)> = std::collections::HashMap::new();
    let mut next = |m: &BorrowedMessage<'_>| {
        let text = |bytes: Option<&[u8]>| String::from_utf8(bytes.expect("there").to_vec()).expect("text");
        let (key, value) = (text(m.key()), text(m.payload()));
        let fold = state.entry(key.clone()).or_default();
        *fold = (fold.0 + 1, fold.1 + value.parse::<i64>().expect("integer"));
        let (seq, sum) = *fold;
        (
            key,
            format!(
                r#"{{"seq":{seq},"sum":{sum},"p":{},"o":{}}}"#,
                m.partition(),
                m.offset()
            ),
        )
    };
    for number in 0..count {
        // A poll ends early for events that are no messages.
        let message = (0..100)
            .find_map(|_| consumer.poll(LONG))
            .expect("in time")
            .expect("message");
        let (key, value) = next(&message);
        write(number, &key, value);
    }
}

#[test]
fn the_checker_passes_right_outputs_and_names_each_kind_of_wrong_one() {
    let broker = Broker::shared();
    let count = 5000;
    for (fault, verdict) in [
        ("none", "lost=0 duplicated=0 stale=0 verdict=OK"),
        ("lose", "lost=1 duplicated=0 stale=0 verdict=FAILED"),
        ("twice", "lost=0 duplicated=1 stale=0 verdict=FAILED"),
        ("stale", "lost=0 duplicated=0 stale=1 verdict=FAILED"),
        ("aborted", "lost=100 duplicated=0 stale=0 verdict=FAILED"),
    ] {
        let input = broker.fresh_topic("check-in", 4).expect("topic");
        let output = broker.fresh_topic("check-out", 4).expect("topic");
        let feed = feed(broker, &input, 1);
        let checker = Checker::start(&broker.bootstrap(), &input, &output).expect("checker");
        assert_eq!(feed.finish(count, LONG).expect("produced"), count);
        let producer = transactional(&broker.bootstrap(), &format!("fold-{fault}"));
        fold(broker, &input, count, |number, key, value| {
            if number % 100 == 0 {
                producer.begin_transaction().expect("begin");
            }
            match (fault, number) {
                ("lose", 1234) => {}
                ("twice", 1234) => (0..2).for_each(|_| send(&producer, &output, key, &value)),
                ("stale", 1234) => send(&producer, &output, key, &value.replace("\"seq\":", "\"seq\":1")),
                _ => send(&producer, &output, key, &value),
            }
            if number % 100 == 99 && fault == "aborted" && number < 100 {
                producer.flush(LONG).expect("flush");
                producer.abort_transaction(Timeout::Never).expect("abort");
            } else if number % 100 == 99 {
                producer.commit_transaction(Timeout::Never).expect("commit");
            }
        });
        let report = checker.finish(LONG).expect("report");
        assert!(
            report.to_string().ends_with(verdict),
            "{fault}: {report} {:?}",
            report.offenders
        );
        assert_eq!(report.counts.records_in, count);
    }
}

#[test]
fn a_transaction_that_stays_open_is_no_stable_end() {
    let broker = Broker::shared();
    let input = broker.fresh_topic("open-in", 1).expect("topic");
    let output = broker.fresh_topic("open-out", 1).expect("topic");
    let feed = feed(broker, &input, 1);
    feed.finish(1, LONG).expect("produced");
    let producer = transactional(&broker.bootstrap(), "open");
    producer.begin_transaction().expect("begin");
    send(&producer, &output, "k", "{}");
    producer.flush(LONG).expect("flush");
    let checker = Checker::start(&broker.bootstrap(), &input, &output).expect("checker");
    let error = checker.finish(Duration::from_secs(2)).expect_err("no end");
    assert!(error.to_string().contains("no stable end"), "{error}");
    producer.abort_transaction(Timeout::Never).expect("abort");
}

#[test]
fn a_broker_is_killed_and_comes_back_with_its_data_while_the_feed_goes_on() {
    let dir = tempfile::tempdir().expect("directory");
    let port = keyfold_e2e::broker::free_port().expect("port");
    let broker = Broker::start(dir.path(), port).expect("broker");
    broker.create_topic("in", 4, &[]).expect("topic");
    broker.create_topic("out", 4, &[]).expect("topic");
    let feed = feed(&broker, "in", 2000);
    let checker = Checker::start(&broker.bootstrap(), "in", "out").expect("checker");
    std::thread::sleep(Duration::from_secs(2));
    let pid = broker.kill9().expect("killed");
    assert_eq!(broker.pid(), None);
    std::thread::sleep(Duration::from_secs(1));
    broker.restart().expect("restarted");
    assert_ne!(broker.pid(), Some(pid));
    // Else it would forget the markers of transactions that it was about to end (KAFKA-20734).
    let fence =
        std::fs::read_to_string(dir.path().join("fence.log")).expect("the killed broker is declared dead first");
    assert!(fence.contains("Fencing broker 1 "), "{fence}");
    let count = feed.finish(20_000, LONG).expect("produced");
    let report = checker.finish(LONG).expect("report");
    assert_eq!(report.counts.records_in, count, "{report}");
    assert_eq!((report.counts.lost, report.counts.input_faults), (count, 0), "{report}");
    let pid = broker.pid().expect("runs");
    drop(broker);
    // What nobody has waited for keeps its number for a while, without a command line.
    let left = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    assert!(left.is_empty(), "the broker was left behind");
}

#[test]
fn the_proxy_holds_and_drops_answers_of_a_real_broker() {
    let dir = tempfile::tempdir().expect("directory");
    let (broker, proxy) = Broker::start_behind_proxy(dir.path()).expect("broker");
    broker.create_topic("out", 1, &[]).expect("topic");
    let producer = transactional(&broker.bootstrap(), "proxied");
    let commit = |value: &str| {
        producer.begin_transaction().expect("begin");
        send(&producer, "out", "k", value);
        producer.flush(LONG).expect("flush");
        let begin = Instant::now();
        producer.commit_transaction(Timeout::Never).expect("commit");
        begin.elapsed()
    };
    assert!(commit("quick") < Duration::from_millis(900));
    let held = proxy.add(Rule::nth(END_TXN, 1, Action::HoldResponse(Duration::from_secs(1))));
    let slow = commit("held");
    assert!(
        (Duration::from_secs(1)..Duration::from_secs(5)).contains(&slow),
        "{slow:?}"
    );
    assert_eq!(proxy.acted(held), 1);
    // Closed instead of answered: librdkafka asks again by itself, and the transaction is committed once.
    let closed = proxy.add(Rule::nth(END_TXN, 1, Action::CloseInsteadOfResponse));
    commit("closed");
    assert_eq!(proxy.acted(closed), 1);
    assert!(proxy.counters(END_TXN).requests >= 4, "{:?}", proxy.counters(END_TXN));
    assert!(proxy.counters(PRODUCE).responses >= 3);
    assert_eq!(proxy.counters(TXN_OFFSET_COMMIT).requests, 0);
}

#[test]
fn kafkas_own_tools_are_at_hand() {
    let broker = Broker::shared();
    let topic = broker.fresh_topic("tools", 3).expect("topic");
    let text = broker
        .tool("topics.sh", &["--describe", "--topic", &topic])
        .expect("topics.sh");
    assert!(text.contains("PartitionCount: 3"), "{text}");
}
