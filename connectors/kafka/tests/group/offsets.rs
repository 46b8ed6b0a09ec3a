//! Whose offsets are taken, and what is read back.
use super::support::{Broker, broker};
use super::{Member, stage, timeouts, two_members, until};
use keyfold::sink::{CommitEntry, Committed, Log, LogErrorKind};
use keyfold::source::GroupEvent;
use keyfold::testing::Faults;
use keyfold::types::{Assignment, GroupMember, Position};
use keyfold_kafka::{KafkaConfig, KafkaLog};
use std::time::{Duration, Instant};

fn log(config: &KafkaConfig, job: &str, topic: &str, instance: Option<&str>) -> KafkaLog {
    let stage = stage(job, topic, instance);
    KafkaLog::of_stage(config, &stage, Duration::from_secs(15)).expect("made")
}

/// A log with its session open.
fn open_log(b: &Broker, job: &str, topic: &str, instance: Option<&str>) -> KafkaLog {
    let mut log = log(&b.config(), job, topic, instance);
    log.open_session().expect("a session");
    log
}

fn at(topic: &str, partition: i32, offset: i64) -> CommitEntry {
    let position = Position {
        topic: topic.to_owned(),
        partition,
        offset,
        leader_epoch: 0,
    };
    CommitEntry {
        position,
        pointer: format!("k1;{offset}"),
    }
}

fn commit(log: &mut KafkaLog, entries: &[CommitEntry]) {
    log.begin().expect("begin");
    log.send_offsets(entries).expect("offsets");
    log.commit().expect("commit");
}

fn offsets(committed: &[Committed]) -> Vec<(i32, Option<i64>)> {
    committed.iter().map(|c| (c.partition, c.offset)).collect()
}

fn as_member(generation: i32, id: &str, instance: &str, topic: &str) -> Assignment {
    Assignment {
        member: GroupMember {
            generation,
            id: id.to_owned(),
            instance: instance.to_owned(),
        },
        partitions: vec![(topic.to_owned(), 0)],
    }
}

#[test]
fn an_assigned_log_commits_and_what_it_committed_is_read_for_its_partitions_only() {
    let b = broker();
    let topic = b.topic(4, &[]);
    let (a, c) = two_members(b, "assigned", &topic);
    let (mine, theirs) = (a.assigned().expect("assigned"), c.assigned().expect("assigned"));
    let mut log = open_log(b, "assigned", &topic, Some("a"));
    assert_eq!(log.committed().expect("all of the stage").len(), 4);
    log.assign(mine).expect("assigned");
    let entries: Vec<_> = a.numbers().iter().map(|p| at(&topic, *p, 10 + i64::from(*p))).collect();
    commit(&mut log, &entries);
    let expected: Vec<_> = a.numbers().iter().map(|p| (*p, Some(10 + i64::from(*p)))).collect();
    assert_eq!(offsets(&log.committed().expect("stable")), expected);
    assert_eq!(offsets(&log.glance().expect("a glance")), expected);
    let mut reader = log.pointer_reader().expect("made");
    let read = reader
        .committed(&mine.partitions, Duration::from_secs(10))
        .expect("read");
    assert_eq!(offsets(&read), expected);
    assert_eq!(read[0].metadata.as_deref(), Some(entries[0].pointer.as_bytes()));
    let others = reader
        .committed(&theirs.partitions, Duration::from_secs(10))
        .expect("read");
    assert!(
        others.len() == 2 && others.iter().all(|c| c.offset.is_none()),
        "{others:?}"
    );
    assert!(!log.session_is_suspect());
    // More members than partitions: nothing to ask for.
    let mut idle = mine.clone();
    idle.partitions.clear();
    log.assign(&idle).expect("assigned");
    assert!(log.committed().expect("nothing").is_empty() && log.glance().expect("nothing").is_empty());
    assert!(reader.committed(&[], Duration::ZERO).expect("nothing").is_empty());
}

