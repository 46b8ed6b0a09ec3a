//! `connector: datagen`.
use super::{Connector, Keys, SinkConnector, SourceConnector};
use crate::run::Commits;
use keyfold_datagen::{DatagenConfig, DatagenSource, Shape};
use std::sync::Arc;

/// A seeded generator of orders.
pub struct Datagen;

impl Connector for Datagen {
    fn source(&self, keys: &mut Keys<'_>) -> Option<SourceConnector> {
        let name = keys.need("name", "name: orders");
        let partitions = keys.number("partitions", 1);
        let records_per_partition = keys.number("records_per_partition", 0);
        let seed = keys.number("seed", 0);
        let rate_per_second = keys.number("rate_per_second", 1);
        let customers = keys.number("customers", 1);
        let mut config = DatagenConfig::new(name?);
        config.partitions = u32::try_from(partitions.unwrap_or(1)).unwrap_or(u32::MAX);
        config.records_per_partition = records_per_partition;
        config.seed = seed.unwrap_or_default();
        config.rate_per_second = rate_per_second;
        config.shape = Shape::Orders {
            customers: customers.unwrap_or(1000),
        };
        Some(SourceConnector {
            describe: format!("generator {}", config.name),
            topic: config.name.clone(),
            commits: Commits::Store,
            make: Arc::new(move || Box::new(DatagenSource::from_config(config.clone()))),
        })
    }

    fn sink(&self, keys: &mut Keys<'_>) -> Option<SinkConnector> {
        keys.refuse(
            "a generator takes no outputs",
            "write to `connector: kafka` or `connector: files`",
        );
        None
    }
}
