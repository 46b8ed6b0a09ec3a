//! The only door to librdkafka: owners of its handles, with nothing of Keyfold's protocol in them.
//!
//! Every handle keeps its client alive ([`Client`] in an `Arc`), so that nothing dangles whatever the order of drops.
mod about;
mod admin;
mod asked;
mod batch;
mod client;
mod ends;
mod group;
mod list;
mod producer;

pub(crate) use about::{features, property_names, version};
pub(crate) use asked::{Answer, Asked, Described, Roster};
pub(crate) use batch::LaneQueue;
pub(crate) use client::{Client, DeliveryFailure, Kind, check_property};
pub(crate) use ends::{AskedEnds, End};
pub(crate) use group::{EventQueue, GroupMetadata, MemberEvent};
pub(crate) use list::List;
pub(crate) use producer::Topic;
pub(crate) use rdkafka_sys::types::RDKafkaErrorCode as Code;

use rdkafka_sys as sys;
use std::ffi::{CStr, CString, c_char};
use std::time::Duration;

/// A failed call, with the three flags that the transactional calls set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Failure {
    pub code: Code,
    pub text: String,
    pub fatal: bool,
    pub retriable: bool,
    pub abortable: bool,
}

impl Failure {
    /// A plain code: no flag is known.
    pub(crate) fn plain(code: Code, text: impl Into<String>) -> Failure {
        Failure {
            code,
            text: text.into(),
            fatal: false,
            retriable: false,
            abortable: false,
        }
    }

    fn of(err: sys::rd_kafka_resp_err_t) -> Failure {
        Failure::plain(err.into(), describe(err))
    }
}

fn describe(err: sys::rd_kafka_resp_err_t) -> String {
    // SAFETY: err2str and err2name return static strings for every code.
    unsafe {
        format!(
            "{} ({})",
            text(sys::rd_kafka_err2str(err)),
            text(sys::rd_kafka_err2name(err))
        )
    }
}

fn check(err: sys::rd_kafka_resp_err_t) -> Result<(), Failure> {
    match err {
        sys::rd_kafka_resp_err_t::RD_KAFKA_RESP_ERR_NO_ERROR => Ok(()),
        err => Err(Failure::of(err)),
    }
}

/// Turns an error object, or null for success, into a result, and frees it.
///
/// # Safety
/// `error` is null or an error object that the caller owns.
unsafe fn take_error(error: *mut sys::rd_kafka_error_t) -> Result<(), Failure> {
    if error.is_null() {
        return Ok(());
    }
    // SAFETY: not null, and owned by us until destroyed below.
    unsafe {
        let code = sys::rd_kafka_error_code(error);
        let name = text(sys::rd_kafka_error_name(error));
        let failure = Failure {
            code: code.into(),
            text: format!("{} ({name})", text(sys::rd_kafka_error_string(error))),
            fatal: sys::rd_kafka_error_is_fatal(error) != 0,
            retriable: sys::rd_kafka_error_is_retriable(error) != 0,
            abortable: sys::rd_kafka_error_txn_requires_abort(error) != 0,
        };
        sys::rd_kafka_error_destroy(error);
        Err(failure)
    }
}

/// Copies a C string; empty for null.
///
/// # Safety
/// `pointer` is null or points at a terminated string.
unsafe fn text(pointer: *const c_char) -> String {
    if pointer.is_null() {
        return String::new();
    }
    // SAFETY: not null and terminated.
    unsafe { CStr::from_ptr(pointer) }.to_string_lossy().into_owned()
}

/// Borrows bytes; None for null.
///
/// # Safety
/// `pointer` is null or points at `len` bytes that live as long as `'a`.
unsafe fn bytes<'a>(pointer: *const std::ffi::c_void, len: usize) -> Option<&'a [u8]> {
    if pointer.is_null() {
        return None;
    }
    // SAFETY: not null, and the caller vouches for length and lifetime.
    Some(unsafe { std::slice::from_raw_parts(pointer.cast(), len) })
}

fn c_string(value: &str) -> Result<CString, Failure> {
    CString::new(value).map_err(|_| Failure::plain(Code::InvalidArgument, "a name holds a zero byte"))
}

fn millis(time: Duration) -> i32 {
    i32::try_from(time.as_millis()).unwrap_or(i32::MAX)
}
