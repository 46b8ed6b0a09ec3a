//! What may be published, and what an unknown outcome turned out to be (EP-3, EP-5).
use super::Refusal;
use crate::checkpoint::pointer::Pointer;
use crate::sink::Committed;
use crate::types::{Link, Sequence, Shard};
use std::time::Duration;

/// A call of a transaction that took longer may have been repeated inside the client, which does not tell. One that short cannot: the
/// client waits at least as long before it tries again. Shorter would rebuild healthy sessions, longer would trust repeated calls.
pub const SLOW: Duration = Duration::from_millis(400);

/// A section that asks to be committed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Claim {
    /// The shard.
    pub shard: Shard,
    /// The section's sequence.
    pub sequence: Sequence,
    /// The section that it was built on.
    pub built_on: Option<Link>,
    /// The shard's last committed section, as far as this instance knows; None before genesis.
    pub committed: Option<Link>,
    /// It begins the shard's life.
    pub genesis: bool,
}

/// The permission to commit one epoch. Only [`may_publish`] makes one, and committing takes it by value.
#[derive(Debug)]
#[must_use = "a permit is for committing the epoch that it was asked for"]
pub struct CommitPermit {
    _minted_here: (),
}

/// Permits an epoch when every section in it lies right on top of what is committed for its shard (EP-3). On top of nothing lies sequence 0,
/// or in a genesis object any: it begins above what an earlier life of the shard has used.
///
/// # Errors
/// [`Refusal::NotOnTop`] names the shard and both sections.
pub fn may_publish(claims: &[Claim]) -> Result<CommitPermit, Refusal> {
    for (at, claim) in claims.iter().enumerate() {
        let twice = claims.iter().take(at).any(|c| c.shard == claim.shard);
        let fits = match claim.committed {
            Some(link) => link.sequence.checked_add(1) == Some(claim.sequence) && !claim.genesis,
            None => claim.genesis || claim.sequence == 0,
        };
        if twice || claim.built_on != claim.committed || !fits {
            return Err(Refusal::NotOnTop {
                shard: claim.shard,
                sequence: claim.sequence,
                built_on: in_words(claim.built_on.as_ref()),
                committed: in_words(claim.committed.as_ref()),
            });
        }
    }
    Ok(CommitPermit { _minted_here: () })
}

fn in_words(link: Option<&Link>) -> String {
    link.map_or_else(
        || "nothing".to_owned(),
        |l| format!("sequence {} of epoch {}", l.sequence, l.epoch),
    )
}

/// What became of a commit whose outcome was unknown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// It was committed: adopt it.
    Committed,
    /// It was not, and what it was built on still is: publish it again.
    NotCommitted,
    /// Something else is committed: restore from it, or make way.
    Foreign,
}

/// A partition whose commit is in doubt.
#[derive(Debug, Clone, Copy)]
pub struct InDoubt<'a> {
    /// What is committed for it now, read stable after a new session has fenced the old one.
    pub committed: &'a Committed,
    /// The pointer that was to be committed.
    pub published: Pointer,
    /// The one that was committed before; None before genesis.
    pub parent: Option<Pointer>,
}

impl InDoubt<'_> {
    fn names(&self, pointer: &Pointer) -> bool {
        let found = self.committed.metadata.as_deref().and_then(|m| Pointer::parse(m).ok());
        self.committed.offset.is_some() && found.as_ref() == Some(pointer)
    }

    fn untouched(&self) -> bool {
        match &self.parent {
            Some(parent) => self.names(parent),
            None => self.committed.offset.is_none() && self.committed.metadata.is_none(),
        }
    }
}

/// Decides what became of a commit (EP-5) from all the partitions that it named.
///
/// Only all of them together tell: a mixture is nobody's commit of this epoch, as is nothing at all.
#[must_use]
pub fn after_unknown(partitions: &[InDoubt<'_>]) -> Verdict {
    if partitions.is_empty() {
        Verdict::Foreign
    } else if partitions.iter().all(|p| p.names(&p.published)) {
        Verdict::Committed
    } else if partitions.iter().all(InDoubt::untouched) {
        Verdict::NotCommitted
    } else {
        Verdict::Foreign
    }
}

/// What an instance knows of its producer session after an epoch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PublishFacts {
    /// The error callback has fired.
    pub suspect: bool,
    /// Sending the offsets failed or timed out.
    pub offsets_failed: bool,
    /// The commit failed or timed out.
    pub commit_failed: bool,
    /// How long sending the offsets took.
    pub offsets_took: Duration,
    /// How long the commit took.
    pub commit_took: Duration,
}

/// Whether the session must be rebuilt before the next transaction (EP-5).
#[must_use]
pub fn needs_new_session(facts: &PublishFacts) -> bool {
    let slow = facts.offsets_took > SLOW || facts.commit_took > SLOW;
    facts.suspect || facts.offsets_failed || facts.commit_failed || slow
}
