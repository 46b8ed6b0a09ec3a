//! Timestamps as text: RFC 3339, milliseconds.
use std::fmt;

/// 0000-01-01T00:00:00.000Z, the first that RFC 3339 can write.
pub const TIMESTAMP_MIN: i64 = -62_167_219_200_000;
/// 9999-12-31T23:59:59.999Z, the last that RFC 3339 can write.
pub const TIMESTAMP_MAX: i64 = 253_402_300_799_999;

/// Milliseconds of a day.
pub const DAY_MS: i64 = 86_400_000;

/// Why a text is no timestamp.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TimestampError {
    /// It is not RFC 3339.
    Form,
    /// It is, but for the offset from UTC at its end: which moment it means cannot be known.
    NoOffset,
    /// A month, day, hour, minute, second or offset that there is not, or beyond the years 0 to 9999 in UTC.
    Range,
}

impl fmt::Display for TimestampError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            TimestampError::Form => "not as in 2024-05-06T07:08:09Z",
            TimestampError::NoOffset => "no offset from UTC at its end, like Z or +02:00",
            TimestampError::Range => "no such date or time",
        })
    }
}

/// Milliseconds since the Unix epoch of an RFC 3339 text: `2024-05-06T07:08:09.123Z`, `2024-05-06 07:08:09+02:00`. Digits behind the
/// milliseconds are cut off; a leap second is the second before it.
///
/// # Errors
/// The text is of another form, has no offset, or names a time that there is not.
pub fn parse_timestamp(text: &str) -> Result<i64, TimestampError> {
    let text = text.as_bytes();
    let Some((head, rest)) = text.split_first_chunk::<19>() else {
        return Err(TimestampError::Form);
    };
    let [
        ..,
        b'-',
        _,
        _,
        b'-',
        _,
        _,
        b'T' | b't' | b' ',
        _,
        _,
        b':',
        _,
        _,
        b':',
        _,
        _,
    ] = head
    else {
        return Err(TimestampError::Form);
    };
    let number = |from: usize, to: usize| digits(&head[from..to]).ok_or(TimestampError::Form);
    let (year, month, day) = (number(0, 4)?, number(5, 7)?, number(8, 10)?);
    let (hour, minute, second) = (number(11, 13)?, number(14, 16)?, number(17, 19)?);
    if !(1..=12).contains(&month)
        || day < 1
        || day > days_of_month(year, month)
        || hour > 23
        || minute > 59
        || second > 60
    {
        return Err(TimestampError::Range);
    }
    let (millis, rest) = read_fraction(rest)?;
    let seconds = (hour * 60 + minute) * 60 + second.min(59) - read_offset(rest)?;
    let time = days_since_epoch(year, month, day) * DAY_MS + seconds * 1000 + millis;
    if !(TIMESTAMP_MIN..=TIMESTAMP_MAX).contains(&time) {
        return Err(TimestampError::Range);
    }
    Ok(time)
}

/// Writes `2024-05-06T07:08:09.123Z`. False, and nothing, for a time before the year 0 or after 9999.
#[must_use]
pub fn write_timestamp(time: i64, out: &mut Vec<u8>) -> bool {
    if !(TIMESTAMP_MIN..=TIMESTAMP_MAX).contains(&time) {
        return false;
    }
    let (year, month, day) = civil_date(time.div_euclid(DAY_MS));
    let ms = time.rem_euclid(DAY_MS);
    let mut text = *b"0000-00-00T00:00:00.000Z";
    put(&mut text[0..4], year);
    put(&mut text[5..7], month);
    put(&mut text[8..10], day);
    put(&mut text[11..13], ms / 3_600_000);
    put(&mut text[14..16], ms / 60_000 % 60);
    put(&mut text[17..19], ms / 1000 % 60);
    put(&mut text[20..23], ms % 1000);
    out.extend_from_slice(&text);
    true
}

fn digits(text: &[u8]) -> Option<i64> {
    text.iter().try_fold(0, |value, digit| {
        digit.is_ascii_digit().then(|| value * 10 + i64::from(digit - b'0'))
    })
}

fn put(place: &mut [u8], mut value: i64) {
    for digit in place.iter_mut().rev() {
        *digit = b'0' + (value % 10) as u8;
        value /= 10;
    }
}

/// Milliseconds of `.123456` at the front, and what is behind.
fn read_fraction(text: &[u8]) -> Result<(i64, &[u8]), TimestampError> {
    let [b'.', rest @ ..] = text else {
        return Ok((0, text));
    };
    let count = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
    if count == 0 {
        return Err(TimestampError::Form);
    }
    let place = |index: usize| {
        if index < count {
            i64::from(rest[index] - b'0')
        } else {
            0
        }
    };
    Ok((place(0) * 100 + place(1) * 10 + place(2), &rest[count..]))
}

