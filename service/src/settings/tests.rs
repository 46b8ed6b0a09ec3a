use super::table::{self, ALL, Setting};
use super::*;
use crate::yaml::Diagnostic;
use clap::{Args, Command, FromArgMatches};
use keyfold::config::{Config, Guarantee};
use keyfold::types::Partitioner;
use std::path::Path;
use std::time::Duration;

/// Settings from a file's text, variables and flags.
fn layers(file: &str, variables: &[(&str, &str)], flags: &[&str]) -> Result<Settings, Vec<Diagnostic>> {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("keyfold.yaml");
    std::fs::write(&path, file).expect("written");
    let command = SettingFlags::augment_args(Command::new("keyfold").no_binary_name(true));
    let matches = command.try_get_matches_from(flags).unwrap_or_else(|e| panic!("{e}"));
    let layers = Layers {
        file: Some(path),
        variables: variables
            .iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).into()))
            .collect(),
        flags: SettingFlags::from_arg_matches(&matches).expect("taken").given(),
    };
    layers.load()
}

fn taken(file: &str, variables: &[(&str, &str)], flags: &[&str]) -> Settings {
    layers(file, variables, flags).unwrap_or_else(|wrong| panic!("{}", shown(&wrong)))
}

fn defaults() -> Settings {
    taken("", &[], &[])
}

/// Messages as they are printed, without the directory of the test.
fn shown(wrong: &[Diagnostic]) -> String {
    let texts = wrong.iter().map(|diagnostic| {
        let mut diagnostic = diagnostic.clone();
        if let Some(name) = Path::new(&diagnostic.file).file_name() {
            diagnostic.file = name.to_string_lossy().into_owned();
        }
        diagnostic.to_string()
    });
    texts.collect::<Vec<_>>().join("\n\n")
}

fn refused(file: &str, variables: &[(&str, &str)], flags: &[&str]) -> String {
    match layers(file, variables, flags) {
        Ok(_) => panic!("taken: {file:?} {variables:?} {flags:?}"),
        Err(wrong) => shown(&wrong),
    }
}

fn row(settings: &Settings, name: &str) -> Listing {
    let found = listing(settings).into_iter().find(|row| row.name == name);
    found.unwrap_or_else(|| panic!("no {name}"))
}

#[test]
fn the_table_has_every_name_once_and_its_defaults_are_taken() {
    for (index, setting) in ALL.iter().enumerate() {
        for other in &ALL[..index] {
            assert_ne!(setting.name, other.name);
            assert_ne!(setting.variable(), other.variable());
            assert_ne!(setting.flag(), other.flag());
        }
        assert!(
            setting.meaning.ends_with('.') && !setting.meaning.contains("  "),
            "{}",
            setting.name
        );
        assert!(
            setting.is_properties()
                || setting.default == "auto" && setting.auto.is_some()
                || setting.kind.parse(setting.default).is_ok()
        );
        let shown = setting.kind.parse(setting.kind.example());
        assert!(
            setting.default != "auto" || shown.is_ok(),
            "{}: its example is refused: {shown:?}",
            setting.name
        );
    }
    // What a message shows of a default reads as that default.
    for row in listing(&defaults()) {
        assert_eq!(
            Some(row.value.as_str()),
            table::find(&row.name).map(|s| s.default),
            "{}",
            row.name
        );
    }
}

#[test]
fn the_defaults_are_those_of_the_engine_and_of_the_connector() {
    let settings = defaults();
    let engine = settings.engine("totals");
    assert_eq!(format!("{engine:?}"), format!("{:?}", Config::new("data/state/totals")));
    assert_eq!(settings.timeouts(), GroupTimeouts::default());
    assert_eq!(
        format!("{:?}", settings.kafka()),
        format!("{:?}", KafkaConfig::new("127.0.0.1:9092"))
    );
    assert_eq!(settings.mode(), Mode::Auto);
}

