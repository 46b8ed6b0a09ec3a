//! The checkpoint store that the settings name.
use super::{RunError, Waiting};
use crate::settings::Settings;
use keyfold::checkpoint::store::StoreError;
use keyfold::checkpoint::{DirectoryStore, Store};
use keyfold::testing::Faults;
use std::path::Path;
use std::sync::Arc;

/// Opens it; a store that cannot be reached is waited for.
pub fn open(settings: &Settings, faults: &Faults, waiting: &Waiting) -> Result<Arc<dyn Store>, RunError> {
    let place = settings.checkpoint_dir();
    let opened = waiting.until_opened(|| open_once(place, settings, faults));
    opened.map_err(|e| RunError::Store(e.to_string()))
}

#[cfg(feature = "s3")]
fn open_once(place: &str, settings: &Settings, faults: &Faults) -> Result<Arc<dyn Store>, StoreError> {
    use keyfold_s3::{S3Config, S3Store};
    if !S3Config::is_url(place) {
        return directory(place, faults);
    }
    let mut config = S3Config::of_url(place).map_err(|e| StoreError::Fatal {
        path: place.to_owned(),
        reason: e.to_string(),
    })?;
    config.endpoint = settings.s3_endpoint();
    config.region = settings.s3_region();
    Ok(Arc::new(S3Store::open(config)?))
}

#[cfg(not(feature = "s3"))]
fn open_once(place: &str, _settings: &Settings, faults: &Faults) -> Result<Arc<dyn Store>, StoreError> {
    directory(place, faults)
}

fn directory(place: &str, faults: &Faults) -> Result<Arc<dyn Store>, StoreError> {
    if std::fs::metadata(Path::new(place)).is_ok_and(|found| !found.is_dir()) {
        return Err(StoreError::Fatal {
            path: place.to_owned(),
            reason: "is a file, and a directory is needed: name another path".to_owned(),
        });
    }
    Ok(Arc::new(DirectoryStore::open(place, faults.clone())?))
}
