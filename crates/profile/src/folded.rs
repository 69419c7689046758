//! Folded stacks: one line for each stack, the outermost function first, and its amount. The text
//! that tools for flame graphs have agreed on.

use std::collections::BTreeMap;
use std::fmt::Write;

use crate::resolved::Resolved;

/// The folded stacks of a profile, ordered by their text. In front stand the phase or job, and the
/// operation.
#[must_use]
pub fn folded(profile: &Resolved) -> String {
    let mut text = String::new();
    for (line, amount) in lines_of(profile).iter().filter(|(_, amount)| amount.round() > 0.0) {
        let _ = writeln!(text, "{line} {}", amount.round());
    }
    text
}

/// The folded stacks of two profiles, with the amount in `base` and then that in `profile`, as
/// tools for differential flame graphs read them.
#[must_use]
pub fn folded_beside(profile: &Resolved, base: &Resolved) -> String {
    let mut both: BTreeMap<String, (f64, f64)> = BTreeMap::new();
    lines_of(base).into_iter().for_each(|(line, amount)| both.entry(line).or_default().0 = amount);
    let now = lines_of(profile);
    now.into_iter().for_each(|(line, amount)| both.entry(line).or_default().1 = amount);
    let mut text = String::new();
    for (line, (before, now)) in &both {
        let _ = writeln!(text, "{line} {} {}", before.round(), now.round());
    }
    text
}

fn lines_of(profile: &Resolved) -> BTreeMap<String, f64> {
    let mut lines: BTreeMap<String, f64> = BTreeMap::new();
    for sample in &profile.samples {
        let mut line = head_of(&sample.operation, &sample.phase, &sample.job);
        for frame in sample.stack.iter().rev() {
            line.push(';');
            // The separators of the format cannot stand in a name.
            line.push_str(&profile.functions[frame.function as usize].name.replace(';', ":"));
        }
        *lines.entry(line).or_default() += sample.amount;
    }
    lines
}

/// The root of a stack: the thread's activity.
#[must_use]
pub fn head_of(operation: &str, phase: &str, job: &str) -> String {
    match (job, operation, phase) {
        ("", "", "") => "unlabelled".to_owned(),
        ("", "", phase) => phase.to_owned(),
        ("", operation, "") => operation.to_owned(),
        ("", operation, phase) => format!("{operation} {phase}"),
        (job, ..) => format!("job {job}"),
    }
}
