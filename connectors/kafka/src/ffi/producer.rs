//! Producing and the transactional calls.
use super::{Client, Code, Failure, GroupMetadata, List, c_string, check, millis, sys, take_error};
use keyfold::types::{Header, OutputRef};
use std::ffi::{c_char, c_void};
use std::sync::Arc;
use std::time::Duration;

/// A producer's handle of a topic, made once: no look-up by name for each record.
pub(crate) struct Topic {
    pointer: *mut sys::rd_kafka_topic_t,
    client: Arc<Client>,
}

// SAFETY: topic handles may be used from any thread.
unsafe impl Send for Topic {}

impl Topic {
    /// `partitioner` in librdkafka's words.
    pub(crate) fn new(client: &Arc<Client>, name: &str, partitioner: &str) -> Result<Topic, Failure> {
        let (name, property, value) = (c_string(name)?, c_string("partitioner")?, c_string(partitioner)?);
        let mut reason = [0 as c_char; 256];
        // SAFETY: strings and buffer outlive the calls. rd_kafka_topic_new takes over the configuration when it succeeds.
        unsafe {
            let conf = sys::rd_kafka_default_topic_conf_dup(client.as_ptr());
            let (property, value) = (property.as_ptr(), value.as_ptr());
            let set = sys::rd_kafka_topic_conf_set(conf, property, value, reason.as_mut_ptr(), reason.len());
            if set != sys::rd_kafka_conf_res_t::RD_KAFKA_CONF_OK {
                sys::rd_kafka_topic_conf_destroy(conf);
                return Err(Failure::plain(Code::InvalidConfig, super::text(reason.as_ptr())));
            }
            let pointer = sys::rd_kafka_topic_new(client.as_ptr(), name.as_ptr(), conf);
            if pointer.is_null() {
                let failure = Failure::of(sys::rd_kafka_last_error());
                sys::rd_kafka_topic_conf_destroy(conf);
                return Err(failure);
            }
            Ok(Topic {
                pointer,
                client: client.clone(),
            })
        }
    }

    /// Hands a copy of a message to the client. An error means that it did not take it.
    pub(crate) fn produce(&self, output: &OutputRef<'_>, headers: &[Header]) -> Result<(), Failure> {
        let headers = HeaderList::new(headers)?;
        // librdkafka reads 0 as "now".
        let timestamp = if output.timestamp == 0 { 1 } else { output.timestamp };
        let mut fields = [
            field(sys::rd_kafka_vtype_t::RD_KAFKA_VTYPE_RKT, Value { rkt: self.pointer }),
            field(
                sys::rd_kafka_vtype_t::RD_KAFKA_VTYPE_PARTITION,
                Value { i32_: output.partition },
            ),
            field(
                sys::rd_kafka_vtype_t::RD_KAFKA_VTYPE_MSGFLAGS,
                Value {
                    i: sys::RD_KAFKA_MSG_F_COPY,
                },
            ),
            field(
                sys::rd_kafka_vtype_t::RD_KAFKA_VTYPE_TIMESTAMP,
                Value { i64_: timestamp },
            ),
            field(
                sys::rd_kafka_vtype_t::RD_KAFKA_VTYPE_KEY,
                Value {
                    mem: memory(output.key),
                },
            ),
            field(
                sys::rd_kafka_vtype_t::RD_KAFKA_VTYPE_VALUE,
                Value {
                    mem: memory(output.value),
                },
            ),
            field(sys::rd_kafka_vtype_t::RD_KAFKA_VTYPE_END, Value { i: 0 }),
        ];
        let mut count = fields.len() - 1;
        if !headers.pointer.is_null() {
            fields[count] = field(
                sys::rd_kafka_vtype_t::RD_KAFKA_VTYPE_HEADERS,
                Value {
                    headers: headers.pointer,
                },
            );
            count += 1;
        }
        // SAFETY: every field carries the union member that its tag asks for; key and value are copied by the call. The headers go to the
        // client when the call succeeds and stay ours when it fails.
        unsafe { take_error(sys::rd_kafka_produceva(self.client.as_ptr(), fields.as_ptr(), count))? };
        headers.given_away();
        let bytes = output.key.map_or(0, <[u8]>::len) + output.value.map_or(0, <[u8]>::len);
        self.client.queued(bytes);
        Ok(())
    }
}

impl Drop for Topic {
    fn drop(&mut self) {
        // SAFETY: ours, destroyed once, before the client is let go.
        unsafe { sys::rd_kafka_topic_destroy(self.pointer) };
    }
}

type Value = sys::rd_kafka_vu_s__bindgen_ty_1;

fn field(vtype: sys::rd_kafka_vtype_t, u: Value) -> sys::rd_kafka_vu_t {
    sys::rd_kafka_vu_t { vtype, u }
}