/// A field of the engine's configuration that no setting reaches does not compile here.
#[test]
fn every_setting_of_the_engine_can_be_set() {
    let settings = taken(
        "guarantee: at_least_once
epoch_interval: 250ms
state_dir: s
shards: 8
max_parallelism: 64
partitioner: crc32
source_lanes: 3
keyed_lanes: 5
memory: 1GiB
max_future: 10m
take_over: true
accept_lost_pointers: true
recommit_interval: 1m
transaction_timeout: 20s
instance: i-1
leave_group: true
revoke_budget: 500ms
stall_after: 30s
refusal_retries_max: 1
chain_objects_max: 9
chain_bytes_min: 2MiB
checkpoint_grace: 3h
kafka: { session_timeout: 12s, heartbeat_interval: 500ms, max_poll_interval: 2m, brokers: 'a:1,b:2' }
",
        &[],
        &[],
    );
    let Config {
        guarantee,
        epoch_interval,
        state_dir,
        shards,
        max_parallelism,
        partitioner,
        source_lanes,
        keyed_lanes,
        memory_bytes,
        // Of the engine alone: below it there is nothing to save.
        at_once_bytes: _,
        max_future,
        take_over,
        accept_lost_pointers,
        recommit_interval,
        transaction_timeout,
        instance,
        leave_group,
        revoke_budget,
        stall_after,
        refusal_retries_max,
        chain_objects_max,
        chain_bytes_min,
        grace,
    } = settings.engine("j");
    let s = Duration::from_secs;
    assert_eq!(guarantee, Guarantee::AtLeastOnce);
    assert_eq!(
        (epoch_interval, max_future, recommit_interval),
        (Duration::from_millis(250), s(600), s(60))
    );
    assert_eq!(state_dir, Path::new("s/j"));
    assert_eq!(
        (shards, max_parallelism, source_lanes, keyed_lanes),
        (8, Some(64), 3, 5)
    );
    assert_eq!(
        (partitioner, memory_bytes, refusal_retries_max),
        (Partitioner::Crc32, 1 << 30, 1)
    );
    assert_eq!((chain_objects_max, chain_bytes_min, grace), (9, 2 << 20, s(3 * 3600)));
    assert!(take_over && accept_lost_pointers && leave_group);
    assert_eq!(
        (transaction_timeout, revoke_budget, stall_after),
        (s(20), Duration::from_millis(500), s(30))
    );
    assert_eq!(instance.as_deref(), Some("i-1"));
    let GroupTimeouts {
        session,
        heartbeat,
        max_poll,
    } = settings.timeouts();
    assert_eq!(
        (session, heartbeat, max_poll),
        (s(12), Duration::from_millis(500), s(120))
    );
    assert_eq!(settings.brokers(), "a:1,b:2");
}

#[test]
fn flags_go_before_variables_before_the_file_before_defaults() {
    let file = "epoch_interval: 2s\nshards: 2\nkafka:\n  properties: { client.id: file, client.rack: file }\n";
    let variables = [
        ("KEYFOLD_SHARDS", "3"),
        ("KEYFOLD_MEMORY", "256MiB"),
        ("KEYFOLD_KAFKA_PROPERTIES_CLIENT_ID", "variable"),
        ("HOME", "elsewhere"),
    ];
    let flags = [
        "--memory",
        "128MiB",
        "--take-over",
        "--kafka-properties",
        "client.id=flag=x",
    ];
    let settings = taken(file, &variables, &flags);
    let is = |name: &str, value: &str, from: &str| {
        let row = row(&settings, name);
        let from_it = row.from.rsplit('/').next();
        assert_eq!((row.value.as_str(), from_it), (value, Some(from)), "{name}");
    };
    is("epoch_interval", "2s", "keyfold.yaml:1");
    is("shards", "3", "KEYFOLD_SHARDS");
    is("memory", "128MiB", "--memory");
    is("take_over", "true", "--take-over");
    is("source_lanes", "1", "default");
    is("kafka.properties.client.id", "flag=x", "--kafka-properties");
    is("kafka.properties.client.rack", "file", "keyfold.yaml:4");
    let config = format!("{:?}", settings.kafka());
    assert!(config.contains("\"client.id\": \"flag=x\""), "{config}");
}

