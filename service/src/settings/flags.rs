//! Settings as flags: one for each row of the table, and `--config`.
use super::kind::Kind;
use super::table::{ALL, Part, Setting};
use super::{Layers, Settings};
use crate::yaml::Diagnostic;
use clap::{Arg, ArgAction, ArgMatches, Args, Command, FromArgMatches, value_parser};
use std::path::PathBuf;
use std::sync::LazyLock;

/// The flags of settings that were given.
#[derive(Debug, Clone, Default)]
pub struct SettingFlags {
    file: Option<PathBuf>,
    given: Vec<(&'static Setting, String)>,
}

/// For every setting, its flag and its help: clap keeps borrowed texts.
static TEXTS: LazyLock<Vec<(String, String, String)>> = LazyLock::new(|| {
    let text = |setting: &&'static Setting| {
        let note = match (setting.default, setting.auto) {
            ("", _) => String::new(),
            ("auto", Some(auto)) => format!("default: {auto}; "),
            (default, _) => format!("default: {default}; "),
        };
        let suffix = if setting.is_properties() { "_<NAME>" } else { "" };
        let note = format!(" [{note}env: {}{suffix}]", setting.variable());
        let repeat = if setting.is_properties() {
            " Once for each property."
        } else {
            ""
        };
        (
            setting.flag(),
            format!("{}{note}", setting.short()),
            format!("{}{repeat}{note}", setting.meaning),
        )
    };
    ALL.iter().map(text).collect()
});

/// Shown by `-h`; `--help` shows all.
const COMMON: [&str; 6] = [
    "mode",
    "state_dir",
    "checkpoint_dir",
    "kafka.brokers",
    "http.listen",
    "log.level",
];

impl SettingFlags {
    /// The effective settings of this process.
    ///
    /// # Errors
    /// Everything that is wrong with them.
    pub fn load(&self) -> Result<Settings, Vec<Diagnostic>> {
        let readable = |(name, value): (std::ffi::OsString, _)| name.into_string().ok().map(|name| (name, value));
        let layers = Layers {
            file: self.file.clone(),
            variables: std::env::vars_os().filter_map(readable).collect(),
            flags: self.given(),
        };
        layers.load()
    }

    /// Flags and their values, in the order of the table.
    #[must_use]
    pub fn given(&self) -> Vec<(&'static Setting, String)> {
        self.given.clone()
    }
}

impl FromArgMatches for SettingFlags {
    fn from_arg_matches(matches: &ArgMatches) -> Result<SettingFlags, clap::Error> {
        let mut flags = SettingFlags::default();
        flags.update_from_arg_matches(matches)?;
        Ok(flags)
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        self.file = matches.get_one::<PathBuf>("config").cloned();
        for setting in ALL {
            let values = matches.get_many::<String>(setting.name).into_iter().flatten();
            self.given.extend(values.map(|value| (*setting, value.clone())));
        }
        Ok(())
    }
}

impl Args for SettingFlags {
    fn augment_args(command: Command) -> Command {
        let config = Arg::new("config")
            .long("config")
            .value_name("FILE")
            .env("KEYFOLD_CONFIG")
            .hide_env_values(true)
            .value_parser(value_parser!(PathBuf))
            .help("A file of settings, as config/keyfold.yaml")
            .help_heading("Settings");
        let flags = ALL
            .iter()
            .zip(TEXTS.iter())
            .map(|(setting, texts)| flag(setting, texts));
        command.arg(config).args(flags)
    }

    fn augment_args_for_update(command: Command) -> Command {
        SettingFlags::augment_args(command)
    }
}

fn flag(setting: &'static Setting, (long, short_help, long_help): &'static (String, String, String)) -> Arg {
    let arg = Arg::new(setting.name)
        .long(long.as_str())
        .value_name(setting.kind.placeholder())
        .value_parser(value_parser!(String))
        .action(if setting.is_properties() {
            ArgAction::Append
        } else {
            ArgAction::Set
        })
        .help(short_help.as_str())
        .long_help(long_help.as_str())
        .help_heading(heading(setting.part))
        .hide_short_help(!COMMON.contains(&setting.name));
    match setting.kind {
        // `--take-over` alone is true; `=` keeps what follows from being taken for the value.
        Kind::Bool => arg.num_args(0..=1).require_equals(true).default_missing_value("true"),
        _ => arg,
    }
}

fn heading(part: Part) -> &'static str {
    match part {
        Part::Job => "Settings: the job",
        Part::Storage => "Settings: directories",
        Part::S3 => "Settings: checkpoints in S3",
        Part::Epochs => "Settings: epochs",
        Part::Resources => "Settings: threads and memory",
        Part::Group => "Settings: several instances",
        Part::Kafka => "Settings: Kafka",
        Part::Http => "Settings: health and metrics",
        Part::Log => "Settings: log",
    }
}
