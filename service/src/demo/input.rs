//! Generates the orders.
use super::kafka;
use super::place::Place;
use super::{DemoOptions, PARTITIONS};
use anyhow::Result;
use keyfold_datagen::config::Shape;
use keyfold_datagen::{DatagenSource, write_files};

/// Writes the orders into files and, with Kafka, into a new topic.
///
/// # Errors
/// When they cannot be written.
pub fn generate(place: &Place<'_>) -> Result<()> {
    let DemoOptions { customers, seed, .. } = *place.options;
    let source = DatagenSource::new("orders")
        .partitions(PARTITIONS)
        .records_per_partition(Some(place.options.records_per_partition()))
        .seed(seed)
        .shape(Shape::Orders { customers });
    write_files(&source, place.dirs.input())?;
    match &place.options.kafka {
        None => Ok(()),
        Some(brokers) => kafka::produce(brokers, &place.job, &place.dirs.input()),
    }
}
