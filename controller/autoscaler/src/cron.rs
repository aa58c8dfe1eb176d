//! Cron expressions with five fields: minute, hour, day of the month, month, day of the week.
//!
//! A field is `*`, a value, a range `A-B`, each also with a step `/N`, or several of these with commas.
//! Months and days of the week have names of three letters. Day 7 of the week is Sunday, like day 0. If both
//! days are restricted, either is enough, as in the cron of Unix.

use jiff::civil::{Date, DateTime, Time};

/// Why a cron expression cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CronError {
    /// The number of fields is wrong.
    #[error("{found} fields instead of five: minute, hour, day of the month, month, day of the week")]
    Fields {
        /// How many there are.
        found: usize,
    },
    /// A field cannot be read.
    #[error("{text:?} is no {field}: write a number from {first} to {last}, a range, a step or *")]
    Field {
        /// What the field says.
        text: String,
        /// Which field it is.
        field: &'static str,
        /// The smallest value.
        first: u8,
        /// The largest value.
        last: u8,
    },
    /// The expression has a time that never comes, for example February 30.
    #[error("no date has this day and this month")]
    Never,
}

/// A field: its name in messages, its range, and the names of its values.
struct FieldKind {
    name: &'static str,
    first: u8,
    last: u8,
    names: &'static [&'static str],
}

const MONTHS: [&str; 12] =
    ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"];
const DAYS: [&str; 7] = ["sun", "mon", "tue", "wed", "thu", "fri", "sat"];

const MINUTE: FieldKind = FieldKind { name: "minute", first: 0, last: 59, names: &[] };
const HOUR: FieldKind = FieldKind { name: "hour", first: 0, last: 23, names: &[] };
const DAY: FieldKind = FieldKind { name: "day of the month", first: 1, last: 31, names: &[] };
const MONTH: FieldKind = FieldKind { name: "month", first: 1, last: 12, names: &MONTHS };
const WEEKDAY: FieldKind = FieldKind { name: "day of the week", first: 0, last: 7, names: &DAYS };

/// The longest text of a field that a message repeats, in bytes.
const LONGEST_TEXT: usize = 40;

/// The days after which a date with day and month must have come: February 29 comes at least every 8 years.
const LONGEST_SEARCH: i32 = 366 * 9;

/// The values of a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct FieldValues {
    /// One bit for each value.
    bits: u64,
    /// Whether the field begins with `*`, so that it restricts no day.
    is_star: bool,
}

impl FieldValues {
    fn has(self, value: i8) -> bool {
        u32::try_from(value)
            .ok()
            .and_then(|value| self.bits.checked_shr(value))
            .is_some_and(|bits| bits & 1 == 1)
    }

    /// The greatest value up to this one.
    fn last_until(self, value: i8) -> Option<i8> {
        (0..=value).rev().find(|value| self.has(*value))
    }

    /// The smallest value from this one.
    fn first_from(self, value: i8) -> Option<i8> {
        (value..=63).find(|value| self.has(*value))
    }
}

/// A cron expression that can be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CronExpression {
    minutes: FieldValues,
    hours: FieldValues,
    days: FieldValues,
    months: FieldValues,
    weekdays: FieldValues,
}

impl CronExpression {
    /// Reads an expression.
    ///
    /// # Errors
    /// [`CronError`], which says what is allowed.
    pub fn parse(text: &str) -> Result<Self, CronError> {
        let fields: Vec<&str> = text.split_ascii_whitespace().collect();
        let [minutes, hours, days, months, weekdays] = *fields else {
            return Err(CronError::Fields { found: fields.len() });
        };
        let mut weekdays = parse_field(weekdays, &WEEKDAY)?;
        weekdays.bits |= (weekdays.bits >> 7) & 1;
        let expression = Self {
            minutes: parse_field(minutes, &MINUTE)?,
            hours: parse_field(hours, &HOUR)?,
            days: parse_field(days, &DAY)?,
            months: parse_field(months, &MONTH)?,
            weekdays,
        };
        let comes = expression.first_at_or_after(DateTime::constant(2000, 1, 1, 0, 0, 0, 0)).is_some();
        comes.then_some(expression).ok_or(CronError::Never)
    }

    /// Whether the expression has this date.
    fn has_date(&self, date: Date) -> bool {
        let day = self.days.has(date.day());
        let weekday = self.weekdays.has(date.weekday().to_sunday_zero_offset());
        let fits = match (self.days.is_star, self.weekdays.is_star) {
            (false, false) => day || weekday,
            (true, _) | (_, true) => day && weekday,
        };
        fits && self.months.has(date.month())
    }

