use super::super::process::{Call, Fault};
use super::super::{ManualClock, MemoryLog};
use super::*;
use crate::runtime::StageInfo;
use crate::sink::{CommitEntry, Log, LogErrorKind, LogTarget};
use crate::types::{Assignment, GroupMember, OutputRef, Position};
use std::sync::Arc;

const GROUP: &str = "job.stage";
const NOW: Duration = Duration::ZERO;

fn broker() -> MemoryBroker {
    let broker = MemoryBroker::new(Arc::new(ManualClock::new(0)));
    broker.create_topic("in", 4);
    broker.create_topic("out", 1);
    broker
}

fn stage(instance: &str) -> StageInfo {
    StageInfo {
        job: "job".to_owned(),
        stage: "stage".to_owned(),
        partitions: (0..4).map(|p| ("in".to_owned(), p)).collect(),
        targets: vec![Some(LogTarget {
            topic: "out".to_owned(),
            max_bytes: 1000,
        })],
        producer_bytes: 0,
        instance: Some(instance.to_owned()),
    }
}

/// A member that has joined.
fn member(broker: &MemoryBroker, instance: &str) -> MemoryMembership {
    let topics = vec!["in".to_owned()];
    let mut member = MemoryMembership::new(broker.clone(), GROUP, instance, topics, Process::new());
    member.join().expect("joins");
    member
}

fn poll(member: &mut MemoryMembership) -> Option<GroupEvent> {
    member.poll(NOW).expect("a poll")
}

fn assigned(member: &mut MemoryMembership) -> Assignment {
    match poll(member) {
        Some(GroupEvent::Assigned(assignment)) => assignment,
        other => panic!("{} was told {other:?}", member.instance),
    }
}

fn numbers(assignment: &Assignment) -> Vec<i32> {
    assignment.partitions.iter().map(|(_, p)| *p).collect()
}

/// Two members that share four partitions, and what each was given.
fn pair(broker: &MemoryBroker) -> [(MemoryMembership, Assignment); 2] {
    let (mut a, mut b) = (member(broker, "a"), member(broker, "b"));
    let (of_a, of_b) = (assigned(&mut a), assigned(&mut b));
    [(a, of_a), (b, of_b)]
}

fn log(broker: &MemoryBroker, instance: &str) -> MemoryLog {
    let mut log = MemoryLog::new(broker.clone(), stage(instance), Process::new());
    log.open_session().expect("a session");
    log
}

fn entry(partition: i32, offset: i64) -> CommitEntry {
    CommitEntry {
        position: Position {
            topic: "in".to_owned(),
            partition,
            offset,
            leader_epoch: 0,
        },
        pointer: "pointer".to_owned(),
    }
}

/// Sends offsets of a partition in a new transaction.
fn send_offsets(log: &mut MemoryLog, partition: i32) -> Result<(), LogErrorKind> {
    log.begin().expect("begins");
    log.send_offsets(&[entry(partition, 1)]).map_err(|e| e.kind)
}

#[test]
fn partitions_are_shared_in_runs_over_the_members_in_the_order_of_their_names() {
    let broker = broker();
    broker.create_topic("in", 5);
    let mut members: Vec<MemoryMembership> = ["b", "c", "a"].map(|name| member(&broker, name)).into();
    let given: Vec<Assignment> = members.iter_mut().map(assigned).collect();
    assert_eq!(
        given.iter().map(numbers).collect::<Vec<_>>(),
        [vec![2, 3], vec![4], vec![0, 1]]
    );
    let view = broker.group(GROUP);
    assert!(!view.rebalancing && view.members.len() == 3);
    assert!(
        given
            .iter()
            .all(|a| a.member.generation == view.generation && !a.member.id.is_empty())
    );
}

#[test]
fn more_members_than_partitions_leave_some_with_nothing() {
    let broker = broker();
    broker.create_topic("in", 1);
    let [(_, of_a), (_, of_b)] = pair(&broker);
    assert_eq!((numbers(&of_a), numbers(&of_b)), (vec![0], vec![]));
}

/// Eager: a newcomer gets nothing, and nobody anything new, before everybody has given back what it held.
#[test]
fn a_newcomer_waits_until_the_others_have_released() {
    let broker = broker();
    let mut a = member(&broker, "a");
    let first = assigned(&mut a);
    assert_eq!(numbers(&first), [0, 1, 2, 3]);
    let mut b = member(&broker, "b");
    assert_eq!(poll(&mut b), None);
    assert_eq!(poll(&mut a), Some(GroupEvent::Revoked));
    assert_eq!(poll(&mut a), None, "it is told once");
    assert_eq!(poll(&mut b), None);
    assert!(broker.group(GROUP).rebalancing);
    a.release().expect("releases");
    let (of_a, of_b) = (assigned(&mut a), assigned(&mut b));
    assert_eq!((numbers(&of_a), numbers(&of_b)), (vec![0, 1], vec![2, 3]));
    assert_eq!(of_a.member.generation, first.member.generation + 1);
    assert_eq!(of_a.member.id, first.member.id, "a member keeps its id");
}

