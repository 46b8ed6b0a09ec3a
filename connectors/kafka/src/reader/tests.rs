use super::*;
use crate::ffi::Kind;

struct Nothing;

impl RecordSink for Nothing {
    fn record(&mut self, _: &RecordRef<'_>) -> Flow {
        Flow::Stop
    }
    fn end_of_partition(&mut self, _: &str, _: i32, _: i64, _: i32) {}
}

/// A broker that restarts may say for a moment that there is no such topic. Three such answers within a second ended the job. What is
/// asked here is librdkafka's own broker for tests, which does not know the topic either.
#[test]
fn a_reader_that_is_told_that_its_topic_is_unknown_tries_again() {
    let property = |(name, value): (&str, &str)| (name.to_owned(), value.to_owned());
    let properties = [("test.mock.num.brokers", "1"), ("group.id", "reader")].map(property);
    let client = Arc::new(Client::new(Kind::Consumer, &properties).expect("a client"));
    assert_eq!(client.partitions("orders", ASK_WITHIN), Ok(None));
    let mut reader = KafkaReader::new("orders".into(), &[], LaneQueue::new(client.clone()), client);
    for code in [
        Code::UnknownTopicOrPartition,
        Code::UnknownTopic,
        Code::UnknownPartition,
        Code::UnknownTopicId,
    ] {
        let told = reader.event(0, 0, code, "unknown".into(), &mut Nothing);
        assert!(matches!(told, Err(SourceError::Retriable(_))), "{code}: {told:?}");
    }
}
