//! The command line as a user sees it: answers, messages, exit codes.
use std::process::{Command, Output};

/// Runs `keyfold` without the variables of whoever runs the tests.
fn keyfold(arguments: &[&str], variables: &[(&str, &str)]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_keyfold"));
    command.args(arguments);
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("KEYFOLD_") {
            command.env_remove(name);
        }
    }
    command.envs(variables.iter().copied()).output().expect("run")
}

fn out(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn err(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn the_version_is_told_with_that_of_the_client_and_its_tls() {
    let output = keyfold(&["version"], &[]);
    let text = out(&output);
    assert_eq!(output.status.code(), Some(0), "{text}");
    assert!(
        text.starts_with(&format!("keyfold {}\nlibrdkafka 2.", env!("CARGO_PKG_VERSION"))),
        "{text}"
    );
    assert!(text.contains(" ssl,"), "{text}");
    let json: serde_json::Value =
        serde_json::from_str(&out(&keyfold(&["version", "--output", "json"], &[]))).expect("JSON");
    assert_eq!(json["keyfold"], env!("CARGO_PKG_VERSION"));
}

#[test]
fn settings_are_listed_with_where_they_come_from() {
    let variables = [
        ("KEYFOLD_SHARDS", "8"),
        ("KEYFOLD_KAFKA_PROPERTIES_SASL_PASSWORD", "hunter2"),
    ];
    let output = keyfold(&["settings", "--epoch-interval", "2s", "--output", "json"], &variables);
    assert_eq!(output.status.code(), Some(0), "{}", err(&output));
    let text = out(&output);
    assert!(!text.contains("hunter2"), "{text}");
    let rows: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    let row = |name: &str| {
        rows.as_array()
            .expect("a list")
            .iter()
            .find(|row| row["name"] == name)
            .expect(name)
            .clone()
    };
    assert_eq!(
        row("epoch_interval"),
        serde_json::json!({ "name": "epoch_interval", "value": "2s", "from": "--epoch-interval" })
    );
    assert_eq!(row("shards")["from"], "KEYFOLD_SHARDS");
    assert_eq!(row("kafka.properties.sasl.password")["value"], "[redacted]");
    let text = out(&keyfold(&["settings"], &variables));
    assert!(text.contains("kafka.properties.sasl.password  [redacted]"), "{text}");
}

#[test]
fn wrong_settings_and_flags_are_usage_errors() {
    let output = keyfold(&["settings", "--shards", "many"], &[("KEYFOLD_EPOCH_INTERVALL", "1s")]);
    assert_eq!(output.status.code(), Some(2));
    assert_eq!(
        err(&output),
        "KEYFOLD_EPOCH_INTERVALL: no setting has this variable
help: did you mean KEYFOLD_EPOCH_INTERVAL?

--shards: setting shards: `many` is not a whole number
help: expected a whole number from 1 to 32768, such as `4`

keyfold: 2 errors; nothing has begun
"
    );
    assert_eq!(out(&output), "");
    let output = keyfold(&["settings", "--epoch-intervall", "1s"], &[]);
    assert_eq!(output.status.code(), Some(2));
    assert!(err(&output).contains("'--epoch-interval'"), "{}", err(&output));
    assert_eq!(keyfold(&["nothing"], &[]).status.code(), Some(2));
    let output = keyfold(&["settings"], &[("KEYFOLD_CONFIG", "no/such.yaml")]);
    assert_eq!(output.status.code(), Some(2));
    assert!(
        err(&output).starts_with("no/such.yaml: cannot be read"),
        "{}",
        err(&output)
    );
}

#[test]
fn completions_are_written_for_every_shell() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let output = keyfold(&["completions", shell], &[]);
        assert_eq!(output.status.code(), Some(0));
        assert!(out(&output).contains("kafka-brokers"), "{shell}");
    }
}

/// Whoever reads may stop reading.
#[test]
fn an_answer_that_nobody_reads_to_its_end_is_no_error() {
    let mut child = Command::new(env!("CARGO_BIN_EXE_keyfold"))
        .args(["completions", "bash"])
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .expect("run");
    drop(child.stdout.take());
    let output = child.wait_with_output().expect("ended");
    assert_eq!((output.status.code(), err(&output)), (Some(0), String::new()));
}

/// A pipeline of config/pipelines.
fn sample(name: &str) -> String {
    format!("{}/../config/pipelines/{name}", env!("CARGO_MANIFEST_DIR"))
}

#[test]
fn a_pipeline_is_validated_and_shown_without_a_broker() {
    let path = sample("customer-totals.yaml");
    let output = keyfold(&["validate", &path], &[]);
    assert_eq!(
        (output.status.code(), out(&output)),
        (
            Some(0),
            format!(
                "{path}: good, job customer-totals; single mode: step totals gives rows another key than their record's; for group mode key them by `_key` alone\n"
            )
        )
    );
    let json: serde_json::Value =
        serde_json::from_str(&out(&keyfold(&["topology", &path, "--output", "json"], &[]))).expect("JSON");
    assert_eq!(json["parts"][1]["does"], "filter amount > 0 AND customer IS NOT NULL");
    let chart = out(&keyfold(&["topology", &path, "--output", "mermaid"], &[]));
    assert!(chart.starts_with("flowchart LR\n"), "{chart}");
}

#[test]
fn all_that_is_wrong_with_a_pipeline_is_told() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("wrong.yaml");
    let text = std::fs::read_to_string(sample("customer-totals.yaml")).expect("a pipeline");
    std::fs::write(
        &path,
        text.replace("amount > 0", "amout > 0")
            .replace("topic: orders", "topik: orders"),
    )
    .expect("written");
    let path = path.display().to_string();
    let output = keyfold(&["validate", &path], &[]);
    let told = err(&output);
    assert_eq!(output.status.code(), Some(2), "{told}");
    assert!(
        told.contains("source orders: unknown key `topik`") && told.contains("step paid: there is no field `amout`"),
        "{told}"
    );
    assert!(told.ends_with("keyfold: 3 errors; nothing has begun\n"), "{told}");
    assert_eq!(keyfold(&["run", &path], &[]).status.code(), Some(2));
    let output = keyfold(&["validate", &path, "--output", "json"], &[]);
    let json: serde_json::Value = serde_json::from_str(&out(&output)).expect("JSON");
    assert_eq!(
        (output.status.code(), json["errors"][0]["line"].as_u64()),
        (Some(2), Some(6)),
        "{json}"
    );
}
