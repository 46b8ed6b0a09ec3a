//! Which of some names was meant.

/// The name that takes the fewest insertions, removals and replacements of characters to get from `wanted`, the first of several; None when
/// there is none, or when that is most of the name.
pub(super) fn nearest<'a>(wanted: &str, names: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let by_distance = names.map(|name| (distance(wanted, name), name));
    let (distance, name) = by_distance.min_by_key(|(distance, _)| *distance)?;
    (distance <= wanted.len().max(name.len()) / 2).then_some(name)
}

/// Levenshtein's distance, row by row.
fn distance(from: &str, to: &str) -> usize {
    let to: Vec<char> = to.chars().collect();
    let mut row: Vec<usize> = (0..=to.len()).collect();
    for (i, a) in from.chars().enumerate() {
        let mut diagonal = std::mem::replace(&mut row[0], i + 1);
        for (j, b) in to.iter().enumerate() {
            let replaced = diagonal + usize::from(a != *b);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[to.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_name_is_found_and_one_that_has_nothing_to_do_with_it_is_not() {
        assert_eq!(
            (distance("", "abc"), distance("kitten", "sitting"), distance("ab", "ab")),
            (3, 3, 0)
        );
        let names = ["orders", "by-customer", "totals"];
        assert_eq!(nearest("by-costumer", names.into_iter()), Some("by-customer"));
        assert_eq!(nearest("total", names.into_iter()), Some("totals"));
        assert_eq!(nearest("x", names.into_iter()), None);
        assert_eq!(nearest("x", std::iter::empty()), None);
    }
}
