//! Configuration and rules of Prometheus, checked by promtool, and what the rules say to examples.
use crate::files::{at, entries, list, path, read, yaml};
use crate::promql;
use keyfold::telemetry::MetricName;
use keyfold_service::yaml::Node;
use std::process::Command;

/// Runs promtool of Debian's package `prometheus` (scripts/packages.txt).
fn promtool(arguments: &[&str]) {
    let output = Command::new("promtool").args(arguments).current_dir(path(".")).output();
    let output = output.unwrap_or_else(|e| panic!("promtool: {e}; install the packages of scripts/packages.txt"));
    let told = [output.stdout, output.stderr].map(|out| String::from_utf8_lossy(&out).into_owned());
    assert!(output.status.success(), "promtool {arguments:?}: {}", told.concat());
}

fn rules(file: &Node) -> impl Iterator<Item = &Node> {
    list(file, "groups").iter().flat_map(|group| list(group, "rules"))
}

#[test]
fn promtool_takes_configuration_and_rules() {
    promtool(&["check", "config", "config/prometheus.yml"]);
    promtool(&["check", "rules", "config/alerts.yml"]);
}

/// Each rule is shown series for which it fires, and most of them series for which it does not.
#[test]
fn rules_fire_for_what_they_are_about() {
    promtool(&["test", "rules", "service/tests/around/alerts.yml"]);
}

#[test]
fn every_rule_is_about_metrics_that_there_are_and_has_an_example() {
    let file = yaml("config/alerts.yml");
    let examples = read("service/tests/around/alerts.yml");
    for rule in rules(&file) {
        let name = &at(rule, &["alert"]).text;
        for metric in promql::metrics(&at(rule, &["expr"]).text) {
            let known = metric == "up" || MetricName::of_series(&metric).is_some();
            assert!(known, "{name}: {metric} is no metric of Keyfold");
        }
        let severity = &at(rule, &["labels", "severity"]).text;
        assert!(
            ["warning", "critical"].contains(&severity.as_str()),
            "{name}: {severity}"
        );
        for part in ["summary", "description"] {
            assert!(!at(rule, &["annotations", part]).text.is_empty(), "{name}: {part}");
        }
        assert!(
            examples.contains(&format!("alertname: {name}\n")),
            "{name} has no example in service/tests/around/alerts.yml"
        );
    }
}

/// What is scraped is what the compose file and the settings serve.
#[test]
fn the_service_is_scraped_where_it_listens() {
    let config = yaml("config/prometheus.yml");
    let scrapes = list(&config, "scrape_configs");
    let of = |job: &str| scrapes.iter().find(|s| at(s, &["job_name"]).text == job).expect(job);
    let targets = |job: &str| {
        let config = &list(of(job), "static_configs")[0];
        list(config, "targets")[0].text.clone()
    };
    let target = targets("keyfold");
    let (host, port) = target.split_once(':').expect("host:port");
    let compose = yaml("docker-compose.yml");
    let services = entries(&compose, "services");
    assert!(services.iter().any(|(name, _)| name.text == host), "no service {host}");
    assert!(read("Dockerfile").contains(&format!("KEYFOLD_HTTP_LISTEN=0.0.0.0:{port}")));
    // The rules' names of jobs.
    assert!(read("config/alerts.yml").contains("up{job=\"keyfold\"}"));
}
