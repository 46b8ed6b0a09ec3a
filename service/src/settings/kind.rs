//! Types of settings: how a value is written, read, and shown.
use std::fmt;
use std::time::Duration;
use tracing_subscriber::EnvFilter;

/// The type of a setting, with its bounds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A path of a directory.
    Directory,
    /// A path of a directory, or `s3://bucket/prefix`.
    Store,
    /// `http://host:port` or `https://host`.
    Url,
    /// One of these words.
    Choice(&'static [&'static str]),
    /// `true` or `false`.
    Bool,
    /// A whole number.
    Number {
        /// Smallest.
        min: u64,
        /// Largest.
        max: u64,
    },
    /// A whole number with a unit of time.
    Duration {
        /// Shortest.
        min: Duration,
        /// Longest.
        max: Duration,
    },
    /// A whole number with a unit of memory.
    Bytes {
        /// Smallest.
        min: u64,
        /// Largest.
        max: u64,
    },
    /// 1 to 64 characters of A-Z, a-z, 0-9, - and _.
    Name,
    /// `host:port`, comma-separated.
    Brokers,
    /// `host:port`, or `off`.
    Address,
    /// Levels of the log, as of `tracing_subscriber::EnvFilter`.
    Levels,
    /// Properties of librdkafka by name. A property is a value of its own: it is given, shown and overridden by itself.
    Properties,
}

/// A value of a setting.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Value {
    /// The program decides.
    Auto,
    /// Of the kinds that are texts.
    Text(String),
    /// Of [`Kind::Bool`].
    Bool(bool),
    /// Of [`Kind::Number`], and bytes of [`Kind::Bytes`].
    Number(u64),
    /// Bytes.
    Bytes(u64),
    /// Of [`Kind::Duration`].
    Duration(Duration),
}

/// Largest unit first; a value is shown in the largest that fits.
const TIMES: [(&str, u64); 5] = [
    ("d", 86_400_000),
    ("h", 3_600_000),
    ("m", 60_000),
    ("s", 1_000),
    ("ms", 1),
];
const SIZES: [(&str, u64); 5] = [
    ("TiB", 1 << 40),
    ("GiB", 1 << 30),
    ("MiB", 1 << 20),
    ("KiB", 1 << 10),
    ("B", 1),
];

impl Kind {
    /// Reads a value, without `auto`.
    ///
    /// # Errors
    /// What is wrong with it, as the end of a sentence that begins with the value.
    pub fn parse(self, text: &str) -> Result<Value, String> {
        let noun = self.noun();
        let no = || format!("is not {noun}");
        match self {
            Kind::Directory if text.is_empty() || text.contains('\0') => Err(no()),
            Kind::Store if !is_store(text) => Err(no()),
            Kind::Url if !is_url(text) => Err(no()),
            Kind::Choice(words) if !words.contains(&text) => Err(format!("is none of {}", words.join(", "))),
            Kind::Name if !is_name(text) => Err(no()),
            Kind::Brokers if !text.split(',').all(|broker| is_address(broker.trim())) => Err(no()),
            Kind::Address if text != "off" && !is_address(text) => Err(no()),
            Kind::Levels if !is_levels(text) => Err(no()),
            Kind::Properties => Err("is a property, not a setting".to_owned()),
            Kind::Directory
            | Kind::Store
            | Kind::Url
            | Kind::Choice(_)
            | Kind::Name
            | Kind::Brokers
            | Kind::Address
            | Kind::Levels => Ok(Value::Text(text.to_owned())),
            Kind::Bool => text.parse().map(Value::Bool).map_err(|_| no()),
            Kind::Number { min, max } => {
                let number = whole(text).ok_or_else(no)?;
                within(Value::Number(number), number, min, max)
            }
            Kind::Duration { min, max } => {
                let millis = with_unit(text, &TIMES).ok_or_else(no)?;
                within(
                    Value::Duration(Duration::from_millis(millis)),
                    millis,
                    as_millis(min),
                    as_millis(max),
                )
            }
            Kind::Bytes { min, max } => {
                let bytes = with_unit(text, &SIZES).ok_or_else(no)?;
                within(Value::Bytes(bytes), bytes, min, max)
            }
        }
    }