/// EP-7: a zombie sends what it had from an earlier generation. With the protection broken it is taken: that is what a classic group does.
#[test]
fn ep_7_offsets_of_an_older_generation_are_refused_and_nothing_is_committed() {
    let b = broker();
    let topic = b.topic(4, &[]);
    let mut a = Member::join(b, "stale", &topic, "a");
    until(&mut [&mut a], |m| m[0].count() == 4);
    let old = a.assigned().expect("assigned").clone();
    let mut c = Member::join(b, "stale", &topic, "c");
    until(&mut [&mut a, &mut c], |m| m.iter().all(|m| m.count() == 2));
    let mut zombie = open_log(b, "stale", &topic, Some("a"));
    zombie.assign(&old).expect("an identity");
    zombie.begin().expect("begin");
    let error = zombie.send_offsets(&[at(&topic, 0, 7)]).expect_err("stale");
    assert_eq!(error.kind, LogErrorKind::StaleAssignment, "{error}");
    zombie.abort().expect("abort");
    assert!(zombie.committed().expect("stable").iter().all(|c| c.offset.is_none()));
    assert!(zombie.session_is_suspect(), "EP-5: rebuilt before the next transaction");
    // The same instance under its present generation.
    let now = a.assigned().expect("assigned");
    zombie.open_session().expect("a session");
    zombie.assign(now).expect("an identity");
    commit(&mut zombie, &[at(&topic, now.partitions[0].1, 9)]);
    drop(zombie);
    let broken = b.config().faults(Faults::parse("break:EP-7").expect("valid"));
    let mut zombie = log(&broken, "stale", &topic, Some("a"));
    zombie.open_session().expect("a session");
    zombie.assign(&old).expect("an identity");
    commit(&mut zombie, &[at(&topic, c.numbers()[0], 7)]);
}

/// EP-7: the coordinator tells a member that is gone from one whose name another has.
#[test]
fn ep_7_offsets_of_a_member_that_is_gone_or_whose_name_is_taken_are_told_apart() {
    let b = broker();
    let topic = b.topic(4, &[]);
    let mut a = Member::join(b, "gone", &topic, "a");
    until(&mut [&mut a], |m| m[0].count() == 4);
    let generation = a.assigned().expect("assigned").member.generation;
    for (instance, kind) in [("gone", LogErrorKind::StaleAssignment), ("a", LogErrorKind::NameTaken)] {
        let mut log = open_log(b, "gone", &topic, Some(instance));
        log.assign(&as_member(generation, "a-former-id", instance, &topic))
            .expect("an identity");
        log.begin().expect("begin");
        let error = log.send_offsets(&[at(&topic, 0, 7)]).expect_err("refused");
        assert_eq!(error.kind, kind, "{error}");
        log.abort().expect("abort");
        assert_eq!(log.committed().expect("stable")[0].offset, None);
    }
}

/// A member that was late for a poll joins again under its name with another id, and to the coordinator its former self is then a stranger
/// who uses this name: it cannot tell, so the log cannot. Nothing is committed either way.
#[test]
fn ep_7_offsets_of_a_members_former_self_are_refused_as_those_of_a_stranger() {
    let b = broker();
    let topic = b.topic(4, &[]);
    let mut a = Member::join(b, "former", &topic, "a");
    until(&mut [&mut a], |m| m[0].count() == 4);
    let former = a.assigned().expect("assigned").clone();
    let mut log = open_log(b, "former", &topic, Some("a"));
    log.assign(&former).expect("an identity");
    std::thread::sleep(timeouts().max_poll + Duration::from_millis(500));
    until(&mut [&mut a], |m| m[0].events.len() == 3 && m[0].count() == 4);
    assert_eq!(a.events[1], GroupEvent::Lost);
    assert_ne!(a.assigned().expect("assigned").member.id, former.member.id);
    log.begin().expect("begin");
    let error = log.send_offsets(&[at(&topic, 0, 7)]).expect_err("refused");
    assert_eq!(error.kind, LogErrorKind::NameTaken, "{error}");
    log.abort().expect("abort");
    assert_eq!(log.committed().expect("stable")[0].offset, None);
    assert!(
        a.try_poll(Duration::from_secs(1)).is_ok(),
        "the membership knows that the name is its own"
    );
}

