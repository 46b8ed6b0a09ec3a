//! Quantiles of a histogram in Prometheus's text, as `histogram_quantile` has them.

/// The quantile `q` of the histogram whose buckets' lines begin with `series` (name and labels but `le`), in its unit; None without observations.
#[must_use]
pub fn quantile(text: &str, series: &str, q: f64) -> Option<f64> {
    let lines = text.lines().filter_map(|line| line.strip_prefix(series));
    let bucket = |line: &str| {
        let (_, rest) = line.split_once("le=\"")?;
        let (bound, count) = rest.split_once("\"} ")?;
        Some((bound.parse::<f64>().ok()?, count.trim().parse::<f64>().ok()?))
    };
    let buckets: Vec<(f64, f64)> = lines.filter_map(bucket).collect();
    let rank = buckets.last().filter(|(_, all)| *all > 0.0)?.1 * q;
    let at = buckets.iter().position(|(_, count)| *count >= rank)?;
    let (lower, before) = at.checked_sub(1).map_or((0.0, 0.0), |at| buckets[at]);
    let (upper, count) = buckets[at];
    // Beyond the last bound nothing is known.
    Some(if upper.is_finite() && count > before {
        lower + (upper - lower) * (rank - before) / (count - before)
    } else {
        lower
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quantile_lies_in_its_bucket() {
        let text = "# TYPE s histogram\n\
                    s_bucket{phase=\"encode\",le=\"0.5\"} 7\n\
                    s_bucket{phase=\"write\",le=\"0.5\"} 90\n\
                    s_bucket{phase=\"write\",le=\"1\"} 100\n\
                    s_bucket{phase=\"write\",le=\"+Inf\"} 100\n\
                    s_sum{phase=\"write\"} 3\n";
        let write = |q| quantile(text, "s_bucket{phase=\"write\"", q);
        assert_eq!((write(0.45), write(0.95)), (Some(0.25), Some(0.75)));
        assert_eq!(quantile(text, "s_bucket{phase=\"align\"", 0.5), None);
    }
}
