//! Batches of borrowed messages from a queue of our own.
use super::{Client, Code, Failure, bytes, c_string, check, describe, sys, text};
use keyfold::types::{Header, Headers};
use std::ffi::{c_char, c_void};
use std::sync::Arc;
use std::time::Duration;

/// Messages fetched in one call.
const BATCH: usize = 1024;

/// A queue that partitions are forwarded to, with the batch taken from it. Used by one thread at a time.
pub(crate) struct LaneQueue {
    pointer: *mut sys::rd_kafka_queue_t,
    messages: Vec<*mut sys::rd_kafka_message_t>,
    at: usize,
    /// Last: what is above belongs to it.
    client: Arc<Client>,
}

// SAFETY: queue and messages may be used from any thread; `&mut self` keeps it to one at a time.
unsafe impl Send for LaneQueue {}

impl LaneQueue {
    pub(crate) fn new(client: Arc<Client>) -> LaneQueue {
        // SAFETY: the client is alive and held.
        let pointer = unsafe { sys::rd_kafka_queue_new(client.as_ptr()) };
        LaneQueue {
            pointer,
            messages: Vec::with_capacity(BATCH),
            at: 0,
            client,
        }
    }

    /// Sends what a partition fetches here. Before the partition is assigned: librdkafka leaves a forward of the application's alone then.
    pub(crate) fn forward(&self, topic: &str, partition: i32) -> Result<(), Failure> {
        let topic = c_string(topic)?;
        // SAFETY: the client is alive; our reference to the partition's queue is given back at once, its forward stays.
        unsafe {
            let queue = sys::rd_kafka_queue_get_partition(self.client.as_ptr(), topic.as_ptr(), partition);
            if queue.is_null() {
                return Err(Failure::plain(Code::UnknownPartition, "the partition has no queue"));
            }
            sys::rd_kafka_queue_forward(queue, self.pointer);
            sys::rd_kafka_queue_destroy(queue);
        }
        Ok(())
    }

    /// Takes what has arrived when the last batch is used up; waits up to `max_wait` for the first message.
    pub(crate) fn fill(&mut self, max_wait: Duration) -> Result<(), Failure> {
        if self.at < self.messages.len() {
            return Ok(());
        }
        self.messages.clear();
        self.at = 0;
        // The call waits until its whole array is full: so ask for all without waiting, else wait for one only.
        if self.take(BATCH, 0)? == 0 && !max_wait.is_zero() && self.take(1, super::millis(max_wait))? == 1 {
            self.take(BATCH - 1, 0)?;
        }
        Ok(())
    }

    fn take(&mut self, count: usize, wait_ms: i32) -> Result<usize, Failure> {
        let old = self.messages.len();
        self.messages.reserve(count);
        // SAFETY: there is room for `count` pointers behind the length, and the call says how many it wrote.
        unsafe {
            let room = self.messages.as_mut_ptr().add(old);
            let taken = sys::rd_kafka_consume_batch_queue(self.pointer, wait_ms, room, count);
            let Ok(taken) = usize::try_from(taken) else {
                check(sys::rd_kafka_last_error())?;
                return Ok(0);
            };
            self.messages.set_len(old + taken);
            Ok(taken)
        }
    }

    /// The next message of the batch, which stays in it.
    pub(crate) fn front(&self) -> Option<Message<'_>> {
        // SAFETY: messages from `at` on are not destroyed yet, and the borrow keeps `advance` away.
        self.messages.get(self.at).map(|m| Message { inner: unsafe { &**m } })
    }

    /// Destroys the next message.
    pub(crate) fn advance(&mut self) {
        if let Some(message) = self.messages.get(self.at) {
            // SAFETY: not destroyed yet, and never looked at again.
            unsafe { sys::rd_kafka_message_destroy(*message) };
            self.at += 1;
        }
    }
}

impl Drop for LaneQueue {
    fn drop(&mut self) {
        while self.at < self.messages.len() {
            self.advance();
        }
        // SAFETY: ours, destroyed once, before the client is let go.
        unsafe { sys::rd_kafka_queue_destroy(self.pointer) };
    }
}

/// A message in librdkafka's own buffer.
pub(crate) struct Message<'a> {
    inner: &'a sys::rd_kafka_message_t,
}

impl<'a> Message<'a> {
    /// The error that this message stands for.
    pub(crate) fn error(&self) -> Option<(Code, String)> {
        if self.inner.err == sys::rd_kafka_resp_err_t::RD_KAFKA_RESP_ERR_NO_ERROR {
            return None;
        }
        // SAFETY: the message is alive; its error text is terminated.
        let reason = unsafe { text(sys::rd_kafka_message_errstr(self.inner)) };
        Some((self.inner.err.into(), format!("{}: {reason}", describe(self.inner.err))))
    }
    pub(crate) fn partition(&self) -> i32 {
        self.inner.partition
    }
    pub(crate) fn offset(&self) -> i64 {
        self.inner.offset
    }
    pub(crate) fn key(&self) -> Option<&'a [u8]> {
        // SAFETY: the message owns `key_len` bytes, or there is no key.
        unsafe { bytes(self.inner.key, self.inner.key_len) }
    }
    pub(crate) fn payload(&self) -> Option<&'a [u8]> {
        // SAFETY: the message owns `len` bytes, or there is no payload.
        unsafe { bytes(self.inner.payload, self.inner.len) }
    }
    /// -1 when the record has none.
    pub(crate) fn timestamp(&self) -> i64 {
        let mut kind = sys::rd_kafka_timestamp_type_t::RD_KAFKA_TIMESTAMP_NOT_AVAILABLE;
        // SAFETY: the message is alive.
        let time = unsafe { sys::rd_kafka_message_timestamp(self.inner, &mut kind) };
        if kind == sys::rd_kafka_timestamp_type_t::RD_KAFKA_TIMESTAMP_NOT_AVAILABLE {
            -1
        } else {
            time
        }
    }
    /// -1 when unknown. Of records only: librdkafka leaves the field of an end-of-partition event at 0.
    pub(crate) fn leader_epoch(&self) -> i32 {
        // SAFETY: the message is alive.
        unsafe { sys::rd_kafka_message_leader_epoch(self.inner) }
    }
}

impl Headers for Message<'_> {
    fn to_vec(&self) -> Vec<Header> {
        let mut headers = std::ptr::null_mut();
        let mut out = Vec::new();
        // SAFETY: the message is alive and owns the headers; a header's name is terminated and its value has the length said.
        unsafe {
            let err = sys::rd_kafka_message_headers(self.inner, &mut headers);
            if err != sys::rd_kafka_resp_err_t::RD_KAFKA_RESP_ERR_NO_ERROR {
                return out;
            }
            let (mut name, mut value, mut len) = (std::ptr::null::<c_char>(), std::ptr::null::<c_void>(), 0);
            while sys::rd_kafka_header_get_all(headers, out.len(), &mut name, &mut value, &mut len)
                == sys::rd_kafka_resp_err_t::RD_KAFKA_RESP_ERR_NO_ERROR
            {
                out.push(Header {
                    key: text(name),
                    value: bytes(value, len).map(<[u8]>::to_vec),
                });
            }
        }
        out
    }
}
