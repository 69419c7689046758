//! Profiles of the server itself. They have the same paths as in servers written in Go, so that
//! `go tool pprof` and other tools work unchanged.
//!
//! A profile takes seconds to record, so a thread of its own records and writes it, and no event
//! loop waits.

mod rates;
mod render;
mod request;

use std::io;
use std::time::Duration;

use pellucid_profile::{Kind, Profile, Profiler, ResolvedProfile};
use pellucid_thread::{Job, sample_waits};

use crate::answer::HandlerResult;
use crate::names::NAMES;
use crate::page_thread::page_on_thread;
use crate::places::Places;
use crate::reply::Failure;
pub(crate) use rates::{BYTES_MIN, ONE_IN_MAX, set_rates, show_rates};
pub(crate) use request::{FORMATS, PROFILES, SECONDS_MAX};
use request::{ProfileRequest, Span};

/// The limit of profiles that are recorded at the same time.
const RECORDINGS_MAX: usize = 4;

static RECORDING: Job = Job::new("profiling");

pub(crate) const INDEX: &str = "\
profiles of this server, each as a gzipped protocol buffer for `go tool pprof`:
  /debug/pprof/profile  processor time of the next 30 s, or what is past: ?from=-60
  /debug/pprof/heap     memory that is allocated now
  /debug/pprof/allocs   memory that was allocated since the start, or in the next ?seconds=
  /debug/pprof/mutex    waits for locks, by who held them
  /debug/pprof/block    waits for locks and conditions, by who waited
  /debug/pprof/rates    how often is sampled when nobody records; PUT ?hz=19&bytes=524288 sets it
                        (of waits: ?wait_ns=10000&holders=8)
parameters:
  seconds=10            record for so long
  hz=199                processor time: samples per second, up to 999
  from=-60&to=-30       that stretch, in seconds before now or since 1970; of heap, what was added
  to=-60                heap: what was allocated then, as it is known every ten seconds
  base=-120..-60        show the difference to that stretch; of heap also to a moment: base=-60
  op=entity_put         of this operation alone
  phase=execute         of this phase or background job alone
  format=pb|folded|svg|html|shares
";

/// The profiler of the server itself.
#[derive(Clone)]
pub(crate) struct Profiles {
    /// The sampler of processor time; `None` if that is not sampled.
    profiler: Option<Profiler>,
    recordings: Places,
}

impl Profiles {
    /// Starts to sample waits, and also processor time at `hertz` samples per second, unless it is
    /// zero.
    pub(crate) fn start(hertz: u32) -> io::Result<Profiles> {
        sample_waits();
        let profiler = (hertz > 0).then(|| Profiler::start(hertz)).transpose()?;
        Ok(Profiles { profiler, recordings: Places::new(RECORDINGS_MAX) })
    }

    /// The sampler of processor time, if there is one.
    fn profiler(&self) -> Option<&Profiler> {
        self.profiler.as_ref()
    }

    /// Records a profile, and the base that it is compared with, if one was asked for. It blocks
    /// for the time to record.
    fn record(
        &self,
        asked: &ProfileRequest,
    ) -> Result<(ResolvedProfile, Option<ResolvedProfile>), String> {
        let operations = NAMES.operations;
        if !asked.needs_times() {
            let [profile] = ResolvedProfile::of([count(asked)], operations);
            return Ok((profile.filtered(&asked.filter), None));
        }
        let off = "nothing is sampled with its time here: start the server with --profile-hertz 19";
        let profiler = self.profiler.as_ref().ok_or(off)?;
        let (from_ns, to_ns) = match asked.span {
            // The memory in use now.
            Span::Next(0.0) if asked.kind == Kind::Heap => (0, Profiler::now_ns()),
            Span::Next(seconds) => {
                let _boost = (asked.kind == Kind::Cpu).then(|| profiler.boost(asked.hertz));
                if asked.kind == Kind::Heap {
                    profiler.note_heap();
                }
                let from_ns = Profiler::now_ns();
                std::thread::sleep(Duration::from_secs_f64(seconds));
                (from_ns, Profiler::now_ns())
            }
            Span::Past { from_ns, to_ns } => (from_ns, to_ns),
        };
        let profile = profiler.past(asked.kind, from_ns, to_ns);
        let Some((from_ns, to_ns)) = asked.base else {
            let [profile] = ResolvedProfile::of([profile], operations);
            return Ok((profile.filtered(&asked.filter), None));
        };
        let base = profiler.past(asked.kind, from_ns, to_ns);
        let both = ResolvedProfile::of([profile, base], operations);
        let [profile, base] = both.map(|profile| profile.filtered(&asked.filter));
        Ok((profile, Some(base)))
    }
}

/// The counts since the start, or, if a number of seconds was asked for, the increase during that
/// time.
fn count(asked: &ProfileRequest) -> Profile {
    let Span::Next(seconds) = asked.span else { return Profile::counted(asked.kind) };
    if seconds == 0.0 {
        return Profile::counted(asked.kind);
    }
    let before = Profile::counted(asked.kind);
    std::thread::sleep(Duration::from_secs_f64(seconds));
    Profile::counted(asked.kind).since(&before)
}

/// `GET /debug/pprof/{profile}`: records the profile `name`.
pub(crate) fn profile(profiles: &Profiles, name: &str, query: Option<&str>) -> HandlerResult {
    let Some(asked) = request::parse(name, query)? else {
        let line = format!("there is no profile `{name}`: /debug/pprof/ lists those there are");
        return Err(Failure::Refused(404, line.into()));
    };
    let Some(place) = profiles.recordings.take() else {
        let line = "as many profiles are being recorded as may be at a time: try again later";
        return Err(Failure::Busy(line.into()));
    };
    let profiles = profiles.clone();
    page_on_thread("pellucid-prof", &RECORDING, move || {
        let _place = place;
        let recorded = profiles.record(&asked);
        let page =
            recorded.and_then(|(profile, base)| render::page(&profile, base.as_ref(), &asked));
        page.map_err(|line| Failure::Refused(503, line.into()))
    })
}
