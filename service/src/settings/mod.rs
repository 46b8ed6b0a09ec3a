//! Settings of the program: one [`table`], four places where a value may come from.
//!
//! ```text
//! --epoch-interval 500ms   >   KEYFOLD_EPOCH_INTERVAL=500ms   >   epoch_interval: 500ms   >   the default
//!  a flag                       a variable                         the file of --config
//! ```
//!
//! Whatever is wrong is refused before anything begins, all of it together, each with its place and the way out. Values of secrets are in no
//! message and in no listing.
mod apply;
mod flags;
mod interpolate;
pub mod kind;
mod load;
mod origin;
mod show;
pub mod table;

pub use apply::{LogSettings, Mode};
pub use flags::SettingFlags;
pub use load::{Layers, Variables};
pub use origin::Origin;
pub use show::{Described, Listing, defaults_file, defaults_json, defaults_markdown, listing};

use self::kind::Value;
use self::table::Setting;
use keyfold_kafka::{GroupTimeouts, KafkaConfig};
use std::collections::BTreeMap;

/// The effective settings, checked.
pub struct Settings {
    values: BTreeMap<&'static str, (Value, Origin)>,
    properties: BTreeMap<&'static str, BTreeMap<String, Property>>,
    kafka: KafkaConfig,
    timeouts: GroupTimeouts,
}

/// A property of the client. The value may be a secret.
struct Property {
    value: String,
    origin: Origin,
}

impl Settings {
    /// The value of a setting that is no mapping of properties.
    #[must_use]
    pub fn value(&self, setting: &'static Setting) -> &Value {
        self.values.get(setting.name).map_or(&Value::Auto, |(value, _)| value)
    }

    /// Where its value comes from.
    #[must_use]
    pub fn origin(&self, setting: &'static Setting) -> Origin {
        self.values
            .get(setting.name)
            .map(|(_, origin)| origin.clone())
            .unwrap_or_default()
    }
}

#[cfg(test)]
mod tests;
