//! A consumer group's coordinator: the classic protocol with static members, eager, with the range assignor.
//!
//! ```text
//!          a member joins, leaves or expires                       nobody holds anything of the old generation
//! Stable --------------------------------------> Rebalancing ---------------------------------------------------> Stable, next generation
//! ```
//! It decides and waits for nothing: members ask it. There is no clock in it: a session ends when a test says so.
use crate::types::{Assignment, GroupMember};
use std::collections::{BTreeMap, BTreeSet};

/// How a member stands to the group's assignment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Standing {
    /// Holds nothing and waits for the next generation.
    Joined,
    /// Was given partitions, and has not been told yet.
    Given,
    /// Works on what it was given.
    Holding,
    /// Was told to give everything back, and has not done so yet.
    Revoking,
}

#[derive(Debug)]
struct Member {
    id: String,
    topics: BTreeSet<String>,
    partitions: Vec<(String, i32)>,
    standing: Standing,
    /// Somebody has asked under the id: it is alive.
    heard: bool,
}

/// Who has a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::testing) enum Holder {
    Nobody,
    /// Nobody has been heard of under the id that has it.
    Silent,
    Alive,
}

/// A group as its coordinator sees it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct GroupView {
    /// The generation; 0 before the first assignment.
    pub generation: i32,
    /// Whether the coordinator waits for members to give back what they hold.
    pub rebalancing: bool,
    /// The partitions of the last assignment, by instance.
    pub members: BTreeMap<String, Vec<(String, i32)>>,
}

/// What a member that asks is told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::testing) enum Told {
    Nothing,
    Assigned(Assignment),
    Revoked,
    /// The group does not know the member: its session is over.
    Unknown,
    /// Another has joined under its name.
    Fenced,
}

#[derive(Debug, Default)]
pub(super) struct Group {
    generation: i32,
    rebalancing: bool,
    members: BTreeMap<String, Member>,
    /// Ids given out so far: each is new.
    ids: u64,
}

/// Partitions of a topic, 0 for one that is not there.
pub(super) type Counts<'a> = &'a dyn Fn(&str) -> i32;

impl Group {
    /// A member joins under `instance`; returns its id. Under a name whose session lives it takes the other one's place: the former id is
    /// fenced, and while the group is stable the assignment stays as it is.
    pub fn join(&mut self, instance: &str, topics: &[String], counts: Counts<'_>) -> String {
        self.ids += 1;
        let id = format!("{instance}-{}", self.ids);
        let topics: BTreeSet<String> = topics.iter().cloned().collect();
        match self.members.get_mut(instance) {
            Some(known) if !self.rebalancing && known.topics == topics => {
                known.id.clone_from(&id);
                known.standing = Standing::Given;
                known.heard = false;
            }
            _ => {
                let member = Member {
                    id: id.clone(),
                    topics,
                    partitions: Vec::new(),
                    standing: Standing::Joined,
                    heard: false,
                };
                self.members.insert(instance.to_owned(), member);
                self.rebalance(counts);
            }
        }
        id
    }

    /// A copy of the last request to join under this name arrives late: to the group a newcomer, whose id nobody hears of.
    pub fn join_late(&mut self, instance: &str, counts: Counts<'_>) {
        if let Some(member) = self.members.get(instance) {
            let topics: Vec<String> = member.topics.iter().cloned().collect();
            self.join(instance, &topics, counts);
        }
    }

    /// Who has the name.
    pub fn holder(&self, instance: &str) -> Holder {
        match self.members.get(instance) {
            None => Holder::Nobody,
            Some(member) if member.heard => Holder::Alive,
            Some(_) => Holder::Silent,
        }
    }