/// The table of wrong settings, with the message that each gets.
#[test]
fn what_is_wrong_is_refused_with_its_place_and_the_way_out() {
    let files = [
        "epoch_intervall: 1s\n",
        "kafka:\n  broker: x:1\n",
        "kafka.brokers: x:1\n",
        "colour: red\n",
        "brokers: x:1\n",
        "kafka: x:9092\n",
        "- epoch_interval\n",
        "epoch_interval: 1000\n",
        "epoch_interval: fast\n",
        "epoch_interval: 1ms\n",
        "epoch_interval:\n",
        "epoch_interval: [1s]\n",
        "memory: 512MB\n",
        "memory: 1KiB\n",
        "memory: 99999999999999999TiB\n",
        "shards: 0\n",
        "shards: -4\n",
        "shards: 4.5\n",
        "shards: four\n",
        "guarantee: exactly-once\n",
        "mode: cluster\n",
        "take_over: yes\n",
        "instance: a.b\n",
        "keyed_lanes: many\n",
        "state_dir: ''\n",
        "state_dir: x\ncheckpoint_dir: x\n",
        "http: { listen: 9464 }\n",
        "http: { listen: '127.0.0.1:99999' }\n",
        "log: { format: xml }\n",
        "log: { level: verbose }\n",
        "kafka: { brokers: 'kafka' }\n",
        "kafka: { properties: [a] }\n",
        "kafka: { properties: { client.id: } }\n",
        "kafka: { properties: { isolation.level: read_uncommitted } }\n",
        "kafka: { properties: { session.timeout.ms: 1000 } }\n",
        "kafka: { producer_properties: { acks: 1 } }\n",
        "kafka: { properties: { securty.protocol: ssl } }\n",
        "kafka: { properties: { security.protocol: tls } }\n",
        "kafka: { consumer_properties: { nonsense: 1 } }\n",
        "kafka: { session_timeout: 2s, heartbeat_interval: 1s }\n",
        "kafka: { max_poll_interval: 5s }\n",
        "instance: ${HOSTNAME}\n",
        "instance: ${\n",
        "epoch_interval: ${INTERVAL}\n",
        "shards: 2\nshards: 4\n",
        "shards: 2\n\tmemory: 1GiB\n",
        "shards: 0\nmemory: much\nmode: cluster\n",
    ];
    let mut out = String::new();
    for file in files {
        out.push_str(&format!(
            "{file:?}\n{}\n\n",
            refused(file, &[("INTERVAL", "soon")], &[])
        ));
    }
    let variables = [
        ("KEYFOLD_EPOCH_INTERVALL", "1s"),
        ("KEYFOLD_BROKERS", "x:1"),
        ("KEYFOLD_COLOUR", "red"),
        ("KEYFOLD_SHARDS", "many"),
        ("KEYFOLD_KAFKA_PROPERTIES", "client.id=x"),
        ("KEYFOLD_KAFKA_PROPERTIES_SASL_PASWORD", "hunter2"),
        ("KEYFOLD_KAFKA_PROPERTIES_GROUP_ID", "x"),
    ];
    for variable in variables {
        out.push_str(&format!(
            "{}={}\n{}\n\n",
            variable.0,
            variable.1,
            refused("", &[variable], &[])
        ));
    }
    for flags in [
        vec!["--shards", "many"],
        vec!["--kafka-properties", "client.id"],
        vec!["--kafka-properties", "=x"],
        vec!["--take-over=maybe"],
    ] {
        out.push_str(&format!("{}\n{}\n\n", flags.join(" "), refused("", &[], &flags)));
    }
    insta::assert_snapshot!(out);
}

#[test]
fn a_file_that_is_not_there_is_named() {
    let layers = Layers {
        file: Some("no/such.yaml".into()),
        ..Layers::default()
    };
    let wrong = layers.load().err().expect("not there");
    assert!(
        wrong[0]
            .to_string()
            .starts_with("no/such.yaml: cannot be read: No such file"),
        "{}",
        wrong[0]
    );
}

#[test]
fn variables_of_kubernetes_are_not_ours() {
    let variables = [
        ("KEYFOLD_SERVICE_HOST", "10.0.0.1"),
        ("KEYFOLD_SERVICE_PORT", "9464"),
        ("KEYFOLD_SERVICE_PORT_HTTP", "9464"),
        ("KEYFOLD_PORT", "tcp://10.0.0.1:9464"),
        ("KEYFOLD_PORT_9464_TCP_ADDR", "10.0.0.1"),
        ("KEYFOLD_CONFIG", "keyfold.yaml"),
    ];
    taken("", &variables, &[]);
}

