//! A real Prometheus, with the configuration and the rules of the repository.
use crate::service::{eventually, get};
use keyfold_e2e::guard::{die_with_parent, repo_root};
use serde_json::Value;
use std::process::{Child, Command, Stdio};

/// How often this one scrapes; the repository's configuration does every five seconds.
const SCRAPE: &str = "1s";

pub struct Prometheus {
    child: Child,
    address: String,
    _dir: tempfile::TempDir,
}

fn read(name: &str) -> String {
    std::fs::read_to_string(repo_root().join(name)).unwrap_or_else(|e| panic!("{name}: {e}"))
}

/// The repository's configuration with other addresses, and quicker.
fn configuration(service: &str, own: &str) -> String {
    let rules = repo_root().join("config/alerts.yml").display().to_string();
    let mut text = read("config/prometheus.yml");
    for (from, to) in [
        ("keyfold:9464", service),
        ("127.0.0.1:9090", own),
        ("- alerts.yml", &format!("- {rules}")),
        ("scrape_interval: 5s", &format!("scrape_interval: {SCRAPE}")),
        ("scrape_timeout: 4s", &format!("scrape_timeout: {SCRAPE}")),
        ("evaluation_interval: 15s", &format!("evaluation_interval: {SCRAPE}")),
    ] {
        assert!(text.contains(from), "config/prometheus.yml has no {from}");
        text = text.replace(from, to);
    }
    text
}

impl Prometheus {
    /// Starts it and waits until it has scraped `service`.
    pub fn start(service: &str) -> Prometheus {
        let dir = tempfile::tempdir().expect("a directory");
        let address = format!("127.0.0.1:{}", keyfold_e2e::broker::free_port().expect("a port"));
        let file = dir.path().join("prometheus.yml");
        std::fs::write(&file, configuration(service, &address)).expect("written");
        let mut command = Command::new("prometheus");
        command
            .arg(format!("--config.file={}", file.display()))
            .arg(format!("--storage.tsdb.path={}", dir.path().join("data").display()))
            .arg(format!("--web.listen-address={address}"))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        die_with_parent(&mut command);
        let child = command.spawn();
        let child = child.unwrap_or_else(|e| panic!("prometheus: {e}; install the packages of scripts/packages.txt"));
        let prometheus = Prometheus {
            child,
            address,
            _dir: dir,
        };
        eventually("a first scrape", || {
            let up = get(&prometheus.address, "/-/ready").map(|_| prometheus.query("up{job=\"keyfold\"}"))?;
            (up.first()?.1 == 1.0).then_some(())
        });
        prometheus
    }

    fn ask(&self, path: &str) -> Option<Value> {
        let answer: Value = serde_json::from_str(&get(&self.address, path)?).expect("JSON");
        assert_eq!(answer["status"], "success", "{path}: {answer}");
        Some(answer["data"].clone())
    }

    /// The series that an expression gives now, with their values. It must be one that Prometheus takes.
    #[track_caller]
    pub fn query(&self, expression: &str) -> Vec<(Value, f64)> {
        let path = format!("/api/v1/query?query={}", encoded(expression));
        let data = self.ask(&path);
        let data = data.unwrap_or_else(|| panic!("Prometheus refuses {expression}"));
        let series = |s: &Value| {
            let value = s["value"][1].as_str().and_then(|v| v.parse().ok());
            (s["metric"].clone(), value.unwrap_or(f64::NAN))
        };
        let result = data["result"].as_array().map(Vec::as_slice).unwrap_or_default();
        result.iter().map(series).collect()
    }

    /// The names of rules that could not be evaluated, with why.
    pub fn rules_that_fail(&self) -> Vec<String> {
        eventually("all rules evaluated", || {
            let data = self.ask("/api/v1/rules")?;
            let groups = data["groups"].as_array()?.clone();
            let rules = groups.iter().filter_map(|g| g["rules"].as_array()).flatten();
            let rules: Vec<Value> = rules.cloned().collect();
            let evaluated = !rules.is_empty() && rules.iter().all(|r| r["health"] != "unknown");
            let failed = rules.iter().filter(|r| r["health"] != "ok");
            evaluated.then(|| failed.map(|r| format!("{}: {}", r["name"], r["lastError"])).collect())
        })
    }

    pub fn is_firing(&self, alert: &str) -> bool {
        let data = self.ask("/api/v1/alerts").unwrap_or_default();
        let alerts = data["alerts"].as_array().map(Vec::as_slice).unwrap_or_default();
        alerts
            .iter()
            .any(|a| a["labels"]["alertname"] == alert && a["state"] == "firing")
    }
}

impl Drop for Prometheus {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn encoded(text: &str) -> String {
    let byte = |b: u8| match b {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'_' | b'.' => char::from(b).to_string(),
        b => format!("%{b:02X}"),
    };
    text.bytes().map(byte).collect()
}

/// As Grafana would send them, for all instances.
pub fn expressions_of_the_dashboard() -> Vec<String> {
    let dashboard: Value = serde_json::from_str(&read("grafana/dashboards/keyfold.json")).expect("JSON");
    let panels = dashboard["panels"].as_array().expect("panels").iter();
    let targets = panels.filter_map(|p| p["targets"].as_array()).flatten();
    let expressions = targets.filter_map(|t| t["expr"].as_str());
    expressions
        .map(|e| e.replace("$instance", ".*").replace("$__rate_interval", "10s"))
        .collect()
}
