//! The baseline: consumes and produces the same records with the same calls of librdkafka, the same settings and a transaction each
//! second, and does nothing in between. Arguments: BROKERS INPUT OUTPUT RECORDS EPOCH_MS. The prototype does something.
#![allow(unsafe_code)]
use keyfold_benches::{At, Meter};
use rdkafka_sys as sys;
use std::ffi::{CStr, CString, c_char, c_void};
use std::ptr::null_mut;
use std::time::{Duration, Instant};
use sys::{rd_kafka_resp_err_t as Code, rd_kafka_vtype_t as Tag};

const BATCH: usize = 1024;
const PARTITIONS: i32 = 4;

/// What is done between consuming and producing.
pub trait Between {
    /// The value of a record's output.
    fn value(&mut self, key: &[u8], value: &[u8], timestamp: i64) -> [u8; 8];
    /// The transaction ends.
    fn before_commit(&mut self) {}
    /// It has ended.
    fn after_commit(&mut self) {}
}

impl Between for () {
    fn value(&mut self, _: &[u8], value: &[u8], _: i64) -> [u8; 8] {
        *value.first_chunk().expect("8 bytes")
    }
}

/// A client with the settings that the engine's connector gives it.
unsafe fn client(kind: sys::rd_kafka_type_t, properties: &[(&str, &str)]) -> *mut sys::rd_kafka_t {
    unsafe {
        let conf = sys::rd_kafka_conf_new();
        let mut reason = [0 as c_char; 512];
        for (name, value) in properties {
            let (n, v) = (c(name), c(value));
            let set = sys::rd_kafka_conf_set(conf, n.as_ptr(), v.as_ptr(), reason.as_mut_ptr(), reason.len());
            assert_eq!(set, sys::rd_kafka_conf_res_t::RD_KAFKA_CONF_OK, "{name}");
        }
        if kind == sys::rd_kafka_type_t::RD_KAFKA_PRODUCER {
            sys::rd_kafka_conf_set_dr_msg_cb(conf, Some(delivered));
        }
        let client = sys::rd_kafka_new(kind, conf, reason.as_mut_ptr(), reason.len());
        assert!(!client.is_null(), "{:?}", CStr::from_ptr(reason.as_ptr()));
        client
    }
}

unsafe extern "C" fn delivered(_: *mut sys::rd_kafka_t, message: *const sys::rd_kafka_message_t, _: *mut c_void) {
    let err = unsafe { (*message).err };
    assert_eq!(err, Code::RD_KAFKA_RESP_ERR_NO_ERROR, "an output was not delivered");
}

fn c(text: &str) -> CString {
    CString::new(text).expect("no NUL")
}

fn ok(error: *mut sys::rd_kafka_error_t) {
    assert!(error.is_null(), "{:?}", unsafe {
        CStr::from_ptr(sys::rd_kafka_error_string(error))
    });
}

/// A field of `rd_kafka_produceva`.
fn field(vtype: Tag, u: sys::rd_kafka_vu_s__bindgen_ty_1) -> sys::rd_kafka_vu_t {
    sys::rd_kafka_vu_t { vtype, u }
}

/// A producer and one of its topics.
type To = (*mut sys::rd_kafka_t, *mut sys::rd_kafka_topic_t);

/// Hands one message over.
unsafe fn produce((producer, topic): To, m: &sys::rd_kafka_message_t, between: &mut impl Between) {
    let memory = |ptr: *mut c_void, size: usize| sys::rd_kafka_vu_s__bindgen_ty_1 {
        mem: sys::rd_kafka_vu_s__bindgen_ty_1__bindgen_ty_1 { ptr, size },
    };
    type Value = sys::rd_kafka_vu_s__bindgen_ty_1;
    unsafe {
        let timestamp = sys::rd_kafka_message_timestamp(m, null_mut());
        let bytes = |at: *mut c_void, len| std::slice::from_raw_parts(at.cast::<u8>(), len);
        let mut value = between.value(bytes(m.key, m.key_len), bytes(m.payload, m.len), timestamp);
        let value = memory(value.as_mut_ptr().cast(), value.len());
        let i = sys::RD_KAFKA_MSG_F_COPY;
        let copied = Value { i };
        let fields = [
            field(Tag::RD_KAFKA_VTYPE_RKT, Value { rkt: topic }),
            field(Tag::RD_KAFKA_VTYPE_PARTITION, Value { i32_: -1 }),
            field(Tag::RD_KAFKA_VTYPE_MSGFLAGS, copied),
            field(Tag::RD_KAFKA_VTYPE_TIMESTAMP, Value { i64_: timestamp }),
            field(Tag::RD_KAFKA_VTYPE_KEY, memory(m.key, m.key_len)),
            field(Tag::RD_KAFKA_VTYPE_VALUE, value),
        ];
        loop {
            let error = sys::rd_kafka_produceva(producer, fields.as_ptr(), fields.len());
            if error.is_null() {
                return;
            }
            let full = sys::rd_kafka_error_code(error) == Code::RD_KAFKA_RESP_ERR__QUEUE_FULL;
            assert!(full, "{:?}", CStr::from_ptr(sys::rd_kafka_error_string(error)));
            sys::rd_kafka_error_destroy(error);
            sys::rd_kafka_poll(producer, 10);
        }
    }
}

