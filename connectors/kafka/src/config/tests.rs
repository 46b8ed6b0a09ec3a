use super::*;

fn value<'a>(properties: &'a [(String, String)], name: &str) -> Option<&'a str> {
    properties.iter().find(|(n, _)| n == name).map(|(_, v)| v.as_str())
}

/// EP-11: what a reader must and must not do is not up to the user.
#[test]
fn properties_that_would_break_a_guarantee_are_refused_with_the_reason() {
    let config = KafkaConfig::new("b:1");
    for (name, value) in [
        ("enable.auto.commit", "true"),
        ("auto.offset.reset", "earliest"),
        ("isolation.level", "read_uncommitted"),
        ("group.id", "mine"),
        ("transactional.id", "mine"),
        ("acks", "1"),
        ("enable.idempotence", "false"),
        ("max.in.flight", "6"),
        ("retries", "0"),
        ("message.timeout.ms", "0"),
        ("partitioner", "random"),
        ("transaction.timeout.ms", "1"),
        ("check.crcs", "false"),
        ("group.instance.id", "mine"),
        ("group.protocol", "consumer"),
        ("partition.assignment.strategy", "roundrobin"),
        ("session.timeout.ms", "45000"),
        ("heartbeat.interval.ms", "3000"),
        ("max.poll.interval.ms", "300000"),
        ("plugin.library.paths", "x.so"),
    ] {
        for error in [
            config.clone().property(name, value).expect_err(name),
            config.clone().consumer_property(name, value).expect_err(name),
            config.clone().producer_property(name, value).expect_err(name),
        ] {
            assert!(
                matches!(&error, KafkaError::Refused { reason, .. } if !reason.is_empty()),
                "{name}: {error}"
            );
        }
    }
    assert!(config.clone().producer_property("max.in.flight", "5").is_ok());
    assert!(config.producer_property("compression.type", "lz4").is_ok());
}

#[test]
fn unknown_properties_and_values_are_refused_at_once() {
    let config = KafkaConfig::new("b:1");
    assert!(matches!(
        config.clone().property("no.such.thing", "1"),
        Err(KafkaError::Invalid { .. })
    ));
    assert!(matches!(
        config.property("socket.timeout.ms", "soon"),
        Err(KafkaError::Invalid { .. })
    ));
}

#[test]
fn secrets_are_not_shown() {
    let config = KafkaConfig::new("b:1")
        .property("sasl.password", "SENTINEL-1")
        .and_then(|c| c.property("ssl.key.password", "SENTINEL-2"))
        .and_then(|c| c.property("sasl.username", "shown"))
        .expect("known properties");
    let shown = format!("{config:?}");
    assert!(
        !shown.contains("SENTINEL") && shown.contains("[redacted]") && shown.contains("shown"),
        "{shown}"
    );
    let error = KafkaConfig::new("b:1")
        .property("ssl.key.pem", "SENTINEL\0-3")
        .expect_err("a zero byte");
    assert!(!format!("{error} {error:?}").contains("SENTINEL"));
}

/// EP-11
#[test]
fn a_source_reads_committed_records_and_never_jumps_unless_the_test_breaks_it() {
    let config = KafkaConfig::new("b:1").prefetch_bytes(8 << 20);
    let properties = config.source_properties("g", 8);
    for (name, want) in [
        ("isolation.level", "read_committed"),
        ("auto.offset.reset", "error"),
        ("enable.auto.commit", "false"),
        ("enable.partition.eof", "true"),
        ("check.crcs", "true"),
        ("fetch.queue.backoff.ms", "10"),
        ("queued.max.messages.kbytes", "1024"),
        ("group.id", "g"),
    ] {
        assert_eq!(value(&properties, name), Some(want), "{name}");
    }
    let broken = config.faults(Faults::parse("break:EP-11").expect("valid"));
    let properties = broken.source_properties("g", 8);
    assert_eq!(value(&properties, "isolation.level"), Some("read_uncommitted"));
    assert_eq!(value(&properties, "auto.offset.reset"), Some("earliest"));
    assert_eq!(
        value(&broken.pointer_properties("g"), "isolation.level"),
        Some("read_committed")
    );
}

#[test]
fn a_small_topic_limit_makes_small_batches() {
    let config = KafkaConfig::new("b:1");
    assert_eq!(value(&config.producer_properties(500), "batch.size"), Some("500"));
    assert_eq!(value(&config.producer_properties(usize::MAX), "batch.size"), None);
}

/// A job was given little memory and the producer's queue took 64 MiB all the same, because nobody read the budget's part for it.
#[test]
fn the_producers_queue_is_the_memory_budgets_part_unless_it_is_set() {
    let kib = |config: &KafkaConfig| {
        value(&config.producer_properties(BATCH_BYTES), "queue.buffering.max.kbytes").map(str::to_owned)
    };
    let mut config = KafkaConfig::new("b:1");
    assert_eq!(kib(&config).as_deref(), Some("65536"));
    config.output_queue_budget(8 << 20);
    assert_eq!(kib(&config).as_deref(), Some("8192"));
    let mut set = KafkaConfig::new("b:1").output_queue_bytes(1 << 20);
    set.output_queue_budget(8 << 20);
    assert_eq!(kib(&set).as_deref(), Some("1024"));
}

#[test]
fn a_member_of_a_group_is_static_classic_and_ranged_whatever_the_user_sets() {
    let config = KafkaConfig::new("b:1")
        .consumer_property("client.id", "mine")
        .expect("allowed");
    let properties = config.group_properties("g", "i", &GroupTimeouts::default());
    for (name, want) in [
        ("group.id", "g"),
        ("group.instance.id", "i"),
        ("group.protocol", "classic"),
        ("partition.assignment.strategy", "range"),
        ("session.timeout.ms", "10000"),
        ("heartbeat.interval.ms", "1000"),
        ("max.poll.interval.ms", "60000"),
        ("enable.auto.commit", "false"),
        ("client.id", "mine"),
    ] {
        assert_eq!(value(&properties, name), Some(want), "{name}");
    }
    for name in ["group.instance.id", "session.timeout.ms"] {
        let others = [config.source_properties("g", 1), config.pointer_properties("g")];
        assert!(
            others.iter().all(|p| value(p, name).is_none()),
            "{name}: who only reads is no member"
        );
    }
}

/// What librdkafka refuses when the client is made (poll before session) or only the broker would, or nobody (a session of two heartbeats).
#[test]
fn times_of_a_group_that_do_not_fit_together_are_refused_by_name_and_limit() {
    let times = |session, heartbeat, max_poll| GroupTimeouts {
        session: Duration::from_millis(session),
        heartbeat: Duration::from_millis(heartbeat),
        max_poll: Duration::from_millis(max_poll),
    };
    GroupTimeouts::default().check().expect("the defaults fit");
    times(3000, 1000, 3000).check().expect("at the limits");
    for (refused, property, limit) in [
        (times(2999, 1000, 60_000), "session.timeout.ms", "3 times"),
        (times(10_000, 0, 60_000), "heartbeat.interval.ms", "1 ms"),
        (times(10_000, 1000, 9999), "max.poll.interval.ms", "10000"),
        (times(3_600_001, 1000, 3_600_001), "session.timeout.ms", "hour"),
        (times(10_000, 1000, 86_400_001), "max.poll.interval.ms", "day"),
    ] {
        let error = refused.check().expect_err(property).to_string();
        assert!(
            error.contains(property) && error.contains(limit) && error.contains("GroupTimeouts"),
            "{error}"
        );
    }
}
