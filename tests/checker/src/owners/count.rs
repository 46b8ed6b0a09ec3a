//! Counts handovers from one look after the other.
use std::collections::{BTreeMap, HashMap};
use std::fmt;

use crate::pointer::EpochName;

/// A partition whose work another instance has gone on with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Handover {
    /// The partition.
    pub partition: i32,
    /// Who committed for it before.
    pub from: String,
    /// Who has committed for it since.
    pub to: String,
}

impl fmt::Display for Handover {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}>{}", self.partition, self.from, self.to)
    }
}

/// So many commits for a partition have to be seen after it was assigned. The former owner's last one may come through after the
/// assignment, or be seen no sooner than it; the second is the new owner's for certain.
const COMMITS: u32 = 2;

/// Who is assigned a partition, and what was seen since.
#[derive(Debug)]
struct Assigned {
    to: String,
    pointer: EpochName,
    commits: u32,
}

/// Who has worked on a partition, for certain.
#[derive(Debug, PartialEq, Eq)]
struct Work {
    instance: String,
    incarnation: u64,
}

/// What is known so far.
#[derive(Debug, Default)]
pub(super) struct Owners {
    members: BTreeMap<String, Vec<i32>>,
    assigned: HashMap<i32, Assigned>,
    worked: HashMap<i32, Work>,
    handovers: Vec<Handover>,
}

impl Owners {
    /// One look: the members of the group with their partitions, and the committed pointer of each partition.
    pub(super) fn observe(&mut self, members: BTreeMap<String, Vec<i32>>, pointers: &HashMap<i32, EpochName>) {
        for (instance, partitions) in &members {
            for partition in partitions {
                if let Some(pointer) = pointers.get(partition) {
                    self.observe_one(*partition, instance, *pointer);
                }
            }
        }
        self.members = members;
    }

    fn observe_one(&mut self, partition: i32, instance: &str, pointer: EpochName) {
        let fresh = Assigned {
            to: instance.to_owned(),
            pointer,
            commits: 0,
        };
        match self.assigned.get_mut(&partition) {
            Some(assigned) if assigned.to == instance => {
                if assigned.pointer != pointer {
                    assigned.pointer = pointer;
                    assigned.commits += 1;
                }
                if assigned.commits >= COMMITS {
                    self.works(partition, instance, pointer.incarnation);
                }
            }
            _ => _ = self.assigned.insert(partition, fresh),
        }
    }

    fn works(&mut self, partition: i32, instance: &str, incarnation: u64) {
        let work = Work {
            instance: instance.to_owned(),
            incarnation,
        };
        if let Some(before) = self.worked.insert(partition, work)
            && before.instance != instance
            && before.incarnation != incarnation
        {
            self.handovers.push(Handover {
                partition,
                from: before.instance,
                to: instance.to_owned(),
            });
        }
    }

    pub(super) fn handovers(&self) -> &[Handover] {
        &self.handovers
    }

    pub(super) fn members(&self) -> &BTreeMap<String, Vec<i32>> {
        &self.members
    }

    pub(super) fn served_by(&self, instance: &str) -> Vec<i32> {
        let assigned = self.members.get(instance).into_iter().flatten();
        let worked = |p: &&i32| self.worked.get(*p).is_some_and(|work| work.instance == instance);
        assigned.filter(worked).copied().collect()
    }
}
