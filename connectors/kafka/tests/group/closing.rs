//! Members that go in the middle of a rebalance.
use super::support::{Broker, broker};
use super::{Member, until};
use std::time::{Duration, Instant};

const GROUPS: u64 = 25;
const ROUNDS: u64 = 8;
/// 5 s for a leave, and what a busy machine adds.
const BOUND: Duration = Duration::from_secs(8);

/// A number below `bound`, another one for each `seed`.
fn drawn(seed: u64, bound: u64) -> u64 {
    let mixed = (seed + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    ((mixed ^ (mixed >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9) >> 33) % bound
}

/// Polls in turn for this long, whatever comes.
fn poll_for(members: &mut [&mut Member], time: Duration) {
    let end = Instant::now() + time;
    while Instant::now() < end {
        for member in members.iter_mut() {
            // What can be tried again is told as an error; what cannot shows in that nothing is assigned.
            let _ = member.try_poll(Duration::from_millis(5));
        }
    }
}

/// Two join a group of one, and at some moment of their rebalance the first one goes.
fn close_during_a_rebalance(b: &Broker, topic: &str, seed: u64, mut first: Member) -> (Member, Duration) {
    let group = format!("closing-{}", seed / ROUNDS);
    let name = |n: u64| format!("m{}", 2 * (seed % ROUNDS) + n);
    let mut second = Member::join(b, &group, topic, &name(1));
    poll_for(&mut [&mut first, &mut second], Duration::from_millis(drawn(seed, 200)));
    let mut third = Member::join(b, &group, topic, &name(2));
    first.releases = drawn(seed + 7, 2) == 0;
    let moment = Duration::from_millis(drawn(seed + 3, 400));
    poll_for(&mut [&mut first, &mut second, &mut third], moment);
    let closing = std::thread::spawn(move || {
        let begin = Instant::now();
        first.membership.close(true);
        begin.elapsed()
    });
    while !closing.is_finished() {
        poll_for(&mut [&mut second, &mut third], Duration::from_millis(10));
    }
    let took = closing.join().expect("no panic");
    third.membership.close(true);
    until(&mut [&mut second], |m| m[0].count() == 4);
    (second, took)
}

/// Consumers of other libraries hung for ever when they were closed in the middle of a rebalance (librdkafka#4041, rust-rdkafka#453).
#[test]
fn two_hundred_members_leave_in_the_middle_of_a_rebalance_each_in_bounded_time() {
    let b = broker();
    let topic = b.topic(4, &[]);
    let rounds = |number: u64| {
        let mut first = Member::join(b, &format!("closing-{number}"), &topic, "m0");
        until(&mut [&mut first], |m| m[0].count() == 4);
        let mut taken = Vec::new();
        for round in 0..ROUNDS {
            let (left, took) = close_during_a_rebalance(b, &topic, number * ROUNDS + round, first);
            taken.push(took);
            first = left;
        }
        taken
    };
    let taken: Vec<Duration> = std::thread::scope(|scope| {
        let groups: Vec<_> = (0..GROUPS).map(|number| scope.spawn(move || rounds(number))).collect();
        groups.into_iter().flat_map(|g| g.join().expect("no panic")).collect()
    });
    let longest = taken.iter().max().copied().unwrap_or_default();
    assert_eq!(taken.len() as u64, GROUPS * ROUNDS);
    assert!(longest < BOUND, "{longest:?}");
    println!("{} members left, the slowest in {longest:?}", taken.len());
}
