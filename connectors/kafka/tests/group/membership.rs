//! Who gets which partitions.
use super::support::{Broker, LateDoor, broker, raw};
use super::{Member, during, timeouts, two_members, until};
use keyfold::source::{GroupEvent, Membership, MembershipError};
use keyfold_kafka::KafkaMembership;
use std::time::{Duration, Instant};

/// EP-12: the group waits for the answer to a revocation before it gives the partitions to others.
#[test]
fn a_second_member_gets_its_share_once_the_first_has_let_go() {
    let b = broker();
    let topic = b.topic(4, &[]);
    let mut a = Member::join(b, "share", &topic, "a");
    a.releases = false;
    until(&mut [&mut a], |m| m[0].count() == 4);
    let first = a.assigned().expect("assigned").member.clone();
    assert!(first.generation >= 0 && !first.id.is_empty());
    assert_eq!(first.instance, "a");
    let mut c = Member::join(b, "share", &topic, "c");
    until(&mut [&mut a, &mut c], |m| m[0].events.len() == 2);
    assert_eq!(a.events[1], GroupEvent::Revoked);
    during(&mut [&mut a, &mut c], Duration::from_millis(1500));
    assert!(a.events.len() == 2 && c.events.is_empty(), "the group waits");
    a.membership.release().expect("released");
    until(&mut [&mut a, &mut c], |m| m.iter().all(|m| m.count() == 2));
    let (second, other) = (a.assigned().expect("assigned"), c.assigned().expect("assigned"));
    assert!(second.member.generation > first.generation);
    assert_eq!(other.member.generation, second.member.generation);
    let mut all = [a.numbers(), c.numbers()].concat();
    all.sort_unstable();
    assert_eq!(all, [0, 1, 2, 3]);
}

/// A job hung in a restore on the thread that should have polled: the others take over, and it comes back as a new member.
#[test]
fn a_member_that_does_not_poll_loses_its_partitions_and_joins_again() {
    let b = broker();
    let topic = b.topic(4, &[]);
    let mut a = Member::join(b, "hang", &topic, "a");
    until(&mut [&mut a], |m| m[0].count() == 4);
    let before = a.assigned().expect("assigned").member.clone();
    std::thread::sleep(timeouts().max_poll + Duration::from_millis(1000));
    until(&mut [&mut a], |m| m[0].events.len() >= 2);
    assert_eq!(a.events[1], GroupEvent::Lost);
    until(&mut [&mut a], |m| m[0].count() == 4);
    let after = a.assigned().expect("assigned").member.clone();
    assert_ne!((before.generation, before.id), (after.generation, after.id));
}

/// The client forgets its member id when it is late for a poll, and an assignment that lies in its queue by then would be handed on without
/// one: offsets sent for it would have been taken by a classic group without a look (EP-7).
#[test]
fn ep_7_an_assignment_that_has_lost_its_identity_is_not_handed_on() {
    let b = broker();
    let topic = b.topic(4, &[]);
    let mut a = Member::join(b, "late", &topic, "a");
    until(&mut [&mut a], |m| m[0].count() == 4);
    let mut c = Member::join(b, "late", &topic, "c");
    until(&mut [&mut a, &mut c], |m| m[0].events.len() == 2);
    // Revoked and released: from now on `a` is late.
    let late = Instant::now();
    until(&mut [&mut c], |m| m[0].count() == 2);
    let waiting = timeouts().max_poll + Duration::from_millis(1000);
    during(&mut [&mut c], waiting.saturating_sub(late.elapsed()));
    let error = a.try_poll(Duration::from_millis(500)).expect_err("refused");
    assert!(
        matches!(&error, MembershipError::Retriable(text) if text.contains("without an identity")),
        "{error:?}"
    );
    until(&mut [&mut a, &mut c], |m| m.iter().all(|m| m.count() == 2));
    assert!(!a.assigned().expect("assigned").member.id.is_empty());
}

