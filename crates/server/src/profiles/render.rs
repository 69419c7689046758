//! Writes a profile in the form that was asked for.

use std::time::{SystemTime, UNIX_EPOCH};

use pellucid_profile::{
    Kind, Profiler, ResolvedProfile, folded, folded_beside, head_of, pprof, shares,
};
use pellucid_report::{FlameGraph, FlameSample, FlameUnit, flame_html, flame_svg};

use super::request::{Format, ProfileRequest};
use crate::reply::Reply;

/// The profile as a page, compared with `base` if there is one.
///
/// # Errors
/// If the profile cannot be encoded.
pub(super) fn page(
    profile: &ResolvedProfile,
    base: Option<&ResolvedProfile>,
    asked: &ProfileRequest,
) -> Result<Reply, String> {
    let (content_type, body) = match asked.format {
        Format::Pprof => {
            let file = pprof(profile, base, began_unix_ns(profile));
            let file = file.map_err(|error| error.to_string())?;
            ("application/octet-stream", file)
        }
        Format::Folded => {
            let text = base.map_or_else(|| folded(profile), |base| folded_beside(profile, base));
            ("text/plain; charset=utf-8", text.into_bytes())
        }
        Format::Shares => {
            let now = shares(profile);
            let text = base.map_or_else(|| now.text(), |base| now.text_beside(&shares(base)));
            let gaps = gaps(profile, base);
            let text = gaps.iter().fold(text, |text, gap| format!("{text}{gap}\n"));
            ("text/plain; charset=utf-8", text.into_bytes())
        }
        Format::Svg => ("image/svg+xml", flame_svg(&graph(profile, base)).into_bytes()),
        Format::Html => {
            ("text/html; charset=utf-8", flame_html(&graph(profile, base)).into_bytes())
        }
    };
    Ok(Reply::bytes(200, content_type, body))
}

/// The notes about samples that are missing in either profile.
fn gaps(profile: &ResolvedProfile, base: Option<&ResolvedProfile>) -> Vec<String> {
    let of_base = base.map_or_else(Vec::new, ResolvedProfile::gaps);
    let of_base = of_base.into_iter().map(|gap| format!("Of what it is compared with: {gap}"));
    profile.gaps().into_iter().chain(of_base).collect()
}

/// The beginning of the profile, in nanoseconds since 1970.
fn began_unix_ns(profile: &ResolvedProfile) -> u64 {
    let unix = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let ago_ns = Profiler::now_ns().saturating_sub(profile.began_ns);
    u64::try_from(unix.as_nanos()).unwrap_or(u64::MAX).saturating_sub(ago_ns)
}

fn graph(profile: &ResolvedProfile, base: Option<&ResolvedProfile>) -> FlameGraph {
    let mut graph = FlameGraph::new(
        title(profile),
        if profile.kind.is_bytes() { FlameUnit::Bytes } else { FlameUnit::Nanoseconds },
        profile.functions.iter().map(|function| function.name.clone()).collect(),
    );
    graph.began_unix_ms = began_unix_ns(profile) / 1_000_000;
    graph.began_ns = profile.began_ns;
    graph.duration_ns = profile.duration_ns;
    let shares = shares(profile);
    let rows = shares.shares.iter();
    graph.shares =
        rows.map(|share| (share.phase.clone(), share.component.to_owned(), share.amount)).collect();
    graph.notes.push(format!(
        "{:.1} % of it have both a phase or job and a component.",
        shares.explained * 100.0
    ));
    graph.notes.extend(gaps(profile, base));
    if profile.kind != Kind::Cpu {
        graph.notes.push("Amounts are estimates from a sample.".to_owned());
    }
    add(&mut graph, profile, false);
    if let Some(base) = base {
        add(&mut graph, base, true);
    }
    graph
}

fn add(graph: &mut FlameGraph, profile: &ResolvedProfile, is_base: bool) {
    for sample in &profile.samples {
        let root = head_of(&sample.operation, &sample.phase, &sample.job);
        let stack: Vec<u32> = sample.stack.iter().rev().map(|frame| frame.function).collect();
        let (amount, at_ns) = (sample.amount, sample.at_ns);
        graph.add(&FlameSample { root: &root, stack: &stack, amount, at_ns }, is_base);
    }
}

fn title(profile: &ResolvedProfile) -> String {
    let what = match profile.kind {
        Kind::Cpu => "Processor time",
        Kind::Heap => "Memory in use",
        Kind::Allocations => "Allocated memory",
        Kind::Mutex => "Waits for locks, by who held them",
        Kind::Block => "Waits, by who waited",
    };
    what.to_owned()
}
