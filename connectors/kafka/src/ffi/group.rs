//! A member of a consumer group: its events, its identity, and the identity that goes along with offsets.
use super::admin::Event;
use super::{Client, Code, Failure, List, c_string, check, describe, millis, sys, take_error, text};
use std::sync::Arc;
use std::time::Duration;

/// What a member of a group is told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum MemberEvent {
    /// The group gives these partitions. Answered by [`Client::assign`].
    Assign(Vec<(String, i32)>),
    /// The group takes back everything. Answered by [`Client::assign`] with None.
    Revoke,
    /// Something failed, which may pass.
    Error(Failure),
    /// Nothing of interest.
    Other,
}

/// The queue of a member's events. Each poll of it counts for `max.poll.interval.ms`, and a thread that waits in it is never late:
/// it is the consumer queue (RD_KAFKA_Q_F_CONSUMER in rd_kafka_q_pop_serve).
pub(crate) struct EventQueue {
    pointer: *mut sys::rd_kafka_queue_t,
    /// Last: the queue belongs to it.
    client: Arc<Client>,
}

// SAFETY: queues may be used from any thread, and what is here is used by one at a time.
unsafe impl Send for EventQueue {}

impl EventQueue {
    pub(crate) fn new(client: Arc<Client>) -> Result<EventQueue, Failure> {
        // SAFETY: the client is alive and held.
        let pointer = unsafe { sys::rd_kafka_queue_get_consumer(client.as_ptr()) };
        if pointer.is_null() {
            return Err(Failure::plain(Code::UnknownGroup, "the client is no member of a group"));
        }
        Ok(EventQueue { pointer, client })
    }

    /// The next event; waits up to `wait` for it.
    pub(crate) fn next(&self, wait: Duration) -> Option<MemberEvent> {
        // SAFETY: the queue is ours; the event, if any, becomes ours.
        let event = unsafe { Event::owned(sys::rd_kafka_queue_poll(self.pointer, millis(wait))) }?;
        // SAFETY: what is read belongs to the event, which lives to the end of this function; the list is the event's own.
        unsafe {
            let err = sys::rd_kafka_event_error(event.pointer);
            Some(match sys::rd_kafka_event_type(event.pointer) {
                sys::RD_KAFKA_EVENT_REBALANCE
                    if err == sys::rd_kafka_resp_err_t::RD_KAFKA_RESP_ERR__ASSIGN_PARTITIONS =>
                {
                    MemberEvent::Assign(List::partitions_of(sys::rd_kafka_event_topic_partition_list(
                        event.pointer,
                    )))
                }
                sys::RD_KAFKA_EVENT_REBALANCE => MemberEvent::Revoke,
                sys::RD_KAFKA_EVENT_ERROR => MemberEvent::Error(Failure {
                    fatal: sys::rd_kafka_event_error_is_fatal(event.pointer) != 0,
                    ..Failure::plain(
                        err.into(),
                        format!(
                            "{}: {}",
                            describe(err),
                            text(sys::rd_kafka_event_error_string(event.pointer))
                        ),
                    )
                }),
                _ => MemberEvent::Other,
            })
        }
    }

    /// Begins to close the member; goes on while the queue is polled. True of [`Client::closed`] afterwards.
    pub(crate) fn close(&self) -> Result<(), Failure> {
        // SAFETY: client and queue are alive; the error, if any, becomes ours.
        unsafe { take_error(sys::rd_kafka_consumer_close_queue(self.client.as_ptr(), self.pointer)) }
    }
}

impl Drop for EventQueue {
    fn drop(&mut self) {
        // SAFETY: ours, destroyed once, before the client is let go.
        unsafe { sys::rd_kafka_queue_destroy(self.pointer) };
    }
}

/// As whom offsets are committed.
pub(crate) struct GroupMetadata {
    pointer: *mut sys::rd_kafka_consumer_group_metadata_t,
}

// SAFETY: plain memory with one owner.
unsafe impl Send for GroupMetadata {}

impl GroupMetadata {
    /// For a group without members: generation -1 and no member id, as a consumer has that never subscribed.
    pub(crate) fn of_nobody(group: &str) -> Result<GroupMetadata, Failure> {
        let group = c_string(group)?;
        // SAFETY: the name is copied.
        let pointer = unsafe { sys::rd_kafka_consumer_group_metadata_new(group.as_ptr()) };
        Ok(GroupMetadata { pointer })
    }

    /// For a member that was given partitions in this generation.
    pub(crate) fn of_member(
        group: &str,
        generation: i32,
        member: &str,
        instance: &str,
    ) -> Result<GroupMetadata, Failure> {
        let (group, member, instance) = (c_string(group)?, c_string(member)?, c_string(instance)?);
        let (group, member, instance) = (group.as_ptr(), member.as_ptr(), instance.as_ptr());
        // SAFETY: the strings are copied.
        let pointer =
            unsafe { sys::rd_kafka_consumer_group_metadata_new_with_genid(group, generation, member, instance) };
        Ok(GroupMetadata { pointer })
    }

    pub(crate) fn generation(&self) -> i32 {
        // SAFETY: alive until dropped.
        unsafe { sys::rd_kafka_consumer_group_metadata_generation_id(self.pointer) }
    }

    pub(crate) fn member_id(&self) -> String {
        // SAFETY: alive until dropped, and the string with it.
        unsafe { text(sys::rd_kafka_consumer_group_metadata_member_id(self.pointer)) }
    }

    pub(super) fn as_ptr(&self) -> *const sys::rd_kafka_consumer_group_metadata_t {
        self.pointer
    }
}

impl Drop for GroupMetadata {
    fn drop(&mut self) {
        // SAFETY: ours, destroyed once.
        unsafe { sys::rd_kafka_consumer_group_metadata_destroy(self.pointer) };
    }
}

/// Of a [`super::Kind::Member`].
impl Client {
    /// Joins the group for these topics, in the background; again when it has joined already.
    pub(crate) fn subscribe(&self, topics: &[String]) -> Result<(), Failure> {
        let mut list = List::new(topics.len());
        for topic in topics {
            // -1 is "unassigned", which a subscription asks for.
            list.add(topic, -1, -1, -1, b"")?;
        }
        // SAFETY: client and list are alive; the list is copied.
        check(unsafe { sys::rd_kafka_subscribe(self.as_ptr(), list.as_ptr()) })
    }

    /// Leaves the group, static member or not, once what it has assigned is revoked.
    pub(crate) fn unsubscribe(&self) -> Result<(), Failure> {
        // SAFETY: the client is alive.
        check(unsafe { sys::rd_kafka_unsubscribe(self.as_ptr()) })
    }

    /// Whether what is being revoked belongs to others already.
    pub(crate) fn assignment_lost(&self) -> bool {
        // SAFETY: the client is alive.
        unsafe { sys::rd_kafka_assignment_lost(self.as_ptr()) != 0 }
    }

    /// As whom the group knows us now; None when it does not, or no longer.
    pub(crate) fn identity(&self) -> Option<GroupMetadata> {
        // SAFETY: the client is alive; what is returned, if anything, becomes ours.
        let pointer = unsafe { sys::rd_kafka_consumer_group_metadata(self.as_ptr()) };
        (!pointer.is_null()).then_some(GroupMetadata { pointer })
    }

    /// Whether a close has come to its end.
    pub(crate) fn consumer_closed(&self) -> bool {
        // SAFETY: the client is alive.
        unsafe { sys::rd_kafka_consumer_closed(self.as_ptr()) != 0 }
    }
}
