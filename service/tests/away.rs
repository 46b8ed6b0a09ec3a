//! The program while no broker is there: it waits, and whoever looks at it sees that it does, and why.
use keyfold_e2e::broker::free_port;
use keyfold_e2e::guard::die_with_parent;
use keyfold_e2e::http::get;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

const PATIENCE: Duration = Duration::from_secs(120);

/// With or without a sink that is a topic: its source is looked for elsewhere than its sink.
fn pipeline(sink: &str) -> String {
    format!(
        "job: away\nsources: {{ orders: {{ connector: kafka, topic: orders, value: string }} }}\n\
         sinks: {{ totals: {{ {sink}, value: json }} }}\n"
    )
}

struct Program {
    child: Child,
    address: String,
    dir: tempfile::TempDir,
}

impl Program {
    fn start(sink: &str) -> Program {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("pipeline.yaml");
        std::fs::write(&path, pipeline(sink)).expect("written");
        let log = std::fs::File::create(dir.path().join("log")).expect("a log");
        let port = || free_port().expect("a port");
        let (address, broker) = (format!("127.0.0.1:{}", port()), format!("127.0.0.1:{}", port()));
        let mut command = Command::new(env!("CARGO_BIN_EXE_keyfold"));
        command
            .args(["run", "--kafka-brokers", &broker, "--http-listen", &address])
            .arg(&path)
            .env("KEYFOLD_STATE_DIR", dir.path().join("state"))
            .env("KEYFOLD_CHECKPOINT_DIR", dir.path().join("checkpoints"))
            .stdout(Stdio::null())
            .stderr(log);
        die_with_parent(&mut command);
        let child = command.spawn().expect("started");
        Program { child, address, dir }
    }

    fn log(&self) -> String {
        std::fs::read_to_string(self.dir.path().join("log")).unwrap_or_default()
    }

    #[track_caller]
    fn until(&self, path: &str, status: u16, parts: &[&str]) -> String {
        let began = Instant::now();
        loop {
            let (found, answer) = get(&self.address, path).unwrap_or_default();
            if found == status && parts.iter().all(|part| answer.contains(part)) {
                return answer;
            }
            let late = began.elapsed() > PATIENCE;
            assert!(!late, "no {parts:?} in {answer}\nthe log:\n{}", self.log());
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// `/metrics` was empty, with status 200, until the brokers had been there once, so that no rule could tell of a job that does not begin.
#[test]
fn a_start_that_waits_for_its_brokers_has_metrics_and_says_what_for() {
    for (sink, why) in [
        (
            "connector: kafka, topic: totals",
            "starting: waiting for the output topic totals: ",
        ),
        (
            "connector: files, dir: out",
            "starting: the job's topics were looked for",
        ),
    ] {
        let mut program = Program::start(sink);
        program.until("/health/ready", 503, &["\"phase\":\"starting\"", why]);
        let metrics = program.until(
            "/metrics",
            200,
            &["keyfold_phase{phase=\"starting\"} 1\n", "keyfold_build_info"],
        );
        let retries = |line: &str| {
            let count = line.strip_prefix("keyfold_retries_total{step=\"topic\"} ")?;
            count.parse::<f64>().ok()
        };
        let retries = metrics.lines().find_map(retries);
        assert!(retries >= Some(1.0), "{metrics}");
        // The rule KeyfoldRetrying.
        assert!(!metrics.contains("keyfold_backoff_seconds 0\n"), "{metrics}");
        let began = Instant::now();
        while !program.log().contains("--kafka-brokers") {
            assert!(began.elapsed() < PATIENCE, "{}", program.log());
            std::thread::sleep(Duration::from_millis(50));
        }
        if !sink.contains("kafka") {
            continue;
        }
        let asked = Command::new("kill").arg(program.child.id().to_string()).status();
        assert!(asked.expect("kill").success());
        let status = program.child.wait().expect("ended");
        assert_eq!(status.code(), Some(0), "{}", program.log());
    }
}

/// A topic that is not there is a matter of settings, not of waiting: exit 13, and what to do. Nothing is made in its place.
#[test]
fn a_topic_that_is_not_there_ends_the_start_with_the_way_out() {
    let broker = keyfold_e2e::Broker::shared();
    let there = broker.fresh_topic("there", 1).expect("topic");
    for (source, sink, missing) in [
        ("no-such-source", there.as_str(), "no-such-source"),
        (&there, "no-such-sink", "no-such-sink"),
    ] {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("pipeline.yaml");
        let text = format!(
            "job: away\nsources: {{ orders: {{ connector: kafka, topic: {source}, value: string }} }}\n\
             sinks: {{ totals: {{ connector: kafka, topic: {sink}, value: json }} }}\n"
        );
        std::fs::write(&path, text).expect("written");
        let output = Command::new(env!("CARGO_BIN_EXE_keyfold"))
            .args(["run", "--kafka-brokers", &broker.bootstrap(), "--http-listen", "off"])
            .arg(&path)
            .env("KEYFOLD_STATE_DIR", dir.path().join("state"))
            .env("KEYFOLD_CHECKPOINT_DIR", dir.path().join("checkpoints"))
            .output()
            .expect("run");
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(13), "{said}");
        assert!(said.contains(missing) && said.contains("create it"), "{said}");
    }
}
