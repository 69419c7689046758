//! The output of the demo: text on the terminal, and the report.

use pellucid_load::{Figures, judge, wrk2};
use pellucid_report::{Section, text};

use crate::demo::requests::{Kind, VALUE_BYTES};
use crate::demo::stages::{ConstantRateResult, Plan};
use crate::load::{section_of, waterfall};

/// The section of a report about one load.
pub(crate) fn section(plan: &Plan, kind: &Kind, steady: &ConstantRateResult) -> Section {
    let ConstantRateResult { result, account, .. } = steady;
    let (name, what) = match kind {
        Kind::Get => ("GET", "GET of one entry"),
        Kind::Put | Kind::Fill => ("PUT", "PUT of one entry"),
    };
    let Plan { keys, connections, .. } = plan;
    let charts = vec![waterfall(&[(result, account.as_slice())])];
    Section {
        name: name.to_owned(),
        description: format!(
            "{what} of {VALUE_BYTES} bytes, its key drawn evenly from 1…{keys}, over {connections} \
             connections, each request started on schedule whether the last one was answered or not"
        ),
        ..section_of(result, &judge(&Figures::of(result)), account.as_ref(), charts)
    }
}

/// The text about one load: percentiles in the format of wrk2, the server's account, and a summary.
pub(crate) fn describe(section: &Section, steady: &ConstantRateResult) -> String {
    let table = wrk2::table(&steady.result, wrk2::Distributions::Corrected)
        + &wrk2::accounts(&steady.result);
    // The detailed spectrum is left out: the report shows it as a curve.
    let percentiles = table.split("\n  Detailed Percentile spectrum:").next().unwrap_or(&table);
    let rate = wrk2_tail(&table);
    let mut description = format!("{percentiles}\n{rate}\n");
    match &section.account {
        Some(account) => {
            description += "\nThe server's account of the same requests:\n\n";
            description += &text::account(account);
            description += "\n";
            description += &text::sentence(account, &section.client_figures());
            description += "\n";
        }
        None => {
            description += "\nThe server gave no account of these requests.\n";
        }
    }
    description
}

/// The lines that wrk2 prints after the spectrum.
fn wrk2_tail(table: &str) -> &str {
    table.rsplit_once("----------\n").map_or("", |(_, tail)| tail)
}
