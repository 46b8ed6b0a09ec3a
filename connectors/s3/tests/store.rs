//! The store against an S3 server on loopback, which fails as it is told.
mod server;

use hyper::Method;
use keyfold::checkpoint::store::{ObjectPath, Store, StoreError, StoreErrorKind};
use keyfold::testing::{store_conformance, store_lists_ages};
use keyfold_s3::S3Store;
use server::{Fault, Server};
use std::time::{Duration, Instant};

fn open(server: &Server) -> S3Store {
    S3Store::open(server.config()).expect("open")
}

fn object(name: &str) -> ObjectPath {
    ObjectPath::new(&["jobs", "j", "s", "epochs", name]).expect("valid")
}

fn refused(result: Result<S3Store, StoreError>) -> StoreError {
    result.err().expect("refused")
}

#[test]
fn a_store_in_s3_conforms() {
    let server = Server::start();
    store_conformance(&open(&server));
    store_lists_ages(&open(&server));
}

#[test]
fn objects_in_parts_are_created_once_and_read_whole_and_in_ranges() {
    let server = Server::start();
    let mut config = server.config();
    config.part_bytes = 5 << 20;
    let store = S3Store::open(config).expect("open");
    let bytes: Vec<u8> = (0..17u32 << 20).map(|i| (i >> 8) as u8 ^ i as u8).collect();
    let (head, tail) = bytes.split_at(7_000_001);
    server.seen();
    store.put_new(&object("big"), &[head, b"", tail]).expect("put");
    let parts = server.seen().iter().filter(|r| r.contains("partNumber=")).count();
    assert_eq!(parts, 4, "17 MiB in parts of 5");
    assert!(store.get(&object("big")).expect("get") == bytes);
    let piece = store.get_range(&object("big"), 6 << 20, 3 << 20).expect("range");
    assert!(piece == bytes[6 << 20..9 << 20]);
    store
        .put_new(&object("big"), &[&bytes])
        .expect("an earlier try of ours");
    let mut other = bytes.clone();
    other[16 << 20] ^= 1;
    let taken = store.put_new(&object("big"), &[&other]).expect_err("taken");
    assert_eq!(taken.kind(), StoreErrorKind::AlreadyExists);
    assert!(store.get(&object("big")).expect("get") == bytes, "never overwritten");
}

/// Row 32: the object was created and the answer lost; the retry is told that it exists, and must take it for its own.
#[test]
fn row_32_an_answer_that_was_lost_does_not_make_ones_own_object_another_s() {
    let server = Server::start();
    let store = open(&server);
    server.next(Method::PUT, Fault::LoseReply);
    let first = store.put_new(&object("one"), &[b"abc"]);
    if let Err(e) = first {
        assert_eq!(e.kind(), StoreErrorKind::Retriable, "{e}");
        store.put_new(&object("one"), &[b"abc"]).expect("its own");
    }
    let other = store.put_new(&object("one"), &[b"abd"]).expect_err("taken");
    assert_eq!(other.kind(), StoreErrorKind::AlreadyExists);
    assert_eq!(store.get(&object("one")).expect("get"), b"abc");
}

/// S3 answers 409 while another write of the same name is under way. Taken for "exists", an epoch would be given up that nobody wrote.
#[test]
fn row_32_a_conflict_over_an_object_that_is_not_there_is_tried_again() {
    let server = Server::start();
    let store = open(&server);
    server.next(Method::PUT, Fault::Answer(409, "ConditionalRequestConflict"));
    let conflict = store.put_new(&object("one"), &[b"abc"]).expect_err("conflict");
    assert_eq!(conflict.kind(), StoreErrorKind::Retriable, "{conflict}");
    store.put_new(&object("one"), &[b"abc"]).expect("put");
}

