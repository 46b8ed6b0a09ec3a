use super::*;

/// An instance of group mode whose cluster is away. Nobody listens there.
fn instance() -> KafkaLog {
    instance_at("127.0.0.1:1")
}

fn instance_at(brokers: &str) -> KafkaLog {
    let stage = StageInfo {
        job: "job".to_owned(),
        stage: "stage".to_owned(),
        partitions: vec![("in".to_owned(), 0)],
        targets: Vec::new(),
        producer_bytes: 1 << 20,
        instance: Some("a".to_owned()),
    };
    KafkaLog::of_stage(&KafkaConfig::new(brokers), &stage, Duration::from_secs(15)).expect("a log")
}

/// A coordinator was away, and opening a session said nothing for half a minute, twice: the instance was taken for one that hangs. What has
/// begun goes on with the next call.
#[test]
fn opening_a_session_tells_every_ten_seconds_that_it_goes_on() {
    let mut log = instance();
    let mut begun = Vec::new();
    for _ in 0..2 {
        let begin = Instant::now();
        let told = log.open_session().map_err(|e| e.kind);
        assert_eq!(told, Err(LogErrorKind::Retriable));
        assert!(begin.elapsed() < Duration::from_secs(15), "{:?}", begin.elapsed());
        let mode = log.group_mode.as_ref().expect("group mode");
        assert!(mode.single_may_live);
        begun.push(mode.fencing.as_ref().map(|fencing| fencing.since));
    }
    assert!(begun[0].is_some() && begun[0] == begun[1], "it is resumed: {begun:?}");
}

/// A broker was away when a stop came: each call waited for as long as ever, the process ended half a minute after its time, and a supervisor
/// had killed it by then.
#[test]
fn calls_do_not_outlast_the_time_that_a_stop_leaves() {
    let mut log = instance();
    let begin = Instant::now();
    log.give_up(GiveUp::new(move || {
        Some(Duration::from_secs(2).saturating_sub(begin.elapsed()))
    }));
    let told = log.open_session().map_err(|e| e.kind);
    assert_eq!(told, Err(LogErrorKind::Retriable));
    assert!(log.committed().is_err());
    assert!(log.group_has_members().is_err());
    assert!(log.open_session().is_err());
    assert!(begin.elapsed() < Duration::from_secs(7), "{:?}", begin.elapsed());
}

/// Commit and abort wait for up to 35 s, in steps that another call goes on with.
#[test]
fn the_end_of_a_transaction_is_waited_for_in_steps_until_a_stop_gives_up() {
    let over = Arc::new(std::sync::atomic::AtomicBool::new(false));
    let seen = over.clone();
    let give_up = GiveUp::new(move || {
        let over = seen.load(std::sync::atomic::Ordering::SeqCst);
        over.then_some(Duration::ZERO)
    });
    let away = || Failure::plain(Code::OperationTimedOut, "in time".to_owned());
    let mut steps = Vec::new();
    let ended = in_steps(Duration::from_secs(35), &give_up, |step| {
        steps.push(step);
        over.store(steps.len() == 3, std::sync::atomic::Ordering::SeqCst);
        Err(away())
    });
    assert_eq!(ended.map_err(|f| f.code), Err(Code::OperationTimedOut));
    assert_eq!(steps, [STEP; 3]);
    over.store(false, std::sync::atomic::Ordering::SeqCst);
    let mut calls = 0;
    let fails = |_| {
        calls += 1;
        Err(Failure::plain(Code::Fenced, "somebody else".to_owned()))
    };
    assert!(in_steps(Duration::from_secs(35), &give_up, fails).is_err());
    assert_eq!(calls, 1, "only a time-out is waited for again");
}

/// The request that ends an owner in single mode was answered between two calls. By the time of the second one the owner had opened its session
/// again, and both went on: an answer that is old news ends nobody.
#[test]
fn ep_7_an_owner_in_single_mode_is_ended_by_an_answer_of_this_call_alone() {
    let cluster = rdkafka::mocking::MockCluster::new(1).expect("a cluster");
    let mut log = instance_at(&cluster.bootstrap_servers());
    let (group, timeout) = (log.group.clone(), Duration::from_secs(15));
    let properties = log.config.transactional_properties(&group, timeout, usize::MAX);
    let client = Client::new(Kind::Producer, &properties).expect("a client");
    // It is begun and not waited for.
    client
        .init_transactions(Duration::from_millis(1))
        .expect_err("too soon");
    log.group_mode.as_mut().expect("group mode").fencing = Some(Opening::new(client));
    let end = || Instant::now() + Duration::from_secs(30);
    let told = log.fence_single_owner(end()).map_err(|e| e.kind);
    assert_eq!(told, Err(LogErrorKind::Retriable));
    assert!(log.group_mode.as_ref().is_some_and(|mode| mode.single_may_live));
    log.fence_single_owner(end()).expect("asked and answered");
    assert!(log.group_mode.as_ref().is_some_and(|mode| !mode.single_may_live));
}
