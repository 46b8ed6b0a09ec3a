use super::*;
use keyfold::types::Header;
use std::fs::OpenOptions;
use std::io::Write;
use tempfile::TempDir;

#[derive(Debug, Clone, PartialEq)]
struct Owned {
    partition: i32,
    offset: i64,
    timestamp: i64,
    key: Option<Vec<u8>>,
    value: Option<Vec<u8>>,
    headers: Vec<Header>,
}

#[derive(Default)]
struct Collected {
    records: Vec<Owned>,
    ends: Vec<(i32, i64)>,
    stop_every: Option<usize>,
    is_stopped: bool,
}

impl RecordSink for Collected {
    fn record(&mut self, r: &RecordRef<'_>) -> Flow {
        assert!(!self.is_stopped, "a record after a stop");
        assert_eq!(r.topic, "in");
        self.records.push(Owned {
            partition: r.partition,
            offset: r.offset,
            timestamp: r.timestamp,
            key: r.key.map(<[u8]>::to_vec),
            value: r.value.map(<[u8]>::to_vec),
            headers: r.headers.to_vec(),
        });
        self.is_stopped = self.stop_every.is_some_and(|n| self.records.len().is_multiple_of(n));
        if self.is_stopped { Flow::Stop } else { Flow::Continue }
    }
    fn end_of_partition(&mut self, _: &str, partition: i32, offset: i64, _: i32) {
        assert!(!self.is_stopped, "an end after a stop");
        self.ends.push((partition, offset));
    }
}

impl Collected {
    fn values(&self) -> Vec<String> {
        self.records
            .iter()
            .map(|r| String::from_utf8_lossy(r.value.as_deref().unwrap_or(b"<null>")).into_owned())
            .collect()
    }
}

fn dir_with(files: &[(&str, &str)]) -> TempDir {
    let dir = tempfile::tempdir().expect("a directory");
    for (name, text) in files {
        fs::write(dir.path().join(name), text).expect("written");
    }
    dir
}

fn at(partition: i32, offset: i64) -> Position {
    Position {
        topic: "in".into(),
        partition,
        offset,
        leader_epoch: -1,
    }
}

fn reader(source: &mut FilesSource, lane: &[Position]) -> Result<Box<dyn SourceReader>, SourceError> {
    Ok(source.open(&[lane.to_vec()])?.pop().expect("one reader"))
}

fn read_all(source: &mut FilesSource, lane: &[Position], out: &mut Collected) {
    let mut reader = reader(source, lane).expect("open");
    while out.ends.len() < lane.len() {
        reader.poll(Duration::ZERO, out).expect("poll");
    }
}

fn source(dir: &TempDir) -> FilesSource {
    FilesSource::new(dir.path()).topic("in")
}

fn append(dir: &TempDir, name: &str, text: &str) {
    let mut file = OpenOptions::new()
        .append(true)
        .open(dir.path().join(name))
        .expect("open");
    file.write_all(text.as_bytes()).expect("append");
}

fn fatal<T>(result: Result<T, SourceError>) -> String {
    match result {
        Err(SourceError::Fatal(text)) => text,
        Err(SourceError::Retriable(text)) => panic!("retriable: {text}"),
        Ok(_) => panic!("accepted"),
    }
}

/// Lines of many lengths, some longer than the first buffer.
fn long_text() -> String {
    let line = |n: usize| {
        format!(
            "{{\"n\":{n},\"pad\":\"{}\"}}\n",
            "x".repeat(if n % 200 == 199 { 300_000 } else { n * 37 % 700 })
        )
    };
    (0..600).map(line).collect()
}

#[test]
fn resuming_at_every_position_gives_the_same_rest() {
    let dir = dir_with(&[("0.jsonl", &long_text())]);
    let mut source = source(&dir);
    let mut whole = Collected::default();
    read_all(&mut source, &[at(0, 0)], &mut whole);
    assert_eq!(whole.records.len(), 600);
    assert_eq!(
        whole.values().iter().map(|v| format!("{v}\n")).collect::<String>(),
        long_text()
    );
    let end = long_text().len() as i64;
    // The engine goes on at the offset of the last record + 1.
    for (n, record) in whole.records.iter().enumerate() {
        let mut rest = Collected::default();
        read_all(&mut source, &[at(0, record.offset + 1)], &mut rest);
        assert_eq!(rest.records, whole.records[n + 1..]);
        assert_eq!(rest.ends, [(0, end)]);
    }
    let mut rest = Collected::default();
    read_all(&mut source, &[at(0, end)], &mut rest);
    assert_eq!((rest.records.len(), rest.ends), (0, vec![(0, end)]));
}

