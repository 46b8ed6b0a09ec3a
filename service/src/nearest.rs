//! The name that was meant.

/// The candidate that is nearest to `name`, if one is near enough to be a slip: a letter in four.
#[must_use]
pub fn nearest<'a>(name: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let lower = name.to_lowercase();
    let slips_max = (name.chars().count() / 4).max(1);
    candidates
        .into_iter()
        .map(|candidate| {
            (
                strsim::damerau_levenshtein(&lower, &candidate.to_lowercase()),
                candidate,
            )
        })
        .filter(|(slips, _)| *slips <= slips_max)
        .min_by_key(|(slips, _)| *slips)
        .map(|(_, candidate)| candidate)
}

/// "did you mean `amount`?", or the list of what there is.
#[must_use]
pub fn help<'a>(name: &str, candidates: impl IntoIterator<Item = &'a str>) -> String {
    let candidates: Vec<&str> = candidates.into_iter().collect();
    match nearest(name, candidates.iter().copied()) {
        Some(meant) => format!("did you mean `{meant}`?"),
        None if candidates.is_empty() => "there is none".to_owned(),
        None => format!("one of: {}", candidates.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slip_is_told_from_another_word() {
        let names = ["amount", "customer", "at"];
        assert_eq!(nearest("amout", names), Some("amount"));
        assert_eq!(nearest("Customer", names), Some("customer"));
        assert_eq!(nearest("custmoer", names), Some("customer"));
        assert_eq!(nearest("price", names), None);
        assert_eq!(help("amuont", names), "did you mean `amount`?");
        assert_eq!(help("price", names), "one of: amount, customer, at");
    }
}
