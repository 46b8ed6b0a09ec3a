//! What is said at the end.
use super::check::Verdict;

/// Customers in the table.
const ROWS: usize = 8;

/// A number with a comma every three digits.
pub fn grouped(number: impl TryInto<i128>) -> String {
    let number: i128 = number.try_into().unwrap_or_default();
    let digits = number.unsigned_abs().to_string();
    let mut out = if number < 0 { "-".to_owned() } else { String::new() };
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// The table of the first customers, the counts and the verdict.
pub fn print_verdict(verdict: &Verdict) {
    println!(
        "\n  {:<10} {:>8} {:>16}   {:>8} {:>16}",
        "customer", "orders", "cents (keyfold)", "orders", "cents (plain)"
    );
    let unequal_first = |row: &&super::check::Row| row.expected != row.found;
    let shown = verdict.rows.iter().filter(unequal_first);
    let shown = shown.chain(verdict.rows.iter().filter(|row| row.expected == row.found));
    for row in shown.take(ROWS) {
        let mark = if row.expected == row.found { "" } else { "   differs" };
        println!(
            "  {:<10} {:>8} {:>16}   {:>8} {:>16}{mark}",
            row.customer,
            grouped(row.found.orders),
            grouped(row.found.cents),
            grouped(row.expected.orders),
            grouped(row.expected.cents)
        );
    }
    if verdict.rows.len() > ROWS {
        println!(
            "  ... and {} more customers",
            grouped(verdict.rows.len() as u64 - ROWS as u64)
        );
    }
    println!(
        "\noutputs: {} for {} orders; lost {}, duplicated {}, wrong {}",
        grouped(verdict.outputs),
        grouped(verdict.orders),
        verdict.lost,
        verdict.duplicated,
        verdict.wrong
    );
    if let Some(wrong) = &verdict.first_wrong {
        println!("first wrong output: {wrong}");
    }
    let what = if verdict.is_equal() { "equal" } else { "NOT EQUAL" };
    println!(
        "demo: {what}: {} customers, {} of them differ; {} orders, {} cents",
        grouped(verdict.rows.len() as u64),
        verdict.unequal,
        grouped(verdict.orders),
        grouped(verdict.cents())
    );
}

#[cfg(test)]
mod tests {
    use super::grouped;

    #[test]
    fn digits_are_grouped() {
        let texts = [0, 12, 999, 1000, 1_234_567, -45_678].map(|n: i64| grouped(n));
        assert_eq!(texts, ["0", "12", "999", "1,000", "1,234,567", "-45,678"]);
    }
}
