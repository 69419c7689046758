//! Shows and sets the rates of sampling that apply while no profile is being recorded. They can be
//! set while the server runs, so that the cost of sampling can be measured within one process, and
//! an incident can be sampled more closely without a restart.

use pellucid_profile::{HERTZ_MAX, allocation_sampling, set_allocation_sampling};
use pellucid_thread::{holder_sampling, set_holder_sampling, set_wait_sampling, wait_sampling};

use super::Profiles;
use crate::answer::HandlerResult;
use crate::query::{number_parameter, number_within};
use crate::reply::{Failure, Reply};

/// The smallest distance between two sampled allocations, in bytes: more samples would cost more
/// than the allocations themselves.
pub(crate) const BYTES_MIN: u64 = 1_024;

/// The rates to set; a rate that is `None` stays as it is.
#[derive(Debug, PartialEq, Eq)]
struct Rates {
    hertz: Option<u32>,
    bytes: Option<u64>,
    /// The length from which on all waits are kept, in nanoseconds.
    wait_ns: Option<u64>,
    /// One in this number of contended unlocks records where the lock was held.
    holders: Option<u32>,
}

/// The highest value of `wait_ns` and of `holders`.
pub(crate) const ONE_IN_MAX: u64 = 1_000_000_000;

impl Rates {
    fn parse(query: Option<&str>) -> Result<Rates, String> {
        let hertz = number_within(query, "hz", 0..=u64::from(HERTZ_MAX))?;
        let bytes = number_parameter(query, "bytes")?;
        let wait_ns = number_within(query, "wait_ns", 1..=ONE_IN_MAX)?;
        let holders = number_within(query, "holders", 1..=ONE_IN_MAX)?;
        if hertz.or(bytes).or(wait_ns).or(holders).is_none() {
            return Err(
                "say `hz`, samples per second of processor time, `bytes`, allocated between \
                        two samples (zero for none of either), `wait_ns`, from which on all waits \
                        are kept, or `holders`, of which one in so many is"
                    .to_owned(),
            );
        }
        if bytes.is_some_and(|bytes| (1..BYTES_MIN).contains(&bytes)) {
            return Err(format!("`bytes` is zero, or {BYTES_MIN} at least"));
        }
        let short = |number: Option<u64>| number.map(|number| number as u32);
        Ok(Rates { hertz: short(hertz), bytes, wait_ns, holders: short(holders) })
    }
}

/// `PUT /debug/pprof/rates`: sets the rates, and shows them.
pub(crate) fn set_rates(profiles: &Profiles, query: Option<&str>) -> HandlerResult {
    let rates = Rates::parse(query)?;
    match (rates.hertz, profiles.profiler()) {
        (Some(hertz), Some(profiler)) => profiler.set_usual_hertz(hertz),
        (Some(1..), None) => {
            let line = "nothing samples processor time here: start the server with \
                        --profile-hertz 19";
            return Err(Failure::Refused(409, line.into()));
        }
        (Some(0) | None, _) => {}
    }
    rates.bytes.into_iter().for_each(set_allocation_sampling);
    rates.wait_ns.into_iter().for_each(set_wait_sampling);
    rates.holders.into_iter().for_each(set_holder_sampling);
    show_rates(profiles)
}

/// `GET /debug/pprof/rates`: shows the rates.
pub(crate) fn show_rates(profiles: &Profiles) -> HandlerResult {
    let hertz = profiles.profiler().map_or(0, |profiler| profiler.usual_hertz());
    let text = format!(
        "hz={hertz}\nbytes={}\nwait_ns={}\nholders={}",
        allocation_sampling(),
        wait_sampling(),
        holder_sampling()
    );
    Ok(Reply::line(200, text).into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_have_limits_and_one_at_least_is_named() {
        let of = |query: &str| Rates::parse(Some(query));
        let rates = |hertz, bytes, wait_ns, holders| Ok(Rates { hertz, bytes, wait_ns, holders });
        assert_eq!(of("hz=0&bytes=4096"), rates(Some(0), Some(4096), None, None));
        assert_eq!(of("bytes=0"), rates(None, Some(0), None, None));
        assert_eq!(of("wait_ns=1000&holders=1"), rates(None, None, Some(1_000), Some(1)));
        for wrong in ["", "hz=1000", "bytes=1", "hz=x", "bytes=-1", "wait_ns=0", "holders=0"] {
            assert!(of(wrong).is_err(), "{wrong}");
        }
    }
}