fn main() {
    run(&std::env::args().skip(1).collect::<Vec<_>>(), &mut ());
}

/// From BROKERS INPUT OUTPUT RECORDS EPOCH_MS.
pub fn run(arguments: &[String], between: &mut impl Between) {
    let [brokers, input, output, records, epoch_ms] = arguments.first_chunk().expect("5 arguments");
    let records: u64 = records.parse().expect("a number");
    let epoch = Duration::from_millis(epoch_ms.parse().expect("a number"));
    // SAFETY: handles are used on this thread alone and live to the end of the process; messages are destroyed once each.
    unsafe {
        let consumer = client(
            sys::rd_kafka_type_t::RD_KAFKA_CONSUMER,
            &[
                ("bootstrap.servers", brokers),
                ("group.id", "bench-baseline"),
                ("enable.auto.commit", "false"),
                ("enable.auto.offset.store", "false"),
                ("auto.offset.reset", "error"),
                ("isolation.level", "read_committed"),
                ("fetch.queue.backoff.ms", "10"),
                ("enable.partition.eof", "true"),
                ("check.crcs", "true"),
                ("queued.max.messages.kbytes", "16384"),
            ],
        );
        let producer = client(
            sys::rd_kafka_type_t::RD_KAFKA_PRODUCER,
            &[
                ("bootstrap.servers", brokers),
                ("retry.backoff.ms", "5"),
                ("queue.buffering.max.messages", "1000000"),
                ("queue.buffering.max.kbytes", "65536"),
                ("enable.idempotence", "true"),
                ("transactional.id", "bench-baseline"),
                ("transaction.timeout.ms", "15000"),
            ],
        );
        let (input, output) = (c(input), c(output));
        let conf = sys::rd_kafka_default_topic_conf_dup(producer);
        let (name, value) = (c("partitioner"), c("murmur2_random"));
        sys::rd_kafka_topic_conf_set(conf, name.as_ptr(), value.as_ptr(), null_mut(), 0);
        let topic = sys::rd_kafka_topic_new(producer, output.as_ptr(), conf);
        ok(sys::rd_kafka_init_transactions(producer, 30_000));

        let queue = sys::rd_kafka_queue_new(consumer);
        let list = sys::rd_kafka_topic_partition_list_new(PARTITIONS);
        for partition in 0..PARTITIONS {
            let own = sys::rd_kafka_queue_get_partition(consumer, input.as_ptr(), partition);
            sys::rd_kafka_queue_forward(own, queue);
            sys::rd_kafka_queue_destroy(own);
            (*sys::rd_kafka_topic_partition_list_add(list, input.as_ptr(), partition)).offset = 0;
        }
        sys::rd_kafka_assign(consumer, list);

        let (mut meter, mut committed, mut read) = (Meter::default(), 0u64, 0u64);
        let mut next = [0i64; PARTITIONS as usize];
        let mut messages = [null_mut::<sys::rd_kafka_message_t>(); BATCH];
        meter.tell(0, At::Processing);
        ok(sys::rd_kafka_begin_transaction(producer));
        let mut began = Instant::now();
        while committed < records {
            let mut taken = sys::rd_kafka_consume_batch_queue(queue, 0, messages.as_mut_ptr(), BATCH);
            if taken == 0 {
                taken = sys::rd_kafka_consume_batch_queue(queue, 10, messages.as_mut_ptr(), 1);
            }
            for message in messages.iter().take(usize::try_from(taken).expect("consuming")) {
                let m = &**message;
                if m.err == Code::RD_KAFKA_RESP_ERR_NO_ERROR {
                    produce((producer, topic), m, between);
                    next[m.partition as usize] = m.offset + 1;
                    read += 1;
                }
                sys::rd_kafka_message_destroy(*message);
            }
            sys::rd_kafka_poll(producer, 0);
            if (began.elapsed() >= epoch || read >= records) && read > committed {
                for (partition, offset) in next.iter().enumerate() {
                    (*sys::rd_kafka_topic_partition_list_find(list, input.as_ptr(), partition as i32)).offset = *offset;
                }
                between.before_commit();
                let group = sys::rd_kafka_consumer_group_metadata_new(c("bench-baseline").as_ptr());
                ok(sys::rd_kafka_send_offsets_to_transaction(producer, list, group, -1));
                sys::rd_kafka_consumer_group_metadata_destroy(group);
                ok(sys::rd_kafka_commit_transaction(producer, -1));
                between.after_commit();
                committed = read;
                meter.tell(committed, At::Processing);
                ok(sys::rd_kafka_begin_transaction(producer));
                began = Instant::now();
            }
        }
        // The broker ends the open transaction, which is empty; the process ends with what it has.
    }
}