#[test]
fn a_position_inside_a_line_or_beyond_the_end_is_refused() {
    let text = "{\"a\":1}\n\n{\"b\":2}\n{\"c\"";
    let dir = dir_with(&[("0.jsonl", text)]);
    let mut source = source(&dir);
    let starts = [0, 8, 9, 17];
    for offset in 0..=text.len() as i64 + 3 {
        let opened = reader(&mut source, &[at(0, offset)]);
        if starts.contains(&offset) {
            assert!(opened.is_ok(), "{offset}");
            continue;
        }
        let error = fatal(opened);
        assert!(
            error.contains("0.jsonl") && error.contains(&offset.to_string()) && error.contains("21"),
            "{error}"
        );
    }
    assert!(fatal(reader(&mut source, &[at(0, -1)])).contains("no partition"));
    assert!(fatal(reader(&mut source, &[at(1, 0)])).contains("1.jsonl"));
}

#[test]
fn a_partial_last_line_waits_for_its_newline_and_an_end_is_reported_once() {
    let dir = dir_with(&[("0.jsonl", "1\n2\n3")]);
    let mut source = source(&dir);
    let mut reader = reader(&mut source, &[at(0, 0)]).expect("open");
    let mut out = Collected::default();
    let mut poll = |out: &mut Collected| (0..3).for_each(|_| reader.poll(Duration::ZERO, out).expect("poll"));
    poll(&mut out);
    assert_eq!(
        (out.values(), out.ends.clone()),
        (vec!["1".to_string(), "2".into()], vec![(0, 4)])
    );
    append(&dir, "0.jsonl", "3");
    poll(&mut out);
    assert_eq!((out.records.len(), out.ends.clone()), (2, vec![(0, 4)]));
    append(&dir, "0.jsonl", "3\n4\n5");
    poll(&mut out);
    assert_eq!(out.values(), ["1", "2", "333", "4"]);
    assert_eq!(out.records[2].offset, 7);
    assert_eq!(out.ends, [(0, 4), (0, 10)]);
}

#[test]
fn an_empty_file_has_an_end_and_grows() {
    let dir = dir_with(&[("0.jsonl", "")]);
    let mut source = source(&dir);
    let mut reader = reader(&mut source, &[at(0, 0)]).expect("open");
    let mut out = Collected::default();
    reader.poll(Duration::from_secs(60), &mut out).expect("poll");
    append(&dir, "0.jsonl", "{}\n");
    reader.poll(Duration::from_secs(60), &mut out).expect("poll");
    assert_eq!((out.values(), out.ends), (vec!["{}".to_string()], vec![(0, 0), (0, 3)]));
}

#[test]
fn poll_waits_for_growth_up_to_max_wait() {
    let dir = dir_with(&[("0.jsonl", "")]);
    let mut source = source(&dir);
    let mut reader = reader(&mut source, &[at(0, 0)]).expect("open");
    let mut out = Collected::default();
    reader.poll(Duration::ZERO, &mut out).expect("poll");
    let clock = SystemClock::default();
    reader.poll(Duration::from_millis(30), &mut out).expect("poll");
    assert!(clock.elapsed() >= Duration::from_millis(30));
    let path = dir.path().join("0.jsonl");
    let writer = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(20));
        fs::write(path, "1\n").expect("written");
    });
    reader.poll(Duration::from_secs(60), &mut out).expect("poll");
    writer.join().expect("joined");
    assert_eq!(out.values(), ["1"]);
}

#[test]
fn truncation_replacement_and_removal_while_reading_are_refused() {
    for change in 0..3 {
        let dir = dir_with(&[("0.jsonl", "1\n2\n")]);
        let path = dir.path().join("0.jsonl");
        let mut source = source(&dir);
        let mut reader = reader(&mut source, &[at(0, 0)]).expect("open");
        let mut out = Collected::default();
        reader.poll(Duration::ZERO, &mut out).expect("poll");
        match change {
            0 => fs::write(&path, "1\n").expect("truncated"),
            1 => {
                fs::write(dir.path().join("new"), "1\n2\n3\n").expect("written");
                fs::rename(dir.path().join("new"), &path).expect("renamed");
            }
            _ => fs::remove_file(&path).expect("removed"),
        }
        for _ in 0..2 {
            let error = fatal(reader.poll(Duration::ZERO, &mut out));
            assert!(error.contains("0.jsonl") && error.contains('4'), "{error}");
        }
        assert_eq!(out.values(), ["1", "2"]);
    }
}

#[test]
fn stop_loses_and_repeats_nothing() {
    let lines = |p: usize| (0..2000 + p * 700).map(|n| format!("{p}-{n}\n")).collect::<String>();
    let dir = dir_with(&[("0.jsonl", &lines(0)), ("1.jsonl", &lines(1)), ("2.jsonl", &lines(2))]);
    let mut source = source(&dir);
    for stop_every in [1, 2, 511, 512, 513, 4096] {
        let mut out = Collected {
            stop_every: Some(stop_every),
            ..Collected::default()
        };
        let mut reader = reader(&mut source, &[at(0, 0), at(1, 0), at(2, 0)]).expect("open");
        while out.ends.len() < 3 {
            let before = out.records.len();
            out.is_stopped = false;
            reader.poll(Duration::ZERO, &mut out).expect("poll");
            assert!(out.records.len() - before <= stop_every.min(POLL_RECORDS_MAX));
        }
        for p in 0..3 {
            let of_p = out.records.iter().filter(|r| r.partition == p);
            let text: String = of_p
                .map(|r| format!("{}\n", String::from_utf8_lossy(r.value.as_deref().unwrap_or_default())))
                .collect();
            assert_eq!(text, lines(p as usize));
        }
    }
}

