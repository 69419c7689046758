//! Metrics of requests by outcome, of slow requests, of background jobs, and of the interference
//! between them.

use std::collections::BTreeMap;
use std::fmt::Write;

use super::family::family;
use super::figures::Figures;

pub(super) fn write(page: &mut String, figures: &Figures) {
    write_outcomes(page, figures);
    write_slow(page, figures);
    write_jobs(page, figures);
    write_interference(page, figures);
}

/// Writes the requests by outcome. For each operation that has occurred, it writes all outcomes, so
/// that a first failure is an increase from zero and not a new series.
fn write_outcomes(page: &mut String, figures: &Figures) {
    let mut operations: BTreeMap<&str, BTreeMap<&str, u64>> = BTreeMap::new();
    for account in &figures.snapshot.operations {
        let outcomes = operations.entry(&account.operation).or_default();
        *outcomes.entry(&account.outcome).or_default() += account.count;
    }
    let help = "Requests by how they ended.";
    family(page, "pellucid_requests_total", "counter", help);
    for (operation, counts) in operations {
        for outcome in figures.outcomes {
            let count = counts.get(outcome).copied().unwrap_or(0);
            let labels = format!("operation=\"{operation}\",outcome=\"{outcome}\"");
            let _ = writeln!(page, "pellucid_requests_total{{{labels}}} {count}");
        }
    }
}

fn write_slow(page: &mut String, figures: &Figures) {
    let help = "Requests above the moving threshold of their operation.";
    family(page, "pellucid_slow_requests_total", "counter", help);
    for slow in &figures.slow {
        let labels = format!("operation=\"{}\"", slow.operation);
        let _ = writeln!(page, "pellucid_slow_requests_total{{{labels}}} {}", slow.slow);
    }
    let help = "What a request has to exceed now to be slow: a quantile of the last seconds.";
    family(page, "pellucid_slow_threshold_seconds", "gauge", help);
    for slow in &figures.slow {
        if let Some(threshold_ns) = slow.threshold_ns {
            let (operation, seconds) = (&slow.operation, threshold_ns as f64 / 1e9);
            let labels = format!("operation=\"{operation}\"");
            let _ = writeln!(page, "pellucid_slow_threshold_seconds{{{labels}}} {seconds}");
        }
    }
}

fn write_jobs(page: &mut String, figures: &Figures) {
    let clock = pellucid_clock::Clock::system();
    let totals = figures.activity.totals();
    let jobs: Vec<_> = figures.activity.names().iter().zip(totals).collect();
    let mut one = |name: &str, kind: &str, help: &str, value: &dyn Fn(usize) -> String| {
        family(page, name, kind, help);
        for (index, (job, _)) in jobs.iter().enumerate() {
            let _ = writeln!(page, "{name}{{job=\"{job}\"}} {}", value(index));
        }
    };
    let help = "Background jobs that have ended.";
    one("pellucid_jobs_total", "counter", help, &|index| jobs[index].1.ended.to_string());
    let help = "Time that background jobs took until they ended.";
    one("pellucid_jobs_seconds_total", "counter", help, &|index| {
        (clock.nanoseconds(jobs[index].1.ticks) as f64 / 1e9).to_string()
    });
    let help = "Background jobs that run now.";
    one("pellucid_jobs_running", "gauge", help, &|index| jobs[index].1.running.to_string());
}

fn write_interference(page: &mut String, figures: &Figures) {
    let [since_start, lately] = &figures.interference;
    let mut one = |name: &str, help: &str, value: &dyn Fn(&pellucid_account::Lift) -> u64| {
        family(page, name, "counter", help);
        for view in since_start {
            for lift in &view.jobs {
                let labels = format!("operation=\"{}\",job=\"{}\"", view.operation, lift.job);
                let _ = writeln!(page, "{name}{{{labels}}} {}", value(lift));
            }
        }
    };
    let help = "Requests during which a background job of this kind ran.";
    one("pellucid_requests_beside_job_total", help, &|lift| lift.requests_beside);
    let help = "Slow requests during which a background job of this kind ran.";
    one("pellucid_slow_requests_beside_job_total", help, &|lift| lift.slow_beside);
    let help = "How much likelier a slow request was beside the job in the last ten minutes; \
                left out where counts are few.";
    family(page, "pellucid_interference_lift", "gauge", help);
    for view in lately {
        for lift in &view.jobs {
            if let Some(value) = lift.lift {
                let labels = format!("operation=\"{}\",job=\"{}\"", view.operation, lift.job);
                let _ = writeln!(page, "pellucid_interference_lift{{{labels}}} {value}");
            }
        }
    }
}