/// EP-7: a classic group takes offsets of generation -1 and of no member id from anybody.
#[test]
fn ep_7_no_identity_is_refused_before_anything_is_sent() {
    let b = broker();
    let topic = b.topic(4, &[]);
    let mut log = open_log(b, "nobody", &topic, Some("a"));
    for assignment in [as_member(-1, "id", "a", &topic), as_member(0, "", "a", &topic)] {
        let error = log.assign(&assignment).expect_err("refused");
        assert_eq!(error.kind, LogErrorKind::Fatal, "{error}");
        assert!(error.reason.contains("without a look"), "{error}");
    }
    let other = log
        .assign(&as_member(0, "id", "other", &topic))
        .expect_err("of another");
    assert_eq!(other.kind, LogErrorKind::Fatal, "{other}");
    log.begin().expect("begin");
    let error = log.send_offsets(&[at(&topic, 0, 1)]).expect_err("as nobody");
    assert!(
        error.kind == LogErrorKind::Fatal && error.reason.contains("nothing is assigned"),
        "{error}"
    );
    log.abort().expect("abort");
    let mut single = open_log(b, "nobody-single", &topic, None);
    let error = single
        .assign(&as_member(0, "id", "a", &topic))
        .expect_err("single mode");
    assert!(
        error.kind == LogErrorKind::Fatal && error.reason.contains("single mode"),
        "{error}"
    );
}

/// A job was changed from single to group mode while its former process still ran. That one commits under no generation, which the group
/// does not refuse.
#[test]
fn ep_7_the_first_session_of_group_mode_ends_an_owner_in_single_mode() {
    let b = broker();
    let topic = b.topic(4, &[]);
    let mut single = open_log(b, "modes", &topic, None);
    commit(&mut single, &[at(&topic, 0, 5)]);
    single.begin().expect("begin");
    single.send_offsets(&[at(&topic, 0, 6)]).expect("undecided");
    let mut log = open_log(b, "modes", &topic, Some("a"));
    assert_eq!(log.committed().expect("stable at once")[0].offset, Some(5));
    assert_eq!(single.commit().expect_err("fenced").kind, LogErrorKind::Fenced);
    // Once is enough: a later session is opened in the middle of the work.
    let mut again = open_log(b, "modes", &topic, None);
    log.open_session().expect("a session");
    commit(&mut again, &[at(&topic, 0, 6)]);
}

/// A shard's pointer is undecided while its former owner's transaction is: it waits, the others are restored.
#[test]
fn a_pointer_reader_waits_for_the_undecided_and_answers_for_the_others() {
    let b = broker();
    let topic = b.topic(4, &[]);
    let mut a = Member::join(b, "undecided", &topic, "a");
    until(&mut [&mut a], |m| m[0].count() == 4);
    let mut log = open_log(b, "undecided", &topic, Some("a"));
    log.assign(a.assigned().expect("assigned")).expect("assigned");
    commit(&mut log, &[at(&topic, 0, 1), at(&topic, 1, 1)]);
    let mut reader = log.pointer_reader().expect("made");
    log.begin().expect("begin");
    log.send_offsets(&[at(&topic, 0, 2)]).expect("offsets");
    let (first, second) = ([(topic.clone(), 0)], [(topic.clone(), 1)]);
    let asked = Instant::now();
    let error = reader
        .committed(&first, Duration::from_millis(700))
        .expect_err("undecided");
    assert_eq!(error.kind, LogErrorKind::Retriable, "{error}");
    assert!(error.reason.contains("no end yet"), "{error}");
    let within = asked.elapsed();
    assert!(
        within >= Duration::from_millis(500) && within < Duration::from_secs(2),
        "{within:?}"
    );
    let read = reader.committed(&second, Duration::from_millis(700)).expect("decided");
    assert_eq!(offsets(&read), [(1, Some(1))]);
    // Another instance opens its session meanwhile: it must not wait for a transaction that is not its own.
    let asked = Instant::now();
    open_log(b, "undecided", &topic, Some("c"));
    assert!(asked.elapsed() < Duration::from_secs(5), "{:?}", asked.elapsed());
    log.commit().expect("commit");
    let read = reader.committed(&first, Duration::from_secs(10)).expect("decided");
    assert_eq!(offsets(&read), [(0, Some(2))]);
}
