use super::*;
use tempfile::TempDir;

fn deliver(sink: &mut FilesSink, shard: u32, sequence: u64, values: &[&str]) -> Result<(), SinkError> {
    let mut outputs = values.iter().map(|value| OutputRef {
        sink: 0,
        timestamp: 1,
        partition: -1,
        key: None,
        value: Some(value.as_bytes()),
        headers: b"",
    });
    sink.deliver(Shard(shard), sequence, &mut outputs)
}

fn names(dir: &TempDir) -> Vec<String> {
    let entries = fs::read_dir(dir.path()).expect("listed");
    let mut names: Vec<_> = entries
        .map(|e| e.expect("entry").file_name().to_string_lossy().into_owned())
        .collect();
    names.sort();
    names
}

fn text(dir: &TempDir, name: &str) -> String {
    fs::read_to_string(dir.path().join(name)).expect("read")
}

const NAME_7: &str = "3-00000000000000000007.jsonl";
const LINE_A: &str = "{\"key\":null,\"value\":\"a\",\"timestamp\":1}\n";

#[test]
fn a_section_is_one_file_and_an_empty_one_is_none() {
    let dir = tempfile::tempdir().expect("a directory");
    let mut sink = FilesSink::new(dir.path());
    deliver(&mut sink, 3, 6, &[]).expect("nothing");
    assert_eq!(names(&dir), Vec::<String>::new());
    deliver(&mut sink, 3, 7, &["a", "a"]).expect("delivered");
    deliver(&mut sink, 0, u64::MAX, &["a"]).expect("delivered");
    assert_eq!(names(&dir), ["0-18446744073709551615.jsonl", NAME_7]);
    assert_eq!(text(&dir, NAME_7), LINE_A.repeat(2));
}

#[test]
fn what_was_delivered_is_not_delivered_again() {
    let dir = tempfile::tempdir().expect("a directory");
    let mut sink = FilesSink::new(dir.path());
    for _ in 0..3 {
        deliver(&mut sink, 3, 7, &["a"]).expect("delivered");
        deliver(&mut sink, 3, 7, &["b"]).expect("fenced");
        deliver(&mut sink, 3, 5, &["b"]).expect("fenced");
        assert_eq!(
            (names(&dir), text(&dir, NAME_7)),
            (vec![NAME_7.to_string()], LINE_A.into())
        );
        sink = FilesSink::new(dir.path());
    }
    deliver(&mut sink, 2, 5, &["a"]).expect("another shard");
    deliver(&mut sink, 3, 8, &["a"]).expect("the next");
    assert_eq!(names(&dir).len(), 3);
}

#[test]
fn a_file_that_another_process_delivered_since_the_listing_is_kept() {
    let dir = tempfile::tempdir().expect("a directory");
    let (mut old, mut new) = (FilesSink::new(dir.path()), FilesSink::new(dir.path()));
    deliver(&mut old, 3, 6, &["a"]).expect("delivered");
    deliver(&mut new, 3, 7, &["a"]).expect("delivered");
    deliver(&mut old, 3, 7, &["b"]).expect("done");
    assert_eq!(text(&dir, NAME_7), LINE_A);
    assert_eq!(names(&dir).len(), 2);
}

#[test]
fn a_staged_file_that_a_crash_left_is_overwritten() {
    let dir = tempfile::tempdir().expect("a directory");
    let staged = dir.path().join(format!(".{NAME_7}.tmp"));
    fs::write(
        &staged,
        "half of something much longer than what is delivered in the end, without a newline ....",
    )
    .expect("left");
    let mut sink = FilesSink::new(dir.path());
    deliver(&mut sink, 3, 7, &["a"]).expect("delivered");
    assert_eq!(
        (names(&dir), text(&dir, NAME_7)),
        (vec![NAME_7.to_string()], LINE_A.into())
    );
}

