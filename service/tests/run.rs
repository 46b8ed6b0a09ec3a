//! The run loop in a process of its own: signals, exit codes, health, the log. The job is made by hand: a generator, counts, files.
use keyfold::testing::Faults;
use keyfold::topology::Job;
use keyfold::types::codec::{LongBe, Utf8};
use keyfold_datagen::{DatagenConfig, DatagenSource};
use keyfold_e2e::http::get;
use keyfold_files::FilesSink;
use keyfold_service::console::Console;
use keyfold_service::logging;
use keyfold_service::run::{Commits, RunnableJob, run};
use keyfold_service::settings::{Layers, Settings};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

const DIR: &str = "RUN_TEST_DIR";
const FAULTS: &str = "RUN_TEST_FAULTS";
const PATIENCE: Duration = Duration::from_secs(60);

fn job(dir: PathBuf) -> RunnableJob {
    RunnableJob {
        id: "counts".to_owned(),
        commits: Commits::Store,
        single_because: Some("its source is no topic".to_owned()),
        topology: Box::new(move |_| {
            let mut config = DatagenConfig::new("orders");
            config.partitions = 2;
            config.rate_per_second = Some(2000);
            let job = Job::new("counts");
            job.source("orders", Box::new(DatagenSource::from_config(config)), |record| {
                Ok(String::from_utf8_lossy(record.key.unwrap_or_default()).into_owned())
            })
            .key_by("customer", Utf8, |customer| customer.clone())
            .count("counts")
            .to("out", FilesSink::new(dir.join("out")), LongBe);
            job.build().map_err(|e| e.to_string())
        }),
    }
}

/// Variables of the settings, without `KEYFOLD_FAULTS` and the like of whoever runs the tests.
fn settings() -> Settings {
    let ours = |(name, _): &(String, _)| name.starts_with("KEYFOLD_RUN_");
    let variables = std::env::vars_os().filter_map(|(name, value)| Some((name.into_string().ok()?, value)));
    let variables = variables
        .filter(ours)
        .map(|(name, value)| (name.replace("_RUN_", "_"), value));
    let layers = Layers {
        variables: variables.collect(),
        ..Layers::default()
    };
    layers.load().unwrap_or_else(|wrong| panic!("{wrong:?}"))
}

/// Not a test by itself: the process that the others start.
#[test]
fn child() {
    let Some(dir) = std::env::var_os(DIR) else { return };
    let faults = Faults::parse(&std::env::var(FAULTS).unwrap_or_default()).expect("faults");
    let (settings, console) = (settings(), Console::stderr());
    logging::start(&settings.log(), &console);
    let code = match run(job(dir.into()), &settings, faults, &console) {
        Ok(()) => 0,
        Err(error) => {
            console.say(&format!("keyfold: {error}"));
            error.exit_code() as i32
        }
    };
    std::process::exit(code);
}

/// A running child; killed when dropped.
struct Run {
    child: Child,
    log: Arc<Mutex<Vec<String>>>,
}

impl Run {
    fn start(dir: &Path, variables: &[(&str, &str)]) -> Run {
        let mut command = Command::new(std::env::current_exe().expect("a path"));
        command.args(["--exact", "child", "--nocapture"]).env(DIR, dir);
        for (name, value) in [("STATE_DIR", "state"), ("CHECKPOINT_DIR", "store")] {
            command.env(format!("KEYFOLD_RUN_{name}"), dir.join(value));
        }
        command
            .env("KEYFOLD_RUN_HTTP_LISTEN", "127.0.0.1:0")
            .env("KEYFOLD_RUN_EPOCH_INTERVAL", "100ms");
        command.envs(variables.iter().copied());
        let mut child = command
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .expect("started");
        let log: Arc<Mutex<Vec<String>>> = Arc::default();
        let (lines, err) = (log.clone(), child.stderr.take().expect("piped"));
        std::thread::spawn(move || {
            for line in BufReader::new(err).lines().map_while(Result::ok) {
                lines.lock().expect("not poisoned").push(line);
            }
        });
        Run { child, log }
    }

    fn log(&self) -> String {
        self.log.lock().expect("not poisoned").join("\n")
    }