/// A null pointer is Kafka's null; an empty slice has a pointer and stays empty.
fn memory(bytes: Option<&[u8]>) -> sys::rd_kafka_vu_s__bindgen_ty_1__bindgen_ty_1 {
    let (ptr, size) = bytes.map_or((std::ptr::null_mut(), 0), |b| {
        (b.as_ptr().cast_mut().cast::<c_void>(), b.len())
    });
    sys::rd_kafka_vu_s__bindgen_ty_1__bindgen_ty_1 { ptr, size }
}

/// Headers of a message to be sent; null for none.
struct HeaderList {
    pointer: *mut sys::rd_kafka_headers_t,
}

impl HeaderList {
    fn new(headers: &[Header]) -> Result<HeaderList, Failure> {
        if headers.is_empty() {
            return Ok(HeaderList {
                pointer: std::ptr::null_mut(),
            });
        }
        // SAFETY: plain allocation.
        let list = HeaderList {
            pointer: unsafe { sys::rd_kafka_headers_new(headers.len()) },
        };
        for header in headers {
            let value = header.value.as_deref();
            let (pointer, len) = value.map_or((std::ptr::null(), 0), |v| {
                (v.as_ptr().cast::<c_void>(), v.len() as isize)
            });
            let (name, name_len) = (header.key.as_ptr().cast::<c_char>(), header.key.len() as isize);
            // SAFETY: name and value are copied by the call, with the lengths given; a null value is Kafka's null.
            check(unsafe { sys::rd_kafka_header_add(list.pointer, name, name_len, pointer, len) })?;
        }
        Ok(list)
    }

    fn given_away(mut self) {
        self.pointer = std::ptr::null_mut();
    }
}

impl Drop for HeaderList {
    fn drop(&mut self) {
        if !self.pointer.is_null() {
            // SAFETY: ours as long as it was not given away.
            unsafe { sys::rd_kafka_headers_destroy(self.pointer) };
        }
    }
}

/// Transactions. The calls block up to `wait`; None is librdkafka's own limit.
impl Client {
    /// Messages and reports that are not through yet.
    pub(crate) fn in_flight(&self) -> usize {
        // SAFETY: the client is alive.
        usize::try_from(unsafe { sys::rd_kafka_outq_len(self.as_ptr()) }).unwrap_or(0)
    }
    /// Sends what lingers at once and serves reports until nothing is in flight, at most for `wait`.
    pub(crate) fn push_out(&self, wait: Duration) {
        // SAFETY: the client is an alive producer. That time ran out shows in the reports.
        unsafe { sys::rd_kafka_flush(self.as_ptr(), millis(wait)) };
    }
    pub(crate) fn init_transactions(&self, wait: Duration) -> Result<(), Failure> {
        // SAFETY: the client is alive and the error object, if any, becomes ours; likewise below.
        unsafe { take_error(sys::rd_kafka_init_transactions(self.as_ptr(), millis(wait))) }
    }
    pub(crate) fn begin_transaction(&self) -> Result<(), Failure> {
        // SAFETY: see init_transactions.
        unsafe { take_error(sys::rd_kafka_begin_transaction(self.as_ptr())) }
    }
    /// Adds offsets, as somebody of their group.
    ///
    /// The call itself waits without a limit for an answer that librdkafka may have dropped, so it runs on a thread of its own. After
    /// `wait` we go on without it: the thread and the client, which it holds, are left behind, and only a new client is of use.
    pub(crate) fn send_offsets(
        self: &Arc<Client>,
        offsets: List,
        of: GroupMetadata,
        wait: Duration,
    ) -> Result<(), Failure> {
        let client = self.clone();
        let (done, answer) = std::sync::mpsc::channel();
        let call = move || {
            // SAFETY: see init_transactions; list and group metadata are owned by this thread until the call is over. -1 is the rest of
            // the transaction.
            let result = unsafe {
                take_error(sys::rd_kafka_send_offsets_to_transaction(
                    client.as_ptr(),
                    offsets.as_ptr(),
                    of.as_ptr(),
                    -1,
                ))
            };
            // The client first: whoever has the answer may drop the last other holder.
            drop(client);
            let _ = done.send(result);
        };
        let spawned = std::thread::Builder::new().name("kafka-offsets".into()).spawn(call);
        spawned.map_err(|e| Failure::plain(Code::CriticalSystemResource, e.to_string()))?;
        let lost = |_| Failure::plain(Code::Fail, "no answer to the offsets in time");
        answer.recv_timeout(wait).map_err(lost).and_then(|result| result)
    }
    pub(crate) fn commit_transaction(&self, wait: Duration) -> Result<(), Failure> {
        // SAFETY: see init_transactions.
        unsafe { take_error(sys::rd_kafka_commit_transaction(self.as_ptr(), millis(wait))) }
    }
    pub(crate) fn abort_transaction(&self, wait: Duration) -> Result<(), Failure> {
        // SAFETY: see init_transactions.
        unsafe { take_error(sys::rd_kafka_abort_transaction(self.as_ptr(), millis(wait))) }
    }
}
