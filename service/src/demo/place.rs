//! Where the demonstration's orders and outputs lie: in files, or in topics.
use super::DemoOptions;
use super::check::{Ledger, Verdict, files, topics};
use super::directory::Layout;
use super::kafka::{orders_topic, totals_topic};
use anyhow::{Result, bail};

/// Input and output of one demonstration.
pub struct Place<'a> {
    /// Its settings.
    pub options: &'a DemoOptions,
    /// Its directory.
    pub dirs: Layout,
    /// The job's id.
    pub job: String,
}

impl Place<'_> {
    /// How many orders lie before these positions.
    ///
    /// # Errors
    /// When the input cannot be read.
    pub fn orders_before(&self, positions: &[(i32, i64)]) -> Result<u64> {
        let mut before = 0;
        for (partition, offset) in positions {
            before += match self.options.kafka {
                None => files::lines_before(&self.dirs.input(), *partition, *offset)?,
                // The topic is new and was written without transactions: offsets count from 0, without gaps.
                Some(_) => u64::try_from(*offset)?,
            };
        }
        Ok(before)
    }

    /// Reads all orders and all outputs, by code that does not use the engine.
    ///
    /// # Errors
    /// When they cannot be read, or the input is not what was generated.
    pub fn judge(&self) -> Result<Verdict> {
        let mut ledger = Ledger::default();
        match &self.options.kafka {
            None => files::read_orders(&self.dirs.input(), &mut ledger)?,
            Some(brokers) => topics::read_orders(brokers, &orders_topic(&self.job), &mut ledger)?,
        }
        if ledger.orders() != self.options.total() {
            bail!("{} orders in the input, not {}", ledger.orders(), self.options.total());
        }
        match &self.options.kafka {
            None => files::read_outputs(&self.dirs.output(), &mut ledger)?,
            Some(brokers) => topics::read_outputs(brokers, &totals_topic(&self.job), &mut ledger)?,
        }
        Ok(ledger.close())
    }

    /// For people.
    pub fn describe_input(&self) -> String {
        match &self.options.kafka {
            None => self.dirs.input().display().to_string(),
            Some(brokers) => format!("topic {} on {brokers}", orders_topic(&self.job)),
        }
    }

    /// For people.
    pub fn describe_output(&self) -> String {
        match &self.options.kafka {
            None => self.dirs.output().display().to_string(),
            Some(_) => format!("topic {}", totals_topic(&self.job)),
        }
    }
}