#[test]
fn who_expires_is_told_that_all_is_lost_and_the_others_get_its_partitions() {
    let broker = broker();
    let [(mut a, _), (mut b, _)] = pair(&broker);
    broker.expire_member(GROUP, "a");
    assert_eq!(poll(&mut a), Some(GroupEvent::Lost));
    assert_eq!(poll(&mut b), Some(GroupEvent::Revoked));
    b.release().expect("releases");
    assert_eq!(numbers(&assigned(&mut b)), [0, 1, 2, 3]);
    // It joins again only when it has answered, under a new id.
    assert_eq!(poll(&mut a), None);
    assert_eq!(broker.group(GROUP).members.len(), 1);
    a.release().expect("answers");
    assert_eq!(poll(&mut b), Some(GroupEvent::Revoked));
    b.release().expect("releases");
    assert_eq!(numbers(&assigned(&mut a)), [0, 1]);
}

/// A member that dies while the group waits for it holds the others up until its session is over.
#[test]
fn a_rebalance_ends_when_the_member_it_waits_for_expires() {
    let broker = broker();
    let [(a, _), (mut b, _)] = pair(&broker);
    let mut c = member(&broker, "c");
    assert_eq!(poll(&mut b), Some(GroupEvent::Revoked));
    b.release().expect("releases");
    drop(a);
    assert_eq!((poll(&mut b), poll(&mut c)), (None, None));
    broker.expire_member(GROUP, "a");
    assert_eq!(
        (numbers(&assigned(&mut b)), numbers(&assigned(&mut c))),
        (vec![0, 1], vec![2, 3])
    );
}

/// Who has released and lost its session afterwards has nothing to lose: as a client does, it joins again without a word.
#[test]
fn who_holds_nothing_joins_again_by_itself() {
    let broker = broker();
    let mut a = member(&broker, "a");
    broker.expire_member(GROUP, "a");
    assert_eq!(poll(&mut a), None);
    assert_eq!(numbers(&assigned(&mut a)), [0, 1, 2, 3]);
}

/// Static membership: a restart within the session costs the others nothing.
#[test]
fn a_restart_within_the_session_gets_the_same_partitions_without_a_rebalance() {
    let broker = broker();
    let [(mut a, before), (mut b, _)] = pair(&broker);
    a.close(false);
    let mut again = member(&broker, "a");
    let after = assigned(&mut again);
    assert_eq!(after.partitions, before.partitions);
    assert_eq!(after.member.generation, before.member.generation);
    assert_ne!(after.member.id, before.member.id);
    assert_eq!(poll(&mut b), None);
}

#[test]
fn a_restart_while_the_group_waits_is_as_good_as_a_release() {
    let broker = broker();
    let mut a = member(&broker, "a");
    assigned(&mut a);
    let mut b = member(&broker, "b");
    a.close(false);
    assert_eq!(poll(&mut b), None);
    let mut again = member(&broker, "a");
    assert_eq!(
        (numbers(&assigned(&mut again)), numbers(&assigned(&mut b))),
        (vec![0, 1], vec![2, 3])
    );
}

#[test]
fn who_leaves_gives_its_partitions_away_at_once() {
    let broker = broker();
    let [(mut a, _), (mut b, _)] = pair(&broker);
    b.close(true);
    assert_eq!(poll(&mut a), Some(GroupEvent::Revoked));
    a.release().expect("releases");
    assert_eq!(numbers(&assigned(&mut a)), [0, 1, 2, 3]);
    a.close(true);
    assert!(!broker.has_members(GROUP));
    assert!(matches!(a.poll(NOW), Err(MembershipError::Fatal(_))));
}

/// EP-7: a second process under a live name takes it; the first must not fight, and what it does under its old identity is refused.
#[test]
fn a_twin_fences_who_had_its_name() {
    let broker = broker();
    let mut a = member(&broker, "a");
    let of_first = assigned(&mut a);
    let mut first = log(&broker, "a");
    first.assign(&of_first).expect("assigned");
    let mut twin = member(&broker, "a");
    assert_eq!(poll(&mut a), Some(GroupEvent::Lost));
    assert_eq!(send_offsets(&mut first, 0), Err(LogErrorKind::NameTaken));
    a.release().expect("answers");
    assert_eq!(poll(&mut a), None, "nobody has been heard of under the name");
    assert_eq!(assigned(&mut twin).partitions, of_first.partitions);
    assert!(matches!(a.poll(NOW), Err(MembershipError::NameTaken(_))));
    a.close(true);
    assert_eq!(broker.group(GROUP).members.len(), 1, "the first cannot make it leave");
}

