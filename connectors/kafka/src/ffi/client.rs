//! A librdkafka client with its callbacks.
use super::{Code, Failure, bytes, c_string, check, describe, sys, take_error, text};
use keyfold::telemetry::Trouble;
use keyfold::types::{Clock, SystemClock};
use parking_lot::Mutex;
use std::collections::HashMap;
use std::ffi::{c_char, c_int, c_void};
use std::os::fd::{FromRawFd, OwnedFd};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// What a client is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Reads what it is told to, in nobody's group.
    Consumer,
    /// A member of its group: rebalances and errors come as events ([`super::EventQueue`]).
    Member,
    Producer,
}

/// A message that the broker, or the client on its way, did not take.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct DeliveryFailure {
    pub code: Code,
    pub text: String,
    pub topic: String,
    pub partition: i32,
    pub key: Option<Vec<u8>>,
    pub value_len: usize,
}

/// What the callbacks write. They run on the thread that polls the client; `closed` is written by the client's own threads.
#[derive(Debug, Default)]
pub(super) struct Events {
    errors: AtomicU64,
    last_error: Mutex<Option<(Code, String)>>,
    delivered: AtomicU64,
    failed: AtomicU64,
    first_failure: Mutex<Option<DeliveryFailure>>,
    closed: AtomicU64,
    /// Bytes of messages without a report, where somebody wants to know.
    queued: OnceLock<Arc<AtomicU64>>,
    /// The newest statistics, as text.
    statistics: Mutex<Option<String>>,
    clock: SystemClock,
    /// By error: one that lasts hides no other.
    troubles: Mutex<HashMap<c_int, Trouble>>,
}

/// A client. Its C functions may be called from any thread.
pub(crate) struct Client {
    pointer: *mut sys::rd_kafka_t,
    kind: Kind,
    events: Arc<Events>,
}

// SAFETY: librdkafka's handle is documented as thread-safe; what the callbacks touch is atomic or behind a mutex.
unsafe impl Send for Client {}
// SAFETY: as above.
unsafe impl Sync for Client {}

/// How long a drop waits for the client's threads; after that they end by themselves.
const CLOSE_WITHIN: Duration = Duration::from_secs(10);

impl Client {
    /// Makes a client. Connects in the background.
    pub(crate) fn new(kind: Kind, properties: &[(String, String)]) -> Result<Client, Failure> {
        let conf = Conf::new();
        for (name, value) in properties {
            conf.set(name, value)?;
        }
        let events = Arc::new(Events::default());
        let mut reason = [0 as c_char; 512];
        // SAFETY: the callbacks have the signatures asked for, and the opaque pointer stays valid until the client is destroyed:
        // the `Arc` is held by `Client` and by the thread that destroys it. rd_kafka_new takes over the configuration only when it succeeds.
        let pointer = unsafe {
            sys::rd_kafka_conf_set_opaque(conf.pointer, Arc::as_ptr(&events).cast_mut().cast());
            sys::rd_kafka_conf_set_log_cb(conf.pointer, Some(on_log));
            sys::rd_kafka_conf_set_error_cb(conf.pointer, Some(on_error));
            sys::rd_kafka_conf_set_closesocket_cb(conf.pointer, Some(on_close));
            match kind {
                Kind::Producer => sys::rd_kafka_conf_set_dr_msg_cb(conf.pointer, Some(on_delivery)),
                Kind::Member => {
                    sys::rd_kafka_conf_set_events(
                        conf.pointer,
                        sys::RD_KAFKA_EVENT_REBALANCE | sys::RD_KAFKA_EVENT_ERROR,
                    );
                    sys::rd_kafka_conf_enable_sasl_queue(conf.pointer, 1);
                }
                Kind::Consumer => sys::rd_kafka_conf_set_stats_cb(conf.pointer, Some(on_statistics)),
            }
            let kind = match kind {
                Kind::Consumer | Kind::Member => sys::rd_kafka_type_t::RD_KAFKA_CONSUMER,
                Kind::Producer => sys::rd_kafka_type_t::RD_KAFKA_PRODUCER,
            };
            sys::rd_kafka_new(kind, conf.pointer, reason.as_mut_ptr(), reason.len())
        };
        if pointer.is_null() {
            // SAFETY: the buffer is terminated by the call.
            return Err(Failure::plain(Code::InvalidConfig, unsafe { text(reason.as_ptr()) }));
        }
        std::mem::forget(conf);
        let client = Client { pointer, kind, events };
        if kind == Kind::Member {
            // SAFETY: the client is alive and the error, if any, becomes ours. Whoever takes events from a queue gets the asking for a new
            // token as an event as well, instead of it being done: so that has its own thread. The one error says that no mechanism needs it.
            let _ = unsafe { take_error(sys::rd_kafka_sasl_background_callbacks_enable(pointer)) };
        }
        if kind != Kind::Producer {
            // SAFETY: the client is a consumer; its main queue is from now on served with the consumer queue.
            check(unsafe { sys::rd_kafka_poll_set_consumer(pointer) })?;
        }
        Ok(client)
    }

