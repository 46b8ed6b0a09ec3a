//! What a fenced instance does, and what a newcomer waits for: single mode (EP-7).
use std::time::Duration;

/// What a fenced instance does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fence {
    /// The broker has timed the session out: open a new one and go on.
    Rebuild,
    /// Another instance has taken over: exit 12.
    Exit,
}

/// A pointer that is not our own last one was written by whoever fenced us. With our own it may have been the broker's time-out, which
/// is mended once; fenced again without a commit in between, somebody else holds the name and has not committed yet.
#[must_use]
pub fn after_fence(pointer_is_own_last: bool, rebuilt_since_last_commit: bool) -> Fence {
    if pointer_is_own_last && !rebuilt_since_last_commit {
        Fence::Rebuild
    } else {
        Fence::Exit
    }
}

/// What a newcomer has observed of the stage it wants to run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SpareFacts {
    /// The pointer has changed since the newcomer first looked.
    pub pointer_moved: bool,
    /// How long it has watched since the pointer last moved.
    pub watched: Duration,
    /// How long a pointer must stand still before its owner counts as gone.
    pub watch_for: Duration,
    /// The operator told it to take over.
    pub take_over: bool,
    /// There was a pointer at the first look.
    pub had_pointer: bool,
}

/// What a newcomer does next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SpareDecision {
    /// Look again a little later. When the pointer has moved, `watched` begins again and `pointer_moved` is false until the next move.
    Wait,
    /// Open a session, which fences whoever has one.
    Start,
}

/// Waits as a spare while somebody commits, starts when nobody does or when told to.
#[must_use]
pub fn spare(facts: &SpareFacts) -> SpareDecision {
    let still = !facts.pointer_moved && (!facts.had_pointer || facts.watched >= facts.watch_for);
    if facts.take_over || still {
        SpareDecision::Start
    } else {
        SpareDecision::Wait
    }
}
