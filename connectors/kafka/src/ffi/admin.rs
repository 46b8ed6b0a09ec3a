//! Questions to the cluster: metadata, offsets, settings. Every call is bounded by its `wait`.
use super::{Client, Code, Failure, List, c_string, check, millis, sys, text};
use std::ffi::c_char;
use std::time::Duration;

impl Client {
    /// Number of partitions; None when the cluster does not know the topic.
    pub(crate) fn partitions(&self, topic: &str, wait: Duration) -> Result<Option<u32>, Failure> {
        let name = c_string(topic)?;
        let mut metadata: *const sys::rd_kafka_metadata = std::ptr::null();
        // SAFETY: the topic's handle and the metadata are ours and freed after their last use; the metadata holds `topic_cnt` topics.
        unsafe {
            let handle = sys::rd_kafka_topic_new(self.as_ptr(), name.as_ptr(), std::ptr::null_mut());
            if handle.is_null() {
                return Err(Failure::of(sys::rd_kafka_last_error()));
            }
            let err = sys::rd_kafka_metadata(self.as_ptr(), 0, handle, &mut metadata, millis(wait));
            sys::rd_kafka_topic_destroy(handle);
            check(err)?;
            let count = usize::try_from((*metadata).topic_cnt).unwrap_or(0);
            let first = (count > 0).then(|| &*(*metadata).topics);
            let found = first.map(|t| (t.err, u32::try_from(t.partition_cnt).unwrap_or(0)));
            sys::rd_kafka_metadata_destroy(metadata);
            match found {
                None => Ok(None),
                Some((err, partitions)) => match check(err) {
                    Ok(()) => Ok(Some(partitions)),
                    Err(f) if matches!(f.code, Code::UnknownTopicOrPartition | Code::UnknownTopic) => Ok(None),
                    Err(f) => Err(f),
                },
            }
        }
    }

    /// Any broker's id, once one has been reached.
    pub(crate) fn any_broker(&self, wait: Duration) -> Result<i32, Failure> {
        let mut metadata: *const sys::rd_kafka_metadata = std::ptr::null();
        // SAFETY: as above.
        unsafe {
            check(sys::rd_kafka_metadata(
                self.as_ptr(),
                0,
                std::ptr::null_mut(),
                &mut metadata,
                millis(wait),
            ))?;
            let id = ((*metadata).broker_cnt > 0).then(|| (*(*metadata).brokers).id);
            sys::rd_kafka_metadata_destroy(metadata);
            id.ok_or_else(|| Failure::plain(Code::BrokerNotAvailable, "no broker in the metadata"))
        }
    }

    /// Low and high watermark; under read_committed the high one is the last stable offset.
    pub(crate) fn watermarks(&self, topic: &str, partition: i32, wait: Duration) -> Result<(i64, i64), Failure> {
        let topic = c_string(topic)?;
        let (mut low, mut high) = (0, 0);
        // SAFETY: name and both targets outlive the call.
        check(unsafe {
            let (rk, topic) = (self.as_ptr(), topic.as_ptr());
            sys::rd_kafka_query_watermark_offsets(rk, topic, partition, &mut low, &mut high, millis(wait))
        })?;
        Ok((low, high))
    }

    /// Replaces each offset of the list, a time in ms, by the first offset at or after it (negative: none).
    pub(crate) fn offsets_for_times(&self, list: &List, wait: Duration) -> Result<(), Failure> {
        // SAFETY: client and list are alive.
        check(unsafe { sys::rd_kafka_offsets_for_times(self.as_ptr(), list.as_ptr(), millis(wait)) })
    }

    /// Fills in offsets and metadata committed for the client's group. Stable when the client is read_committed.
    pub(crate) fn committed(&self, list: &List, wait: Duration) -> Result<(), Failure> {
        // SAFETY: client and list are alive.
        check(unsafe { sys::rd_kafka_committed(self.as_ptr(), list.as_ptr(), millis(wait)) })
    }

    /// Reads these partitions from these offsets; None lets go of all.
    pub(crate) fn assign(&self, list: Option<&List>) -> Result<(), Failure> {
        let list = list.map_or(std::ptr::null_mut(), List::as_ptr);
        // SAFETY: client and list are alive; the list is copied by the call.
        check(unsafe { sys::rd_kafka_assign(self.as_ptr(), list) })
    }

    /// A setting of a topic; None when the broker does not tell.
    pub(crate) fn topic_setting(&self, topic: &str, setting: &str, wait: Duration) -> Option<String> {
        self.setting(
            sys::rd_kafka_ResourceType_t::RD_KAFKA_RESOURCE_TOPIC,
            topic,
            setting,
            wait,
        )
    }

