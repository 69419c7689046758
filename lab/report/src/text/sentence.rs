//! A plain sentence that tells where the time of requests went, made from the figures.

use std::cmp::Ordering;

use pellucid_account::{OperationAccount, QuantileBreakdown, Share};

use crate::model::ClientFigures;
use crate::phases::activity;
use crate::units::{count, duration, percent, quantile_name};

/// The smallest number of requests for which the sentence mentions the 99th percentile.
const REQUESTS_FOR_P99: u64 = 100;
/// The smallest share with which a second phase is named.
const SECOND_SHARE_LEAST: f64 = 0.05;
/// The share of the client's requests that an account must hold to be set against their median.
const ACCOUNT_SHARE_LEAST: f64 = 0.9;
/// The relative distance below which two medians are called equal: both histograms round.
const EQUAL_WITHIN: f64 = 0.02;
/// Operations of the entity API, which are shown as HTTP methods.
const VERBS: [&str; 5] = ["get", "put", "head", "delete", "scan"];

/// Tells what a typical request spent its time on, what grew at p99, and what the client saw beyond
/// that.
///
/// The typical request is that of the requests around p50. The growth is the difference between the
/// means around p50 and around p99. Differences of medians between client and server are named as
/// such.
#[must_use]
pub fn sentence(account: &OperationAccount, client: &ClientFigures) -> String {
    if account.count == 0 {
        let requests = request_of(account);
        return format!("The server recorded no {requests}.{}", client_alone(client));
    }
    format!("{}{}.{}", typical(account), growth(account), beyond_the_server(account, client))
}

/// The name of the request: `GET` for `entity_get`, with the outcome if it is not `ok`.
fn request_of(account: &OperationAccount) -> String {
    let verb = account.operation.rsplit('_').next().unwrap_or_default();
    let name = match VERBS.contains(&verb) {
        true => verb.to_uppercase(),
        false => format!("{} request", account.operation),
    };
    let outcome = account.outcome.as_str();
    if matches!(outcome, "" | "ok") { name } else { format!("{name} with outcome {outcome}") }
}

fn around_of(account: &OperationAccount, quantile: f64) -> Option<&QuantileBreakdown> {
    let mut shapes = account.around.iter().filter(|around| around.count > 0);
    shapes.find(|around| (around.quantile - quantile).abs() < 1e-9)
}

fn typical(account: &OperationAccount) -> String {
    let (request, total) = (request_of(account), duration(account.total.p50_ns as f64));
    let median = format!("A typical {request} took {total} in the server");
    let Some(around) = around_of(account, 0.5) else { return median };
    let mut phases: Vec<&Share> = around.phases.iter().filter(|phase| phase.share > 0.0).collect();
    phases.sort_by(|one, other| descending(one.share, other.share));
    let Some(first) = phases.first() else { return median };
    let mut text = format!("{median}, {} of it {}", percent(first.share), place(first, around));
    if let Some(second) = phases.get(1).filter(|phase| phase.share >= SECOND_SHARE_LEAST) {
        text.push_str(&format!(" and {} {}", percent(second.share), place(second, around)));
    }
    text
}

/// The phase that took the time. For the store, also its largest part, if that is most of it.
fn place(phase: &Share, around: &QuantileBreakdown) -> String {
    let place = activity(&phase.name);
    if phase.name != "execute" {
        return place;
    }
    let largest = around.parts.iter().max_by(|one, other| one.share.total_cmp(&other.share));
    match largest.filter(|part| part.share > phase.share / 2.0) {
        Some(part) => format!("{place} (mostly {})", part.name.replace('_', " ")),
        None => place,
    }
}

