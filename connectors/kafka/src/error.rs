//! What a failure of the client means: the table of error classes, in one place.
use crate::ffi::{Code, DeliveryFailure, Failure};
use keyfold::sink::{LogError, LogErrorKind};
use keyfold::source::{MembershipError, SourceError};

/// A setting, topic or cluster that cannot be used as it is.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum KafkaError {
    /// The property would break a guarantee. Remove it, or use the setting that the reason names.
    #[error("kafka property {name} is refused: {reason}")]
    Refused {
        /// The property.
        name: String,
        /// Why, and what to use instead.
        reason: String,
    },
    /// The membership's timeouts do not fit together. Set another one in `GroupTimeouts`.
    #[error("kafka property {name} is refused: {reason}; set it in GroupTimeouts")]
    Timeouts {
        /// The property.
        name: String,
        /// Its value, and the limit.
        reason: String,
    },
    /// The client does not know the property, or not this value. Correct it.
    #[error("kafka property {name} is not usable: {reason}")]
    Invalid {
        /// The property.
        name: String,
        /// What the client says; without the value of a secret.
        reason: String,
    },
    /// The cluster does not have the topic. Create it.
    #[error("kafka topic {topic} does not exist; create it with the partitions it should have, then start again")]
    UnknownTopic {
        /// The topic.
        topic: String,
    },
    /// The client could not be made or asked. Check brokers, network and credentials.
    #[error("kafka {context}: {reason}; check that the brokers can be reached and let us in, then start again")]
    Client {
        /// What was tried.
        context: String,
        /// What the client says.
        reason: String,
    },
    /// A stop was asked for while no broker could be reached. Nothing had begun; start again.
    #[error(
        "kafka output topic {topic}: stopped while no broker could be reached ({reason}); nothing had begun, start again"
    )]
    Stopped {
        /// The topic.
        topic: String,
        /// Why it was not found.
        reason: String,
    },
}

/// Errors that do not go away by waiting: credentials, permissions, certificates, configuration.
pub(crate) fn is_hopeless(failure: &Failure) -> bool {
    match failure.code {
        Code::Authentication
        | Code::SaslAuthenticationFailed
        | Code::UnsupportedSASLMechanism
        | Code::TopicAuthorizationFailed
        | Code::GroupAuthorizationFailed
        | Code::ClusterAuthorizationFailed
        | Code::TransactionalIdAuthorizationFailed
        | Code::InvalidTransactionTimeout
        | Code::InvalidConfig
        | Code::InvalidTopic
        | Code::InvalidGroupId
        | Code::UnsupportedVersion
        | Code::UnsupportedFeature => true,
        Code::SSL => failure.text.contains("certificate verify failed"),
        _ => false,
    }
}

/// A failed read, or a failed question of a source.
pub(crate) fn source_error(context: &str, failure: &Failure) -> SourceError {
    let text = format!("{context}: {}", failure.text);
    if failure.fatal || is_hopeless(failure) {
        SourceError::Fatal(text)
    } else {
        SourceError::Retriable(text)
    }
}

/// A failed call outside of a transaction: reading pointers, looking at the group.
pub(crate) fn read_error(context: &str, failure: &Failure) -> LogError {
    let hopeless = failure.fatal || is_hopeless(failure);
    let kind = if hopeless {
        LogErrorKind::Fatal
    } else {
        LogErrorKind::Retriable
    };
    log_error(kind, context, &failure.text)
}

/// A failed transactional call, by librdkafka's flags: fatal, requires an abort, retriable; none of the three counts as fatal.
pub(crate) fn transaction_error(context: &str, failure: &Failure) -> LogError {
    let kind = match failure.code {
        Code::Fenced | Code::ProducerFenced | Code::InvalidProducerEpoch if !failure.abortable => LogErrorKind::Fenced,
        Code::OffsetMetadataTooLarge | Code::InvalidCommitOffsetSize => {
            return log_error(
                LogErrorKind::Fatal,
                context,
                &format!("{}; {METADATA_REMEDY}", failure.text),
            );
        }
        Code::IllegalGeneration | Code::UnknownMemberId | Code::FencedInstanceId | Code::StaleMemberEpoch => {
            return log_error(
                LogErrorKind::Fatal,
                context,
                &format!("{}; {GROUP_REMEDY}", failure.text),
            );
        }
        _ if is_hopeless(failure) => LogErrorKind::Fatal,
        _ if failure.fatal => LogErrorKind::SessionLost,
        _ if failure.abortable => LogErrorKind::Abortable,
        _ if failure.retriable => LogErrorKind::Retriable,
        _ => LogErrorKind::SessionLost,
    };
    log_error(kind, context, &failure.text)
}