/// A broker was away for ten seconds, and the client had an error for each of its tries. Told one by one, with a pause after each, they held up
/// the answer to the group, and so all other members, for half a minute.
#[test]
fn errors_of_an_outage_do_not_hold_up_the_decision_behind_them() {
    let b = broker();
    let topic = b.topic(4, &[]);
    let late = LateDoor::new(&b.address);
    let away = Broker {
        address: late.address.clone(),
    };
    let mut a = Member::join(&away, "behind", &topic, "a");
    late.opens_after(Duration::from_millis(1500));
    // Nobody polls, and it joins all the same.
    std::thread::sleep(Duration::from_millis(3500));
    let mut errors = 0;
    let end = Instant::now() + Duration::from_secs(10);
    while a.count() == 0 && Instant::now() < end {
        errors += u32::from(a.try_poll(Duration::from_millis(20)).is_err());
    }
    assert!(a.count() == 4 && errors <= 2, "{errors} errors, {:?}", a.events);
}

/// EP-7: two processes with one name. The older one must end, not fight.
#[test]
fn ep_7_a_twin_of_the_same_name_ends_the_older_one() {
    let b = broker();
    let topic = b.topic(4, &[]);
    let mut a = Member::join(b, "twin", &topic, "a");
    until(&mut [&mut a], |m| m[0].count() == 4);
    let mut twin = Member::join(b, "twin", &topic, "a");
    let end = Instant::now() + Duration::from_secs(20);
    let error = loop {
        assert!(Instant::now() < end, "not fenced: {:?}", a.events);
        twin.poll();
        if let Err(error) = a.try_poll(Duration::from_millis(20)) {
            break error;
        }
    };
    let MembershipError::NameTaken(text) = &error else {
        panic!("{error:?}");
    };
    for part in ["twin.s", "member a", "`instance`"] {
        assert!(text.contains(part), "{text}");
    }
    assert_eq!(a.events[1..], [GroupEvent::Lost]);
    // Its leave must not be the twin's.
    a.membership.close(true);
    during(&mut [&mut twin], Duration::from_millis(1000));
    assert!(
        twin.events.len() == 1 && twin.count() == 4,
        "left alone: {:?}",
        twin.events
    );
}

/// EP-7: a broker was overloaded, and the request to join of a connection that was given up reached it after the one that the client sent next.
/// The client was fenced by the former, and the instance exited although nobody else had its name.
#[test]
fn ep_7_a_member_that_its_own_late_request_to_join_has_fenced_joins_again() {
    let b = broker();
    let topic = b.topic(4, &[]);
    let mut a = Member::join(b, "late-join", &topic, "a");
    until(&mut [&mut a], |m| m[0].count() == 4);
    let before = a.assigned().expect("assigned").member.id.clone();
    raw::join_group(&b.address, "late-join.s", "a", &topic, timeouts().session);
    until(&mut [&mut a], |m| m[0].events.len() == 3);
    assert_eq!(a.events[1], GroupEvent::Lost);
    assert!(a.count() == 4 && a.assigned().expect("assigned").member.id != before);
}

#[test]
fn a_restart_under_the_same_name_keeps_the_partitions_and_the_others_do_not_notice() {
    let b = broker();
    let topic = b.topic(4, &[]);
    let (mut a, mut c) = two_members(b, "restart", &topic);
    let (had, told) = (a.numbers(), c.events.len());
    a.membership.close(false);
    during(&mut [&mut c], Duration::from_millis(500));
    let mut back = Member::join(b, "restart", &topic, "a");
    until(&mut [&mut back, &mut c], |m| m[0].count() == 2);
    assert_eq!(back.numbers(), had);
    during(
        &mut [&mut back, &mut c],
        timeouts().session + Duration::from_millis(500),
    );
    assert_eq!((back.events.len(), c.events.len()), (1, told), "no rebalance");
}

#[test]
fn a_member_that_leaves_gives_its_partitions_to_the_others_at_once() {
    let b = broker();
    let topic = b.topic(4, &[]);
    let (mut a, mut c) = two_members(b, "leave", &topic);
    let left = Instant::now();
    a.membership.close(true);
    assert!(left.elapsed() < Duration::from_secs(1), "{:?} to leave", left.elapsed());
    until(&mut [&mut c], |m| m[0].count() == 4);
    let taken = left.elapsed();
    assert!(taken < timeouts().session, "{taken:?}: not by the session's end");
}

