//! The program with its checkpoints in a bucket: a service that is away, an instance that is killed, and an empty disk.
#[path = "../../connectors/s3/tests/server/mod.rs"]
mod server;

use hyper::Method;
use keyfold_e2e::guard::die_with_parent;
use server::{Fault, KEY, SECRET, Server};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs::File;
use std::io::Write as _;
use std::ops::Range;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

const PATIENCE: Duration = Duration::from_secs(120);
const STORE: &str = "s3://state/team/one";
const RECORDS: u64 = 60_000;
const CUSTOMERS: u64 = 50;

/// Totals over files. The output of every record carries the count, so that one that is missing or twice shows.
const PIPELINE: &str = "job: totals
sources:
  orders: { connector: files, dir: in, value: { format: json, schema: { customer: string, amount: int64 } } }
steps:
  - id: totals
    key_by: customer
    aggregate: { orders: count(), total: sum(amount) }
sinks:
  totals: { connector: files, dir: out, value: json }
";

struct Program {
    child: Child,
    log: std::path::PathBuf,
}

impl Program {
    fn start(dir: &Path, server: &Server, store: &str, state: &str) -> Program {
        let log = dir.join(format!("{state}.log"));
        let mut command = Command::new(env!("CARGO_BIN_EXE_keyfold"));
        command
            .args([
                "run",
                "pipeline.yaml",
                "--http-listen",
                "off",
                "--epoch-interval",
                "50ms",
            ])
            .args(["--checkpoint-dir", store, "--state-dir", state])
            .args(["--s3-endpoint", &format!("http://127.0.0.1:{}", server.port())])
            .args(["--s3-region", "eu-north-1"])
            .env("AWS_ACCESS_KEY_ID", KEY)
            .env("AWS_SECRET_ACCESS_KEY", SECRET)
            .current_dir(dir)
            .stdout(Stdio::null())
            .stderr(File::create(&log).expect("a log"));
        die_with_parent(&mut command);
        Program {
            child: command.spawn().expect("started"),
            log,
        }
    }

    fn log(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap_or_default()
    }

    #[track_caller]
    fn until(&mut self, what: &str, mut is: impl FnMut(&Program) -> bool) {
        let began = Instant::now();
        while !is(self) {
            let ended = self.child.try_wait().expect("looked at");
            let late = began.elapsed() > PATIENCE;
            assert!(!late && ended.is_none(), "not {what}; ended: {ended:?}\n{}", self.log());
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn pipeline(dir: &Path) {
    std::fs::create_dir(dir.join("in")).expect("made");
    std::fs::write(dir.join("pipeline.yaml"), PIPELINE).expect("written");
}

/// Appends records to the input.
fn append(dir: &Path, records: Range<u64>) {
    for partition in 0..2 {
        let mut text = String::new();
        for n in records.clone().filter(|n| n % 2 == partition) {
            let customer = n * 7919 % CUSTOMERS;
            writeln!(text, "{{\"customer\":\"c{customer}\",\"amount\":{n}}}").expect("text");
        }
        let path = dir.join(format!("in/{partition}.jsonl"));
        let mut file = File::options().create(true).append(true).open(path).expect("opened");
        file.write_all(text.as_bytes()).expect("written");
    }
}

/// Per customer the counts of its outputs and its last total.
fn outputs(dir: &Path) -> BTreeMap<String, (Vec<u64>, i64)> {
    let mut seen: BTreeMap<String, (Vec<u64>, i64)> = BTreeMap::new();
    for file in std::fs::read_dir(dir.join("out")).into_iter().flatten().flatten() {
        let text = std::fs::read_to_string(file.path()).unwrap_or_default();
        for line in text.lines() {
            let row: serde_json::Value = serde_json::from_str(line).unwrap_or_default();
            let row = row.get("value").cloned().unwrap_or(row);
            let (Some(customer), Some(orders), Some(total)) =
                (row["customer"].as_str(), row["orders"].as_u64(), row["total"].as_i64())
            else {
                continue;
            };
            let entry = seen.entry(customer.to_owned()).or_default();
            entry.0.push(orders);
            entry.1 = entry.1.max(total);
        }
    }
    seen
}

fn produced(dir: &Path) -> usize {
    outputs(dir).values().map(|(counts, _)| counts.len()).sum()
}

/// The store is what survives: the service is away at the start and in the middle, the instance is killed, its disk is lost, and
/// every record still has its one output.
#[test]
fn a_job_with_its_checkpoints_in_a_bucket_survives_outages_a_kill_and_an_empty_disk() {
    let server = Server::start();
    let dir = tempfile::tempdir().expect("a directory");
    pipeline(dir.path());
    append(dir.path(), 0..RECORDS / 4);
    server.always(Some((Method::GET, Fault::Answer(503, "SlowDown"))));
    let mut first = Program::start(dir.path(), &server, STORE, "first");
    first.until("waiting", |p| p.log().contains("waiting for the checkpoint store"));
    server.always(None);
    first.until("at work", |_| produced(dir.path()) >= RECORDS as usize / 4);

    // An epoch waits as it is while the service refuses it, and is not given up.
    server.always(Some((Method::PUT, Fault::Answer(403, "AccessDenied"))));
    append(dir.path(), RECORDS / 4..RECORDS / 2);
    first.until("told", |p| p.log().contains("AccessDenied"));
    assert_eq!(
        produced(dir.path()),
        RECORDS as usize / 4,
        "nothing is out before it is durable"
    );
    server.always(None);
    first.until("further", |_| produced(dir.path()) >= RECORDS as usize / 2);

    append(dir.path(), RECORDS / 2..RECORDS * 3 / 4);
    first.until("in the middle", |_| produced(dir.path()) > RECORDS as usize / 2);
    first.child.kill().expect("killed");
    first.child.wait().expect("ended");
    append(dir.path(), RECORDS * 3 / 4..RECORDS);
    let mut second = Program::start(dir.path(), &server, STORE, "second");
    second.until("done", |_| produced(dir.path()) >= RECORDS as usize);
    let asked = Command::new("kill").arg(second.child.id().to_string()).status();
    assert!(asked.expect("kill").success());
    assert_eq!(second.child.wait().expect("ended").code(), Some(0), "{}", second.log());

    let seen = outputs(dir.path());
    assert_eq!(seen.len() as u64, CUSTOMERS);
    for (customer, (mut counts, total)) in seen {
        counts.sort_unstable();
        let expected: Vec<u64> = (1..=RECORDS / CUSTOMERS).collect();
        assert_eq!(counts, expected, "{customer}: each count once");
        let id: u64 = customer[1..].parse().expect("a number");
        let sum: u64 = (0..RECORDS).filter(|n| n * 7919 % CUSTOMERS == id).sum();
        assert_eq!(total, sum as i64, "{customer}");
    }
}

/// What is a matter of settings ends a start, and the message says which.
#[test]
fn a_bucket_that_is_not_there_ends_the_start_with_the_way_out() {
    let server = Server::start();
    let dir = tempfile::tempdir().expect("a directory");
    pipeline(dir.path());
    let mut program = Program::start(dir.path(), &server, "s3://elsewhere", "state");
    let status = program.child.wait().expect("ended");
    let text = program.log();
    assert_eq!(status.code(), Some(13), "{text}");
    assert!(
        text.contains("s3://elsewhere") && text.contains("no such bucket"),
        "{text}"
    );
}
