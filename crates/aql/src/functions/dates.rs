//! Functions of dates. A date is a number of milliseconds since 1970 or an ISO 8601 string, in UTC.

use std::ops::RangeInclusive;

use pellucid_value::{Kind, Value, to_number};

use super::function::{Function, whole, wrong_type};
use super::makers::TextMaker;
use super::time::{self, DAY_MS, DateTime};
use crate::query_run::QueryRun;
use crate::{Result, number};

macro_rules! part {
    ($name:literal, $part:expr) => {
        Function::pure($name, 1, 2, |run, arguments| {
            let part: fn(DateTime) -> Value = $part;
            if !is_utc(&arguments[1..]) {
                return zone(run);
            }
            match moment(&arguments[0]) {
                Some(moment) => Ok(part(DateTime::of(moment))),
                None => invalid(run),
            }
        })
    };
}

pub(super) const FUNCTIONS: &[Function] = &[
    part!("DATE_YEAR", |parts| Value::Int(parts.year)),
    part!("DATE_MONTH", |parts| Value::Int(parts.month)),
    part!("DATE_DAY", |parts| Value::Int(parts.day)),
    part!("DATE_HOUR", |parts| Value::Int(parts.hour)),
    part!("DATE_MINUTE", |parts| Value::Int(parts.minute)),
    part!("DATE_SECOND", |parts| Value::Int(parts.second)),
    part!("DATE_MILLISECOND", |parts| Value::Int(parts.millisecond)),
    part!("DATE_DAYOFWEEK", |parts| Value::Int(parts.day_of_week())),
    part!("DATE_DAYOFYEAR", |parts| Value::Int(parts.day_of_year())),
    part!("DATE_ISOWEEK", |parts| Value::Int(parts.iso_week().1)),
    part!("DATE_QUARTER", |parts| Value::Int((parts.month + 2) / 3)),
    part!("DATE_LEAPYEAR", |parts| Value::Bool(time::is_leap(parts.year))),
    part!("DATE_DAYS_IN_MONTH", |parts| Value::Int(time::days_in_month(parts.year, parts.month))),
    Function::impure("DATE_NOW", 0, 0, |run, _| Ok(Value::Int(run.now_ms))),
    Function::pure("DATE_TIMESTAMP", 1, 7, |run, arguments| match made(arguments) {
        Some(moment) => Ok(Value::Int(moment)),
        None => invalid(run),
    }),
    Function::pure("DATE_ISO8601", 1, 7, |run, arguments| match made(arguments) {
        Some(moment) => Ok(DateTime::of(moment).iso().into()),
        None => invalid(run),
    }),
    Function::pure("DATE_ADD", 2, 4, |run, arguments| add(run, arguments, 1)),
    Function::pure("DATE_SUBTRACT", 2, 4, |run, arguments| add(run, arguments, -1)),
    Function::pure("DATE_DIFF", 3, 6, diff),
    Function::pure("DATE_COMPARE", 3, 6, compare),
    Function::pure("DATE_TRUNC", 2, 3, trunc),
    Function::pure("DATE_FORMAT", 2, 3, format),
    Function::pure("IS_DATESTRING", 1, 1, |_, arguments| {
        let is_text = arguments[0].kind() == Kind::String;
        Ok(Value::Bool(is_text && moment(&arguments[0]).is_some()))
    }),
];

/// The moments of the years 0 to 9999.
const MOMENTS: RangeInclusive<i64> = -62_167_219_200_000..=253_402_300_799_999;

fn invalid(run: &mut QueryRun) -> Result<Value> {
    run.warn_null(number::INVALID_DATE_VALUE, "invalid date value")
}

fn zone(run: &mut QueryRun) -> Result<Value> {
    run.warn_null(number::NOT_IMPLEMENTED, "time zones but UTC are not supported")
}

/// True if no other time zone than UTC is given.
fn is_utc(rest: &[Value]) -> bool {
    rest.iter().all(|zone| zone.as_str().is_none_or(|zone| matches!(zone, "UTC" | "Etc/UTC")))
}

/// True for text that may be the name of a time zone. They all begin with a capital letter.
fn looks_like_zone(text: &str) -> bool {
    text.starts_with(|first: char| first.is_ascii_uppercase())
}

fn moment(value: &Value) -> Option<i64> {
    let moment = match value.kind() {
        Kind::Number => to_number(value.view()).to_int(),
        Kind::String => time::parse(value.as_str()?)?,
        _ => return None,
    };
    MOMENTS.contains(&moment).then_some(moment)
}

