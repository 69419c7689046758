//! Folded stacks, the text format of flame graph tools: one line for each stack, with the outermost
//! function first and the amount last.

use std::collections::BTreeMap;
use std::fmt::Write;

use crate::resolved_profile::ResolvedProfile;

/// The folded stacks of a profile, ordered by their text. Each line begins with the operation and
/// the phase, or with the job, as [`head_of`] writes them. Amounts that round to zero are left out.
#[must_use]
pub fn folded(profile: &ResolvedProfile) -> String {
    let mut text = String::new();
    for (line, amount) in lines_of(profile).iter().filter(|(_, amount)| amount.round() > 0.0) {
        let _ = writeln!(text, "{line} {}", amount.round());
    }
    text
}

/// The folded stacks of two profiles, with the amount in `base` and then that in `profile`, as
/// tools for differential flame graphs read them.
#[must_use]
pub fn folded_beside(profile: &ResolvedProfile, base: &ResolvedProfile) -> String {
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

fn lines_of(profile: &ResolvedProfile) -> BTreeMap<String, f64> {
    let mut lines: BTreeMap<String, f64> = BTreeMap::new();
    for sample in &profile.samples {
        let mut line = head_of(&sample.operation, &sample.phase, &sample.job);
        for frame in sample.stack.iter().rev() {
            line.push(';');
            // A semicolon separates functions, so a name must not contain one.
            line.push_str(&profile.functions[frame.function as usize].name.replace(';', ":"));
        }
        *lines.entry(line).or_default() += sample.amount;
    }
    lines
}

/// The first element of a folded line: the activity of the thread. Empty arguments are absent.
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
