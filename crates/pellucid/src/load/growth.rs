//! Compares the steps of a request, those of the client and of the server, between two loads, and
//! finds those that grew.

use pellucid_load::LatencyBreakdown;

use super::show::time;

/// The prefix of the names of the server's steps.
const SERVERS: &str = "server: ";

/// A step and its mean time at two loads.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Growth {
    pub(super) step: String,
    pub(super) before_ns: f64,
    pub(super) after_ns: f64,
}

impl Growth {
    /// The increase from the first load to the second; negative if the step shrank.
    pub(super) fn added_ns(&self) -> f64 {
        self.after_ns - self.before_ns
    }

    /// Returns true for a step that the server reported.
    pub(super) fn is_servers(&self) -> bool {
        self.step.starts_with(SERVERS)
    }
}

/// Compares the steps of two ways; the step that grew most comes first.
pub(super) fn between(before: &LatencyBreakdown, after: &LatencyBreakdown) -> Vec<Growth> {
    let of = |way: &LatencyBreakdown, name: &str| {
        way.steps.iter().find(|step| step.name == name).map_or(0.0, |step| step.ns)
    };
    let gone = before.steps.iter().filter(|step| of(after, &step.name) == 0.0);
    let steps = after.steps.iter().chain(gone);
    let mut all: Vec<Growth> = steps
        .map(|step| Growth {
            step: step.name.clone(),
            before_ns: of(before, &step.name),
            after_ns: of(after, &step.name),
        })
        .collect();
    all.sort_by(|a, b| b.added_ns().total_cmp(&a.added_ns()));
    all
}

/// Sentences about the step that grew most, and the server's step that grew most.
pub(super) fn sentences(all: &[Growth]) -> String {
    let added: f64 = all.iter().map(|growth| growth.added_ns().max(0.0)).sum();
    let tell = |growth: &Growth| {
        format!(
            "'{}' grew most, from {} to {} in the mean, {:.2} of all that was added",
            growth.step,
            time(growth.before_ns as u64),
            time(growth.after_ns as u64),
            growth.added_ns() / added
        )
    };
    let Some(most) = all.first().filter(|growth| growth.added_ns() > 0.0) else {
        return "  From half of that to just above it, nothing grew.\n".to_owned();
    };
    let mut text = format!("  From half of that to just above it, {}.\n", tell(most));
    match all.iter().find(|growth| growth.is_servers()) {
        None => text.push_str("  The server tells nothing of its phases.\n"),
        Some(servers) if servers.step != most.step && servers.added_ns() > 0.0 => {
            text.push_str(&format!("  Of the server's phases, {}.\n", tell(servers)));
        }
        Some(_) => {}
    }
    text
}

#[cfg(test)]
mod tests {
    use pellucid_load::LatencyStep;

    use super::*;

    fn way(steps: &[(&str, f64)]) -> LatencyBreakdown {
        let steps =
            steps.iter().map(|(name, ns)| LatencyStep { name: (*name).to_owned(), ns: *ns });
        let steps = steps.collect();
        LatencyBreakdown {
            requests: 1,
            told: 1,
            placed: 0,
            response_ns: 0.0,
            steps,
            placement_ns: 0.0,
        }
    }

    #[test]
    fn the_step_that_grew_most_comes_first_and_the_servers_is_named_too() {
        let before = way(&[("send", 5e3), ("server: parse", 1e3), ("server: queue", 2e3)]);
        let after = way(&[
            ("wait for a connection", 9e6),
            ("server: parse", 1e3),
            ("server: queue", 1e6 + 2e3),
        ]);
        let all = between(&before, &after);
        let names: Vec<&str> = all.iter().map(|growth| growth.step.as_str()).collect();
        assert_eq!(names, ["wait for a connection", "server: queue", "server: parse", "send"]);
        let text = sentences(&all);
        assert!(text.contains("'wait for a connection' grew most, from 0ns to 9.00ms"), "{text}");
        assert!(text.contains("Of the server's phases, 'server: queue' grew most"), "{text}");
        assert!(sentences(&between(&after, &after)).contains("nothing grew"));
        let silent = between(&way(&[]), &way(&[("send", 1.0)]));
        assert!(sentences(&silent).contains("tells nothing"));
    }
}