    #[track_caller]
    fn until<T>(&mut self, what: &str, mut found: impl FnMut(&Run) -> Option<T>) -> T {
        let began = Instant::now();
        while began.elapsed() < PATIENCE {
            if let Some(found) = found(self) {
                return found;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        panic!("no {what} in:\n{}", self.log());
    }

    /// Where health and metrics are served.
    fn address(&mut self) -> String {
        self.until("address", |run| {
            let log = run.log();
            let at = log.find("127.0.0.1:")?;
            let rest = &log[at..];
            let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.' && c != ':')?;
            Some(rest[..end].to_owned())
        })
    }

    #[track_caller]
    fn until_health(&mut self, status: u16, phase: &str) -> String {
        let address = self.address();
        self.until(phase, |_| {
            let (found, body) = get(&address, "/health/ready")?;
            (found == status && body.contains(&format!("\"phase\":\"{phase}\""))).then_some(body)
        })
    }

    fn signal(&self, signal: &str) {
        let sent = Command::new("kill")
            .args([signal, &self.child.id().to_string()])
            .status();
        assert!(sent.expect("kill").success());
    }

    fn ended(&mut self) -> Option<i32> {
        let began = Instant::now();
        while began.elapsed() < PATIENCE {
            if let Some(status) = self.child.try_wait().expect("asked") {
                // The reader of the log ends with it.
                std::thread::sleep(Duration::from_millis(100));
                return status.code();
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        panic!("still running:\n{}", self.log());
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        // It has ended already, but for a test that fails.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn sigterm_commits_a_last_epoch_and_the_next_start_goes_on() {
    let dir = tempfile::tempdir().expect("a directory");
    for start in 0..2 {
        let mut run = Run::start(dir.path(), &[("KEYFOLD_RUN_LOG_FORMAT", "json")]);
        let health = run.until_health(200, "processing");
        assert!(health.contains("\"ready\":true"), "{health}");
        let address = run.address();
        run.until("committed records", |_| {
            let (_, metrics) = get(&address, "/metrics")?;
            metrics
                .lines()
                .any(|line| line.starts_with("keyfold_records_committed_total ") && !line.ends_with(" 0"))
                .then_some(())
        });
        assert_eq!(get(&address, "/health/live").expect("live").0, 200);
        run.signal("-TERM");
        assert_eq!(run.ended(), Some(0), "{}", run.log());
        // Every line is JSON, and the last tells the end.
        let log = run.log();
        let lines: Vec<serde_json::Value> = log
            .lines()
            .map(|line| serde_json::from_str(line).unwrap_or_else(|e| panic!("{e}: {line}")))
            .collect();
        let last = lines.last().expect("lines");
        assert_eq!(last["message"], "stopped", "{log}");
        assert!(last["records"].as_u64() > Some(0), "{log}");
        assert!(start == 0 || log.contains("restored"), "{log}");
    }
    assert!(
        std::fs::read_dir(dir.path().join("state/counts"))
            .expect("a directory for the job")
            .count()
            > 0
    );
}

/// A file in the directory's place was told as an object with other contents.
#[test]
fn a_file_in_place_of_the_checkpoint_directory_is_named() {
    let dir = tempfile::tempdir().expect("a directory");
    std::fs::write(dir.path().join("store"), "").expect("written");
    let mut run = Run::start(dir.path(), &[]);
    assert_eq!(run.ended(), Some(13));
    let told = format!(
        "keyfold: setting checkpoint_dir: {}: is a file",
        dir.path().join("store").display()
    );
    assert!(run.log().contains(&told), "{}", run.log());
}

/// A checkpoint store that hangs: the run says that it gets nowhere, and that it does again.
#[test]
fn a_run_that_gets_nowhere_is_not_ready_until_it_moves_again() {
    let dir = tempfile::tempdir().expect("a directory");
    let go_on = dir.path().join("go-on");
    let faults = format!("object_built=wait:{}@3", go_on.display());
    let mut run = Run::start(dir.path(), &[(FAULTS, &faults), ("KEYFOLD_RUN_STALL_AFTER", "1s")]);
    let health = run.until_health(503, "stalled");
    assert!(health.contains("not progressing since"), "{health}");
    run.until("a warning", |run| run.log().contains("phase=\"stalled\"").then_some(()));
    std::fs::write(&go_on, "").expect("written");
    run.until_health(200, "processing");
    run.signal("-INT");
    assert_eq!(run.ended(), Some(0), "{}", run.log());
}

#[test]
fn a_second_sigint_ends_at_once() {
    let dir = tempfile::tempdir().expect("a directory");
    let faults = format!("object_built=wait:{}@3", dir.path().join("never").display());
    let mut run = Run::start(dir.path(), &[(FAULTS, &faults), ("KEYFOLD_RUN_STALL_AFTER", "1s")]);
    run.until_health(503, "stalled");
    run.signal("-INT");
    run.until("a stop", |run| run.log().contains("stopping").then_some(()));
    // `timeout -s INT` and terminals send the same one to the group and to the process.
    run.signal("-INT");
    std::thread::sleep(Duration::from_millis(700));
    assert!(run.child.try_wait().expect("asked").is_none(), "one Ctrl-C, sent twice");
    // Supervisors send several of these.
    run.signal("-TERM");
    run.signal("-INT");
    assert_eq!(run.ended(), Some(130), "{}", run.log());
}

#[test]
fn a_port_that_is_taken_ends_the_start_with_the_way_out() {
    let dir = tempfile::tempdir().expect("a directory");
    let taken = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = taken.local_addr().expect("bound").to_string();
    let mut run = Run::start(dir.path(), &[("KEYFOLD_RUN_HTTP_LISTEN", &address)]);
    assert_eq!(run.ended(), Some(1));
    assert!(
        run.log()
            .contains(&format!("keyfold: http.listen {address}: Address already in use")),
        "{}",
        run.log()
    );
    assert!(
        run.log().contains("--http-listen 127.0.0.1:0 takes a free one"),
        "{}",
        run.log()
    );
}
