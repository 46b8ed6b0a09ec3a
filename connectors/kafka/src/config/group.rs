//! Settings of group mode: how a member of the stage's consumer group behaves, and how long the others wait for it.
use super::{KafkaConfig, put};
use crate::error::KafkaError;
use std::time::Duration;

/// When a member of a group counts as dead, and for how long the others wait for it.
///
/// ```
/// use keyfold_kafka::GroupTimeouts;
/// use std::time::Duration;
/// let quick = GroupTimeouts { session: Duration::from_secs(6), ..GroupTimeouts::default() };
/// assert!(quick.check().is_ok());
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GroupTimeouts {
    /// `session.timeout.ms`, default 10 s: how long the partitions of an instance that has died, or was closed to be started again, are
    /// kept for its return. Nobody else takes them over before. Shorter takes over sooner, and makes a rebalance of a pause of the process
    /// or of the network that would have been over in a moment. The broker has limits of its own (`group.min.session.timeout.ms`, 6 s, and
    /// `group.max.session.timeout.ms`).
    pub session: Duration,
    /// `heartbeat.interval.ms`, default 1 s: how soon an instance learns that partitions are taken from it or that another process has
    /// taken its name. At most 1 s, which is what whoever was fenced waits for, and at most a third of `session`, so that two lost heartbeats
    /// do not end it; more is refused.
    pub heartbeat: Duration,
    /// `max.poll.interval.ms`, default 60 s: how long the thread that polls the membership may be away before the instance gives up its
    /// partitions by itself, and how long the group waits in a rebalance for an instance that does not let go of what it had. So this is
    /// how long a takeover takes, at worst, from an instance that hangs but whose client lives. At least `session`.
    pub max_poll: Duration,
}

impl Default for GroupTimeouts {
    fn default() -> GroupTimeouts {
        GroupTimeouts {
            session: Duration::from_secs(10),
            heartbeat: Duration::from_secs(1),
            max_poll: Duration::from_secs(60),
        }
    }
}

/// The engine waits for two of them, and some, after a fence.
const HEARTBEAT_MAX: Duration = Duration::from_secs(1);

impl GroupTimeouts {
    /// Refuses what does not fit together.
    ///
    /// # Errors
    /// [`KafkaError::Timeouts`] with the property, its value and the limit.
    pub fn check(&self) -> Result<(), KafkaError> {
        let (session, heartbeat, max_poll) = (self.session, self.heartbeat, self.max_poll);
        let whole = Duration::from_millis(1);
        let hour = Duration::from_secs(3600);
        if heartbeat < whole {
            return Err(refused("heartbeat.interval.ms", heartbeat, "it is at least 1 ms"));
        }
        if heartbeat > HEARTBEAT_MAX {
            let reason =
                "who was fenced waits for its next heartbeat to hear whether its name was taken: it is at most 1 s";
            return Err(refused("heartbeat.interval.ms", heartbeat, reason));
        }
        if session < heartbeat * 3 {
            let reason = format!(
                "two heartbeats may get lost: it is at least 3 times heartbeat.interval.ms ({})",
                heartbeat.as_millis()
            );
            return Err(refused("session.timeout.ms", session, &reason));
        }
        if session > hour {
            return Err(refused("session.timeout.ms", session, "it is at most an hour"));
        }
        if max_poll < session {
            let reason = format!("it is at least session.timeout.ms ({})", session.as_millis());
            return Err(refused("max.poll.interval.ms", max_poll, &reason));
        }
        if max_poll > hour * 24 {
            return Err(refused("max.poll.interval.ms", max_poll, "it is at most a day"));
        }
        Ok(())
    }
}

fn refused(name: &str, value: Duration, reason: &str) -> KafkaError {
    KafkaError::Timeouts {
        name: name.to_owned(),
        reason: format!("{} ms: {reason}", value.as_millis()),
    }
}

impl KafkaConfig {
    /// For a static member `instance` of the group, which reads no records.
    pub(crate) fn group_properties(
        &self,
        group: &str,
        instance: &str,
        timeouts: &GroupTimeouts,
    ) -> Vec<(String, String)> {
        let mut properties = self.consumer_properties(&[], group);
        let ms = |time: Duration| time.as_millis().to_string();
        put(&mut properties, "group.protocol", "classic");
        put(&mut properties, "group.instance.id", instance);
        put(&mut properties, "partition.assignment.strategy", "range");
        put(&mut properties, "session.timeout.ms", &ms(timeouts.session));
        put(&mut properties, "heartbeat.interval.ms", &ms(timeouts.heartbeat));
        put(&mut properties, "max.poll.interval.ms", &ms(timeouts.max_poll));
        properties
    }
}
