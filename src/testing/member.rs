//! A member of a consumer group of a [`MemoryBroker`].
#[cfg(test)]
mod tests;

use super::broker::{MemoryBroker, Told};
use super::process::Process;
use crate::source::{GroupEvent, Membership, MembershipError};
use std::time::Duration;

/// What the member was told and has not answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Owed {
    Revoked,
    Lost,
}

/// A static member of a group. Once its [`Process`] is dead every call fails, and the group waits for its session to end.
pub struct MemoryMembership {
    broker: MemoryBroker,
    group: String,
    instance: String,
    topics: Vec<String>,
    process: Process,
    /// The id in the group; None before it has joined, and once it has closed.
    id: Option<String>,
    holding: bool,
    owed: Option<Owed>,
}

/// What a poll that finds nothing waits in real time, at most.
const NAP: Duration = Duration::from_millis(1);

impl MemoryMembership {
    /// To read `topics` in `group` as `instance`.
    #[must_use]
    pub fn new(broker: MemoryBroker, group: &str, instance: &str, topics: Vec<String>, process: Process) -> Self {
        MemoryMembership {
            broker,
            group: group.to_owned(),
            instance: instance.to_owned(),
            topics,
            process,
            id: None,
            holding: false,
            owed: None,
        }
    }

    /// The id, for a call that a member may make.
    fn id(&self) -> Result<String, MembershipError> {
        if self.process.is_dead() {
            return Err(MembershipError::Fatal("the process is dead".to_owned()));
        }
        let missing = || MembershipError::Fatal(format!("{} has not joined {}", self.instance, self.group));
        self.id.clone().ok_or_else(missing)
    }

    fn enter(&mut self) {
        self.holding = false;
        self.owed = None;
        self.id = Some(self.broker.join_group(&self.group, &self.instance, &self.topics));
    }

    fn name_taken(&self) -> MembershipError {
        MembershipError::NameTaken(format!(
            "another process has joined group {} as {}",
            self.group, self.instance
        ))
    }

    fn look(&mut self, id: &str) -> Result<Option<GroupEvent>, MembershipError> {
        match self.broker.ask_group(&self.group, &self.instance, id) {
            Told::Nothing => Ok(None),
            Told::Fenced => Err(self.name_taken()),
            Told::Assigned(assignment) => {
                self.holding = true;
                Ok(Some(GroupEvent::Assigned(assignment)))
            }
            Told::Revoked => {
                self.owed = Some(Owed::Revoked);
                Ok(Some(GroupEvent::Revoked))
            }
            Told::Unknown if self.holding => {
                self.owed = Some(Owed::Lost);
                Ok(Some(GroupEvent::Lost))
            }
            // There is nothing to lose: as a client does, it joins again and says nothing.
            Told::Unknown => {
                self.enter();
                Ok(None)
            }
        }
    }
}

impl Membership for MemoryMembership {
    fn join(&mut self) -> Result<(), MembershipError> {
        if self.process.is_dead() {
            return Err(MembershipError::Fatal("the process is dead".to_owned()));
        }
        self.enter();
        Ok(())
    }
    fn poll(&mut self, max_wait: Duration) -> Result<Option<GroupEvent>, MembershipError> {
        let id = self.id()?;
        if self.owed != Some(Owed::Lost)
            && let Some(event) = self.look(&id)?
        {
            return Ok(Some(event));
        }
        std::thread::sleep(NAP.min(max_wait));
        Ok(None)
    }
    fn release(&mut self) -> Result<(), MembershipError> {
        let id = self.id()?;
        match self.owed {
            None => Err(MembershipError::Fatal(format!(
                "{} was not asked for what it releases",
                self.instance
            ))),
            Some(Owed::Lost) => {
                self.enter();
                Ok(())
            }
            Some(Owed::Revoked) => match self.broker.release_to_group(&self.group, &self.instance, &id) {
                Told::Fenced => Err(self.name_taken()),
                Told::Unknown => {
                    self.enter();
                    Ok(())
                }
                _ => {
                    self.holding = false;
                    self.owed = None;
                    Ok(())
                }
            },
        }
    }
    fn close(&mut self, leave: bool) {
        let left = self.id.take().filter(|_| leave && !self.process.is_dead());
        if let Some(id) = left {
            self.broker.leave_group(&self.group, &self.instance, &id);
        }
    }
}
