//! The log: `tracing` events on standard error, as text or JSON.
use crate::console::Console;
use crate::settings::LogSettings;
use tracing_subscriber::EnvFilter;

/// The client of Kafka calls the end of a partition an error, and every retry a warning; what matters of it the connector tells.
const QUIET: &str = "librdkafka=off";

/// From here on events are logged. Once a process.
pub fn start(settings: &LogSettings, console: &Console) {
    let filter = filter(&settings.levels);
    let log = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(console.clone())
        .with_ansi(console.is_live());
    let set = match settings.json {
        true => log
            .json()
            .flatten_event(true)
            .with_current_span(false)
            .with_span_list(false)
            .try_init(),
        false => log.try_init(),
    };
    if let Err(error) = set {
        console.say(&format!("keyfold: the log goes elsewhere: {error}"));
    }
}

/// Whoever names librdkafka gets what it says.
fn filter(levels: &str) -> EnvFilter {
    let levels = match levels.contains("librdkafka") {
        true => levels.to_owned(),
        false => format!("{levels},{QUIET}"),
    };
    // Checked when the settings were read.
    EnvFilter::try_new(levels).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_client_is_quiet_unless_it_is_named() {
        let shown = |levels: &str| filter(levels).to_string();
        assert!(shown("info").contains("librdkafka=off"));
        assert!(!shown("info,librdkafka=debug").contains("librdkafka=off"));
    }
}
