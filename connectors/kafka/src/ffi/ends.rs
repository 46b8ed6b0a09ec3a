//! Asks where partitions end, without waiting for the answer.
use super::admin::{Event, Options, Queue};
use super::{Client, Code, Failure, List, check, sys, take_error};
use std::sync::Arc;
use std::time::Duration;

/// Which end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    /// The last stable offset.
    Stable,
    /// That of the log.
    Log,
}

/// A question that is under way. Holds the client.
pub(crate) struct AskedEnds {
    queue: Queue,
    _client: Arc<Client>,
}

// SAFETY: queues may be used from any thread.
unsafe impl Send for AskedEnds {}

impl Client {
    /// Asks the leaders of these partitions; the answer comes within `wait`.
    pub(crate) fn ask_ends(
        self: &Arc<Client>,
        topic: &str,
        partitions: &[i32],
        end: End,
        wait: Duration,
    ) -> Result<AskedEnds, Failure> {
        const LATEST: i64 = sys::rd_kafka_OffsetSpec_t::RD_KAFKA_OFFSET_SPEC_LATEST as i64;
        let mut list = List::new(partitions.len());
        for partition in partitions {
            list.add(topic, *partition, LATEST, -1, b"")?;
        }
        let level = match end {
            End::Stable => sys::rd_kafka_IsolationLevel_t::RD_KAFKA_ISOLATION_LEVEL_READ_COMMITTED,
            End::Log => sys::rd_kafka_IsolationLevel_t::RD_KAFKA_ISOLATION_LEVEL_READ_UNCOMMITTED,
        };
        let operation = sys::rd_kafka_admin_op_t::RD_KAFKA_ADMIN_OP_LISTOFFSETS;
        let mut refused = Ok(());
        let queue = self.request(operation, wait, |queue, options: Options| {
            // SAFETY: the options are alive for the call, and the error, if any, becomes ours; the list is copied by the request.
            unsafe {
                refused = take_error(sys::rd_kafka_AdminOptions_set_isolation_level(
                    options.cast_mut(),
                    level,
                ));
                if refused.is_ok() {
                    sys::rd_kafka_ListOffsets(self.as_ptr(), list.as_ptr(), options, queue);
                }
            }
        });
        let asked = AskedEnds {
            queue,
            _client: self.clone(),
        };
        refused.map(|()| asked)
    }
}

impl AskedEnds {
    /// The answer, if it has come; does not wait. Partitions whose leader did not answer are left out.
    pub(crate) fn answer(&self) -> Option<Vec<(i32, i64)>> {
        // SAFETY: the queue is ours; the event becomes ours.
        let event = unsafe { Event::owned(sys::rd_kafka_queue_poll(self.queue, 0)) }?;
        let mut count = 0;
        // SAFETY: what is read belongs to the event, which lives to the end of this function; the array holds as many items as is said,
        // each with a partition.
        unsafe {
            let result = sys::rd_kafka_event_ListOffsets_result(event.pointer);
            if result.is_null() || check(sys::rd_kafka_event_error(event.pointer)).is_err() {
                return Some(Vec::new());
            }
            let infos = sys::rd_kafka_ListOffsets_result_infos(result, &mut count);
            if count == 0 || infos.is_null() {
                return Some(Vec::new());
            }
            let infos = std::slice::from_raw_parts(infos, count);
            let of = |info: &*const sys::rd_kafka_ListOffsetsResultInfo_t| {
                let at = &*sys::rd_kafka_ListOffsetsResultInfo_topic_partition(*info);
                let known = Code::from(at.err) == Code::NoError && at.offset >= 0;
                known.then_some((at.partition, at.offset))
            };
            Some(infos.iter().filter_map(of).collect())
        }
    }
}

impl Drop for AskedEnds {
    fn drop(&mut self) {
        // SAFETY: ours, destroyed once, before the client is let go; an answer that comes later is dropped with it.
        unsafe { sys::rd_kafka_queue_destroy(self.queue) };
    }
}