fn growth(account: &OperationAccount) -> String {
    if account.count < REQUESTS_FOR_P99 {
        return format!("; {} requests are too few to speak of p99", count(account.count));
    }
    let (Some(middle), Some(tail)) = (around_of(account, 0.5), around_of(account, 0.99)) else {
        return String::new();
    };
    let total = duration(account.total.p99_ns as f64);
    let name = quantile_name(tail.quantile);
    let grown = middle.phases.iter().filter_map(|before| {
        let after = tail.phases.iter().find(|after| after.name == before.name)?;
        Some((before, after, after.mean_ns - before.mean_ns))
    });
    let most =
        grown.filter(|(.., by_ns)| *by_ns > 0.0).max_by(|one, other| one.2.total_cmp(&other.2));
    let Some((before, after, _)) = most else {
        return format!("; around {name} ({total}) no phase took longer");
    };
    format!(
        "; around {name} ({total}) the time spent {} grew most, from {} to {}",
        activity(&before.name),
        duration(before.mean_ns),
        duration(after.mean_ns),
    )
}

fn beyond_the_server(account: &OperationAccount, client: &ClientFigures) -> String {
    // The account is that of one operation, and the client may have asked for several.
    if client.requests == 0 || (account.count as f64) < client.requests as f64 * ACCOUNT_SHARE_LEAST
    {
        return String::new();
    }
    let (seen_ns, server_ns) = (client.response_p50_ns as f64, account.total.p50_ns as f64);
    let difference_ns = seen_ns - server_ns;
    let seen = format!(" The client saw {} at p50", duration(seen_ns));
    if difference_ns.abs() <= seen_ns * EQUAL_WITHIN {
        return format!("{seen}, about as much as the server.");
    }
    if difference_ns < 0.0 {
        return format!(
            "{seen}, less than the server: the two did not count the same requests, or responses \
             arrived before the server's call to write them returned."
        );
    }
    format!(
        "{seen}: {} lie outside the server's total (network, kernel, receiving, client){}.",
        duration(difference_ns),
        lateness(client),
    )
}

/// A remark on the time that passed before the request was sent, as far as medians show it.
fn lateness(client: &ClientFigures) -> String {
    let Some(service_ns) = client.service_p50_ns else { return String::new() };
    let (response_ns, service_ns) = (client.response_p50_ns as f64, service_ns as f64);
    if service_ns >= response_ns * (1.0 - EQUAL_WITHIN) {
        return String::new();
    }
    format!("; counted from the actual send, it saw {}", duration(service_ns))
}

fn client_alone(client: &ClientFigures) -> String {
    match client.requests {
        0 => String::new(),
        _ => format!(" The client saw {} at p50.", duration(client.response_p50_ns as f64)),
    }
}