/// Row 31: whatever a service answers for a while, a job waits; the message says what it answered.
#[test]
fn row_31_refusals_and_outages_may_pass_and_hiccups_are_not_even_told() {
    let server = Server::start();
    let store = open(&server);
    server.next(Method::PUT, Fault::Answer(503, "SlowDown"));
    store.put_new(&object("hiccup"), &[b"abc"]).expect("tried again inside");
    for (status, code) in [
        (403, "AccessDenied"),
        (401, "ExpiredToken"),
        (404, "NoSuchBucket"),
        (500, "InternalError"),
        (503, "SlowDown"),
        (507, "Full"),
    ] {
        server.always(Some((Method::PUT, Fault::Answer(status, code))));
        let failed = store.put_new(&object("one"), &[b"abc"]).expect_err("told to fail");
        assert_eq!(failed.kind(), StoreErrorKind::Retriable, "{failed}");
        assert!(failed.to_string().contains(code), "{failed}");
        server.always(Some((Method::GET, Fault::Answer(status, code))));
        let failed = store.get(&object("hiccup")).expect_err("told to fail");
        assert_eq!(failed.kind(), StoreErrorKind::Retriable, "{failed}");
        let failed = store
            .list(&ObjectPath::new(&["jobs"]).expect("valid"))
            .expect_err("told to fail");
        assert_eq!(failed.kind(), StoreErrorKind::Retriable, "{failed}");
    }
    server.always(None);
    store.put_new(&object("one"), &[b"abc"]).expect("put");
}

/// Row 31: a service that takes a connection and never answers. A call comes back within the time of a request.
#[test]
fn row_31_a_service_that_hangs_or_drops_is_retriable_in_bounded_time() {
    let server = Server::start();
    let store = open(&server);
    for fault in [Fault::Hang, Fault::Drop] {
        for method in [Method::PUT, Method::GET] {
            server.always(Some((method.clone(), fault.clone())));
            let began = Instant::now();
            let failed = match method {
                Method::PUT => store.put_new(&object("one"), &[b"abc"]).err(),
                _ => store.get(&object("one")).err(),
            };
            assert!(began.elapsed() < Duration::from_secs(15), "{:?}", began.elapsed());
            let kind = failed.as_ref().map(StoreError::kind);
            assert_eq!(kind, Some(StoreErrorKind::Retriable), "{failed:?}");
        }
    }
    server.always(None);
    store.put_new(&object("one"), &[b"abc"]).expect("put");
}

#[test]
fn an_upload_in_parts_that_fails_leaves_no_object_and_the_next_try_makes_it() {
    let server = Server::start();
    let mut config = server.config();
    config.part_bytes = 5 << 20;
    let store = S3Store::open(config).expect("open");
    let bytes = vec![7u8; 11 << 20];
    server.always(Some((Method::PUT, Fault::Answer(500, "InternalError"))));
    let failed = store.put_new(&object("big"), &[&bytes]).expect_err("told to fail");
    assert_eq!(failed.kind(), StoreErrorKind::Retriable, "{failed}");
    server.always(None);
    assert_eq!(
        store.get(&object("big")).expect_err("not there").kind(),
        StoreErrorKind::NotFound
    );
    // The end of an upload is refused in the body of an answer that says 200; then it is done, and its answer is lost.
    server.next_at(Method::POST, "uploadId=", Fault::Answer(200, "AccessDenied"));
    let failed = store.put_new(&object("big"), &[&bytes]).expect_err("told to fail");
    assert_eq!(failed.kind(), StoreErrorKind::Retriable, "{failed}");
    server.next_at(Method::POST, "uploadId=", Fault::LoseReply);
    if let Err(e) = store.put_new(&object("big"), &[&bytes]) {
        assert_eq!(e.kind(), StoreErrorKind::Retriable, "{e}");
        store.put_new(&object("big"), &[&bytes]).expect("its own");
    }
    assert!(store.get(&object("big")).expect("get") == bytes);
}

/// A bucket that is away is not an object that is missing: a restore waits for it and does not end the job. HEAD does not tell the two apart.
#[test]
fn row_31_a_store_that_is_away_is_waited_for_by_every_call() {
    let server = Server::start();
    let store = open(&server);
    store.put_new(&object("one"), &[b"abc"]).expect("put");
    let file = server.file("store.json");
    let bucket = file.parent().expect("a folder");
    let aside = bucket.with_file_name("aside");
    std::fs::rename(bucket, &aside).expect("moved away");
    let folder = ObjectPath::new(&["jobs", "j", "s", "epochs"]).expect("valid");
    let waits = |e: Option<StoreError>| e.is_some_and(|e| e.kind() == StoreErrorKind::Retriable);
    assert!(waits(store.get(&object("one")).err()));
    assert!(waits(store.get_range(&object("one"), 0, 1).err()));
    assert!(waits(store.size(&object("one")).err()));
    assert!(waits(store.list(&folder).err()));
    assert!(waits(store.delete(&object("one")).err()));
    // Another one in its place is none, either.
    let other = open(&server);
    assert_ne!(other.id(), store.id());
    assert!(waits(store.size(&object("one")).err()));
    assert!(waits(store.list(&folder).err()));
    std::fs::remove_dir_all(bucket).expect("removed");
    std::fs::rename(&aside, bucket).expect("moved back");
    assert_eq!(store.get(&object("one")).expect("get"), b"abc");
}

