//! Who reads what, in group mode: a member of the stage's consumer group.
use crate::types::Assignment;
use std::time::Duration;

/// What the group's coordinator has decided.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum GroupEvent {
    /// These partitions are ours from now on. What was ours before was taken back first.
    Assigned(Assignment),
    /// Everything that was assigned is taken back. The group waits for [`Membership::release`] before it gives the partitions to others.
    Revoked,
    /// The session is over, or the member did not poll for too long, or another one has its name: others own the partitions already. Also
    /// answered by [`Membership::release`]. What follows is an assignment, or that the name is taken.
    Lost,
}

/// What goes wrong with a membership.
#[derive(Debug, Clone, thiserror::Error)]
pub enum MembershipError {
    /// May pass by itself.
    #[error("{0}")]
    Retriable(String),
    /// Another process lives under this instance's name: exit 12, never fight. That the group has another member of this name is not enough:
    /// a request to join that arrives late makes one that nobody is.
    #[error("{0}")]
    NameTaken(String),
    /// Cannot work (authorisation, configuration): exit 13.
    #[error("{0}")]
    Fatal(String),
}

/// A static member of the stage's consumer group. Driven by one thread, which must call [`Membership::poll`] often: a member that does not
/// is taken for dead.
pub trait Membership: Send {
    /// Joins, in the background.
    ///
    /// # Errors
    /// [`MembershipError`]
    fn join(&mut self) -> Result<(), MembershipError>;
    /// The next decision; waits up to `max_wait`. None when there was none.
    ///
    /// # Errors
    /// [`MembershipError`]
    fn poll(&mut self, max_wait: Duration) -> Result<Option<GroupEvent>, MembershipError>;
    /// Answers [`GroupEvent::Revoked`] and [`GroupEvent::Lost`]: nothing is done for the former assignment any more.
    ///
    /// # Errors
    /// [`MembershipError`]
    fn release(&mut self) -> Result<(), MembershipError>;
    /// Ends. With `leave` the partitions go to others at once; without, they are kept for an instance of the same name until the session
    /// is over, so that a restart costs one pause.
    fn close(&mut self, leave: bool);
}