    /// What the member is to do next.
    pub fn ask(&mut self, instance: &str, id: &str) -> Told {
        let (generation, rebalancing) = (self.generation, self.rebalancing);
        let member = match self.member(instance, id) {
            Ok(member) => member,
            Err(told) => return told,
        };
        member.heard = true;
        match (rebalancing, member.standing) {
            (false, Standing::Given) => {
                member.standing = Standing::Holding;
                Told::Assigned(Assignment {
                    member: GroupMember {
                        generation,
                        id: id.to_owned(),
                        instance: instance.to_owned(),
                    },
                    partitions: member.partitions.clone(),
                })
            }
            (true, Standing::Holding) => {
                member.standing = Standing::Revoking;
                Told::Revoked
            }
            _ => Told::Nothing,
        }
    }

    /// The member has given back what it held, and wants to be part of the next generation.
    pub fn release(&mut self, instance: &str, id: &str, counts: Counts<'_>) -> Told {
        match self.member(instance, id) {
            Ok(member) => member.standing = Standing::Joined,
            Err(told) => return told,
        }
        self.rebalance(counts);
        Told::Nothing
    }

    /// The member is gone: it has left, or its session is over.
    pub fn remove(&mut self, instance: &str, counts: Counts<'_>) {
        if self.members.remove(instance).is_some() {
            self.rebalance(counts);
        }
    }

    /// As [`Group::remove`], for a member that says so itself: one that was fenced takes nothing from its successor.
    pub fn leave(&mut self, instance: &str, id: &str, counts: Counts<'_>) {
        if self.member(instance, id).is_ok() {
            self.remove(instance, counts);
        }
    }

    /// Whether offsets may be committed under this identity. A member of a group that waits for others may still commit, until the
    /// partitions are given out anew. Told::Nothing is yes; a former generation is unknown.
    pub fn check(&mut self, member: &GroupMember) -> Told {
        let current = self.generation == member.generation;
        match self.member(&member.instance, &member.id) {
            Ok(_) if current => Told::Nothing,
            Ok(_) => Told::Unknown,
            Err(told) => told,
        }
    }

    pub fn is_empty(&self) -> bool {
        self.members.is_empty()
    }

    pub fn view(&self) -> GroupView {
        let members = self.members.iter();
        GroupView {
            generation: self.generation,
            rebalancing: self.rebalancing,
            members: members.map(|(name, m)| (name.clone(), m.partitions.clone())).collect(),
        }
    }

    fn member(&mut self, instance: &str, id: &str) -> Result<&mut Member, Told> {
        match self.members.get_mut(instance) {
            None => Err(Told::Unknown),
            Some(member) if member.id != id => Err(Told::Fenced),
            Some(member) => Ok(member),
        }
    }

    /// Gives the partitions out anew, once nobody holds any.
    fn rebalance(&mut self, counts: Counts<'_>) {
        self.rebalancing = true;
        let holds = |m: &Member| matches!(m.standing, Standing::Holding | Standing::Revoking);
        if self.members.values().any(holds) {
            return;
        }
        self.generation += 1;
        self.rebalancing = false;
        let mut assigned = range(&self.members, counts);
        for (name, member) in &mut self.members {
            member.partitions = assigned.remove(name).unwrap_or_default();
            member.standing = Standing::Given;
        }
    }
}

/// The range assignor: of every topic a run of partitions for each member, in the order of their names; the first ones get what is left over.
fn range(members: &BTreeMap<String, Member>, counts: Counts<'_>) -> BTreeMap<String, Vec<(String, i32)>> {
    let topics: BTreeSet<&String> = members.values().flat_map(|m| &m.topics).collect();
    let mut assigned: BTreeMap<String, Vec<(String, i32)>> = BTreeMap::new();
    for topic in topics {
        let readers: Vec<&String> = members
            .iter()
            .filter(|(_, m)| m.topics.contains(topic))
            .map(|(name, _)| name)
            .collect();
        let (partitions, count) = (counts(topic), readers.len() as i32);
        let mut next = 0;
        for (index, name) in readers.into_iter().enumerate() {
            let share = partitions / count + i32::from((index as i32) < partitions % count);
            let run = (next..next + share).map(|p| (topic.clone(), p));
            assigned.entry(name.clone()).or_default().extend(run);
            next += share;
        }
    }
    assigned
}
