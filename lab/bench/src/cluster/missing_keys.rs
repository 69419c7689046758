//! Measures GETs some of which are for missing keys.

use super::keys::KEYS;
use super::{CONNECTIONS, Servers};
use crate::RunSettings;
use crate::bars::{Bar, judge, ratios};
use crate::overload::{Run, load_url};
use crate::quiet_rounds::turns;
use crate::wrk::script_file;

/// Compares the 99th percentile of GETs, 3 in 10 of which are for missing keys, with that of GETs
/// for existing keys only.
pub(super) fn run(servers: &Servers, effort: RunSettings) -> Result<Vec<bool>, String> {
    let rate = load(servers, false, None, effort)?.in_time_per_second * 0.5;
    let pairs =
        turns(effort.runs, |missing| Ok(load(servers, missing, Some(rate), effort)?.p99_ns))?;
    for (some, present) in &pairs {
        println!(
            "p99 at {rate:.0}/s: {:.3} ms present, {:.3} ms 30 % missing",
            present / 1e6,
            some / 1e6
        );
    }
    let ratios = ratios(&pairs, |ns| *ns);
    Ok(vec![judge("cluster_p99_missing_keys_vs_present", &ratios, Bar::AtMost(1.2))])
}

fn load(
    servers: &Servers,
    missing: bool,
    rate: Option<f64>,
    effort: RunSettings,
) -> Result<Run, String> {
    let file = script_file(&script(missing))?;
    let path = file.path().to_str().ok_or("the path of the script is no text")?;
    let mut arguments = vec!["-s", path];
    if missing {
        arguments.extend(["--accept", "404"]);
    }
    let url = format!("http://{}/", servers.entry());
    let run = load_url(&url, &arguments, CONNECTIONS, rate, effort.seconds)?;
    if run.errors > 0.0 { Err(format!("GETs met {} errors", run.errors)) } else { Ok(run) }
}

fn script(missing: bool) -> String {
    let mut lua = format!(
        "math.randomseed(7)\nfunction request()\n  local key = math.random(0, {})\n",
        KEYS - 1
    );
    if missing {
        lua += "  if math.random(10) <= 3 then key = 'none' .. key end\n";
    }
    lua + "  return wrk.format('GET', '/v0/entity?id=m' .. key)\nend\n"
}
