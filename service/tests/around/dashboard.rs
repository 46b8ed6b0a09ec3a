//! The dashboard of Grafana: it shows metrics that there are, through a source that is provisioned.
use crate::files::{at, list, read, texts, yaml};
use crate::promql;
use keyfold::telemetry::MetricName;
use serde_json::Value;
use std::collections::BTreeSet;

const DASHBOARD: &str = "grafana/dashboards/keyfold.json";

fn dashboard() -> Value {
    serde_json::from_str(&read(DASHBOARD)).unwrap_or_else(|e| panic!("{DASHBOARD}: {e}"))
}

fn items<'a>(value: &'a Value, key: &str) -> &'a [Value] {
    value[key].as_array().map(Vec::as_slice).unwrap_or_default()
}

fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value[key].as_str().unwrap_or_default()
}

/// Title and expression of every query of every panel.
fn expressions(dashboard: &Value) -> Vec<(String, String)> {
    let of_panel = |panel: &Value| {
        let title = text(panel, "title").to_owned();
        let targets = items(panel, "targets").iter();
        targets
            .map(|t| (title.clone(), text(t, "expr").to_owned()))
            .collect::<Vec<_>>()
    };
    items(dashboard, "panels").iter().flat_map(of_panel).collect()
}

/// Metrics that nobody has to look at.
const NOT_SHOWN: [MetricName; 1] = [MetricName::ProcessVirtual];

#[test]
fn every_panel_shows_metrics_that_there_are() {
    let mut shown: BTreeSet<&str> = BTreeSet::new();
    for (title, expression) in expressions(&dashboard()) {
        let names = promql::metrics(&expression);
        assert!(!names.is_empty(), "{title}: {expression} names no metric");
        for name in names {
            let metric = MetricName::of_series(&name);
            let metric = metric.unwrap_or_else(|| panic!("{title}: {name} is no metric of Keyfold"));
            shown.insert(metric.as_str());
        }
    }
    let rules = read("config/alerts.yml");
    let elsewhere = |m: &&MetricName| NOT_SHOWN.contains(m) || rules.contains(m.as_str());
    let hidden: Vec<&MetricName> = MetricName::ALL
        .iter()
        .filter(|m| !shown.contains(m.as_str()) && !elsewhere(m))
        .collect();
    assert!(hidden.is_empty(), "no panel and no rule shows {hidden:?}");
}

#[test]
fn panels_are_whole_and_do_not_lie_on_each_other() {
    let dashboard = dashboard();
    let panels = items(&dashboard, "panels");
    let ids: BTreeSet<i64> = panels.iter().filter_map(|p| p["id"].as_i64()).collect();
    assert_eq!(ids.len(), panels.len(), "ids are unique");
    let mut taken = BTreeSet::new();
    for panel in panels {
        let title = text(panel, "title");
        let is_row = panel["type"] == "row";
        assert!(
            !title.is_empty() && (is_row || !text(panel, "description").is_empty()),
            "{title}"
        );
        assert!(is_row || !items(panel, "targets").is_empty(), "{title} has no query");
        let place = |key: &str| panel["gridPos"][key].as_u64().expect("a place");
        assert!(place("x") + place("w") <= 24, "{title}");
        for x in place("x")..place("x") + place("w") {
            for y in place("y")..place("y") + place("h") {
                assert!(taken.insert((x, y)), "{title} lies on another panel");
            }
        }
    }
}

#[test]
fn the_dashboards_source_and_variable_are_there() {
    let dashboard = dashboard();
    let sources = yaml("grafana/provisioning/datasources/prometheus.yml");
    let uid = &at(&list(&sources, "datasources")[0], &["uid"]).text;
    for panel in items(&dashboard, "panels") {
        for of in [panel].into_iter().chain(items(panel, "targets")) {
            let named = &of["datasource"]["uid"];
            assert!(
                panel["type"] == "row" || named == uid.as_str(),
                "{named} is not provisioned"
            );
        }
    }
    let variable = &items(&dashboard["templating"], "list")[0];
    let query = text(variable, "definition");
    let metric = query.strip_prefix("label_values(").and_then(|q| q.split(',').next());
    assert!(metric.is_some_and(|m| MetricName::of_series(m).is_some()), "{query}");
    assert_eq!(text(variable, "name"), "instance", "what the expressions use");
}

/// Files are where the compose file puts them for Grafana and Prometheus.
#[test]
fn provisioning_finds_its_files_where_they_are_mounted() {
    let compose = yaml("docker-compose.yml");
    let mounted = |service: &str, from: &str, to: &str| {
        let mounts = texts(at(&compose, &["services", service]), "volumes");
        let wanted = format!("{from}:{to}:ro");
        assert!(
            mounts.contains(&wanted.as_str()),
            "{service} has not {wanted}: {mounts:?}"
        );
    };
    let provider = yaml("grafana/provisioning/dashboards/keyfold.yml");
    let folder = &at(&list(&provider, "providers")[0], &["options", "path"]).text;
    mounted("grafana", "./grafana/dashboards", folder);
    mounted("grafana", "./grafana/provisioning", "/etc/grafana/provisioning");
    let sources = yaml("grafana/provisioning/datasources/prometheus.yml");
    let url = &at(&list(&sources, "datasources")[0], &["url"]).text;
    assert_eq!(url, "http://prometheus:9090");
    mounted(
        "prometheus",
        "./config/prometheus.yml",
        "/etc/prometheus/prometheus.yml",
    );
    let config = yaml("config/prometheus.yml");
    for file in texts(&config, "rule_files") {
        mounted(
            "prometheus",
            &format!("./config/{file}"),
            &format!("/etc/prometheus/{file}"),
        );
    }
    let interval = &at(&config, &["global", "scrape_interval"]).text;
    let told = &at(&list(&sources, "datasources")[0], &["jsonData", "timeInterval"]).text;
    assert_eq!(interval, told, "Grafana's rates need the interval of the scrapes");
}
