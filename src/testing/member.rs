//! A member of a consumer group of a [`MemoryBroker`].
#[cfg(test)]
mod tests;

use super::broker::{Holder, MemoryBroker, Told};
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
    /// Another member has the name, and it is not known yet whether anybody lives under it.
    fenced: bool,
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
            fenced: false,
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
        self.fenced = false;
        self.id = Some(self.broker.join_group(&self.group, &self.instance, &self.topics));
    }

    /// What is assigned is lost, whoever has the name.
    fn lose(&mut self) -> GroupEvent {
        self.owed = Some(Owed::Lost);
        GroupEvent::Lost
    }

    /// Whether anybody lives under the name; joins again when nobody has it.
    fn inquire(&mut self) -> Result<(), MembershipError> {
        match self.broker.holder_of(&self.group, &self.instance) {
            Holder::Nobody => self.enter(),
            Holder::Silent => {}
            Holder::Alive => {
                let text = format!("another process has joined group {} as {}", self.group, self.instance);
                return Err(MembershipError::NameTaken(text));
            }
        }
        Ok(())
    }

    fn look(&mut self, id: &str) -> Result<Option<GroupEvent>, MembershipError> {
        match self.broker.ask_group(&self.group, &self.instance, id) {
            Told::Nothing => Ok(None),
            Told::Fenced => {
                self.fenced = true;
                Ok(self.holding.then(|| self.lose()))
            }
            Told::Assigned(assignment) => {
                self.holding = true;
                Ok(Some(GroupEvent::Assigned(assignment)))
            }
            Told::Revoked => {
                self.owed = Some(Owed::Revoked);
                Ok(Some(GroupEvent::Revoked))
            }
            Told::Unknown if self.holding => Ok(Some(self.lose())),
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
        match self.owed {
            Some(Owed::Lost) => {}
            _ if self.fenced => self.inquire()?,
            _ => {
                if let Some(event) = self.look(&id)? {
                    return Ok(Some(event));
                }
            }
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
            Some(Owed::Lost) if self.fenced => {
                self.holding = false;
                self.owed = None;
                Ok(())
            }
            Some(Owed::Lost) => {
                self.enter();
                Ok(())
            }
            Some(Owed::Revoked) => match self.broker.release_to_group(&self.group, &self.instance, &id) {
                Told::Unknown => {
                    self.enter();
                    Ok(())
                }
                told => {
                    self.fenced = told == Told::Fenced;
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
