//! The calendar: UTC, the years 0 to 9999, milliseconds.
use crate::value::{
    DAY_MS, TIMESTAMP_MAX, TIMESTAMP_MIN, TimestampError, civil_date, days_of_month, days_since_epoch, parse_timestamp,
};

const SECOND: i64 = 1000;
const MINUTE: i64 = 60 * SECOND;
const HOUR: i64 = 60 * MINUTE;
const DAY: i64 = DAY_MS;

/// What `date_trunc` cuts down to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::expr) enum TimeUnit {
    Second,
    Minute,
    Hour,
    Day,
    /// From Monday on.
    Week,
    Month,
    Quarter,
    Year,
}

impl TimeUnit {
    pub const NAMES: [(&'static str, TimeUnit); 8] = [
        ("second", TimeUnit::Second),
        ("minute", TimeUnit::Minute),
        ("hour", TimeUnit::Hour),
        ("day", TimeUnit::Day),
        ("week", TimeUnit::Week),
        ("month", TimeUnit::Month),
        ("quarter", TimeUnit::Quarter),
        ("year", TimeUnit::Year),
    ];
}

/// What `extract` takes out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::expr) enum TimeField {
    Year,
    Quarter,
    Month,
    /// Of ISO 8601.
    Week,
    Day,
    /// 0 is Sunday.
    DayOfWeek,
    /// 1 is Monday, 7 is Sunday.
    IsoDayOfWeek,
    DayOfYear,
    Hour,
    Minute,
    Second,
    /// Of the minute, as PostgreSQL has it.
    Millisecond,
    /// Whole seconds since 1970.
    Epoch,
}

/// A span of calendar months and of time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(in crate::expr) struct Interval {
    pub months: i64,
    pub millis: i64,
}

impl Interval {
    /// Months and milliseconds of a unit of time, by its name in singular or plural.
    pub fn unit(name: &str) -> Option<Interval> {
        let name = name.to_ascii_lowercase();
        let (months, millis) = match name.strip_suffix('s').unwrap_or(&name) {
            "year" => (12, 0),
            "month" => (1, 0),
            "week" => (0, 7 * DAY),
            "day" => (0, DAY),
            "hour" => (0, HOUR),
            "minute" => (0, MINUTE),
            "second" => (0, SECOND),
            "millisecond" => (0, 1),
            _ => return None,
        };
        Some(Interval { months, millis })
    }

    pub fn times(self, factor: i64) -> Option<Interval> {
        Some(Interval {
            months: self.months.checked_mul(factor)?,
            millis: self.millis.checked_mul(factor)?,
        })
    }

    pub fn plus(self, other: Interval) -> Option<Interval> {
        Some(Interval {
            months: self.months.checked_add(other.months)?,
            millis: self.millis.checked_add(other.millis)?,
        })
    }
}

pub(super) fn in_calendar(time: i64) -> Option<i64> {
    (TIMESTAMP_MIN..=TIMESTAMP_MAX).contains(&time).then_some(time)
}

/// What a text says; midnight if it has no time, UTC if it has no offset.
pub(in crate::expr) fn parse(text: &str) -> Option<i64> {
    match parse_timestamp(text) {
        Ok(time) => Some(time),
        Err(TimestampError::NoOffset) => parse_timestamp(&format!("{text}Z")).ok(),
        Err(TimestampError::Form) if text.len() == 10 => parse_timestamp(&format!("{text}T00:00:00Z")).ok(),
        Err(_) => None,
    }
}

/// The months first, at most to the last day of the month; then the time.
pub(super) fn shift(time: i64, by: Interval) -> Option<i64> {
    let time = in_calendar(time)?;
    let moved = if by.months == 0 {
        time
    } else {
        let (year, month, day) = civil_date(time.div_euclid(DAY));
        let months = (year * 12 + month - 1).checked_add(by.months)?;
        let (year, month) = (months.div_euclid(12), months.rem_euclid(12) + 1);
        if !(0..=9999).contains(&year) {
            return None;
        }
        let day = day.min(days_of_month(year, month));
        days_since_epoch(year, month, day) * DAY + time.rem_euclid(DAY)
    };
    in_calendar(moved.checked_add(by.millis)?)
}

pub(super) fn truncate(time: i64, unit: TimeUnit) -> Option<i64> {
    let time = in_calendar(time)?;
    let down = |size: i64| time - time.rem_euclid(size);
    let days = time.div_euclid(DAY);
    let (year, month, _) = civil_date(days);
    let first_of = |month: i64| days_since_epoch(year, month, 1) * DAY;
    let truncated = match unit {
        TimeUnit::Second => down(SECOND),
        TimeUnit::Minute => down(MINUTE),
        TimeUnit::Hour => down(HOUR),
        TimeUnit::Day => down(DAY),
        TimeUnit::Week => (days - monday_is_zero(days)) * DAY,
        TimeUnit::Month => first_of(month),
        TimeUnit::Quarter => first_of((month - 1) / 3 * 3 + 1),
        TimeUnit::Year => first_of(1),
    };
    in_calendar(truncated)
}

pub(super) fn extract(time: i64, field: TimeField) -> Option<i64> {
    let time = in_calendar(time)?;
    let days = time.div_euclid(DAY);
    let of_day = time.rem_euclid(DAY);
    let (year, month, day) = civil_date(days);
    let day_of_year = days - days_since_epoch(year, 1, 1) + 1;
    Some(match field {
        TimeField::Year => year,
        TimeField::Quarter => (month - 1) / 3 + 1,
        TimeField::Month => month,
        TimeField::Week => iso_week(days),
        TimeField::Day => day,
        TimeField::DayOfWeek => (monday_is_zero(days) + 1) % 7,
        TimeField::IsoDayOfWeek => monday_is_zero(days) + 1,
        TimeField::DayOfYear => day_of_year,
        TimeField::Hour => of_day / HOUR,
        TimeField::Minute => of_day / MINUTE % 60,
        TimeField::Second => of_day / SECOND % 60,
        TimeField::Millisecond => of_day % MINUTE,
        TimeField::Epoch => time.div_euclid(SECOND),
    })
}

/// The day of the week of a number of days since 1970-01-01, which was a Thursday.
fn monday_is_zero(days: i64) -> i64 {
    (days + 3).rem_euclid(7)
}

/// The week belongs to the year that its Thursday is in, and week 1 is that of the first Thursday.
fn iso_week(days: i64) -> i64 {
    let thursday = days - monday_is_zero(days) + 3;
    let (year, _, _) = civil_date(thursday);
    (thursday - days_since_epoch(year, 1, 1)) / 7 + 1
}