/// A failed transactional call of a member of the group, whose offsets carry an assignment. That the coordinator refuses this assignment is
/// no error of the cluster or of the configuration, as it is in single mode.
pub(crate) fn member_transaction_error(context: &str, failure: &Failure, instance: &str) -> LogError {
    match failure.code {
        Code::IllegalGeneration | Code::UnknownMemberId | Code::RebalanceInProgress | Code::StaleMemberEpoch => {
            log_error(LogErrorKind::StaleAssignment, context, &failure.text)
        }
        Code::FencedInstanceId => {
            let reason = format!("{}; {}", failure.text, name_remedy(instance));
            log_error(LogErrorKind::NameTaken, context, &reason)
        }
        _ => transaction_error(context, failure),
    }
}

/// What has happened to the membership `context` of `instance`. None for what needs no answer: a rebalance event follows.
pub(crate) fn membership_error(context: &str, failure: &Failure, instance: &str) -> Option<MembershipError> {
    let text = format!("{context}: {}", failure.text);
    match failure.code {
        Code::FencedInstanceId => Some(MembershipError::NameTaken(format!("{text}; {}", name_remedy(instance)))),
        Code::PollExceeded => None,
        Code::InvalidSessionTimeout => Some(MembershipError::Fatal(format!("{text}; {SESSION_REMEDY}"))),
        Code::InconsistentGroupProtocol => Some(MembershipError::Fatal(format!("{text}; {GROUP_REMEDY}"))),
        _ if failure.fatal || is_hopeless(failure) => Some(MembershipError::Fatal(text)),
        _ => Some(MembershipError::Retriable(text)),
    }
}

fn name_remedy(instance: &str) -> String {
    format!(
        "the group has another member under the name {instance}. If that is another process, one of the two has to end: give each instance a \
         state directory or a setting `instance` of its own. If there is none, a request to join of a process that has ended came late, and \
         the name is free when that one's session is over"
    )
}

const SESSION_REMEDY: &str = "the broker does not take this session timeout: choose GroupTimeouts::session between its \
     group.min.session.timeout.ms and group.max.session.timeout.ms";

/// A stable read is held back although the coordinator answers.
pub(crate) const UNDECIDED: &str = "the broker holds them back: a transaction over them has no end yet. It gets one within its \
     timeout; if this goes on, the broker has lost the end (KAFKA-20734): stop the job and see \
     \"A transaction that never ends\" in docs/guarantees.md";

pub(crate) const METADATA_REMEDY: &str = "the pointer does not fit the broker's offset.metadata.max.bytes: \
     raise it to its default of 4096 on every broker, then start again";

const GROUP_REMEDY: &str = "another consumer is a member of this group: stop it, or give the job another id";

/// A message that was not delivered, or not taken in the first place. `failed` of them failed together.
pub(crate) fn delivery_error(failure: &DeliveryFailure, failed: u64) -> LogError {
    let context = format!("produce to topic {} partition {}", failure.topic, failure.partition);
    let key = key_text(failure.key.as_deref());
    let value = failure.value_len;
    let reason = format!(
        "{} ({key}, value of {value} bytes; {failed} not delivered)",
        failure.text
    );
    log_error(delivery_kind(failure.code), &context, &reason)
}

/// Enough of a key to find its record again.
fn key_text(key: Option<&[u8]>) -> String {
    const SHOWN_MAX: usize = 64;
    let Some(key) = key else {
        return "no key".to_owned();
    };
    let shown = key.get(..SHOWN_MAX).unwrap_or(key).escape_ascii();
    format!("key {shown} of {} bytes", key.len())
}

fn delivery_kind(code: Code) -> LogErrorKind {
    match code {
        Code::MessageSizeTooLarge
        | Code::MessageBatchTooLarge
        | Code::InvalidMessageSize
        | Code::InvalidMessage
        | Code::InvalidTimestamp
        | Code::InvalidRecord
        | Code::PolicyViolation
        | Code::UnknownPartition
        | Code::TopicAuthorizationFailed => LogErrorKind::OutputRefused,
        Code::UnknownTopic | Code::UnknownTopicOrPartition | Code::InvalidTopic => LogErrorKind::Fatal,
        Code::ClusterAuthorizationFailed | Code::TransactionalIdAuthorizationFailed => LogErrorKind::Fatal,
        Code::Fenced | Code::ProducerFenced | Code::InvalidProducerEpoch => LogErrorKind::Fenced,
        Code::Fatal => LogErrorKind::SessionLost,
        Code::QueueFull => LogErrorKind::Retriable,
        _ => LogErrorKind::Abortable,
    }
}

pub(crate) fn log_error(kind: LogErrorKind, context: &str, reason: &str) -> LogError {
    LogError {
        kind,
        context: context.to_owned(),
        reason: reason.to_owned(),
    }
}

#[cfg(test)]
mod tests;
