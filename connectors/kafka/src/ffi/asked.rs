//! Questions whose answers are waited for elsewhere: what a topic is, and who is a member of a group.
use super::admin::{Event, Options, Queue};
use super::{Client, Code, Failure, c_string, check, describe, millis, sys, text};
use std::ffi::CStr;
use std::sync::Arc;
use std::time::Duration;

/// What the cluster says about a topic.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Described {
    /// It is there. The id is zero when the broker does not tell.
    Topic {
        id: [u8; 16],
        partitions: u32,
        /// Every partition has a leader.
        led: bool,
    },
    /// There is none of this name.
    Unknown,
    /// No answer, or none that says anything.
    Unclear,
}

/// The members of a group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Roster {
    /// Every member has its assignment, and has to send heartbeats.
    pub stable: bool,
    /// Instance name, empty for who has none, and member id.
    pub members: Vec<(String, String)>,
}

/// The members, or why the group could not be asked.
pub(crate) type Answer = Result<Roster, Failure>;

/// A question that is under way. Holds the client.
pub(crate) struct Asked<T> {
    queue: Queue,
    read: fn(&Event) -> T,
    _client: Arc<Client>,
}

// SAFETY: queues may be used from any thread.
unsafe impl<T> Send for Asked<T> {}

impl<T> Asked<T> {
    /// The answer, if it has come; waits up to `wait` for it.
    pub(crate) fn answer(&self, wait: Duration) -> Option<T> {
        // SAFETY: the queue is ours; the event becomes ours.
        let event = unsafe { Event::owned(sys::rd_kafka_queue_poll(self.queue, millis(wait))) };
        event.map(|event| (self.read)(&event))
    }
}

impl<T> Drop for Asked<T> {
    fn drop(&mut self) {
        // SAFETY: ours, destroyed once, before the client is let go; an answer that comes later is dropped with it.
        unsafe { sys::rd_kafka_queue_destroy(self.queue) };
    }
}

impl Client {
    /// The topic's id; None when the broker does not tell.
    pub(crate) fn topic_id(&self, topic: &str, wait: Duration) -> Option<[u8; 16]> {
        let name = c_string(topic).ok()?;
        let operation = sys::rd_kafka_admin_op_t::RD_KAFKA_ADMIN_OP_DESCRIBETOPICS;
        let event = self.ask(operation, wait, |queue, options| self.describe(&name, queue, options))?;
        match described(&event) {
            Described::Topic { id, .. } => Some(id),
            Described::Unknown | Described::Unclear => None,
        }
    }

    /// Asks what [`Described`] tells; the answer comes within `wait`. It is the controller that is asked, so a cluster without one does
    /// not answer.
    pub(crate) fn ask_about(self: &Arc<Client>, topic: &str, wait: Duration) -> Result<Asked<Described>, Failure> {
        let name = c_string(topic)?;
        let operation = sys::rd_kafka_admin_op_t::RD_KAFKA_ADMIN_OP_DESCRIBETOPICS;
        let queue = self.request(operation, wait, |queue, options| self.describe(&name, queue, options));
        Ok(Asked {
            queue,
            read: described,
            _client: self.clone(),
        })
    }

    fn describe(&self, name: &CStr, queue: Queue, options: Options) {
        let mut names = [name.as_ptr()];
        // SAFETY: the collection copies the names and is copied by the request.
        unsafe {
            let topics = sys::rd_kafka_TopicCollection_of_topic_names(names.as_mut_ptr(), 1);
            sys::rd_kafka_DescribeTopics(self.as_ptr(), topics, options, queue);
            sys::rd_kafka_TopicCollection_destroy(topics);
        }
    }

    /// Asks who is a member of the group. It is the group's coordinator that answers; the answer comes within `wait`.
    pub(crate) fn ask_for_members(self: &Arc<Client>, group: &str, wait: Duration) -> Result<Asked<Answer>, Failure> {
        let name = c_string(group)?;
        let operation = sys::rd_kafka_admin_op_t::RD_KAFKA_ADMIN_OP_DESCRIBECONSUMERGROUPS;
        let queue = self.request(operation, wait, |queue, options| {
            let mut names = [name.as_ptr()];
            // SAFETY: the names are copied by the request.
            unsafe { sys::rd_kafka_DescribeConsumerGroups(self.as_ptr(), names.as_mut_ptr(), 1, options, queue) };
        });
        Ok(Asked {
            queue,
            read: members,
            _client: self.clone(),
        })
    }
}

