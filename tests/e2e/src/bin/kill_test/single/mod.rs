//! One instance in single mode: round after round it is started, killed, and started again.
//!
//! Three kinds of rounds:
//! - *random*: SIGKILL at a random moment;
//! - *step*: the worker kills itself at a named step of the commit protocol, when it reaches it for the k-th time;
//! - *start-up step* (`post_init`, `mid_restore`, `pre_genesis_commit`): it first kills itself at that step of its
//!   start, when it has folded nothing yet; it is started again and killed at a random moment, and this second kill is
//!   the one that has to fit the rule. `pre_genesis_commit` exists in the life of a fresh job only and is the first
//!   round; for `mid_restore` the local state is thrown away before, so that there is something to restore.
mod plan;
mod rounds;

pub use plan::plan;
pub use rounds::play;