    pub(super) fn as_ptr(&self) -> *mut sys::rd_kafka_t {
        self.pointer
    }

    /// Serves callbacks of a producer; waits up to `wait_ms` for the first.
    pub(crate) fn poll(&self, wait_ms: i32) {
        // SAFETY: the client is alive.
        unsafe { sys::rd_kafka_poll(self.pointer, wait_ms) };
    }

    /// Serves callbacks of a consumer and takes what lies on the consumer queue: errors only, as every partition is forwarded elsewhere.
    /// `Ok(true)` when a record lay there all the same.
    pub(crate) fn poll_consumer(&self) -> Result<bool, Failure> {
        // SAFETY: the client is an alive consumer; the message is destroyed after its last use.
        unsafe {
            let message = sys::rd_kafka_consumer_poll(self.pointer, 0);
            if message.is_null() {
                return Ok(false);
            }
            let err = (*message).err;
            let reason = text(sys::rd_kafka_message_errstr(message));
            sys::rd_kafka_message_destroy(message);
            check(err).map(|()| true).map_err(|f| Failure {
                text: format!("{}: {reason}", f.text),
                ..f
            })
        }
    }

    /// Number of error callbacks so far.
    pub(crate) fn errors(&self) -> u64 {
        self.events.errors.load(Ordering::Acquire)
    }

    /// Connections closed so far, whoever closed them and why. A connection is counted before what waited on it is sent again.
    pub(crate) fn closed(&self) -> u64 {
        self.events.closed.load(Ordering::Acquire)
    }

    /// Takes the last error that the error callback has reported.
    pub(crate) fn take_last_error(&self) -> Option<(Code, String)> {
        self.events.last_error.lock().take()
    }

    /// The error that made the client useless, if any.
    pub(crate) fn fatal_error(&self) -> Option<(Code, String)> {
        let mut reason = [0 as c_char; 512];
        // SAFETY: the buffer is as long as said and terminated by the call when there is an error.
        unsafe {
            let err = sys::rd_kafka_fatal_error(self.pointer, reason.as_mut_ptr(), reason.len());
            check(err).err().map(|f| (f.code, text(reason.as_ptr())))
        }
    }

    /// From now on the bytes of messages without a report are counted here. Before the first message.
    pub(crate) fn count_queued(&self, queued: Arc<AtomicU64>) {
        // A second counter would get reports of messages that it never saw.
        let _ = self.events.queued.set(queued);
    }

    /// A message of so many bytes was handed over.
    pub(super) fn queued(&self, bytes: usize) {
        if let Some(queued) = self.events.queued.get() {
            queued.fetch_add(bytes as u64, Ordering::Relaxed);
        }
    }

    /// Reads the newest statistics; None before there are any. With `statistics.interval.ms` only.
    pub(crate) fn statistics<R>(&self, read: impl FnOnce(&str) -> Option<R>) -> Option<R> {
        self.events.statistics.lock().as_deref().and_then(read)
    }

    /// Messages with a delivery report so far, good or bad.
    pub(crate) fn reported(&self) -> u64 {
        self.events.delivered.load(Ordering::Acquire) + self.events.failed.load(Ordering::Acquire)
    }

