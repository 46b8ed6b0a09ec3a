//! How a run ends other than well.
use crate::checkpoint::chain::RestoreError;
use crate::checkpoint::protocol::Refusal;
use crate::checkpoint::store::{StoreError, StoreErrorKind};
use crate::operator::LaneError;
use crate::sink::{LogError, LogErrorKind};
use crate::state::StateError;
use crate::testing::faults::Injected;

/// What a process exits with. In systemd, 12 belongs in `RestartPreventExitStatus`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExitCode {
    /// Stopped as asked, the last epoch committed.
    Ok = 0,
    /// Failed; starting again is right.
    Failed = 1,
    /// Another instance has taken over; do not start again by itself.
    Fenced = 12,
    /// Going on would be wrong; somebody must act.
    CannotGoOn = 13,
}

/// Why a run ended.
#[derive(Debug, thiserror::Error)]
pub enum RuntimeError {
    /// Another instance of the same job and stage has taken over.
    #[error("fenced: {0}; another instance runs this stage, this one ends")]
    Fenced(String),
    /// Group mode: what was assigned belongs to others by now, or may; nothing more is committed for it. Handled in place: the run goes on with
    /// the next assignment.
    #[error("the assignment is stale: {0}")]
    AssignmentLost(String),
    /// The protocol's decision not to go on, with the way out.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// Input, store or configuration make going on wrong.
    #[error("{0}")]
    CannotGoOn(String),
    /// A lane could not go on.
    #[error("lane {lane}: {error}")]
    Lane {
        /// The lane.
        lane: String,
        /// Why.
        error: LaneError,
    },
    /// The local copy of a shard.
    #[error(transparent)]
    LocalCopy(#[from] StateError),
    /// The checkpoint store.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// Restoring a shard.
    #[error(transparent)]
    Restore(#[from] RestoreError),
    /// The log.
    #[error(transparent)]
    Log(#[from] LogError),
    /// The state directory.
    #[error("state directory {path}: {reason}")]
    StateDir {
        /// The directory.
        path: String,
        /// What is wrong and what to do.
        reason: String,
    },
    /// The machine refuses something that it may grant later.
    #[error("{0}")]
    Machine(String),
    /// A stop was asked for while something was being retried; what was not committed is replayed at the next start.
    #[error("stopped while {0}; what is not committed is replayed at the next start, nothing is lost")]
    StoppedEarly(String),
    /// A fail point.
    #[error(transparent)]
    Injected(#[from] Injected),
}

impl RuntimeError {
    /// Whether it is this machine that does not do, as with a full disk: another one may.
    fn is_of_machine(&self) -> bool {
        let spilled =
            |error: &LaneError| matches!(error, LaneError::Spill(_) | LaneError::State(StateError::Io { .. }));
        match self {
            RuntimeError::Lane { error, .. } => spilled(error),
            error => error.may_pass_in_place(),
        }
    }

    /// Whether a restart would fail as well: it is for somebody to act, or for another machine to go on.
    pub(super) fn lasts(&self) -> bool {
        self.is_of_machine() || self.exit_code() == ExitCode::CannotGoOn
    }

    /// Whether there may be room on the disk again, and then everything is as before once the local copies are opened anew.
    pub(super) fn may_pass_in_place(&self) -> bool {
        matches!(
            self,
            RuntimeError::StateDir { .. } | RuntimeError::LocalCopy(StateError::Io { .. })
        )
    }

    /// What a process should exit with.
    #[must_use]
    pub fn exit_code(&self) -> ExitCode {
        match self {
            RuntimeError::Fenced(_) => ExitCode::Fenced,
            RuntimeError::Restore(error) if error.store().is_some_and(|e| e.kind() == StoreErrorKind::Retriable) => {
                ExitCode::Failed
            }
            RuntimeError::Refused(_) | RuntimeError::CannotGoOn(_) | RuntimeError::Restore(_) => ExitCode::CannotGoOn,
            RuntimeError::Lane {
                error: LaneError::Gone(_) | LaneError::Spill(_) | LaneError::Send(_),
                ..
            } => ExitCode::Failed,
            RuntimeError::Lane {
                error: LaneError::State(StateError::Io { .. }),
                ..
            } => ExitCode::Failed,
            RuntimeError::Lane { .. } => ExitCode::CannotGoOn,
            RuntimeError::Store(error) if error.kind() != StoreErrorKind::Retriable => ExitCode::CannotGoOn,
            RuntimeError::LocalCopy(StateError::Codec { .. }) => ExitCode::CannotGoOn,
            RuntimeError::Log(error) if error.kind == LogErrorKind::Fatal => ExitCode::CannotGoOn,
            _ => ExitCode::Failed,
        }
    }
}

/// A thread that the machine refuses: there may be room for it later.
pub(super) fn no_thread(whose: &str, why: &std::io::Error) -> RuntimeError {
    RuntimeError::Machine(format!(
        "{whose} thread cannot be started: {why}; raise the limit of threads of the user (ulimit -u), the service (TasksMax) or the container \
         (pids), or give the process more memory; starting again is right"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A machine without room for another thread ended the run with 13, and nobody started it again.
    #[test]
    fn a_thread_that_cannot_be_started_is_no_reason_to_stay_down() {
        let error = no_thread("the member's", &std::io::Error::from_raw_os_error(libc::EAGAIN));
        assert_eq!(error.exit_code(), ExitCode::Failed);
        assert!(error.to_string().contains("ulimit -u"), "{error}");
    }
}