fn descending(one: f64, other: f64) -> Ordering {
    other.total_cmp(&one)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::example::{account, constant};

    fn client(response_p50_ns: u64, service_p50_ns: u64) -> ClientFigures {
        ClientFigures { requests: 1_000, response_p50_ns, service_p50_ns: Some(service_p50_ns) }
    }

    #[test]
    fn it_names_the_largest_shares_the_growth_and_what_the_client_saw() {
        assert_eq!(
            sentence(&account(), &client(55_000, 54_900)),
            "A typical GET took 20.0 µs in the server, 50 % of it writing the response to the \
             socket and 30 % in the store (mostly look up); around p99 (40.0 µs) the time spent \
             writing the response to the socket grew most, from 10.0 µs to 30.0 µs. The client saw \
             55.0 µs at p50: 35.0 µs lie outside the server's total (network, kernel, receiving, \
             client)."
        );
    }

    /// Regression: the median of all requests was set against that of one operation.
    #[test]
    fn an_account_of_a_part_of_the_requests_is_not_set_against_all() {
        let all = ClientFigures { requests: 1_200, ..client(55_000, 54_900) };
        assert!(!sentence(&account(), &all).contains("The client saw"));
    }

    #[test]
    fn late_sends_are_not_left_to_the_network() {
        let text = sentence(&account(), &client(900_000, 55_000));
        assert!(text.ends_with("; counted from the actual send, it saw 55.0 µs."), "{text}");
    }

    #[test]
    fn without_requests_it_claims_nothing() {
        let mut account = account();
        account.count = 0;
        let nobody = ClientFigures::default();
        assert_eq!(sentence(&account, &nobody), "The server recorded no GET.");
        let text = sentence(&account, &client(55_000, 55_000));
        assert_eq!(text, "The server recorded no GET. The client saw 55.0 µs at p50.");
    }

    #[test]
    fn time_in_no_phase_is_called_unaccounted() {
        let mut account = account();
        for around in &mut account.around {
            let total_ns = around.total_mean_ns;
            for phase in &mut around.phases {
                let all = phase.name == "unaccounted";
                phase.share = if all { 1.0 } else { 0.0 };
                phase.mean_ns = if all { total_ns } else { 0.0 };
            }
        }
        let text = sentence(&account, &ClientFigures::default());
        assert_eq!(
            text,
            "A typical GET took 20.0 µs in the server, 100 % of it outside all phases \
             (unaccounted); around p99 (40.0 µs) the time spent outside all phases (unaccounted) \
             grew most, from 20.0 µs to 40.0 µs."
        );
    }

    #[test]
    fn a_client_below_the_server_gets_no_negative_network() {
        let text = sentence(&account(), &client(10_000, 10_000));
        assert!(text.contains("The client saw 10.0 µs at p50, less than the server:"), "{text}");
        let text = sentence(&account(), &client(20_100, 20_100));
        assert!(text.ends_with("at p50, about as much as the server."), "{text}");
    }

    #[test]
    fn a_tail_that_did_not_grow_and_one_of_few_requests() {
        let mut flat = account();
        flat.around[1].phases = flat.around[0].phases.clone();
        let text = sentence(&flat, &ClientFigures::default());
        assert!(text.ends_with("; around p99 (40.0 µs) no phase took longer."), "{text}");
        let mut few = account();
        few.count = 7;
        few.total = constant(7, 20_000);
        let text = sentence(&few, &ClientFigures::default());
        assert!(text.ends_with("; 7 requests are too few to speak of p99."), "{text}");
    }

    #[test]
    fn other_operations_and_outcomes_go_by_their_names() {
        let mut other = account();
        other.operation = "document_query".to_owned();
        other.outcome = "missing".to_owned();
        let text = sentence(&other, &ClientFigures::default());
        assert!(text.starts_with("A typical document_query request with outcome missing took "));
    }

    proptest! {
        /// The sentence is made for any figures, and names the phase with the largest share.
        #[test]
        fn the_first_phase_named_has_the_largest_share(
            shares in proptest::collection::vec(0.0_f64..1.0, 7),
            (count, middle, tail) in (0_u64..300, 0_u64..3, 0_u64..3),
            (p50_ns, seen_ns, service_ns) in (any::<u64>(), any::<u64>(), any::<Option<u64>>()),
            broken in prop_oneof![Just(0.0), Just(f64::NAN), Just(f64::INFINITY), Just(-1.0)],
        ) {
            let mut account = account();
            account.count = count;
            account.total.p50_ns = p50_ns;
            account.around[0].count = middle;
            account.around[1].count = tail;
            account.around[1].phases[0].mean_ns = broken;
            let sum: f64 = shares.iter().sum::<f64>() + 1e-12;
            for (phase, share) in account.around[0].phases.iter_mut().zip(&shares) {
                phase.share = share / sum;
            }
            let client = ClientFigures {
                requests: count,
                response_p50_ns: seen_ns,
                service_p50_ns: service_ns,
            };
            let text = sentence(&account, &client);
            prop_assert!(text.ends_with('.') && !text.contains("NaN") && !text.contains("inf"));
            prop_assert!(!text.contains('-'), "a negative figure: {}", text);
            let phases = account.around[0].phases.iter();
            let largest = phases.max_by(|a, b| a.share.total_cmp(&b.share));
            let largest = largest.filter(|_| count > 0 && middle > 0).filter(|p| p.share > 0.0);
            if let Some(largest) = largest {
                let named = format!("{} of it {}", percent(largest.share), activity(&largest.name));
                prop_assert!(text.contains(&named), "{named:?} is not in {text:?}");
            }
            let told: f64 = text
                .split(" %")
                .filter_map(|before| before.rsplit(' ').next()?.parse::<f64>().ok())
                .sum();
            prop_assert!(told <= 101.0, "{told} % in {text:?}");
        }
    }
}
