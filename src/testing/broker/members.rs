//! Consumer groups of the broker: what members call, and what tests do to them.
use super::group::{Counts, Group, GroupView, Holder, Told};
use super::{Inner, MemoryBroker, Topic, error};
use crate::runtime::MembershipFactory;
use crate::sink::{LogError, LogErrorKind};
use crate::source::MembershipError;
use crate::testing::member::MemoryMembership;
use crate::testing::process::Process;
use crate::types::GroupMember;
use std::collections::BTreeMap;

impl Inner {
    fn coordinate<T>(&mut self, group: &str, act: impl FnOnce(&mut Group, Counts<'_>) -> T) -> T {
        let topics: &BTreeMap<String, Topic> = &self.topics;
        let counts = |name: &str| topics.get(name).map_or(0, |t| t.partitions.len() as i32);
        act(self.coordinators.entry(group.to_owned()).or_default(), &counts)
    }

    /// Whether offsets of the group may be sent under this identity.
    pub(super) fn check_member(&mut self, group: &str, member: &GroupMember) -> Result<(), LogError> {
        let refused = |kind, why: &str| {
            let context = format!("offsets of group {group} as {} ({})", member.instance, member.id);
            Err(error(kind, &context, why))
        };
        match self.coordinate(group, |g, _| g.check(member)) {
            Told::Fenced => refused(LogErrorKind::NameTaken, "another member has joined under this name"),
            Told::Unknown => refused(LogErrorKind::StaleAssignment, "not a member of the current generation"),
            _ => Ok(()),
        }
    }
}

impl MemoryBroker {
    /// Makes an instance's membership in its stage's group, as `process` reaches it.
    #[must_use]
    pub fn membership(&self, process: Process) -> MembershipFactory {
        let broker = self.clone();
        Box::new(move |stage| {
            let missing = || MembershipError::Fatal("a member of a group needs an instance name".to_owned());
            let instance = stage.instance.clone().ok_or_else(missing)?;
            let mut topics: Vec<String> = stage.partitions.iter().map(|(topic, _)| topic.clone()).collect();
            topics.dedup();
            let member = MemoryMembership::new(broker, &stage.group(), &instance, topics, process);
            Ok(Box::new(member))
        })
    }

    /// The session of a group's member is over, as of one that was not heard of for too long: the others share what it had.
    pub fn expire_member(&self, group: &str, instance: &str) {
        let mut inner = self.inner.lock();
        inner.coordinate(group, |g, counts| g.remove(instance, counts));
    }

    /// The last request to join of an instance arrives a second time, late: the instance is fenced by its own former self, which keeps the name
    /// until its session is over ([`MemoryBroker::expire_member`]).
    pub fn join_late(&self, group: &str, instance: &str) {
        let mut inner = self.inner.lock();
        inner.coordinate(group, |g, counts| g.join_late(instance, counts));
    }

    /// A group as its coordinator sees it.
    #[must_use]
    pub fn group(&self, group: &str) -> GroupView {
        let inner = self.inner.lock();
        inner.coordinators.get(group).map(Group::view).unwrap_or_default()
    }

    pub(in crate::testing) fn join_group(&self, group: &str, instance: &str, topics: &[String]) -> String {
        let mut inner = self.inner.lock();
        inner.coordinate(group, |g, counts| g.join(instance, topics, counts))
    }

    pub(in crate::testing) fn ask_group(&self, group: &str, instance: &str, id: &str) -> Told {
        self.inner.lock().coordinate(group, |g, _| g.ask(instance, id))
    }

    pub(in crate::testing) fn holder_of(&self, group: &str, instance: &str) -> Holder {
        let inner = self.inner.lock();
        let coordinator = inner.coordinators.get(group);
        coordinator.map_or(Holder::Nobody, |g| g.holder(instance))
    }

    pub(in crate::testing) fn release_to_group(&self, group: &str, instance: &str, id: &str) -> Told {
        let mut inner = self.inner.lock();
        inner.coordinate(group, |g, counts| g.release(instance, id, counts))
    }

    pub(in crate::testing) fn leave_group(&self, group: &str, instance: &str, id: &str) {
        let mut inner = self.inner.lock();
        inner.coordinate(group, |g, counts| g.leave(instance, id, counts));
    }

    /// Members of the engine's and others.
    pub(in crate::testing) fn has_members(&self, group: &str) -> bool {
        let inner = self.inner.lock();
        let own = inner.coordinators.get(group).is_some_and(|g| !g.is_empty());
        own || inner.members.contains(group)
    }
}