    /// The last time of the expression that is not later than this one; `None` if there is none in the years
    /// before.
    pub fn last_at_or_before(&self, moment: DateTime) -> Option<DateTime> {
        let mut date = moment.date();
        let mut until = moment.time();
        for _ in 0..LONGEST_SEARCH {
            if self.has_date(date)
                && let Some(time) = self.last_time_until(until)
            {
                return Some(date.to_datetime(time));
            }
            (date, until) = (date.yesterday().ok()?, Time::MAX);
        }
        None
    }

    /// The first time of the expression that is not earlier than this one; `None` if there is none in the
    /// years after.
    pub fn first_at_or_after(&self, moment: DateTime) -> Option<DateTime> {
        let mut date = moment.date();
        let mut from = moment.time();
        for _ in 0..LONGEST_SEARCH {
            if self.has_date(date)
                && let Some(time) = self.first_time_from(from)
            {
                return Some(date.to_datetime(time));
            }
            (date, from) = (date.tomorrow().ok()?, Time::MIN);
        }
        None
    }

    fn last_time_until(&self, until: Time) -> Option<Time> {
        let mut hour = self.hours.last_until(until.hour());
        while let Some(candidate) = hour {
            let latest = if candidate == until.hour() { until.minute() } else { 59 };
            if let Some(minute) = self.minutes.last_until(latest) {
                return Time::new(candidate, minute, 0, 0).ok();
            }
            hour = self.hours.last_until(candidate - 1);
        }
        None
    }

    fn first_time_from(&self, from: Time) -> Option<Time> {
        let is_whole = from.second() == 0 && from.subsec_nanosecond() == 0;
        let mut hour = self.hours.first_from(from.hour());
        while let Some(candidate) = hour {
            let earliest = if candidate == from.hour() { from.minute() + i8::from(!is_whole) } else { 0 };
            if let Some(minute) = self.minutes.first_from(earliest) {
                return Time::new(candidate, minute, 0, 0).ok();
            }
            hour = self.hours.first_from(candidate + 1);
        }
        None
    }
}

fn parse_field(text: &str, kind: &FieldKind) -> Result<FieldValues, CronError> {
    let parts: Option<Vec<u64>> = text.split(',').map(|part| parse_part(part, kind)).collect();
    match parts {
        Some(parts) => {
            let bits = parts.into_iter().fold(0, |bits, part| bits | part);
            Ok(FieldValues { bits, is_star: text.starts_with('*') })
        }
        None => Err(field_error(text, kind)),
    }
}

fn field_error(text: &str, kind: &FieldKind) -> CronError {
    let text = text[..text.floor_char_boundary(LONGEST_TEXT)].to_owned();
    CronError::Field { text, field: kind.name, first: kind.first, last: kind.last }
}

/// The bits of one part of a list; `None` if it cannot be read.
fn parse_part(part: &str, kind: &FieldKind) -> Option<u64> {
    let (range, step) = match part.split_once('/') {
        Some((range, step)) => (range, Some(parse_number(step)?)),
        None => (part, None),
    };
    let (first, last) = match range.split_once('-') {
        _ if range == "*" => (kind.first, kind.last),
        Some((first, last)) => (parse_value(first, kind)?, parse_value(last, kind)?),
        None => {
            let first = parse_value(range, kind)?;
            // A step after a single value counts from there, as in other programs.
            (first, if step.is_some() { kind.last } else { first })
        }
    };
    let step = step.unwrap_or(1);
    if first > last || step == 0 {
        return None;
    }
    Some((first..=last).step_by(usize::from(step)).fold(0, |bits, value| bits | (1 << value)))
}

/// A number or a name of a field.
fn parse_value(text: &str, kind: &FieldKind) -> Option<u8> {
    let lower = text.to_ascii_lowercase();
    let named = kind.names.iter().position(|name| *name == lower);
    let named = named.and_then(|place| u8::try_from(place).ok()).map(|place| place + kind.first);
    let value = named.or_else(|| parse_number(text))?;
    (kind.first..=kind.last).contains(&value).then_some(value)
}

fn parse_number(text: &str) -> Option<u8> {
    let is_number = !text.is_empty() && text.bytes().all(|digit| digit.is_ascii_digit());
    is_number.then(|| text.parse().ok()).flatten()
}

#[cfg(test)]
mod tests;
