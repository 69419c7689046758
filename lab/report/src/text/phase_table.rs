//! The phase table: one row per phase with the time that an operation's requests spent in it.

use pellucid_account::OperationAccount;

use super::columns::aligned;
use crate::phases;
use crate::units::count;

/// Shows the phases of an account with their quartiles and quantiles in microseconds, and their
/// share of the mean total. An indented row is a part of the row above it.
#[must_use]
pub fn phase_table(account: &OperationAccount) -> String {
    format!(
        "{} {}: {} requests, times in µs\n\n{}\n\
         * before the total, which runs from received to written\n\
         A part counts only the requests in which it occurred; its share is of all.\n",
        account.operation,
        account.outcome,
        count(account.count),
        aligned(&phases::table(account, "*"), 2),
    )
}

#[cfg(test)]
mod tests {
    use pellucid_account::NamedDistribution;

    use super::*;
    use crate::example::account;

    #[test]
    fn rows_stand_in_the_order_of_a_request_and_parts_below_their_phase() {
        let text = phase_table(&account());
        let names: Vec<&str> = text
            .lines()
            .skip(3)
            .map_while(|line| line.get(..13).filter(|name| !name.trim().is_empty()))
            .map(str::trim_end)
            .collect();
        let expected = [
            "receive*", "  loop_wait", "parse", "route", "queue", "execute", "  look_up",
            "  value_read", "encode", "write", "unaccounted", "total",
        ];
        assert_eq!(names, expected, "{text}");
        assert!(text.starts_with("entity_get ok: 1,000 requests, times in µs\n"), "{text}");
    }

    #[test]
    fn the_transports_parts_stand_below_their_phases() {
        let mut account = account();
        let named = |name: &str, of: usize| NamedDistribution {
            name: name.to_owned(),
            distribution: account.phases[of].distribution.clone(),
        };
        account.transport_parts = vec![named("decrypt", 0), named("encrypt", 6)];
        let text = phase_table(&account);
        let names: Vec<&str> =
            text.lines().skip(3).filter_map(|line| line.split_whitespace().next()).collect();
        assert_eq!(names[..3], ["receive*", "loop_wait", "decrypt"]);
        let write = names.iter().position(|name| *name == "write").unwrap();
        assert_eq!(names[write + 1], "encrypt");
    }

    #[test]
    fn shares_are_of_the_mean_total_and_what_precedes_it_has_none() {
        let text = phase_table(&account());
        let last_word = |name: &str| {
            let line = text.lines().find(|line| line.trim_start().starts_with(name));
            line.and_then(|line| line.split_whitespace().last()).unwrap().to_owned()
        };
        assert_eq!(last_word("receive*"), "-");
        assert_eq!(last_word("write"), "50.0");
        assert_eq!(last_word("total"), "100.0");
        // It took 4 µs in half of the requests; their mean total is 20 µs.
        assert_eq!(last_word("value_read"), "10.0");
    }
}
