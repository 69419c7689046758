//! How often the server is sampled while nobody records: shown, and set while it runs, so that what
//! sampling costs can be measured in one process, and an incident can be sampled more closely
//! without a restart.

use pellucid_http::{Handled, Request, Response};
use pellucid_profile::{HERTZ_MAX, allocation_sampling, set_allocation_sampling};

use crate::names::Operation;
use crate::query::number_parameter;
use crate::service::{Api, Loop, method_not_allowed, respond_text, route};

/// Where the rates are.
pub(crate) const RATES_PATH: &str = "/debug/pprof/rates";

/// Samples of allocations closer together than this would cost more than the allocations.
const BYTES_MIN: u64 = 1_024;

/// Rates to be set; what is missing stays.
#[derive(Debug, PartialEq, Eq)]
struct Rates {
    hertz: Option<u32>,
    bytes: Option<u64>,
}

impl Rates {
    fn parse(query: Option<&str>) -> Result<Rates, String> {
        let hertz = number_parameter(query, "hz")?;
        let bytes = number_parameter(query, "bytes")?;
        if hertz.is_none() && bytes.is_none() {
            return Err("say `hz`, samples per second of processor time, or `bytes`, allocated \
                        between two samples; zero for none"
                .to_owned());
        }
        if hertz.is_some_and(|hertz| hertz > u64::from(HERTZ_MAX)) {
            return Err(format!("`hz` is {HERTZ_MAX} at most"));
        }
        if bytes.is_some_and(|bytes| (1..BYTES_MIN).contains(&bytes)) {
            return Err(format!("`bytes` is zero, or {BYTES_MIN} at least"));
        }
        Ok(Rates { hertz: hertz.map(|hertz| hertz as u32), bytes })
    }
}

impl Api {
    /// Answers at [`RATES_PATH`].
    pub(crate) fn profile_rates(
        &self,
        request: &Request<'_>,
        response: &mut Response<'_>,
        exchange: &mut Loop<'_>,
    ) -> Handled {
        route(exchange, Operation::Admin);
        let profiler = self.shared.profiles.profiler();
        match request.method {
            "GET" => {}
            "PUT" => {
                let rates = match Rates::parse(request.query) {
                    Ok(rates) => rates,
                    Err(what) => return respond_text(response, exchange, 400, &what),
                };
                match (rates.hertz, profiler) {
                    (Some(hertz), Some(profiler)) => profiler.set_usual_hertz(hertz),
                    (Some(1..), None) => {
                        let what = "nothing samples processor time here: start the server with \
                                    --profile-hertz 19";
                        return respond_text(response, exchange, 409, what);
                    }
                    (Some(0) | None, _) => {}
                }
                if let Some(bytes) = rates.bytes {
                    set_allocation_sampling(bytes);
                }
            }
            _ => return method_not_allowed(response, exchange, b"GET, PUT"),
        }
        let hertz = profiler.map_or(0, |profiler| profiler.usual_hertz());
        let text = format!("hz={hertz}\nbytes={}", allocation_sampling());
        respond_text(response, exchange, 200, &text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_have_limits_and_one_at_least_is_named() {
        let of = |query: &str| Rates::parse(Some(query));
        assert_eq!(of("hz=0&bytes=4096"), Ok(Rates { hertz: Some(0), bytes: Some(4096) }));
        assert_eq!(of("bytes=0"), Ok(Rates { hertz: None, bytes: Some(0) }));
        for wrong in ["", "hz=1000", "bytes=1", "hz=x", "bytes=-1"] {
            assert!(of(wrong).is_err(), "{wrong}");
        }
    }
}
