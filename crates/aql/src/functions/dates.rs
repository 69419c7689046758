//! Functions of dates. A date is a number of milliseconds since 1970 or an ISO 8601 string, in UTC.

use std::ops::RangeInclusive;

use pellucid_value::{Kind, Ref, Value, to_number};

use super::function::{Function, whole, wrong_type};
use super::makers::TextMaker;
use super::time::{self, DAY_MS, DateTime};
use crate::query_run::QueryRun;
use crate::{Result, number};

macro_rules! part {
    ($name:literal, $part:expr) => {
        Function::pure($name, 1, 2, |run, arguments| {
            let part: fn(DateTime) -> Value = $part;
            let moment = moment_in(run, &arguments[0], &arguments[1..], $name)?;
            Ok(moment.map_or(Value::Null, |moment| part(DateTime::of(moment))))
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
    Function::pure("DATE_TIMESTAMP", 1, 7, |run, arguments| {
        Ok(made(run, arguments, "DATE_TIMESTAMP")?.map_or(Value::Null, Value::Int))
    }),
    Function::pure("DATE_ISO8601", 1, 7, |run, arguments| {
        let moment = made(run, arguments, "DATE_ISO8601")?;
        Ok(moment.map_or(Value::Null, |moment| DateTime::of(moment).iso().into()))
    }),
    Function::pure("DATE_ADD", 2, 4, |run, arguments| add(run, arguments, "DATE_ADD", 1)),
    Function::pure("DATE_SUBTRACT", 2, 4, |run, arguments| {
        add(run, arguments, "DATE_SUBTRACT", -1)
    }),
    Function::pure("DATE_DIFF", 3, 6, diff),
    Function::pure("DATE_COMPARE", 3, 6, compare),
    Function::pure("DATE_TRUNC", 2, 3, trunc),
    Function::pure("DATE_FORMAT", 2, 3, format),
    Function::pure("IS_DATESTRING", 1, 1, |_, arguments| {
        let is_text = arguments[0].kind() == Kind::String;
        Ok(Value::Bool(is_text && moment_of(&arguments[0]).is_some()))
    }),
];

/// The moments of the years 0 to 9999.
const MOMENTS: RangeInclusive<i64> = -62_167_219_200_000..=253_402_300_799_999;

fn invalid(run: &mut QueryRun) -> Result<Value> {
    run.warn_null(number::INVALID_DATE_VALUE, "invalid date value")
}

/// Returns null, with the warning that a string is invalid, or another value of a wrong type.
fn refused(run: &mut QueryRun, value: &Value, name: &str) -> Result<Value> {
    if value.kind() == Kind::String { invalid(run) } else { wrong_type(run, name) }
}

/// True if all time zones are UTC. Otherwise warns.
fn are_utc(run: &mut QueryRun, zones: &[Value], name: &str) -> Result<bool> {
    let other = zones.iter().find(|zone| !matches!(zone.as_str(), Some("UTC" | "Etc/UTC")));
    match other.map(Value::kind) {
        None => return Ok(true),
        Some(Kind::String) => {
            run.warn(number::NOT_IMPLEMENTED, "time zones but UTC are not supported")?;
        }
        Some(_) => drop(wrong_type(run, name)?),
    }
    Ok(false)
}

/// True for text that may be the name of a time zone. They all begin with a capital letter.
fn looks_like_zone(text: &str) -> bool {
    text.starts_with(|first: char| first.is_ascii_uppercase())
}

fn moment_of(value: &Value) -> Option<i64> {
    let moment = match value.kind() {
        Kind::Number => to_number(value.view()).to_int(),
        Kind::String => time::parse(value.as_str()?)?,
        _ => return None,
    };
    MOMENTS.contains(&moment).then_some(moment)
}

/// As [`moment_of`]; warns if it is `None`.
fn moment(run: &mut QueryRun, date: &Value, name: &str) -> Result<Option<i64>> {
    let moment = moment_of(date);
    match date.kind() {
        _ if moment.is_some() => {}
        Kind::Number => drop(invalid(run)?),
        _ => drop(refused(run, date, name)?),
    }
    Ok(moment)
}

/// As [`moment`]; warns also if a time zone is not UTC.
fn moment_in(run: &mut QueryRun, date: &Value, zones: &[Value], name: &str) -> Result<Option<i64>> {
    let Some(moment) = moment(run, date, name)? else { return Ok(None) };
    Ok(are_utc(run, zones, name)?.then_some(moment))
}

/// The moment of a single argument, or of its parts; warns if it is `None`.
fn made(run: &mut QueryRun, arguments: &[Value], name: &str) -> Result<Option<i64>> {
    if arguments.len() == 1 {
        return moment(run, &arguments[0], name);
    }
    let is_part = |value: &Value| matches!(value.kind(), Kind::Number | Kind::String);
    if arguments.len() < 3 || !arguments.iter().all(is_part) {
        return wrong_type(run, name).map(|_| None);
    }
    let moment = moment_of_parts(arguments);
    if moment.is_none() {
        invalid(run)?;
    }
    Ok(moment)
}

/// The moment of a year, a month, a day, and perhaps a time.
fn moment_of_parts(arguments: &[Value]) -> Option<i64> {
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

fn add(run: &mut QueryRun, arguments: &[Value], name: &str, sign: i64) -> Result<Value> {
    let Some(from) = moment(run, &arguments[0], name)? else { return Ok(Value::Null) };
    let (to, zones) = match arguments {
        [_, amount, unit_name, rest @ ..] if amount.kind() == Kind::Number => {
            let amount = to_number(amount.view()).to_double() * sign as f64;
            let to = match unit_name.as_str().and_then(unit) {
                Some(Unit::Months(months)) => shift(from, amount * months as f64, 0),
                Some(Unit::Milliseconds(length)) => {
                    shift(from, 0.0, (amount * length as f64) as i64)
                }
                None => return refused(run, unit_name, name),
            };
            (to, rest)
        }
        [_, Value::String(duration), rest @ ..] if rest.len() < 2 => {
            (add_duration(from, duration, sign), rest)
        }
        _ => return wrong_type(run, name),
    };
    // Of an invalid duration, the next argument may be a unit.
    let Some(to) = to else { return invalid(run) };
    if !are_utc(run, zones, name)? {
        return Ok(Value::Null);
    }
    Ok(DateTime::of(to).iso().into())
}

/// The units of a duration's date and time, each with its letter, in their order.
const DURATION_UNITS: [&[(char, Unit)]; 2] = [
    &[
        ('Y', Unit::Months(12)),
        ('M', Unit::Months(1)),
        ('W', Unit::Milliseconds(7 * DAY_MS)),
        ('D', Unit::Milliseconds(DAY_MS)),
    ],
    &[
        ('H', Unit::Milliseconds(3_600_000)),
        ('M', Unit::Milliseconds(60_000)),
        ('S', Unit::Milliseconds(1000)),
    ],
];
/// The most digits of a number in a duration. The sum of all its parts does not overflow.
const DURATION_DIGITS_MAX: usize = 10;

/// Adds an ISO 8601 duration, such as `P1Y2M3DT4H5M6.5S`: first its years and months, then the
/// rest.
fn add_duration(from: i64, text: &str, sign: i64) -> Option<i64> {
    let duration = text.strip_prefix('P').filter(|rest| !rest.is_empty())?;
    let (days, hours) = duration.split_once('T').unwrap_or((duration, ""));
    let (mut months, mut milliseconds) = (0, 0);
    for (mut rest, units) in [days, hours].into_iter().zip(DURATION_UNITS) {
        let mut units = units.iter();
        while !rest.is_empty() {
            let amount = time::number(&mut rest, DURATION_DIGITS_MAX, 0..=i64::MAX)?;
            if time::take(&mut rest, &['.', ',']) {
                milliseconds += time::thousandths(&mut rest, 3)?;
                // Only seconds, which come last, may have a fraction.
                if rest != "S" {
                    return None;
                }
            }
            let unit = units.find(|(letter, _)| time::take(&mut rest, &[*letter]))?;
            match unit.1 {
                Unit::Months(length) => months += amount * length,
                Unit::Milliseconds(length) => milliseconds += amount * length,
            }
        }
    }
    shift(from, (months * sign) as f64, milliseconds * sign)
}

fn diff(run: &mut QueryRun, arguments: &[Value]) -> Result<Value> {
    let (is_float, zones) = match arguments.get(3).map(Value::view) {
        Some(Ref::Bool(is_float)) => (is_float, &arguments[4..]),
        _ => (false, &arguments[3..]),
    };
    let Some(from) = moment(run, &arguments[0], "DATE_DIFF")? else { return Ok(Value::Null) };
    let to = moment_in(run, &arguments[1], zones, "DATE_DIFF")?;
    let Some(to) = to else { return Ok(Value::Null) };
    let length = match arguments[2].as_str().and_then(unit) {
        // The mean length of a year; that of a month follows.
        Some(Unit::Months(12)) => 365.2425 * DAY_MS as f64,
        Some(Unit::Months(_)) => 365.2425 / 12.0 * DAY_MS as f64,
        Some(Unit::Milliseconds(length)) => length as f64,
        None => return refused(run, &arguments[2], "DATE_DIFF"),
    };
    let between = (to - from) as f64 / length;
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
    let name = "DATE_COMPARE";
    let Some(left) = moment(run, &arguments[0], name)? else { return Ok(Value::Null) };
    let Some(right) = moment(run, &arguments[1], name)? else { return Ok(Value::Null) };
    let Some(from) = place_of(&arguments[2]) else { return wrong_type(run, name) };
    // The second unit may be left out before a time zone.
    let (to, zones) = match arguments.get(3) {
        Some(other) if let Some(to) = place_of(other) => (to, &arguments[4..]),
        Some(other) if !other.as_str().is_some_and(looks_like_zone) => {
            return wrong_type(run, name);
        }
        _ => (from, &arguments[3..]),
    };
    if !are_utc(run, zones, name)? {
        return Ok(Value::Null);
    }
    // As in ArangoDB, no part is compared if the second unit is the longer one.
    let (left, right) = (units(DateTime::of(left)), units(DateTime::of(right)));
    Ok(Value::Bool((from..=to).all(|place| left[place].0 == right[place].0)))
}

fn trunc(run: &mut QueryRun, arguments: &[Value]) -> Result<Value> {
    let moment = moment_in(run, &arguments[0], &arguments[2..], "DATE_TRUNC")?;
    let Some(moment) = moment else { return Ok(Value::Null) };
    let Some(place) = place_of(&arguments[1]) else {
        return refused(run, &arguments[1], "DATE_TRUNC");
    };
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
    let moment = moment_in(run, &arguments[0], &arguments[2..], "DATE_FORMAT")?;
    let Some(moment) = moment else { return Ok(Value::Null) };
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