/// Reads the answer to a question about one topic.
fn described(event: &Event) -> Described {
    let mut count = 0;
    // SAFETY: what is read belongs to the event, which outlives the call; the arrays hold as many items as is said.
    unsafe {
        let result = sys::rd_kafka_event_DescribeTopics_result(event.pointer);
        if result.is_null() || check(sys::rd_kafka_event_error(event.pointer)).is_err() {
            return Described::Unclear;
        }
        let topics = sys::rd_kafka_DescribeTopics_result_topics(result, &mut count);
        if count == 0 || topics.is_null() {
            return Described::Unclear;
        }
        let topic = *topics;
        let error = sys::rd_kafka_TopicDescription_error(topic);
        if !error.is_null() {
            return match sys::rd_kafka_error_code(error).into() {
                Code::NoError => about(topic),
                Code::UnknownTopicOrPartition | Code::UnknownTopic => Described::Unknown,
                _ => Described::Unclear,
            };
        }
        about(topic)
    }
}

/// # Safety
/// `topic` is alive.
unsafe fn about(topic: *const sys::rd_kafka_TopicDescription_t) -> Described {
    let mut count = 0;
    // SAFETY: the caller vouches for the topic; what is read belongs to it.
    unsafe {
        let id = sys::rd_kafka_TopicDescription_topic_id(topic);
        let mut bytes = [0; 16];
        if !id.is_null() {
            bytes[..8].copy_from_slice(&sys::rd_kafka_Uuid_most_significant_bits(id).to_be_bytes());
            bytes[8..].copy_from_slice(&sys::rd_kafka_Uuid_least_significant_bits(id).to_be_bytes());
        }
        let partitions = sys::rd_kafka_TopicDescription_partitions(topic, &mut count);
        if count == 0 || partitions.is_null() {
            return Described::Unclear;
        }
        let all = std::slice::from_raw_parts(partitions, count);
        let leader = |p: &*const sys::rd_kafka_TopicPartitionInfo_t| sys::rd_kafka_TopicPartitionInfo_leader(*p);
        Described::Topic {
            id: bytes,
            partitions: u32::try_from(count).unwrap_or(u32::MAX),
            led: all.iter().all(|p| !leader(p).is_null()),
        }
    }
}

/// Reads the answer to a question about one group.
fn members(event: &Event) -> Answer {
    let mut count = 0;
    // SAFETY: what is read belongs to the event, which outlives the call; the array holds as many items as is said.
    unsafe {
        let err = sys::rd_kafka_event_error(event.pointer);
        check(err).map_err(|f| {
            let reason = text(sys::rd_kafka_event_error_string(event.pointer));
            Failure::plain(f.code, format!("{}: {reason}", describe(err)))
        })?;
        let result = sys::rd_kafka_event_DescribeConsumerGroups_result(event.pointer);
        let silent = || Failure::plain(Code::Unknown, "the answer names no group");
        if result.is_null() {
            return Err(silent());
        }
        let groups = sys::rd_kafka_DescribeConsumerGroups_result_groups(result, &mut count);
        if count == 0 || groups.is_null() {
            return Err(silent());
        }
        let error = sys::rd_kafka_ConsumerGroupDescription_error(*groups);
        let code = if error.is_null() {
            Code::NoError
        } else {
            sys::rd_kafka_error_code(error).into()
        };
        match code {
            Code::NoError => Ok(roster(*groups)),
            // Brokers of before answer with a group that is dead.
            Code::GroupIdNotFound => Ok(Roster {
                stable: false,
                members: Vec::new(),
            }),
            code => Err(Failure::plain(code, text(sys::rd_kafka_error_string(error)))),
        }
    }
}

/// # Safety
/// `group` is alive and no error.
unsafe fn roster(group: *const sys::rd_kafka_ConsumerGroupDescription_t) -> Roster {
    // SAFETY: the caller vouches for the group; what is read belongs to it.
    unsafe {
        let count = sys::rd_kafka_ConsumerGroupDescription_member_count(group);
        let member = |index| {
            let member = sys::rd_kafka_ConsumerGroupDescription_member(group, index);
            let name = text(sys::rd_kafka_MemberDescription_group_instance_id(member));
            (name, text(sys::rd_kafka_MemberDescription_consumer_id(member)))
        };
        let state = sys::rd_kafka_ConsumerGroupDescription_state(group);
        Roster {
            stable: state == sys::rd_kafka_consumer_group_state_t::RD_KAFKA_CONSUMER_GROUP_STATE_STABLE,
            members: (0..count).map(member).collect(),
        }
    }
}