/// Seconds that the offset is ahead of UTC.
fn read_offset(text: &[u8]) -> Result<i64, TimestampError> {
    match text {
        [b'Z' | b'z'] => Ok(0),
        [sign @ (b'+' | b'-'), h1, h2, b':', m1, m2] => {
            let hours = digits(&[*h1, *h2]).ok_or(TimestampError::Form)?;
            let minutes = digits(&[*m1, *m2]).ok_or(TimestampError::Form)?;
            if hours > 23 || minutes > 59 {
                return Err(TimestampError::Range);
            }
            let seconds = (hours * 60 + minutes) * 60;
            Ok(if *sign == b'-' { -seconds } else { seconds })
        }
        [] => Err(TimestampError::NoOffset),
        _ => Err(TimestampError::Form),
    }
}

/// Days of a month, 1 to 12.
#[must_use]
pub fn days_of_month(year: i64, month: i64) -> i64 {
    match month {
        2 if year % 4 == 0 && (year % 100 != 0 || year % 400 == 0) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// Days from 1970-01-01 on. As in "chrono-Compatible Low-Level Date Algorithms" (Howard Hinnant): a year begins in March, so that the
/// leap day is its last.
#[must_use]
pub fn days_since_epoch(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let year_of_era = year.rem_euclid(400);
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    era * 146_097 + day_of_era - 719_468
}

/// Year, month and day of a number of days from 1970-01-01 on; the same source.
#[must_use]
pub fn civil_date(days: i64) -> (i64, i64, i64) {
    let days = days + 719_468;
    let era = days.div_euclid(146_097);
    let day_of_era = days.rem_euclid(146_097);
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted = (5 * day_of_year + 2) / 153;
    let month = if shifted < 10 { shifted + 3 } else { shifted - 9 };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    (year, month, day_of_year - (153 * shifted + 2) / 5 + 1)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn written(time: i64) -> String {
        let mut out = Vec::new();
        assert!(write_timestamp(time, &mut out), "{time}");
        String::from_utf8(out).expect("ASCII")
    }

    #[test]
    fn rfc_3339_is_read_in_all_its_forms() {
        let time = 1_714_979_289_123;
        for text in [
            "2024-05-06T07:08:09.123Z",
            "2024-05-06t07:08:09.123z",
            "2024-05-06 07:08:09.123456789Z",
            "2024-05-06T09:08:09.123+02:00",
            "2024-05-05T23:38:09.123-07:30",
        ] {
            assert_eq!(parse_timestamp(text), Ok(time), "{text}");
        }
        assert_eq!(parse_timestamp("1970-01-01T00:00:00Z"), Ok(0));
        assert_eq!(parse_timestamp("1969-12-31T23:59:59.9Z"), Ok(-100));
        assert_eq!(
            parse_timestamp("2016-12-31T23:59:60Z"),
            parse_timestamp("2016-12-31T23:59:59Z")
        );
        assert_eq!(parse_timestamp("2000-02-29T00:00:00Z"), Ok(951_782_400_000));
    }

    #[test]
    fn what_is_not_a_moment_is_refused() {
        use TimestampError::{Form, NoOffset, Range};
        for (text, error) in [
            ("", Form),
            ("2024-05-06", Form),
            ("2024-05-06T07:08Z", Form),
            ("2024-05-06T07:08:09", NoOffset),
            ("2024-05-06T07:08:09.123", NoOffset),
            ("2024-05-06T07:08:09.Z", Form),
            ("2024-05-06T07:08:09 Z", Form),
            ("2024-05-06T07:08:09Z[UTC]", Form),
            ("2024-05-06T07:08:09+0200", Form),
            ("2024/05/06T07:08:09Z", Form),
            ("+024-05-06T07:08:09Z", Form),
            ("2024-13-06T07:08:09Z", Range),
            ("2023-02-29T07:08:09Z", Range),
            ("1900-02-29T07:08:09Z", Range),
            ("2024-05-00T07:08:09Z", Range),
            ("2024-05-06T24:08:09Z", Range),
            ("2024-05-06T07:08:61Z", Range),
            ("2024-05-06T07:08:09+24:00", Range),
            ("0000-01-01T00:00:00+00:01", Range),
            ("9999-12-31T23:59:59-00:01", Range),
        ] {
            assert_eq!(parse_timestamp(text), Err(error), "{text}");
        }
    }

    #[test]
    fn the_first_and_the_last_are_written_and_none_beyond() {
        assert_eq!(written(TIMESTAMP_MIN), "0000-01-01T00:00:00.000Z");
        assert_eq!(written(TIMESTAMP_MAX), "9999-12-31T23:59:59.999Z");
        let mut out = Vec::new();
        assert!(!write_timestamp(TIMESTAMP_MIN - 1, &mut out) && !write_timestamp(TIMESTAMP_MAX + 1, &mut out));
        assert!(out.is_empty());
    }

    proptest! {
        #[test]
        fn times_are_written_and_read_as_jiff_does(time in TIMESTAMP_MIN..=TIMESTAMP_MAX) {
            let text = written(time);
            prop_assert_eq!(parse_timestamp(&text), Ok(time));
            // The last hours of 9999 are beyond what jiff holds.
            if let Ok(theirs) = text.parse::<jiff::Timestamp>() {
                prop_assert_eq!(theirs.as_millisecond(), time);
            }
        }
    }
}