/// A shutdown in the middle of a rebalance: the revocation is not answered yet, or the join not over.
#[test]
fn a_member_that_leaves_while_it_is_revoked_or_joins_does_not_hold_the_others_up() {
    let b = broker();
    let topic = b.topic(4, &[]);
    let mut a = Member::join(b, "midway", &topic, "a");
    a.releases = false;
    until(&mut [&mut a], |m| m[0].count() == 4);
    let mut c = Member::join(b, "midway", &topic, "c");
    until(&mut [&mut a, &mut c], |m| m[0].events.len() == 2);
    let left = Instant::now();
    let leaving = std::thread::spawn(move || a.membership.close(true));
    until(&mut [&mut c], |m| m[0].count() == 4);
    assert!(left.elapsed() < Duration::from_secs(5), "{:?}", left.elapsed());
    leaving.join().expect("ends");
    let mut joining = Member::join(b, "midway", &topic, "d");
    joining.membership.close(true);
    until(&mut [&mut c], |m| m[0].count() == 4);
}

/// A spare has an assignment too, of nothing, and takes over when there is something.
#[test]
fn a_member_beyond_the_partitions_is_assigned_none_until_another_leaves() {
    let b = broker();
    let topic = b.topic(1, &[]);
    let mut a = Member::join(b, "spare", &topic, "a");
    until(&mut [&mut a], |m| m[0].count() == 1);
    let mut spare = Member::join(b, "spare", &topic, "z");
    until(&mut [&mut a, &mut spare], |m| {
        m[0].count() == 1 && m[1].assigned().is_some()
    });
    assert_eq!(spare.count(), 0);
    a.membership.close(true);
    until(&mut [&mut spare], |m| m[0].count() == 1);
}

/// A shard is the same partition of every topic of its stage: the range assignor gives them together.
#[test]
fn the_same_partition_of_all_topics_goes_to_one_member() {
    let b = broker();
    let topics = [b.topic(3, &[]), b.topic(3, &[])];
    let member = |instance| {
        let made = KafkaMembership::new(&b.config(), "together", instance, topics.to_vec(), timeouts());
        let mut membership = made.expect("made");
        membership.join().expect("joins");
        Member {
            membership: Box::new(membership),
            events: Vec::new(),
            releases: true,
        }
    };
    let (mut a, mut c) = (member("a"), member("c"));
    until(&mut [&mut a, &mut c], |m| {
        m[0].count() + m[1].count() == 6 && m.iter().all(|m| m.count() > 0)
    });
    for m in [&a, &c] {
        let of = |topic: &String| {
            let all = &m.assigned().expect("assigned").partitions;
            let mut numbers: Vec<_> = all.iter().filter(|(t, _)| t == topic).map(|(_, p)| *p).collect();
            numbers.sort_unstable();
            numbers
        };
        assert_eq!(of(&topics[0]), of(&topics[1]), "{:?}", m.assigned());
    }
}

/// Nothing of librdkafka may hang when a member is dropped with a revocation unanswered (librdkafka#4041).
#[test]
fn a_member_is_dropped_in_the_middle_of_a_rebalance_without_a_wait() {
    let b = broker();
    let topic = b.topic(4, &[]);
    let mut a = Member::join(b, "dropped", &topic, "a");
    a.releases = false;
    until(&mut [&mut a], |m| m[0].count() == 4);
    let mut c = Member::join(b, "dropped", &topic, "c");
    until(&mut [&mut a, &mut c], |m| m[0].events.len() == 2);
    let dropped = Instant::now();
    drop(a);
    assert!(dropped.elapsed() < Duration::from_secs(3), "{:?}", dropped.elapsed());
    until(&mut [&mut c], |m| m[0].count() == 4);
}

#[test]
fn a_group_without_a_broker_is_joined_in_the_background_and_left_in_bounded_time() {
    let config = keyfold_kafka::KafkaConfig::new("127.0.0.1:1");
    let topics = vec!["t".to_owned()];
    let mut member = KafkaMembership::new(&config, "nowhere", "a", topics, timeouts()).expect("made");
    member.join().expect("in the background");
    let told = member.poll(Duration::from_secs(5));
    assert!(matches!(told, Err(MembershipError::Retriable(_))), "{told:?}");
    let left = Instant::now();
    member.close(true);
    assert!(left.elapsed() < Duration::from_secs(8), "{:?}", left.elapsed());
}
