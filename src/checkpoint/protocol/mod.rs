//! The decisions of the commit protocol (design section 4): facts in, a decision out, no I/O. The runtime observes, asks here, and does.
//!
//! - `start`: genesis, resume or refuse (EP-6).
//! - `publish`: what may be published, what an unknown outcome was, when the session must be rebuilt (EP-3, EP-5).
//! - `fencing`: what a fenced instance does, and what a newcomer waits for (EP-7).
//! - `bases`: when a base is due, and how old what is named may be; `collect`: what may be removed (EP-9).
mod bases;
mod collect;
mod fencing;
mod publish;
mod refusal;
mod start;
#[cfg(test)]
mod tests;

pub use bases::{ChainFacts, ChainLimits, age_is_in_doubt, is_young, outweighs, third};
pub use collect::{Fate, Seen, Unread, every_pointer, fate, mark_holds};
pub use fencing::{Fence, SpareDecision, SpareFacts, after_fence, spare};
pub use publish::{
    Claim, CommitPermit, InDoubt, PublishFacts, SLOW, Verdict, after_unknown, may_publish, needs_new_session,
};
pub use refusal::Refusal;
pub use start::{
    Expected, Identity, Start, StartFacts, check_object, check_origin, check_positions, decide_start, named_epochs,
};