#[test]
fn a_twin_in_a_rebalance_fences_who_is_about_to_release() {
    let broker = broker();
    let [(mut a, _), _] = pair(&broker);
    let _c = member(&broker, "c");
    assert_eq!(poll(&mut a), Some(GroupEvent::Revoked));
    let mut twin = member(&broker, "a");
    a.release().expect("there is nothing to give back any more");
    assert_eq!(poll(&mut a), None);
    assert_eq!(poll(&mut twin), None);
    assert!(matches!(a.poll(NOW), Err(MembershipError::NameTaken(_))));
}

/// EP-7: a request to join that comes late makes a member that nobody is. Its name is free again when its session ends.
#[test]
fn ep_7_who_is_fenced_by_a_late_request_of_its_own_joins_again_once_that_is_gone() {
    let broker = broker();
    let mut a = member(&broker, "a");
    let before = assigned(&mut a);
    broker.join_late(GROUP, "a");
    assert_eq!(poll(&mut a), Some(GroupEvent::Lost));
    a.release().expect("answers");
    assert_eq!((poll(&mut a), poll(&mut a)), (None, None));
    broker.expire_member(GROUP, "a");
    assert_eq!(poll(&mut a), None);
    let after = assigned(&mut a);
    assert_eq!(after.partitions, before.partitions);
    assert_ne!(after.member.id, before.member.id);
}

#[test]
fn nothing_is_released_that_was_not_asked_for() {
    let broker = broker();
    let mut a = member(&broker, "a");
    assert!(matches!(a.release(), Err(MembershipError::Fatal(_))));
    assigned(&mut a);
    assert!(matches!(a.release(), Err(MembershipError::Fatal(_))));
}

#[test]
fn a_dead_process_asks_for_nothing_and_its_session_lives_on() {
    let broker = broker();
    let process = Process::new();
    let mut a = MemoryMembership::new(broker.clone(), GROUP, "a", vec!["in".to_owned()], process.clone());
    a.join().expect("joins");
    process.kill();
    assert!(a.poll(NOW).is_err() && a.release().is_err() && a.join().is_err());
    a.close(true);
    assert!(broker.has_members(GROUP));
}

#[test]
fn the_factory_takes_group_instance_and_topics_from_the_stage() {
    let broker = broker();
    let make = |stage: &StageInfo| broker.membership(Process::new())(stage);
    let mut member = make(&stage("a")).expect("a member");
    member.join().expect("joins");
    assert_eq!(broker.group("job.stage").members["a"].len(), 4);
    let nameless = StageInfo {
        instance: None,
        ..stage("a")
    };
    assert!(matches!(make(&nameless), Err(MembershipError::Fatal(_))));
}

/// EP-12: a member whose group prepares a rebalance may still commit what it holds; once the partitions are given out anew it may not.
#[test]
fn offsets_are_taken_until_the_partitions_are_given_out_anew() {
    let broker = broker();
    let mut a = member(&broker, "a");
    let first = assigned(&mut a);
    let mut log = log(&broker, "a");
    log.assign(&first).expect("assigned");
    let mut b = member(&broker, "b");
    assert_eq!(poll(&mut a), Some(GroupEvent::Revoked));
    send_offsets(&mut log, 3).expect("the generation is still the same");
    log.commit().expect("commits");
    assert_eq!(broker.commits(GROUP).len(), 1);
    a.release().expect("releases");
    let second = assigned(&mut a);
    assert_eq!(send_offsets(&mut log, 0), Err(LogErrorKind::StaleAssignment));
    log.abort().expect("aborts");
    log.assign(&second).expect("assigned");
    send_offsets(&mut log, 0).expect("taken");
    log.commit().expect("commits");
    assert_eq!(numbers(&assigned(&mut b)), [2, 3]);
}

#[test]
fn who_has_expired_commits_nothing() {
    let broker = broker();
    let [(_, of_a), _] = pair(&broker);
    let mut log = log(&broker, "a");
    log.assign(&of_a).expect("assigned");
    broker.expire_member(GROUP, "a");
    assert_eq!(send_offsets(&mut log, 0), Err(LogErrorKind::StaleAssignment));
    log.abort().expect("aborts");
    assert!(broker.commits(GROUP).is_empty());
}

