//! Parses the parameters of profiles.

use std::time::{SystemTime, UNIX_EPOCH};

use pellucid_profile::{Filter, HERTZ_MAX, Kind, Profiler, RECORDING_HERTZ};

use crate::names::check_operation;
use crate::query::{number_within, text_parameter};

/// The longest time to record a profile, in seconds.
pub(crate) const SECONDS_MAX: f64 = 300.0;
/// The default time to record processor time, in seconds; it is the same as in Go.
const CPU_SECONDS: f64 = 30.0;
/// The border between the two meanings of a time: lower values are relative to now, and values from
/// this on are seconds since 1970.
const UNIX_SECONDS_MIN: f64 = 1e9;

/// The names of profiles, as in their paths.
pub(crate) const PROFILES: [&str; 6] = ["profile", "cpu", "heap", "allocs", "mutex", "block"];
/// The values of the parameter `format`.
pub(crate) const FORMATS: [&str; 5] = ["pb", "folded", "svg", "html", "shares"];

/// The form of a profile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Format {
    Pprof,
    Folded,
    Svg,
    Html,
    Shares,
}

/// The time that a profile covers, by the monotonic clock.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Span {
    /// This number of seconds from now on. For profiles that are counted, zero means all the time
    /// since the start.
    Next(f64),
    /// An interval in the past. For memory in use, a beginning of zero means all memory at the end
    /// of the interval.
    Past { from_ns: u64, to_ns: u64 },
}

/// A profile that a request asks for.
#[derive(Clone, Debug)]
pub(super) struct ProfileRequest {
    pub(super) kind: Kind,
    pub(super) span: Span,
    pub(super) base: Option<(u64, u64)>,
    pub(super) hertz: u32,
    pub(super) filter: Filter,
    pub(super) format: Format,
}

impl ProfileRequest {
    /// Returns true if the profile needs samples with times. Otherwise counts since the start of
    /// the process are enough, which never lose a sample.
    pub(super) fn needs_times(&self) -> bool {
        let is_recorded = matches!(self.span, Span::Next(seconds) if seconds > 0.0);
        let is_past = matches!(self.span, Span::Past { .. });
        // The page has a heat map over time, except for memory in use, which has no times.
        let is_page = self.format == Format::Html && is_recorded && self.kind != Kind::Heap;
        self.kind == Kind::Cpu || is_past || self.base.is_some() || is_page
    }
}

/// Parses the request for the profile `name`; `None` if there is no such profile.
///
/// # Errors
/// If a parameter is invalid; the text names it.
pub(super) fn parse(name: &str, query: Option<&str>) -> Result<Option<ProfileRequest>, String> {
    let kind = match name {
        "profile" | "cpu" => Kind::Cpu,
        "heap" => Kind::Heap,
        "allocs" => Kind::Allocations,
        "mutex" => Kind::Mutex,
        "block" => Kind::Block,
        _ => return Ok(None),
    };
    let text = |name| text_parameter(query, name).map(|text| text.map(|text| text.into_owned()));
    let format = match text("format")?.as_deref() {
        None | Some("pb") => Format::Pprof,
        Some("folded") => Format::Folded,
        Some("svg") => Format::Svg,
        Some("html") => Format::Html,
        Some("shares") => Format::Shares,
        Some(_) => return Err("`format` is one of pb, folded, svg, html and shares".to_owned()),
    };
    let hertz = number_within(query, "hz", 1..=u64::from(HERTZ_MAX))?;
    let hertz = hertz.map_or(RECORDING_HERTZ, |hertz| hertz as u32);
    let seconds = text("seconds")?.map(|text| seconds_of("seconds", &text)).transpose()?;
    if seconds.is_some_and(|seconds| !(0.0..=SECONDS_MAX).contains(&seconds)) {
        return Err(format!("`seconds` is at most {SECONDS_MAX}"));
    }
    let (from, to, base) = (text("from")?, text("to")?, text("base")?);
    let span = span_of(kind, seconds, from.as_deref(), to.as_deref())?;
    let base = base.map(|text| base_of(kind, span, &text)).transpose()?;
    let filter = Filter { operation: text("op")?, phase: text("phase")? };
    filter.operation.as_deref().map_or(Ok(()), check_operation)?;
    Ok(Some(ProfileRequest { kind, span, base, hertz, filter, format }))
}

/// The time that a profile covers.
fn span_of(
    kind: Kind,
    seconds: Option<f64>,
    from: Option<&str>,
    to: Option<&str>,
) -> Result<Span, String> {
    if from.is_none() && to.is_none() {
        let usual = if kind == Kind::Cpu { CPU_SECONDS } else { 0.0 };
        return Ok(Span::Next(seconds.unwrap_or(usual)));
    }
    if seconds.is_some() {
        return Err(
            "`seconds` records from now on, `from` and `to` say what is past: take one".to_owned()
        );
    }
    let (from_ns, to_ns) = match (kind, from, to) {
        (Kind::Heap, None, Some(to)) => (0, stretch("to", to, "to", None)?.0),
        _ => stretch("from", from.unwrap_or("-600"), "to", to)?,
    };
    Ok(Span::Past { from_ns, to_ns })
}