/// The moment of a single argument, or of its parts: a year, a month, a day, and perhaps a time.
fn made(arguments: &[Value]) -> Option<i64> {
    if arguments.len() == 1 {
        return moment(&arguments[0]);
    }
    let is_part = |value: &Value| matches!(value.kind(), Kind::Number | Kind::String);
    if arguments.len() < 3 || !arguments.iter().all(is_part) {
        return None;
    }
    let parts: Vec<i64> = arguments.iter().map(whole).collect();
    let part = |place: usize| parts.get(place).copied().unwrap_or(0);
    if part(0) > 9999 || parts.iter().any(|part| *part < 0) {
        return None;
    }
    // Excess months, days and parts of a day carry over, but milliseconds do not.
    let year = DateTime { year: part(0), ..DateTime::of(0) };
    let month = add_months(year.milliseconds(), part(1) - 1)?;
    let rest = [
        (part(2) - 1, DAY_MS),
        (part(3), 3_600_000),
        (part(4), 60_000),
        (part(5), 1000),
        (part(6).min(999), 1),
    ];
    let moment = rest.iter().try_fold(month, |moment, (count, length)| {
        moment.checked_add(count.checked_mul(*length)?)
    })?;
    MOMENTS.contains(&moment).then_some(moment)
}

/// The most bytes of the name of a unit.
const UNIT_BYTES_MAX: usize = 16;

/// The length of a unit, in months or milliseconds.
enum Unit {
    Months(i64),
    Milliseconds(i64),
}

fn unit(name: &str) -> Option<Unit> {
    let is_short = name.len() <= UNIT_BYTES_MAX;
    let name = is_short.then(|| name.to_ascii_lowercase())?;
    Some(match name.as_str() {
        "y" | "year" | "years" => Unit::Months(12),
        "m" | "month" | "months" => Unit::Months(1),
        "w" | "week" | "weeks" => Unit::Milliseconds(7 * DAY_MS),
        "d" | "day" | "days" => Unit::Milliseconds(DAY_MS),
        "h" | "hour" | "hours" => Unit::Milliseconds(3_600_000),
        "i" | "minute" | "minutes" => Unit::Milliseconds(60_000),
        "s" | "second" | "seconds" => Unit::Milliseconds(1000),
        "f" | "millisecond" | "milliseconds" => Unit::Milliseconds(1),
        _ => return None,
    })
}

/// Adds months. In a shorter month, the excess days carry over to the next month.
fn add_months(moment: i64, months: i64) -> Option<i64> {
    let mut parts = DateTime::of(moment);
    let all = (parts.year * 12 + parts.month - 1).checked_add(months)?;
    parts.year = all.div_euclid(12);
    parts.month = all.rem_euclid(12) + 1;
    if !(-9999..=9999).contains(&parts.year) {
        return None;
    }
    // The 31st day of a shorter month becomes a day of the next month.
    Some(parts.milliseconds())
}

/// Adds months and then milliseconds. The fraction of a month is that of 30 days.
fn shift(from: i64, months: f64, milliseconds: i64) -> Option<i64> {
    let days = months.fract() * 30.0;
    add_months(from, months as i64)?
        .checked_add((days * DAY_MS as f64) as i64)?
        .checked_add(milliseconds)
        .filter(|moment| MOMENTS.contains(moment))
}

fn add(run: &mut QueryRun, arguments: &[Value], sign: i64) -> Result<Value> {
    let Some(from) = moment(&arguments[0]) else { return invalid(run) };
    let (to, zones) = match arguments {
        [_, amount, name, rest @ ..] if amount.kind() == Kind::Number => {
            let amount = to_number(amount.view()).to_double() * sign as f64;
            let to = match name.as_str().and_then(unit) {
                Some(Unit::Months(months)) => shift(from, amount * months as f64, 0),
                Some(Unit::Milliseconds(length)) => {
                    shift(from, 0.0, (amount * length as f64) as i64)
                }
                None => return wrong_type(run, "DATE_ADD"),
            };
            (to, rest)
        }
        [_, duration, rest @ ..] if rest.len() < 2 => {
            (duration.as_str().and_then(|text| add_duration(from, text, sign)), rest)
        }
        _ => return invalid(run),
    };
    // Of an invalid duration, the next argument may be a unit.
    let Some(to) = to else { return invalid(run) };
    if !is_utc(zones) {
        return zone(run);
    }
    Ok(DateTime::of(to).iso().into())
}