    /// "a duration", for messages and tables.
    #[must_use]
    pub fn noun(self) -> &'static str {
        match self {
            Kind::Directory => "a directory",
            Kind::Store => "a directory or the address of a bucket",
            Kind::Url => "a URL",
            Kind::Choice(_) => "a word",
            Kind::Bool => "true or false",
            Kind::Number { .. } => "a whole number",
            Kind::Duration { .. } => "a duration",
            Kind::Bytes { .. } => "a size",
            Kind::Name => "a name",
            Kind::Brokers => "a list of host:port",
            Kind::Address => "host:port or off",
            Kind::Levels => "levels of the log",
            Kind::Properties => "a mapping of librdkafka's properties",
        }
    }

    /// What is expected, with the unit and the bounds.
    #[must_use]
    pub fn expected(self) -> String {
        let range = |min: Value, max: Value| format!("from {min} to {max}");
        match self {
            Kind::Directory => "the path of a directory".to_owned(),
            Kind::Store => "the path of a directory, or s3://bucket/prefix".to_owned(),
            Kind::Url => "https://host or http://host:port".to_owned(),
            Kind::Choice(words) => format!("one of {}", words.join(", ")),
            Kind::Number { min, max } => format!("a whole number {}", range(Value::Number(min), Value::Number(max))),
            Kind::Duration { min, max } => format!(
                "a whole number with a unit (ms, s, m, h, d), {}",
                range(Value::Duration(min), Value::Duration(max))
            ),
            Kind::Bytes { min, max } => format!(
                "a whole number with a unit (B, KiB, MiB, GiB, TiB), {}",
                range(Value::Bytes(min), Value::Bytes(max))
            ),
            Kind::Name => "1 to 64 characters of A-Z, a-z, 0-9, - and _".to_owned(),
            Kind::Brokers => "host:port, more of them with commas between".to_owned(),
            Kind::Levels => "error, warn, info, debug or trace, and the same for parts of the program".to_owned(),
            Kind::Bool | Kind::Address | Kind::Properties => self.noun().to_owned(),
        }
    }

    /// A value that is taken.
    #[must_use]
    pub fn example(self) -> &'static str {
        match self {
            Kind::Directory => "data",
            Kind::Store => "s3://state/jobs",
            Kind::Url => "http://127.0.0.1:9000",
            Kind::Choice(words) => words.first().copied().unwrap_or_default(),
            Kind::Bool => "true",
            Kind::Number { .. } => "4",
            Kind::Duration { .. } => "10s",
            Kind::Bytes { .. } => "512MiB",
            Kind::Name => "orders-1",
            Kind::Brokers => "kafka-1:9092,kafka-2:9092",
            Kind::Address => "127.0.0.1:9464",
            Kind::Levels => "info,keyfold_kafka=debug",
            Kind::Properties => "{ security.protocol: ssl }",
        }
    }

    /// What stands for the value in the help of a flag.
    #[must_use]
    pub fn placeholder(self) -> &'static str {
        match self {
            Kind::Directory => "DIR",
            Kind::Store => "DIR|S3-URL",
            Kind::Url => "URL",
            Kind::Choice(_) => "WORD",
            Kind::Bool => "BOOL",
            Kind::Number { .. } => "N",
            Kind::Duration { .. } => "DURATION",
            Kind::Bytes { .. } => "SIZE",
            Kind::Name => "NAME",
            Kind::Brokers => "HOST:PORT,..",
            Kind::Address => "HOST:PORT",
            Kind::Levels => "LEVELS",
            Kind::Properties => "NAME=VALUE",
        }
    }
}

fn within(value: Value, number: u64, min: u64, max: u64) -> Result<Value, String> {
    if number < min {
        return Err("is too small".to_owned());
    }
    if number > max {
        return Err("is too large".to_owned());
    }
    Ok(value)
}

fn whole(text: &str) -> Option<u64> {
    let digits = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    digits.then(|| text.parse().ok()).flatten()
}

fn with_unit(text: &str, units: &[(&str, u64)]) -> Option<u64> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = text.split_at(digits);
    let (_, factor) = units.iter().find(|(name, _)| *name == unit.trim_start())?;
    whole(number)?.checked_mul(*factor)
}

fn as_millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// As the engine takes for an instance.
fn is_name(text: &str) -> bool {
    let good = |b: u8| b.is_ascii_alphanumeric() || b == b'-' || b == b'_';
    (1..=64).contains(&text.len()) && text.bytes().all(good)
}

fn is_address(text: &str) -> bool {
    let Some((host, port)) = text.rsplit_once(':') else {
        return false;
    };
    let host = host.strip_prefix('[').and_then(|h| h.strip_suffix(']')).unwrap_or(host);
    let bad = |c: char| c.is_whitespace() || c.is_control() || "/,@".contains(c);
    !host.is_empty() && !host.contains(bad) && whole(port).is_some_and(|port| port <= u64::from(u16::MAX))
}

fn is_store(text: &str) -> bool {
    #[cfg(feature = "s3")]
    if keyfold_s3::S3Config::is_url(text) {
        return keyfold_s3::S3Config::of_url(text).is_ok();
    }
    !text.is_empty() && !text.contains('\0') && !text.contains("://")
}

fn is_url(text: &str) -> bool {
    let rest = text.strip_prefix("https://").or_else(|| text.strip_prefix("http://"));
    let host = |rest: &str| rest.strip_suffix('/').unwrap_or(rest).to_owned();
    rest.map(host)
        .is_some_and(|host| is_address(&host) || is_address(&format!("{host}:443")))
}

/// A word is a level, or levels of parts: `info,keyfold_kafka=debug`. The filter itself takes any word for a part.
fn is_levels(text: &str) -> bool {
    let is_level = |word: &str| matches!(word, "off" | "error" | "warn" | "info" | "debug" | "trace");
    let directive = |word: &str| match word.split_once('=') {
        None => is_level(word),
        Some((part, level)) => !part.is_empty() && is_level(level),
    };
    text.split(',').all(|word| directive(word.trim())) && EnvFilter::try_new(text).is_ok()
}

impl fmt::Display for Value {
    /// As it is written in a file.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Value::Auto => f.write_str("auto"),
            Value::Text(text) => f.write_str(text),
            Value::Bool(value) => write!(f, "{value}"),
            Value::Number(number) => write!(f, "{number}"),
            Value::Duration(duration) => unit(f, as_millis(*duration), &TIMES, "0s"),
            Value::Bytes(bytes) => unit(f, *bytes, &SIZES, "0B"),
        }
    }
}

fn unit(f: &mut fmt::Formatter<'_>, number: u64, units: &[(&str, u64)], zero: &str) -> fmt::Result {
    match units
        .iter()
        .find(|(_, factor)| number > 0 && number.is_multiple_of(*factor))
    {
        Some((unit, factor)) => write!(f, "{}{unit}", number / factor),
        None => f.write_str(zero),
    }
}
