//! Group mode against a real broker: who gets which partitions, and whose offsets are taken.
mod closing;
mod membership;
mod offsets;

use super::support::{self, Broker};
use keyfold::runtime::StageInfo;
use keyfold::source::{GroupEvent, Membership, MembershipError};
use keyfold::types::Assignment;
use keyfold_kafka::{GroupTimeouts, KafkaMembership};
use std::time::{Duration, Instant};

const PARTITIONS: u32 = 4;

/// Short, so that the tests are; the broker of the tests allows it.
pub fn timeouts() -> GroupTimeouts {
    GroupTimeouts {
        session: Duration::from_millis(2000),
        heartbeat: Duration::from_millis(300),
        max_poll: Duration::from_millis(3000),
    }
}

/// Stage `s` of `job` with one topic of 4 partitions, on this instance.
pub fn stage(job: &str, topic: &str, instance: Option<&str>) -> StageInfo {
    StageInfo {
        job: job.to_owned(),
        stage: "s".to_owned(),
        partitions: (0..PARTITIONS as i32).map(|p| (topic.to_owned(), p)).collect(),
        targets: Vec::new(),
        producer_bytes: 1 << 20,
        instance: instance.map(str::to_owned),
    }
}

/// A member with what it was told.
pub struct Member {
    pub membership: Box<dyn Membership>,
    pub events: Vec<GroupEvent>,
    /// Answers a revocation at once.
    pub releases: bool,
}

impl Member {
    pub fn join(b: &Broker, job: &str, topic: &str, instance: &str) -> Member {
        let factory = KafkaMembership::factory(&b.config(), timeouts());
        let mut membership = factory(&stage(job, topic, Some(instance))).expect("made");
        membership.join().expect("joins");
        Member {
            membership,
            events: Vec::new(),
            releases: true,
        }
    }

    /// What comes within `wait`, if anything.
    pub fn try_poll(&mut self, wait: Duration) -> Result<(), MembershipError> {
        let Some(event) = self.membership.poll(wait)? else {
            return Ok(());
        };
        if self.releases && !matches!(event, GroupEvent::Assigned(_)) {
            self.membership.release()?;
        }
        self.events.push(event);
        Ok(())
    }

    /// What may pass (a new topic that one broker does not know yet, a connection that is lost) is asked again, as a run does.
    pub fn poll(&mut self) {
        match self.try_poll(Duration::from_millis(20)) {
            Err(MembershipError::Retriable(_)) => {}
            other => other.expect("polls"),
        }
    }

    /// What it has now; None while it is taken back.
    pub fn assigned(&self) -> Option<&Assignment> {
        match self.events.last() {
            Some(GroupEvent::Assigned(assignment)) => Some(assignment),
            _ => None,
        }
    }

    pub fn count(&self) -> usize {
        self.assigned().map_or(0, |a| a.partitions.len())
    }

    pub fn numbers(&self) -> Vec<i32> {
        let assigned = self.assigned().expect("assigned");
        assigned.partitions.iter().map(|(_, partition)| *partition).collect()
    }
}

/// Polls the members in turn until `done`, at most a minute.
pub fn until(members: &mut [&mut Member], done: impl Fn(&[&mut Member]) -> bool) {
    let end = Instant::now() + Duration::from_secs(60);
    while !done(members) {
        let events: Vec<_> = members.iter().map(|m| &m.events).collect();
        assert!(Instant::now() < end, "{events:?}");
        members.iter_mut().for_each(|m| m.poll());
    }
}

/// Polls the members in turn for this long.
pub fn during(members: &mut [&mut Member], time: Duration) {
    let end = Instant::now() + time;
    while Instant::now() < end {
        members.iter_mut().for_each(|m| m.poll());
    }
}

/// Two members that have settled on two partitions each.
pub fn two_members(b: &Broker, job: &str, topic: &str) -> (Member, Member) {
    let mut a = Member::join(b, job, topic, "a");
    until(&mut [&mut a], |m| m[0].count() == 4);
    let mut c = Member::join(b, job, topic, "c");
    until(&mut [&mut a, &mut c], |m| m.iter().all(|m| m.count() == 2));
    (a, c)
}
