//! The times of the requests around a quantile, as bars of text.

use pellucid_account::{OperationAccount, QuantileBreakdown, Share};

use super::columns::aligned;
use crate::units::{count, duration, percent, quantile_name};

/// The width of the bar for the whole total, in characters.
const BAR_CHARACTERS: f64 = 40.0;

/// Shows, for each quantile of the total, the mean time and the share of each phase in the requests
/// around it. Means add up, so these do.
#[must_use]
pub fn around(account: &OperationAccount) -> String {
    let shapes = account.around.iter().filter(|around| around.count > 0);
    let blocks: Vec<String> = shapes.map(block).collect();
    if blocks.is_empty() { "No requests to look at.\n".to_owned() } else { blocks.join("\n") }
}

fn block(around: &QuantileBreakdown) -> String {
    let mut rows = Vec::new();
    for phase in &around.phases {
        rows.push(words_of(phase, "  "));
        rows.extend(around.transport_part_of(&phase.name).map(|part| words_of(part, "    ")));
        if phase.name == "execute" {
            rows.extend(around.parts.iter().map(|part| words_of(part, "    ")));
        }
    }
    let decrypt = around.transport_part_of("receive").map_or_else(String::new, |part| {
        format!(", {} of it to {}", duration(part.mean_ns), part.name)
    });
    format!(
        "Requests around {}: {} of them, {} on average, {} to receive before that{decrypt}\n{}",
        quantile_name(around.quantile),
        count(around.count),
        duration(around.total_mean_ns),
        duration(around.receive_mean_ns),
        aligned(&rows, 2),
    )
}

fn words_of(share: &Share, indent: &str) -> Vec<String> {
    let part = if share.share.is_finite() { share.share.clamp(0.0, 1.0) } else { 0.0 };
    let bar = "@".repeat((part * BAR_CHARACTERS).round() as usize);
    let width = BAR_CHARACTERS as usize;
    vec![
        format!("{indent}{}", share.name),
        duration(share.mean_ns),
        percent(share.share),
        format!("|{bar:<width$}|"),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::example::account;

    #[test]
    fn bars_are_as_long_as_shares_are_large() {
        let text = around(&account());
        let block = text.split("\n\n").next().unwrap();
        let expected = "\
Requests around p50: 20 of them, 20.0 µs on average, 1.00 µs to receive before that
  parse         1.00 µs  5.0 %  |@@                                      |
  route         1.00 µs  5.0 %  |@@                                      |
  queue            0 ns    0 %  |                                        |
  execute       6.00 µs   30 %  |@@@@@@@@@@@@                            |
    look_up     4.00 µs   20 %  |@@@@@@@@                                |
    value_read  2.00 µs   10 %  |@@@@                                    |
  encode        1.00 µs  5.0 %  |@@                                      |
  write         10.0 µs   50 %  |@@@@@@@@@@@@@@@@@@@@                    |
  unaccounted   1.00 µs  5.0 %  |@@                                      |";
        assert_eq!(block.trim_end(), expected);
        assert_eq!(text.matches("Requests around").count(), 2, "{text}");
    }

    #[test]
    fn without_requests_it_says_so() {
        let mut account = account();
        account.around.iter_mut().for_each(|around| around.count = 0);
        assert_eq!(around(&account), "No requests to look at.\n");
    }

    #[test]
    fn invalid_shares_do_no_harm() {
        let mut account = account();
        account.around[0].phases[0].share = f64::NAN;
        account.around[0].phases[1].share = 7.0;
        assert!(around(&account).lines().all(|line| line.chars().count() < 90));
    }
}
