//! A job in group mode: the instances `a` and `b` share its partitions, and `c` comes and goes. Each has a local state of its own; the
//! checkpoint store is one.
//!
//! Kinds of rounds:
//! - *kill*: `a` or `b` dies at a random moment, at a step of the commit protocol or at one of its start, and is started again at once;
//!   in some the broker is killed, too;
//! - *away*: it stays away until its session is over and the others work on all partitions, and comes back;
//! - *guest*: `c` joins and works. It leaves again in good order after one of the others was killed, or is killed itself and left away;
//! - *stopped*: an instance stops itself (SIGSTOP) in the middle of a publish, until its session is over and the others work on
//!   all partitions. Continued, it must neither end nor harm, but come back;
//! - *broker*: the broker alone is killed, and all instances outlive it.
//!
//! Whoever is not meant to die is looked at all the time. What "work on" means is decided from outside, by
//! [`keyfold_checker::owners`].
mod cast;
mod moves;
mod plan;
mod rounds;

pub use plan::plan;
pub use rounds::play;