#[test]
fn a_staged_file_that_another_process_writes_is_waited_for() {
    let dir = tempfile::tempdir().expect("a directory");
    let staged = dir.path().join(format!(".{NAME_7}.tmp"));
    let other = File::create(&staged).expect("staged");
    other.lock().expect("locked");
    let mut sink = FilesSink::new(dir.path());
    assert!(matches!(deliver(&mut sink, 3, 7, &["a"]), Err(SinkError::Retriable(_))));
    drop(other);
    deliver(&mut sink, 3, 7, &["a"]).expect("delivered");
    assert_eq!(text(&dir, NAME_7), LINE_A);
}

#[test]
fn a_lost_directory_is_made_again_and_the_fence_is_kept() {
    let dir = tempfile::tempdir().expect("a directory");
    let out = dir.path().join("a/b");
    let mut sink = FilesSink::new(&out);
    deliver(&mut sink, 3, 7, &["a"]).expect("delivered");
    fs::remove_dir_all(&out).expect("removed");
    assert!(matches!(deliver(&mut sink, 3, 8, &["a"]), Err(SinkError::Retriable(_))));
    deliver(&mut sink, 3, 7, &["a"]).expect("fenced");
    deliver(&mut sink, 3, 8, &["a"]).expect("delivered");
    assert_eq!(fs::read_dir(&out).expect("listed").count(), 1);
}

#[test]
fn a_directory_that_is_a_file_is_fatal() {
    let dir = tempfile::tempdir().expect("a directory");
    fs::write(dir.path().join("f"), "").expect("written");
    let mut sink = FilesSink::new(dir.path().join("f/out"));
    assert!(matches!(deliver(&mut sink, 0, 1, &["a"]), Err(SinkError::Fatal(_))));
}

#[test]
fn errors_say_whether_waiting_helps() {
    let error = |kind: std::io::ErrorKind| FilesError::Io {
        action: "write",
        path: "x".into(),
        source: kind.into(),
    };
    use std::io::ErrorKind;
    assert!(matches!(
        SinkError::from(error(ErrorKind::StorageFull)),
        SinkError::Retriable(_)
    ));
    assert!(matches!(
        SinkError::from(error(ErrorKind::PermissionDenied)),
        SinkError::Fatal(_)
    ));
    assert!(matches!(
        SinkError::from(error(ErrorKind::ReadOnlyFilesystem)),
        SinkError::Fatal(_)
    ));
}

#[test]
fn only_names_of_our_own_form_count() {
    assert_eq!(parse_file_name(NAME_7), Some((3, 7)));
    for name in [
        "3-7.jsonl",
        "03-00000000000000000007.jsonl",
        "x-00000000000000000007.jsonl",
        ".3-00000000000000000007.jsonl.tmp",
    ] {
        assert_eq!(parse_file_name(name), None, "{name}");
    }
}

/// Two sinks of one job were given one directory: the second one found the names of its sections taken, took them for delivered, and
/// its outputs were gone.
#[test]
fn a_directory_has_one_owner_and_another_sink_is_refused() {
    let dir = tempfile::tempdir().expect("a directory");
    let out = dir.path().join("out");
    let (mut first, mut second) = (FilesSink::new(&out), FilesSink::new(&out));
    first.open("job.stage/one store 1").expect("its own from now on");
    for _ in 0..2 {
        match second.open("job.stage/two store 1") {
            Err(SinkError::Fatal(why)) => assert!(why.contains("job.stage/one store 1"), "{why}"),
            other => panic!("{other:?}"),
        }
    }
    // A former owner may be alive still, fenced or stopped: its successor does not wait for it.
    let mut successor = FilesSink::new(&out);
    successor.open("job.stage/one store 1").expect("the same sink");
    deliver(&mut first, 3, 7, &["a"]).expect("delivered");
    deliver(&mut successor, 3, 7, &["b"]).expect("fenced");
    assert_eq!(fs::read_to_string(out.join(NAME_7)).expect("read"), LINE_A);
    fs::remove_dir_all(&out).expect("removed");
    assert!(first.open("job.stage/one store 1").is_ok(), "it is claimed again");
    assert!(matches!(second.open("job.stage/two store 1"), Err(SinkError::Fatal(_))));
}