/// What was sent before the assignment became stale is in the transaction: its commit is the producer's affair alone, and the next owner's
/// stable read waits for it.
#[test]
fn offsets_sent_in_time_are_committed_even_when_the_member_is_gone() {
    let broker = broker();
    let [(_, of_a), _] = pair(&broker);
    let mut log = log(&broker, "a");
    log.assign(&of_a).expect("assigned");
    send_offsets(&mut log, 0).expect("taken");
    broker.expire_member(GROUP, "a");
    log.commit().expect("commits");
    assert_eq!(broker.commits(GROUP).len(), 1);
}

#[test]
fn an_identity_that_a_group_would_not_look_at_is_refused() {
    let broker = broker();
    let [(_, good), _] = pair(&broker);
    let mut log = log(&broker, "a");
    let with = |generation: i32, id: &str| Assignment {
        member: GroupMember {
            generation,
            id: id.to_owned(),
            instance: "a".to_owned(),
        },
        ..good.clone()
    };
    for bad in [with(-1, "a-1"), with(1, "")] {
        assert_eq!(
            log.assign(&bad).map_err(|e| e.kind),
            Err(LogErrorKind::Fatal),
            "{bad:?}"
        );
    }
    assert_eq!(send_offsets(&mut log, 0), Err(LogErrorKind::Fatal), "without any");
}

/// Instances have transactional ids of their own: one does not fence the other's session.
#[test]
fn two_instances_publish_beside_each_other() {
    let broker = broker();
    let mut logs: Vec<MemoryLog> = Vec::new();
    for (_, assignment) in pair(&broker) {
        let mut log = log(&broker, &assignment.member.instance);
        log.assign(&assignment).expect("assigned");
        logs.push(log);
    }
    for (log, partition) in logs.iter_mut().zip([0, 2]) {
        send_offsets(log, partition).expect("taken");
    }
    let out = OutputRef {
        sink: 0,
        timestamp: 0,
        partition: 0,
        key: None,
        value: Some(b"v"),
        headers: &[],
    };
    for log in &mut logs {
        log.send(&out).expect("sent");
        log.commit().expect("commits");
    }
    assert_eq!(broker.records("out").len(), 2);
    broker.time_out("job.stage.a");
    let kinds: Vec<_> = logs.iter_mut().map(|l| send_offsets(l, 0)).collect();
    assert_eq!(kinds, [Err(LogErrorKind::Fenced), Ok(())]);
}

/// A stable read waits for what touches the partitions asked for, and for nothing else: the others' epochs are their owners' affair.
#[test]
fn stable_reads_wait_for_their_own_partitions_alone() {
    let broker = broker();
    let [(_, of_a), (_, of_b)] = pair(&broker);
    let (mut a, mut b) = (log(&broker, "a"), log(&broker, "b"));
    a.assign(&of_a).expect("assigned");
    b.assign(&of_b).expect("assigned");
    send_offsets(&mut a, 1).expect("taken");
    let committed = b.committed().expect("b's own are decided");
    assert_eq!(committed.iter().map(|c| c.partition).collect::<Vec<_>>(), [2, 3]);
    assert_eq!(a.committed().map_err(|e| e.kind), Err(LogErrorKind::Retriable));
    assert_eq!(a.glance().expect("a glance waits for nothing").len(), 2);
    let mut reader = b.pointer_reader().expect("a reader");
    let of = |partition: i32| [("in".to_owned(), partition)];
    assert_eq!(reader.committed(&of(0), NOW).expect("decided")[0].offset, None);
    assert_eq!(
        reader.committed(&of(1), NOW).map_err(|e| e.kind),
        Err(LogErrorKind::Retriable)
    );
    a.commit().expect("commits");
    assert_eq!(reader.committed(&of(1), NOW).expect("decided")[0].offset, Some(1));
}

#[test]
fn the_reader_of_pointers_is_part_of_its_process() {
    let broker = broker();
    let process = Process::new();
    let mut log = MemoryLog::new(broker.clone(), stage("a"), process.clone());
    let mut reader = log.pointer_reader().expect("a reader");
    process.fault(Call::Committed, 1, Fault::Fail(LogErrorKind::Retriable));
    assert!(reader.committed(&[], NOW).is_err());
    assert!(reader.committed(&[], NOW).is_ok());
    process.kill();
    assert!(reader.committed(&[], NOW).is_err());
}

/// Single mode's question: members of the engine count as others do.
#[test]
fn a_group_with_a_member_is_said_to_have_one() {
    let broker = broker();
    assert!(!broker.has_members(GROUP));
    let _a = member(&broker, "a");
    assert!(broker.has_members(GROUP));
    broker.expire_member(GROUP, "a");
    assert!(!broker.has_members(GROUP));
    broker.set_group_member(GROUP, true);
    assert!(broker.has_members(GROUP));
}