#[test]
fn poll_is_bounded_and_takes_partitions_in_turns() {
    let text = "7\n".repeat(20_000);
    let dir = dir_with(&[("0.jsonl", &text), ("1.jsonl", &text)]);
    let mut source = source(&dir);
    let mut reader = reader(&mut source, &[at(0, 0), at(1, 0)]).expect("open");
    let mut out = Collected::default();
    reader.poll(Duration::ZERO, &mut out).expect("poll");
    assert_eq!(out.records.len(), POLL_RECORDS_MAX);
    assert_eq!(
        out.records.iter().filter(|r| r.partition == 1).count(),
        POLL_RECORDS_MAX / 2
    );
}

#[test]
fn a_line_longer_than_the_limit_stops_the_job_and_is_named() {
    for length in [11, 40, 200_000] {
        for newline in ["", "\n"] {
            let dir = dir_with(&[("0.jsonl", &format!("0123456789\n{}{newline}", "x".repeat(length)))]);
            let mut source = source(&dir).line_bytes_max(10);
            let mut reader = reader(&mut source, &[at(0, 0)]).expect("open");
            let mut out = Collected::default();
            for _ in 0..2 {
                let error = fatal(reader.poll(Duration::ZERO, &mut out));
                assert!(
                    error.contains("0.jsonl") && error.contains("offset 11") && error.contains("= 10"),
                    "{error}"
                );
            }
            assert_eq!(out.values(), ["0123456789"]);
        }
    }
    let longest = "y".repeat(crate::config::LINE_BYTES_MAX);
    let dir = dir_with(&[("0.jsonl", &format!("{longest}\n"))]);
    let mut out = Collected::default();
    read_all(&mut source(&dir), &[at(0, 0)], &mut out);
    assert_eq!(out.values(), [longest]);
}

#[test]
fn the_directory_must_be_numbered_without_gaps() {
    let info = |files: &[&str]| {
        let files: Vec<_> = files.iter().map(|name| (*name, "")).collect();
        source(&dir_with(&files)).topic_info()
    };
    assert_eq!(
        info(&["1.jsonl", "0.jsonl", "notes.txt", ".0.jsonl.tmp", ".x.jsonl"])
            .expect("two")
            .partitions,
        2
    );
    assert!(fatal(info(&[])).contains("0.jsonl is missing"));
    assert!(fatal(info(&["0.jsonl", "2.jsonl"])).contains("1.jsonl is missing"));
    assert!(fatal(info(&["0.jsonl", "01.jsonl"])).contains("01.jsonl is not"));
    assert!(fatal(info(&["0.jsonl", "orders.jsonl"])).contains("orders.jsonl is not"));
    assert!(fatal(FilesSource::new("/nowhere/at/all").topic_info()).contains("/nowhere/at/all"));
}

#[test]
fn a_new_job_starts_at_the_first_byte_of_every_file_under_the_name_of_the_directory() {
    let dir = dir_with(&[("0.jsonl", "1\n"), ("1.jsonl", "")]);
    let orders = dir.path().join("orders");
    fs::rename(dir.path().join("0.jsonl"), dir.path().join("x")).expect("renamed");
    fs::create_dir(&orders).expect("made");
    fs::write(orders.join("0.jsonl"), "1\n").expect("written");
    let mut source = FilesSource::new(&orders);
    assert_eq!(Source::topic(&source), "orders");
    let expected = Position {
        topic: "orders".into(),
        partition: 0,
        offset: 0,
        leader_epoch: -1,
    };
    assert_eq!(source.start_positions().expect("positions"), [expected]);
    assert!(fatal(reader(&mut source, &[at(0, 0)])).contains("in has no partition"));
}

#[test]
fn an_envelope_gives_key_value_timestamp_and_headers_and_a_bad_line_is_handed_out_raw() {
    let text = concat!(
        r#"{"key": "k", "value": {"a": [1, 2]}, "timestamp": 5, "headers": {"h": "x", "n": null}}"#,
        "\n",
        "{\"value\":null}\nnot json\n",
    );
    let dir = dir_with(&[("0.jsonl", text)]);
    let mut out = Collected::default();
    read_all(&mut source(&dir).lines(Lines::Envelope), &[at(0, 0)], &mut out);
    assert_eq!(out.values(), [r#"{"a": [1, 2]}"#, "<null>", "not json"]);
    assert_eq!(out.records[0].key.as_deref(), Some(&b"k"[..]));
    assert_eq!(out.records.iter().map(|r| r.timestamp).collect::<Vec<_>>(), [5, -1, -1]);
    let header = |key: &str, value: Option<&[u8]>| Header {
        key: key.into(),
        value: value.map(<[u8]>::to_vec),
    };
    assert_eq!(out.records[0].headers, [header("h", Some(b"x")), header("n", None)]);
}
