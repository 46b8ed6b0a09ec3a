//! Times as people read them.
use super::record::TimestampMs;
use std::fmt;

/// A timestamp in words, `2026-01-01T00:00:00.000Z`: for messages. Takes every number, also years that no calendar has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Utc(pub TimestampMs);

const DAY_MS: i64 = 86_400_000;

/// Year, month and day of a number of days since 1970-01-01 in the Gregorian calendar. Counted from March on in eras of 400 years, which
/// all have the same length, so that the leap day is the last one of its year.
fn date(days: i64) -> (i64, i64, i64) {
    const ERA: i64 = 146_097;
    let since_march_0 = days + 719_468;
    let (era, day_of_era) = (since_march_0.div_euclid(ERA), since_march_0.rem_euclid(ERA));
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 {
        month_from_march + 3
    } else {
        month_from_march - 9
    };
    (year_of_era + era * 400 + i64::from(month <= 2), month, day)
}

impl fmt::Display for Utc {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (year, month, day) = date(self.0.div_euclid(DAY_MS));
        let ms = self.0.rem_euclid(DAY_MS);
        let (hour, minute, second) = (ms / 3_600_000, ms / 60_000 % 60, ms / 1000 % 60);
        write!(
            f,
            "{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{:03}Z",
            ms % 1000
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timestamps_read_as_the_calendar_has_them() {
        for (timestamp, text) in [
            (0, "1970-01-01T00:00:00.000Z"),
            (-1, "1969-12-31T23:59:59.999Z"),
            (951_782_400_000, "2000-02-29T00:00:00.000Z"),
            (951_868_799_999, "2000-02-29T23:59:59.999Z"),
            (951_868_800_000, "2000-03-01T00:00:00.000Z"),
            (1_767_225_600_000, "2026-01-01T00:00:00.000Z"),
            (1_798_761_599_000, "2026-12-31T23:59:59.000Z"),
            (4_107_542_400_000, "2100-03-01T00:00:00.000Z"),
            (4_107_542_399_999, "2100-02-28T23:59:59.999Z"),
        ] {
            assert_eq!(Utc(timestamp).to_string(), text);
        }
    }

    #[test]
    fn every_number_has_a_text() {
        assert_eq!(Utc(i64::MAX).to_string(), "292278994-08-17T07:12:55.807Z");
        assert_eq!(Utc(i64::MIN).to_string(), "-292275055-05-16T16:47:04.192Z");
    }
}