    /// A setting of the brokers; None when the broker does not tell.
    pub(crate) fn broker_setting(&self, setting: &str, wait: Duration) -> Option<String> {
        let broker = self.any_broker(wait).ok()?.to_string();
        self.setting(
            sys::rd_kafka_ResourceType_t::RD_KAFKA_RESOURCE_BROKER,
            &broker,
            setting,
            wait,
        )
    }

    fn setting(&self, kind: sys::rd_kafka_ResourceType_t, name: &str, setting: &str, wait: Duration) -> Option<String> {
        let name = c_string(name).ok()?;
        let operation = sys::rd_kafka_admin_op_t::RD_KAFKA_ADMIN_OP_DESCRIBECONFIGS;
        let event = self.ask(operation, wait, |queue, options| {
            // SAFETY: the resource is copied by the request.
            unsafe {
                let resource = sys::rd_kafka_ConfigResource_new(kind, name.as_ptr());
                let mut resources = [resource];
                sys::rd_kafka_DescribeConfigs(self.as_ptr(), resources.as_mut_ptr(), 1, options, queue);
                sys::rd_kafka_ConfigResource_destroy(resource);
            }
        })?;
        // SAFETY: what is read belongs to the event, which lives to the end of this function.
        unsafe {
            let result = sys::rd_kafka_event_DescribeConfigs_result(event.pointer);
            if result.is_null() {
                return None;
            }
            let mut count = 0;
            let resources = sys::rd_kafka_DescribeConfigs_result_resources(result, &mut count);
            if count == 0 || resources.is_null() || check(sys::rd_kafka_ConfigResource_error(*resources)).is_err() {
                return None;
            }
            let entries = sys::rd_kafka_ConfigResource_configs(*resources, &mut count);
            if count == 0 || entries.is_null() {
                return None;
            }
            let entries = std::slice::from_raw_parts(entries, count);
            let entry = entries
                .iter()
                .find(|e| text(sys::rd_kafka_ConfigEntry_name(**e)) == setting)?;
            let value = sys::rd_kafka_ConfigEntry_value(*entry);
            (!value.is_null()).then(|| text(value))
        }
    }

    /// Sends an admin request by `send` and waits for its answer.
    pub(super) fn ask(
        &self,
        operation: sys::rd_kafka_admin_op_t,
        wait: Duration,
        send: impl FnOnce(Queue, Options),
    ) -> Option<Event> {
        let queue = self.request(operation, wait, send);
        // SAFETY: the queue is ours and freed after its last use; an answer that comes after the wait is dropped by librdkafka with it.
        let event = unsafe {
            let event = sys::rd_kafka_queue_poll(queue, millis(wait));
            sys::rd_kafka_queue_destroy(queue);
            Event::owned(event)
        }?;
        // SAFETY: the event is alive.
        check(unsafe { sys::rd_kafka_event_error(event.pointer) }).ok()?;
        Some(event)
    }

    /// Sends an admin request by `send`; the answer, or that it took longer than `wait`, comes to the queue, which the caller owns.
    pub(super) fn request(
        &self,
        operation: sys::rd_kafka_admin_op_t,
        wait: Duration,
        send: impl FnOnce(Queue, Options),
    ) -> Queue {
        let mut reason = [0 as c_char; 256];
        // SAFETY: the options are ours and freed after their last use: the request copies them.
        unsafe {
            let queue = sys::rd_kafka_queue_new(self.as_ptr());
            let options = sys::rd_kafka_AdminOptions_new(self.as_ptr(), operation);
            let (buffer, len) = (reason.as_mut_ptr(), reason.len());
            sys::rd_kafka_AdminOptions_set_request_timeout(options, millis(wait), buffer, len);
            send(queue, options);
            sys::rd_kafka_AdminOptions_destroy(options);
            queue
        }
    }
}

pub(super) type Queue = *mut sys::rd_kafka_queue_t;
pub(super) type Options = *const sys::rd_kafka_AdminOptions_t;

/// An event that is freed with its last use.
pub(super) struct Event {
    pub(super) pointer: *mut sys::rd_kafka_event_t,
}

impl Event {
    /// Takes over an event; None for null.
    ///
    /// # Safety
    /// `pointer` is null or an event that the caller owns.
    pub(super) unsafe fn owned(pointer: *mut sys::rd_kafka_event_t) -> Option<Event> {
        (!pointer.is_null()).then_some(Event { pointer })
    }
}

impl Drop for Event {
    fn drop(&mut self) {
        // SAFETY: ours, destroyed once.
        unsafe { sys::rd_kafka_event_destroy(self.pointer) };
    }
}