    /// Messages that were not delivered.
    pub(crate) fn failed(&self) -> u64 {
        self.events.failed.load(Ordering::Acquire)
    }

    /// The first of them.
    pub(crate) fn take_first_failure(&self) -> Option<DeliveryFailure> {
        self.events.first_failure.lock().take()
    }

    /// Forgets all delivery reports. Only when no message is in flight.
    pub(crate) fn reset_reports(&self) {
        self.events.delivered.store(0, Ordering::Release);
        self.events.failed.store(0, Ordering::Release);
        *self.events.first_failure.lock() = None;
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        // Destroying joins the client's threads, and one of them may hang in a name look-up: not for longer than we like to wait.
        let remains = Remains {
            pointer: self.pointer,
            kind: self.kind,
            events: self.events.clone(),
        };
        let (done, wait) = std::sync::mpsc::channel();
        let spawned = std::thread::Builder::new().name("kafka-close".into()).spawn(move || {
            remains.destroy();
            let _ = done.send(());
        });
        match spawned {
            Ok(_) if wait.recv_timeout(CLOSE_WITHIN).is_ok() => {}
            Ok(_) => tracing::warn!("a kafka client has not closed in 10 s, it goes on closing in the background"),
            // The closure was dropped without having run.
            Err(_) => Remains {
                pointer: self.pointer,
                kind: self.kind,
                events: self.events.clone(),
            }
            .destroy(),
        }
    }
}

struct Remains {
    pointer: *mut sys::rd_kafka_t,
    kind: Kind,
    events: Arc<Events>,
}

// SAFETY: the handle may be used and destroyed from any thread of the application.
unsafe impl Send for Remains {}

impl Remains {
    fn destroy(self) {
        // SAFETY: the last use of the handle. No queue, topic or message is left: each of them holds the client. A producer's queued
        // messages are purged first, so that nothing waits for them. A consumer does not leave its group: it was never a member, or a static one whose place is
        // kept, or it has left before.
        unsafe {
            if self.kind == Kind::Producer {
                sys::rd_kafka_purge(
                    self.pointer,
                    sys::RD_KAFKA_PURGE_F_QUEUE | sys::RD_KAFKA_PURGE_F_INFLIGHT,
                );
                sys::rd_kafka_poll(self.pointer, 0);
            }
            sys::rd_kafka_destroy_flags(self.pointer, sys::RD_KAFKA_DESTROY_F_NO_CONSUMER_CLOSE);
        }
        drop(self.events);
    }
}

/// Whether librdkafka knows the property and takes the value.
pub(crate) fn check_property(name: &str, value: &str) -> Result<(), Failure> {
    Conf::new().set(name, value)
}

pub(super) struct Conf {
    pointer: *mut sys::rd_kafka_conf_t,
}

impl Conf {
    pub(super) fn new() -> Conf {
        // SAFETY: plain allocation.
        Conf {
            pointer: unsafe { sys::rd_kafka_conf_new() },
        }
    }

    pub(super) fn pointer(&self) -> *mut sys::rd_kafka_conf_t {
        self.pointer
    }

    fn set(&self, name: &str, value: &str) -> Result<(), Failure> {
        let (name, value) = (c_string(name)?, c_string(value)?);
        let mut reason = [0 as c_char; 512];
        // SAFETY: all three strings are terminated and outlive the call, the buffer is as long as said.
        let result = unsafe {
            sys::rd_kafka_conf_set(
                self.pointer,
                name.as_ptr(),
                value.as_ptr(),
                reason.as_mut_ptr(),
                reason.len(),
            )
        };
        match result {
            sys::rd_kafka_conf_res_t::RD_KAFKA_CONF_OK => Ok(()),
            // SAFETY: the call terminates the buffer.
            _ => Err(Failure::plain(Code::InvalidConfig, unsafe { text(reason.as_ptr()) })),
        }
    }
}

impl Drop for Conf {
    fn drop(&mut self) {
        // SAFETY: still ours; rd_kafka_new's success forgets the owner.
        unsafe { sys::rd_kafka_conf_destroy(self.pointer) }
    }
}