/// Adds an ISO 8601 duration, such as `P1Y2M3DT4H5M6.5S`: first its years and months, then the
/// rest.
fn add_duration(from: i64, text: &str, sign: i64) -> Option<i64> {
    let mut rest = text.strip_prefix('P')?;
    let mut is_time = false;
    let (mut months, mut milliseconds) = (0.0, 0_i64);
    while !rest.is_empty() {
        if let Some(after) = rest.strip_prefix('T') {
            (is_time, rest) = (true, after);
            continue;
        }
        let end = rest.find(|next: char| !next.is_ascii_digit() && next != '.')?;
        let amount: f64 = rest[..end].parse().ok()?;
        let letter = rest[end..].chars().next()?;
        rest = &rest[end + letter.len_utf8()..];
        let length = match (is_time, letter) {
            (false, 'Y') => {
                months += amount * 12.0;
                continue;
            }
            (false, 'M') => {
                months += amount;
                continue;
            }
            (false, 'W') => 7 * DAY_MS,
            (false, 'D') => DAY_MS,
            (true, 'H') => 3_600_000,
            (true, 'M') => 60_000,
            (true, 'S') => 1000,
            _ => return None,
        };
        milliseconds = milliseconds.checked_add((amount * length as f64) as i64)?;
    }
    shift(from, months * sign as f64, milliseconds * sign)
}

fn diff(run: &mut QueryRun, arguments: &[Value]) -> Result<Value> {
    if !is_utc(&arguments[3..]) {
        return zone(run);
    }
    let (Some(from), Some(to)) = (moment(&arguments[0]), moment(&arguments[1])) else {
        return invalid(run);
    };
    let length = match arguments[2].as_str().and_then(unit) {
        // The mean length of a year; that of a month follows.
        Some(Unit::Months(12)) => 365.2425 * DAY_MS as f64,
        Some(Unit::Months(_)) => 365.2425 / 12.0 * DAY_MS as f64,
        Some(Unit::Milliseconds(length)) => length as f64,
        None => return wrong_type(run, "DATE_DIFF"),
    };
    let between = (to - from) as f64 / length;
    let is_float = arguments.get(3).is_some_and(|flag| flag.kind() == Kind::Bool && flag.is_true());
    Ok(if is_float { Value::from(between) } else { Value::Int(between.round() as i64) })
}