/// The interval of the base that a profile of `span` is compared with. For memory in use, the base
/// may be a single time.
fn base_of(kind: Kind, span: Span, text: &str) -> Result<(u64, u64), String> {
    let is_stretch = match span {
        Span::Next(seconds) => seconds > 0.0,
        Span::Past { from_ns, .. } => from_ns > 0,
    };
    match (text.split_once(".."), kind == Kind::Heap) {
        (Some((from, to)), _) if is_stretch => stretch("base", from, "base", Some(to)),
        (None, true) if !is_stretch => Ok((0, stretch("base", text, "base", None)?.0)),
        (_, true) => Err("`base` is a moment, as -60, of the memory in use at one, and two \
                          times, as -120..-60, of what was added in a stretch"
            .to_owned()),
        (Some(_), _) => {
            Err("`base` is compared with a stretch: say which by `from` or `seconds`".to_owned())
        }
        (None, _) => Err("`base` is two times, as -120..-60".to_owned()),
    }
}

fn seconds_of(name: &str, text: &str) -> Result<f64, String> {
    let seconds = text.parse().ok().filter(|seconds: &f64| seconds.is_finite());
    seconds.ok_or_else(|| format!("`{name}` is a number of seconds"))
}

/// An interval from two texts, in nanoseconds of the monotonic clock. It ends now if `to` is
/// `None`. The names are those of the parameters, for errors.
fn stretch(
    from_name: &str,
    from: &str,
    to_name: &str,
    to: Option<&str>,
) -> Result<(u64, u64), String> {
    let now_ns = Profiler::now_ns();
    let unix = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64();
    let place = |name: &str, text: &str| {
        let seconds = seconds_of(name, text)?;
        let before_now = if seconds >= UNIX_SECONDS_MIN { unix - seconds } else { -seconds };
        // At least one, because a beginning of zero has a meaning of its own (see `Span::Past`).
        Ok::<u64, String>(now_ns.saturating_sub((before_now.max(0.0) * 1e9) as u64).max(1))
    };
    let from_ns = place(from_name, from)?;
    let to_ns = to.map_or(Ok(now_ns), |to| place(to_name, to))?;
    if from_ns >= to_ns {
        return Err(format!("`{from_name}` is before its end: as -60, for a minute ago"));
    }
    Ok((from_ns, to_ns))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(name: &str, query: &str) -> Result<ProfileRequest, String> {
        parse(name, Some(query)).map(|asked| asked.expect("there is such a profile"))
    }

    #[test]
    fn defaults_are_those_of_go() {
        let cpu = parse("profile", None).unwrap().unwrap();
        assert_eq!((cpu.kind, cpu.span, cpu.format), (Kind::Cpu, Span::Next(30.0), Format::Pprof));
        assert_eq!(asked("heap", "").unwrap().span, Span::Next(0.0));
        assert!(parse("threads", None).unwrap().is_none());
        for name in PROFILES {
            for format in FORMATS {
                assert!(asked(name, &format!("format={format}")).is_ok(), "{name} {format}");
            }
        }
    }

    #[test]
    fn times_are_relative_to_now_or_since_1970() {
        let now_ns = Profiler::now_ns();
        let Span::Past { from_ns, to_ns } = asked("profile", "from=-2&to=-1").unwrap().span else {
            panic!("it is past");
        };
        assert!(from_ns >= now_ns.saturating_sub(2_000_000_000) && to_ns > from_ns);
        let (from_ns, to_ns) = asked("profile", "base=-3..-2&seconds=1").unwrap().base.unwrap();
        assert!(to_ns - from_ns <= 1_000_000_001);
        assert!(asked("profile", "from=1000000000").is_ok(), "as far back as there is");
    }

    #[test]
    fn allocations_and_waits_are_counted_unless_times_are_needed() {
        for (query, needs_times) in [
            ("", false),
            ("seconds=2", false),
            ("seconds=2&format=html", true),
            ("format=html", false),
            ("from=-2", true),
            ("from=-2&base=-4..-2", true),
        ] {
            assert_eq!(asked("allocs", query).unwrap().needs_times(), needs_times, "{query}");
        }
        assert!(!asked("heap", "seconds=2&format=html").unwrap().needs_times());
    }

    #[test]
    fn memory_in_use_can_be_shown_and_compared_at_one_time() {
        let past = |query: &str| match asked("heap", query).unwrap().span {
            Span::Past { from_ns, to_ns } => (from_ns > 0, to_ns > 0),
            Span::Next(_) => panic!("it is past"),
        };
        assert_eq!(past("to=-1"), (false, true));
        assert_eq!(past("from=-2&to=-1"), (true, true));
        let base = |query: &str| asked("heap", query).unwrap().base.unwrap();
        assert_eq!(base("base=-1").0, 0);
        assert_eq!(base("to=-1&base=-2").0, 0);
        assert!(base("seconds=1&base=-3..-2").0 > 0);
        assert!(asked("mutex", "from=-2&base=-4..-2").unwrap().needs_times());
    }

    #[test]
    fn invalid_parameters_are_refused_by_name() {
        for (name, query) in [
            ("profile", "seconds=301"),
            ("profile", "seconds=-1"),
            ("profile", "seconds=x"),
            ("profile", "hz=0"),
            ("profile", "hz=1000"),
            ("profile", "format=gif"),
            ("profile", "from=-1&to=-2"),
            ("profile", "from=-1&seconds=1"),
            ("profile", "base=-1"),
            ("heap", "base=-2..-1"),
            ("heap", "from=-1&base=-2"),
            ("mutex", "base=-2..-1"),
            ("mutex", "base=-1"),
            ("block", "seconds=1&base=-2"),
            ("allocs", "base=-2..-1"),
        ] {
            let error = asked(name, query).unwrap_err();
            let named =
                |pair: &str| error.contains(&format!("`{}`", pair.split('=').next().unwrap()));
            assert!(query.split('&').any(named), "{query}: {error}");
        }
    }
}
