//! Compares outputs with orders.
use super::{Order, Output};
use std::collections::{BTreeMap, HashMap};

#[cfg(test)]
mod tests;

/// A customer's totals.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Totals {
    /// Number of orders.
    pub orders: u64,
    /// Their sum.
    pub cents: i64,
}

struct Entry {
    customer: String,
    amount: i64,
    outputs: u64,
}

#[derive(Default)]
struct Account {
    expected: Totals,
    found: Totals,
}

/// Holds every order; outputs are struck off one by one, in the order in which they were written.
#[derive(Default)]
pub struct Ledger {
    orders: HashMap<(i32, i64), Entry>,
    accounts: BTreeMap<String, Account>,
    outputs: u64,
    duplicated: u64,
    wrong: u64,
    first_wrong: Option<String>,
}

/// A customer's totals as computed from the input, beside those that the job wrote last.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Row {
    /// The customer.
    pub customer: String,
    /// From the input.
    pub expected: Totals,
    /// From the outputs.
    pub found: Totals,
}

/// What the comparison has shown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Verdict {
    /// By customer.
    pub rows: Vec<Row>,
    /// Orders in the input.
    pub orders: u64,
    /// Outputs seen.
    pub outputs: u64,
    /// Orders without an output.
    pub lost: u64,
    /// Outputs for an order that had one before.
    pub duplicated: u64,
    /// Outputs that name no order of this customer, or whose totals do not follow from those before.
    pub wrong: u64,
    /// Customers whose last totals are not those of the input.
    pub unequal: u64,
    /// The first wrong output, for people.
    pub first_wrong: Option<String>,
}

impl Verdict {
    /// Exactly one output for each order, with the right totals.
    pub fn is_equal(&self) -> bool {
        self.lost == 0 && self.duplicated == 0 && self.wrong == 0 && self.unequal == 0 && self.orders > 0
    }

    /// The sum of all orders, as computed from the input.
    pub fn cents(&self) -> i64 {
        self.rows.iter().map(|row| row.expected.cents).sum()
    }
}

impl Ledger {
    /// Takes an order of the input down.
    pub fn order(&mut self, order: Order) {
        let account = self.accounts.entry(order.customer.clone()).or_default();
        account.expected.orders += 1;
        account.expected.cents += order.amount;
        let entry = Entry {
            customer: order.customer,
            amount: order.amount,
            outputs: 0,
        };
        self.orders.insert((order.partition, order.offset), entry);
    }

    /// How many orders there are.
    pub fn orders(&self) -> u64 {
        self.orders.len() as u64
    }

    /// Judges the next output of its customer.
    pub fn output(&mut self, output: &Output) {
        self.outputs += 1;
        let account = self.accounts.entry(output.customer.clone()).or_default();
        let found = Totals {
            orders: output.orders,
            cents: output.cents,
        };
        let entry = self.orders.get_mut(&(output.partition, output.offset));
        let Some(entry) = entry.filter(|entry| entry.customer == output.customer) else {
            self.wrong += 1;
            self.first_wrong
                .get_or_insert_with(|| format!("{output:?} names no order of this customer"));
            return;
        };
        entry.outputs += 1;
        if entry.outputs > 1 {
            self.duplicated += 1;
            return;
        }
        let expected = Totals {
            orders: account.found.orders + 1,
            cents: account.found.cents + entry.amount,
        };
        if found != expected {
            self.wrong += 1;
            self.first_wrong
                .get_or_insert_with(|| format!("{output:?} where {expected:?} follow"));
        }
        account.found = found;
    }

    /// Notes an output that cannot be read.
    pub fn unreadable(&mut self, why: String) {
        self.outputs += 1;
        self.wrong += 1;
        self.first_wrong.get_or_insert(why);
    }

    /// Sums up.
    pub fn close(self) -> Verdict {
        let row = |(customer, account): (String, Account)| Row {
            customer,
            expected: account.expected,
            found: account.found,
        };
        let rows: Vec<Row> = self.accounts.into_iter().map(row).collect();
        Verdict {
            orders: self.orders.len() as u64,
            outputs: self.outputs,
            lost: self.orders.values().filter(|entry| entry.outputs == 0).count() as u64,
            duplicated: self.duplicated,
            wrong: self.wrong,
            unequal: rows.iter().filter(|row| row.expected != row.found).count() as u64,
            first_wrong: self.first_wrong,
            rows,
        }
    }
}