#[test]
fn processes_that_start_at_once_agree_on_the_id() {
    let server = Server::start();
    let ids: Vec<u64> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..4).map(|_| scope.spawn(|| open(&server).id())).collect();
        threads.into_iter().map(|t| t.join().expect("thread")).collect()
    });
    assert!(ids.iter().all(|id| *id == ids[0]), "{ids:?}");
    let text = std::fs::read_to_string(server.file("store.json")).expect("read");
    assert_eq!(text, format!("{{\"format\":1,\"id\":\"{:016x}\"}}\n", ids[0]));
}

#[test]
fn a_store_that_has_lost_its_file_gets_no_new_id() {
    let server = Server::start();
    open(&server).put_new(&object("one"), &[b"x"]).expect("put");
    std::fs::remove_file(server.file("store.json")).expect("remove");
    let lost = refused(S3Store::open(server.config()));
    assert_eq!(lost.kind(), StoreErrorKind::Fatal);
    assert!(lost.to_string().contains("bring it back"), "{lost}");
}

/// A service that ignores the condition of a write would let a fenced instance overwrite; it is found out before anything is written.
#[test]
fn a_service_without_conditional_writes_is_refused() {
    let server = Server::start();
    server.always(Some((Method::PUT, Fault::Unconditional)));
    let error = refused(S3Store::open(server.config()));
    assert_eq!(error.kind(), StoreErrorKind::Fatal);
    assert!(error.to_string().contains("ignores conditional writes"), "{error}");
    server.always(Some((Method::PUT, Fault::Answer(501, "NotImplemented"))));
    let error = refused(S3Store::open(server.config()));
    assert_eq!(error.kind(), StoreErrorKind::Fatal, "{error}");
    assert!(error.to_string().contains("conditional writes"), "{error}");
}

#[test]
fn a_start_is_refused_for_settings_and_tried_again_for_outages() {
    let server = Server::start();
    let mut config = server.config();
    config.credentials = Some(("key".to_owned(), "wrong".to_owned()));
    let error = refused(S3Store::open(config));
    assert_eq!(error.kind(), StoreErrorKind::Fatal);
    assert!(error.to_string().contains("AWS_ACCESS_KEY_ID"), "{error}");
    let mut config = server.config();
    config.bucket = "other".to_owned();
    let error = refused(S3Store::open(config));
    assert_eq!(error.kind(), StoreErrorKind::Fatal, "{error}");
    assert!(error.to_string().contains("no such bucket"), "{error}");
    server.always(Some((Method::GET, Fault::Answer(503, "SlowDown"))));
    assert_eq!(
        refused(S3Store::open(server.config())).kind(),
        StoreErrorKind::Retriable
    );
    let mut config = server.config();
    config.endpoint = Some("http://127.0.0.1:1".to_owned());
    assert_eq!(refused(S3Store::open(config)).kind(), StoreErrorKind::Retriable);
}

/// B44: uploads in parts that failed left their parts behind, which nobody lists and everybody pays for.
#[test]
fn uploads_that_fail_leave_no_parts_behind() {
    let server = Server::start();
    let mut config = server.config();
    config.part_bytes = 5 << 20;
    let store = S3Store::open(config).expect("open");
    let bytes = vec![7u8; 11 << 20];
    server.seen();
    const UPLOADS: usize = 20;
    for _ in 0..UPLOADS {
        server.next_at(Method::PUT, "partNumber=2", Fault::Answer(403, "AccessDenied"));
        let failed = store.put_new(&object("big"), &[&bytes]).expect_err("told to fail");
        assert_eq!(failed.kind(), StoreErrorKind::Retriable, "{failed}");
    }
    let seen = server.seen();
    let count = |what: &str| {
        seen.iter()
            .filter(|r| r.starts_with(what) && r.contains("upload"))
            .count()
    };
    assert_eq!(
        (count("POST"), count("DELETE")),
        (UPLOADS, UPLOADS),
        "each that began was given up: {seen:?}"
    );
}