unsafe extern "C" fn on_log(_: *const sys::rd_kafka_t, level: c_int, facility: *const c_char, line: *const c_char) {
    // SAFETY: librdkafka hands out terminated strings that live for the call.
    let (facility, line) = unsafe { (text(facility), text(line)) };
    match level {
        0..=3 => tracing::error!(target: "librdkafka", facility, "{line}"),
        4 => tracing::warn!(target: "librdkafka", facility, "{line}"),
        5 | 6 => tracing::info!(target: "librdkafka", facility, "{line}"),
        _ => tracing::debug!(target: "librdkafka", facility, "{line}"),
    }
}

unsafe extern "C" fn on_error(_: *mut sys::rd_kafka_t, err: c_int, reason: *const c_char, opaque: *mut c_void) {
    // SAFETY: the opaque pointer is the client's `Events`, alive until the client is destroyed; the reason is terminated.
    let (events, reason) = unsafe { (&*opaque.cast::<Events>(), text(reason)) };
    let (code, name) = match sys::rd_kafka_resp_err_t::try_from(err) {
        Ok(err) => (Code::from(err), describe(err)),
        Err(_) => (Code::Unknown, format!("error {err}")),
    };
    // One outage makes several of them a second, for as long as it lasts.
    let said = events
        .troubles
        .lock()
        .entry(err)
        .or_default()
        .failed(events.clock.elapsed());
    if let Some(unsaid) = said {
        tracing::warn!(error = %name, unsaid, "kafka client: {reason}");
    }
    *events.last_error.lock() = Some((code, format!("{name}: {reason}")));
    events.errors.fetch_add(1, Ordering::AcqRel);
}

/// The log tells of a closed connection too, but not of one that closes like the last within 30 s, and only as the log's level allows.
unsafe extern "C" fn on_close(socket: c_int, opaque: *mut c_void) -> c_int {
    // SAFETY: the opaque pointer is the client's `Events`, alive until the client is destroyed.
    let events = unsafe { &*opaque.cast::<Events>() };
    events.closed.fetch_add(1, Ordering::AcqRel);
    // SAFETY: librdkafka gives the socket away: the callback stands for its own close.
    drop(unsafe { OwnedFd::from_raw_fd(socket) });
    0
}

unsafe extern "C" fn on_statistics(
    _: *mut sys::rd_kafka_t,
    json: *mut c_char,
    len: usize,
    opaque: *mut c_void,
) -> c_int {
    // SAFETY: the opaque pointer is the client's `Events`, and the text has the length said; 0 leaves it to librdkafka.
    let (events, json) = unsafe { (&*opaque.cast::<Events>(), bytes(json.cast(), len)) };
    *events.statistics.lock() = json.map(|json| String::from_utf8_lossy(json).into_owned());
    0
}

unsafe extern "C" fn on_delivery(
    _: *mut sys::rd_kafka_t,
    message: *const sys::rd_kafka_message_t,
    opaque: *mut c_void,
) {
    // SAFETY: the opaque pointer is the client's `Events`, and the message lives for the call.
    let (events, message) = unsafe { (&*opaque.cast::<Events>(), &*message) };
    if let Some(queued) = events.queued.get() {
        queued.fetch_sub((message.len + message.key_len) as u64, Ordering::Relaxed);
    }
    if message.err == sys::rd_kafka_resp_err_t::RD_KAFKA_RESP_ERR_NO_ERROR {
        events.delivered.fetch_add(1, Ordering::AcqRel);
        return;
    }
    let mut first = events.first_failure.lock();
    if first.is_none() {
        // SAFETY: a produced message has a topic while its report is handed out.
        let topic = unsafe { text(sys::rd_kafka_topic_name(message.rkt)) };
        *first = Some(DeliveryFailure {
            code: message.err.into(),
            text: describe(message.err),
            topic,
            partition: message.partition,
            // SAFETY: the message owns `key_len` bytes, or there is no key.
            key: unsafe { bytes(message.key, message.key_len) }.map(<[u8]>::to_vec),
            value_len: message.len,
        });
    }
    drop(first);
    events.failed.fetch_add(1, Ordering::AcqRel);
}
