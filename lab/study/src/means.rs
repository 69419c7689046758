//! Bars of the mean parts of a request's time: the phases of an account, with the store's parts in
//! place of `execute`.

use pellucid_account::{OperationAccount, QuantileBreakdown};
use pellucid_report::{Chart, ChartForm, Series, Unit};

/// The name of the rest of `execute` that belongs to none of its parts.
const REST: &str = "rest of execute";

/// The names of parts and their means in nanoseconds, in the order of a request.
pub(crate) type Means = Vec<(String, f64)>;

/// The means of all requests of an operation.
pub(crate) fn of_all(account: &OperationAccount) -> Means {
    let phases = account.phases.iter().map(|named| (&named.name, named.distribution.mean_ns));
    let parts = account.parts.iter().map(|part| {
        // The mean of a part is over the requests with that part; convert it to all requests.
        let share = part.distribution.count as f64 / account.count.max(1) as f64;
        (&part.name, part.distribution.mean_ns * share)
    });
    divided(phases, parts)
}

/// The means of the requests around a quantile.
pub(crate) fn around(around: &QuantileBreakdown) -> Means {
    let receive = "receive".to_owned();
    let phases = around.phases.iter().map(|share| (&share.name, share.mean_ns));
    let phases = std::iter::once((&receive, around.receive_mean_ns)).chain(phases);
    divided(phases, around.parts.iter().map(|share| (&share.name, share.mean_ns)))
}

fn divided<'a>(
    phases: impl Iterator<Item = (&'a String, f64)>,
    parts: impl Iterator<Item = (&'a String, f64)>,
) -> Means {
    let parts: Vec<_> = parts.collect();
    let mut means = Vec::new();
    for (phase, mean_ns) in phases {
        if phase == "execute" {
            let within: f64 = parts.iter().map(|(_, mean_ns)| mean_ns).sum();
            means.extend(parts.iter().map(|(name, mean_ns)| ((*name).clone(), *mean_ns)));
            means.push((REST.to_owned(), (mean_ns - within).max(0.0)));
        } else {
            means.push((phase.clone(), mean_ns));
        }
    }
    means
}

/// Makes a chart with a bar for each row; parts that are zero in all rows are left out.
pub(crate) fn bars(words: (String, &str, &str), rows: &[(String, Means)]) -> Chart {
    let form = ChartForm::Bars { rows: rows.iter().map(|(name, _)| name.clone()).collect() };
    // Insert each name at its place in its first row, so that bars keep the order of a request.
    let mut names: Vec<&String> = Vec::new();
    for (_, means) in rows {
        let mut place = 0;
        for (name, _) in means {
            place = match names.iter().position(|known| *known == name) {
                Some(known) => known + 1,
                None => {
                    names.insert(place, name);
                    place + 1
                }
            };
        }
    }
    let series = names.into_iter().map(|name| {
        let mean = |(_, means): &(String, Means)| {
            means.iter().find(|(known, _)| known == name).map(|(_, mean_ns)| *mean_ns)
        };
        Series::new(name.clone(), rows.iter().map(mean).collect())
    });
    Chart::new(words, Unit::Nanoseconds, form, series.filter(|series| series.sum() > 0.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_replace_execute_and_rows_share_their_order() {
        let name = |name: &str| name.to_owned();
        let phases = [(&name("parse"), 1.0), (&name("execute"), 10.0), (&name("write"), 4.0)];
        let parts = |parts: &[&str]| -> Means {
            let parts: Vec<_> = parts.iter().map(|part| name(part)).collect();
            divided(phases.into_iter(), parts.iter().map(|part| (part, 3.0)))
        };
        let rows = [
            (name("one"), parts(&["ledger"])),
            (name("other"), parts(&["write_ahead_log", "memtable"])),
        ];
        let chart = bars((name("account"), "", ""), &rows);
        let names: Vec<_> = chart.series.iter().map(|series| series.name.as_str()).collect();
        let expected = ["parse", "write_ahead_log", "memtable", "ledger", REST, "write"];
        assert_eq!(names, expected);
        assert_eq!(chart.series(REST).unwrap().values, [Some(7.0), Some(4.0)]);
        assert_eq!(chart.series("ledger").unwrap().values, [Some(3.0), None]);
    }
}