/// Secrets from everywhere, right and wrong: their values are in nothing that is shown.
#[test]
fn no_secret_is_shown() {
    let secret = "hunter2";
    let file = "kafka:
  properties:
    security.protocol: sasl_ssl
    sasl.mechanism: PLAIN
    sasl.username: ann
    sasl.password: ${PASSWORD}
    ssl.key.password: hunter2-key
  producer_properties: { ssl.key.pem: 'hunter2-pem' }
";
    let variables = [
        ("PASSWORD", "hunter2"),
        ("KEYFOLD_KAFKA_CONSUMER_PROPERTIES_SASL_OAUTHBEARER_CONFIG", "hunter2"),
    ];
    let flags = ["--kafka-properties", "ssl.keystore.password=hunter2"];
    match layers(file, &variables, &flags) {
        Ok(settings) => {
            let rows: Vec<String> = listing(&settings).iter().map(|row| format!("{row:?}")).collect();
            let rows = rows.join("\n");
            assert!(
                !rows.contains(secret) && rows.matches("[redacted]").count() == 5,
                "{rows}"
            );
            assert!(rows.contains("sasl_ssl") && rows.contains("ann"), "{rows}");
            let config = format!("{:?}", settings.kafka());
            assert!(!config.contains(secret), "{config}");
        }
        Err(wrong) => panic!("{}", shown(&wrong)),
    }
    let wrong = [
        "kafka:\n  properties:\n    sasl.password: [hunter2]\n",
        "kafka:\n  properties:\n    sasl.pasword: hunter2\n",
        "kafka:\n  pasword: hunter2\n",
        "kafka:\n  properties: { sasl.password: hunter2, group.id: x }\n",
        "kafka:\n  properties:\n    sasl.password: hunter2 ${NOPE}\n",
        "kafka:\n  properties:\n    sasl.password: \"hunter2\n",
        "kafka:\n  properties:\n    ssl.key.pem: |\n      hunter2\n    sasl.password:\n      hunter2: x\n",
        "kafka:\n  properties:\n    enable.ssl.certificate.verification: hunter2\n    ssl.keystore.password: hunter2\n    ssl.keystore.password: hunter2\n",
    ];
    for file in wrong {
        let message = refused(file, &[], &[]);
        assert!(!message.contains(secret), "{file}\n{message}");
    }
    let message = refused("", &[], &["--kafka-properties", "hunter2"]);
    assert!(!message.contains(secret), "{message}");
}

#[test]
fn tls_is_built_in() {
    let file = "kafka:\n  properties: { security.protocol: ssl, enable.ssl.certificate.verification: true }\n";
    taken(file, &[], &[]);
    taken(
        "kafka:\n  properties: { security.protocol: sasl_ssl, sasl.mechanism: SCRAM-SHA-512 }\n",
        &[],
        &[],
    );
    assert!(keyfold_kafka::client_version().contains("ssl"));
}

fn of_repository(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(name);
    std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{name}: {e}"))
}

#[test]
fn the_file_of_all_settings_is_the_table_and_says_the_defaults() {
    let file = of_repository("config/keyfold.yaml");
    assert_eq!(
        file,
        defaults_file(),
        "make it anew: keyfold settings --defaults > config/keyfold.yaml"
    );
    let from_file = taken(&file, &[], &[]);
    let values = |settings: &Settings| -> Vec<(String, String)> {
        listing(settings).into_iter().map(|row| (row.name, row.value)).collect()
    };
    assert_eq!(values(&from_file), values(&defaults()));
    let written = listing(&from_file)
        .into_iter()
        .filter(|row| row.from != "default")
        .count();
    assert_eq!(written, ALL.iter().filter(|setting| !setting.is_properties()).count());
}

#[test]
fn the_documentation_has_the_table() {
    let text = of_repository("docs/settings.md");
    assert!(
        text.contains(&defaults_markdown()),
        "put it in anew: keyfold settings --defaults --output markdown, into docs/settings.md"
    );
}

#[test]
fn durations_and_sizes_are_shown_as_they_are_written() {
    let kind = |setting: &'static Setting| setting.kind;
    let cases = [
        (&table::EPOCH_INTERVAL, "500ms", "500ms"),
        (&table::EPOCH_INTERVAL, "1500ms", "1500ms"),
        (&table::EPOCH_INTERVAL, "60s", "1m"),
        (&table::RECOMMIT_INTERVAL, "24h", "1d"),
        (&table::REVOKE_BUDGET, "0ms", "0s"),
        (&table::MEMORY, "1024MiB", "1GiB"),
        (&table::MEMORY, "1536MiB", "1536MiB"),
        (&table::MEMORY, "512 MiB", "512MiB"),
    ];
    for (setting, text, shown) in cases {
        let value = kind(setting).parse(text).unwrap_or_else(|e| panic!("{text} {e}"));
        assert_eq!(value.to_string(), shown, "{text}");
    }
    for bad in [
        "",
        "s",
        "1",
        "1.5s",
        "1 min",
        "-1s",
        "1s2",
        "99999999999999999999s",
        "18446744073709551615d",
    ] {
        assert!(kind(&table::EPOCH_INTERVAL).parse(bad).is_err(), "{bad}");
    }
}
