//! The program `keyfold run`, in a process of its own.
use crate::topics::Topics;
use keyfold_e2e::guard::{die_with_parent, signal};
use keyfold_e2e::http;
use std::fs::File;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Nothing here takes more than a few seconds on a machine that has nothing else to do.
const PATIENCE: Duration = Duration::from_secs(120);

/// Waits until there is something.
#[track_caller]
pub fn eventually<T>(what: &str, mut found: impl FnMut() -> Option<T>) -> T {
    let began = Instant::now();
    loop {
        if let Some(found) = found() {
            return found;
        }
        assert!(began.elapsed() < PATIENCE, "not in {PATIENCE:?}: {what}");
        std::thread::sleep(Duration::from_millis(100));
    }
}

/// The body of an answer with status 200.
pub fn get(address: &str, path: &str) -> Option<String> {
    http::get(address, path).and_then(|(status, body)| (status == 200).then_some(body))
}

pub struct Service {
    child: Child,
    dir: tempfile::TempDir,
    pub address: String,
}

impl Service {
    pub fn start(topics: &Topics, pipeline: &str, variables: &[(&str, &str)]) -> Service {
        let dir = tempfile::tempdir().expect("a directory");
        let file = dir.path().join("pipeline.yaml");
        std::fs::write(&file, pipeline).expect("written");
        let address = format!("127.0.0.1:{}", keyfold_e2e::broker::free_port().expect("a port"));
        let log = File::create(dir.path().join("log")).expect("a log");
        let mut command = Command::new(env!("CARGO_BIN_EXE_keyfold"));
        command
            .arg("run")
            .arg(&file)
            .env("KEYFOLD_KAFKA_BROKERS", topics.brokers())
            .env("KEYFOLD_STATE_DIR", dir.path().join("state"))
            .env("KEYFOLD_CHECKPOINT_DIR", dir.path().join("checkpoints"))
            .env("KEYFOLD_HTTP_LISTEN", &address)
            .envs(variables.iter().copied())
            .current_dir(dir.path())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log);
        die_with_parent(&mut command);
        let child = command.spawn().expect("the program starts");
        Service { child, dir, address }
    }

    pub fn log(&self) -> String {
        std::fs::read_to_string(self.dir.path().join("log")).unwrap_or_default()
    }

    /// The value of a series, given as it is written.
    pub fn metric(&self, series: &str) -> Option<f64> {
        let text = get(&self.address, "/metrics")?;
        let line = text.lines().find_map(|line| line.strip_prefix(series))?;
        line.trim().parse().ok()
    }

    #[track_caller]
    pub fn until_processing(&mut self) {
        let began = Instant::now();
        while self.metric("keyfold_phase{phase=\"processing\"}") != Some(1.0) {
            let ended = self.child.try_wait().expect("a child");
            assert!(
                ended.is_none() && began.elapsed() < PATIENCE,
                "{ended:?}, and no records flow:\n{}",
                self.log()
            );
            std::thread::sleep(Duration::from_millis(100));
        }
    }

    /// Kills it with SIGKILL.
    pub fn kill(&mut self) {
        self.child.kill().expect("it runs");
        self.child.wait().expect("ended");
    }

    /// Its exit code, once it has ended by itself.
    #[track_caller]
    pub fn ended(&mut self) -> Option<i32> {
        eventually("the end of the program", || self.child.try_wait().expect("a child")).code()
    }

    /// Asks it to stop; a last epoch is committed.
    #[track_caller]
    pub fn stop(&mut self) {
        signal(self.child.id(), libc::SIGTERM).expect("it runs");
        let status = eventually("the end of the program", || self.child.try_wait().expect("a child"));
        assert!(status.success(), "{status}:\n{}", self.log());
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("{}", self.log());
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