/// The parts of a moment from the year on, each with its unit.
fn units(parts: DateTime) -> [(i64, &'static str); 7] {
    [
        (parts.year, "year"),
        (parts.month, "month"),
        (parts.day, "day"),
        (parts.hour, "hour"),
        (parts.minute, "minute"),
        (parts.second, "second"),
        (parts.millisecond, "millisecond"),
    ]
}

/// The index of a unit among the parts of a moment.
fn place_of(name: &Value) -> Option<usize> {
    let name = name.as_str().filter(|name| name.len() <= UNIT_BYTES_MAX)?.to_ascii_lowercase();
    let short = ["y", "m", "d", "h", "i", "s", "f"];
    let long = units(DateTime::of(0));
    let is_it = |(place, (_, long)): &(usize, (i64, &str))| {
        name == short[*place] || name == *long || name == format!("{long}s")
    };
    long.into_iter().enumerate().find(is_it).map(|(place, _)| place)
}

fn compare(run: &mut QueryRun, arguments: &[Value]) -> Result<Value> {
    let (Some(left), Some(right)) = (moment(&arguments[0]), moment(&arguments[1])) else {
        return invalid(run);
    };
    let Some(from) = place_of(&arguments[2]) else { return wrong_type(run, "DATE_COMPARE") };
    // The second unit may be left out before a time zone.
    let (to, zones) = match arguments.get(3) {
        Some(name) if place_of(name).is_some() => (place_of(name), &arguments[4..]),
        Some(other) if !other.as_str().is_some_and(looks_like_zone) => (None, &[][..]),
        _ => (Some(from), &arguments[3..]),
    };
    if !is_utc(zones) {
        return zone(run);
    }
    let Some(to) = to.filter(|to| *to >= from) else { return wrong_type(run, "DATE_COMPARE") };
    let (left, right) = (units(DateTime::of(left)), units(DateTime::of(right)));
    Ok(Value::Bool((from..=to).all(|place| left[place].0 == right[place].0)))
}

fn trunc(run: &mut QueryRun, arguments: &[Value]) -> Result<Value> {
    if !is_utc(&arguments[2..]) {
        return zone(run);
    }
    let Some(moment) = moment(&arguments[0]) else { return invalid(run) };
    let Some(place) = place_of(&arguments[1]) else { return wrong_type(run, "DATE_TRUNC") };
    let mut parts = DateTime::of(moment);
    let fields: [(&mut i64, i64); 7] = [
        (&mut parts.year, 0),
        (&mut parts.month, 1),
        (&mut parts.day, 1),
        (&mut parts.hour, 0),
        (&mut parts.minute, 0),
        (&mut parts.second, 0),
        (&mut parts.millisecond, 0),
    ];
    for (field, least) in fields.into_iter().skip(place + 1) {
        *field = least;
    }
    Ok(parts.iso().into())
}

const MONTHS: [&str; 12] = [
    "January", "February", "March", "April", "May", "June", "July", "August", "September",
    "October", "November", "December",
];
const DAYS: [&str; 7] =
    ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"];

fn format(run: &mut QueryRun, arguments: &[Value]) -> Result<Value> {
    if !is_utc(&arguments[2..]) {
        return zone(run);
    }
    let Some(moment) = moment(&arguments[0]) else { return invalid(run) };
    let Some(format) = arguments[1].as_str() else { return wrong_type(run, "DATE_FORMAT") };
    let mut formatted = TextMaker::new(run);
    let mut rest = format;
    while let Some(at) = rest.find('%') {
        formatted.push(&rest[..at])?;
        rest = &rest[at + 1..];
        let place = PLACEHOLDERS.iter().find(|name| rest.starts_with(**name));
        match place {
            Some(name) => {
                formatted.push(&placeholder(name, moment))?;
                rest = &rest[name.len()..];
            }
            None => formatted.push("%")?,
        }
    }
    formatted.push(rest)?;
    formatted.finish()
}

/// The words that may follow `%`, longer ones first. `&` stands for nothing: it ends a word.
const PLACEHOLDERS: [&str; 33] = [
    "yyyyyy", "yyyy", "mmmm", "wwww", "mmm", "www", "fff", "xxx", "yy", "mm", "dd", "hh", "ii",
    "ss", "kk", "t", "z", "w", "y", "m", "d", "h", "i", "s", "f", "x", "k", "l", "q", "a", "%",
    "&", "",
];

fn placeholder(name: &str, moment: i64) -> String {
    let parts = DateTime::of(moment);
    let month = MONTHS[usize::try_from(parts.month - 1).unwrap_or(0) % 12];
    let day = DAYS[usize::try_from(parts.day_of_week()).unwrap_or(0) % 7];
    match name {
        "yyyyyy" => format!("{}{:06}", if parts.year < 0 { '-' } else { '+' }, parts.year.abs()),
        "yyyy" => format!("{:04}", parts.year),
        "yy" => format!("{:02}", parts.year.rem_euclid(100)),
        "y" => parts.year.to_string(),
        "mmmm" => month.to_owned(),
        "mmm" => month[..3].to_owned(),
        "mm" => format!("{:02}", parts.month),
        "m" => parts.month.to_string(),
        "dd" => format!("{:02}", parts.day),
        "d" => parts.day.to_string(),
        "hh" => format!("{:02}", parts.hour),
        "h" => parts.hour.to_string(),
        "ii" => format!("{:02}", parts.minute),
        "i" => parts.minute.to_string(),
        "ss" => format!("{:02}", parts.second),
        "s" => parts.second.to_string(),
        "fff" => format!("{:03}", parts.millisecond),
        "f" => parts.millisecond.to_string(),
        "wwww" => day.to_owned(),
        "www" => day[..3].to_owned(),
        "w" => parts.day_of_week().to_string(),
        "xxx" => format!("{:03}", parts.day_of_year()),
        "x" => parts.day_of_year().to_string(),
        "kk" => format!("{:02}", parts.iso_week().1),
        "k" => parts.iso_week().1.to_string(),
        "l" => i64::from(time::is_leap(parts.year)).to_string(),
        "q" => ((parts.month + 2) / 3).to_string(),
        "a" => time::days_in_month(parts.year, parts.month).to_string(),
        "t" => moment.to_string(),
        "z" => parts.iso(),
        "%" => "%".to_owned(),
        _ => String::new(),
    }
}
