use super::*;

/// An instance of group mode whose cluster is away. Nobody listens there.
fn instance() -> KafkaLog {
    let stage = StageInfo {
        job: "job".to_owned(),
        stage: "stage".to_owned(),
        partitions: vec![("in".to_owned(), 0)],
        targets: Vec::new(),
        producer_bytes: 1 << 20,
        instance: Some("a".to_owned()),
    };
    KafkaLog::of_stage(&KafkaConfig::new("127.0.0.1:1"), &stage, Duration::from_secs(15)).expect("a log")
}

/// A coordinator was away, and opening a session said nothing for half a minute, twice: the instance was taken for one that hangs. What has
/// begun goes on with the next call.
#[test]
fn opening_a_session_tells_every_ten_seconds_that_it_goes_on() {
    let mut log = instance();
    for _ in 0..2 {
        let begin = Instant::now();
        let told = log.open_session().map_err(|e| e.kind);
        assert_eq!(told, Err(LogErrorKind::Retriable));
        assert!(begin.elapsed() < Duration::from_secs(15), "{:?}", begin.elapsed());
        let mode = log.group_mode.as_ref().expect("group mode");
        assert!(mode.fencing.is_some() && mode.single_may_live, "it is resumed");
    }
}
