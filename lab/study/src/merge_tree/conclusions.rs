//! The conclusions of the original, and the readings of the figures of this run, in a sentence
//! each.

use std::collections::BTreeMap;

use pellucid_report::{Finding, Unit};

use super::charts::{LEVELS, Source, places, processor_ns, stage_ns};
use super::sample::Sample;
use super::track::{number, operation, over_levels, ratio};

/// A time has stayed the same if it changed by no more than this factor.
const STABLE_FACTOR: f64 = 1.5;

/// A stretch of the run.
#[derive(Clone, Copy)]
struct Stretch<'a> {
    begin: &'a Sample,
    end: &'a Sample,
}

impl Stretch<'_> {
    fn grown(&self, value: impl Fn(&Sample) -> f64) -> f64 {
        value(self.end) - value(self.begin)
    }

    fn number(&self, path: &str) -> f64 {
        self.grown(|sample| number(sample, path))
    }

    fn levels(&self, array: &str, path: &str) -> f64 {
        self.grown(|sample| over_levels(sample, array, path))
    }

    fn seconds(&self) -> f64 {
        self.end.seconds - self.begin.seconds
    }

    /// The mean time of a part of GETs.
    fn get_part(&self, part: &str) -> Option<f64> {
        let sum = |sample: &Sample| {
            operation(sample, "get ok").parts_ns.get(part).copied().unwrap_or(0.0)
        };
        let count = |sample: &Sample| operation(sample, "get ok").count as f64;
        ratio(self.grown(sum), self.grown(count))
    }

    fn sampled(&self, path: &str) -> Option<f64> {
        ratio(self.number(&format!("{path}/sum_ns")), self.number(&format!("{path}/samples")))
    }
}

/// All conclusions.
pub(super) fn findings(source: &Source<'_>) -> Vec<Finding> {
    let Some((first, last)) = source.track.ends() else { return Vec::new() };
    let whole = Stretch { begin: first, end: last };
    let halves = source.outgrown_seconds.and_then(|at| {
        let samples = source.track.samples();
        let border = *samples.iter().find(|sample| sample.seconds >= at)?;
        let is_inside = border.seconds > first.seconds && border.seconds < last.seconds;
        let before = Stretch { begin: first, end: border };
        is_inside.then_some((before, Stretch { begin: border, end: last }))
    });
    [
        body(whole, halves),
        heads_stay(halves),
        journal_read(whole),
        ledger_cache(whole),
        missing(whole),
        filters(whole),
        fetch(whole),
        merging(whole),
        level_1(whole),
    ]
    .into_iter()
    .collect()
}

fn finding<const FIGURES: usize>(
    name: &str,
    original: &str,
    (sentence, is_same): (String, Option<bool>),
    figures: [(&str, Option<f64>); FIGURES],
) -> Finding {
    let figures = figures.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?)));
    Finding {
        name: name.to_owned(),
        original: original.to_owned(),
        sentence,
        is_same,
        figures: figures.collect::<BTreeMap<_, _>>(),
    }
}

fn nothing() -> (String, Option<bool>) {
    ("The run has too few figures to tell.".to_owned(), None)
}

fn share(part: f64) -> String {
    Unit::Share.show(part)
}

fn time(ns: f64) -> String {
    Unit::Nanoseconds.show(ns)
}

fn body_share(stretch: Stretch<'_>) -> Option<f64> {
    let (head, body) = (stretch.get_part("ledger")?, stretch.get_part("journal_read")?);
    ratio(body, head + body)
}

fn body(whole: Stretch<'_>, halves: Option<(Stretch<'_>, Stretch<'_>)>) -> Finding {
    let all = body_share(whole);
    let halves = halves.and_then(|(before, after)| Some((body_share(before)?, body_share(after)?)));
    let told = match (all, halves) {
        (Some(_), Some((before, after))) => (
            format!(
                "The body took {} of the time of head and body while the store fitted into memory, \
                 and {} after it had outgrown it.",
                share(before),
                share(after)
            ),
            Some(after > 0.5),
        ),
        (Some(all), None) => (
            format!(
                "The body took {} of the time of head and body; the store never outgrew memory.",
                share(all)
            ),
            None,
        ),
        (None, _) => nothing(),
    };
    let figures = [
        ("body_share", all),
        ("body_share_before", halves.map(|halves| halves.0)),
        ("body_share_after", halves.map(|halves| halves.1)),
    ];
    let original = "Most of the time of a GET goes into fetching the body, the more so once the \
                    data is larger than the page cache.";
    finding("get_body_share", original, told, figures)
}

fn heads_stay(halves: Option<(Stretch<'_>, Stretch<'_>)>) -> Finding {
    let both = halves
        .and_then(|(before, after)| Some((before.get_part("ledger")?, after.get_part("ledger")?)));
    let told = both.map_or_else(nothing, |(before, after)| {
        let sentence = format!(
            "The head of a GET took {} before the store had outgrown memory and {} afterwards.",
            time(before),
            time(after)
        );
        (sentence, Some(after <= before * STABLE_FACTOR))
    });
    let figures =
        [("head_before_ns", both.map(|both| both.0)), ("head_after_ns", both.map(|both| both.1))];
    let original = "Head times stay stable while body times grow: heads are still served from the \
                    page cache.";
    finding("head_time_stable", original, told, figures)
}

fn journal_read(whole: Stretch<'_>) -> Finding {
    let place = whole.sampled("/reads/journal/place");
    let [cached, disk] = ["read_cached", "read_disk"].map(|name| format!("/reads/journal/{name}"));
    let sum = |what: &str| {
        whole.number(&format!("{cached}/{what}")) + whole.number(&format!("{disk}/{what}"))
    };
    let read = ratio(sum("sum_ns"), sum("samples"));
    let from_disk = ratio(whole.number(&format!("{disk}/samples")), sum("samples"));
    let told = match (place, read, from_disk) {
        (Some(place), Some(read), Some(from_disk)) => {
            let sentence = format!(
                "Finding the place took {}, reading {}; {} of the reads came from disk, in {} \
                 each, the others from the page cache in {}.",
                time(place),
                time(read),
                share(from_disk),
                whole.sampled(&disk).map_or_else(|| "no time".to_owned(), time),
                whole.sampled(&cached).map_or_else(|| "no time".to_owned(), time),
            );
            (sentence, Some(place < read / 4.0))
        }
        _ => nothing(),
    };
    let figures = [
        ("place_ns", place),
        ("read_ns", read),
        ("disk_share", from_disk),
        ("read_cached_ns", whole.sampled(&cached)),
        ("read_disk_ns", whole.sampled(&disk)),
    ];
    let original = "In the journal nearly all time is consumed by fetching the data, not by \
                    looking up where it is.";
    finding("journal_fetch", original, told, figures)
}

fn ledger_cache(whole: Stretch<'_>) -> Finding {
    let append = whole.sampled("/writes/journal_append");
    let memtable = whole.sampled("/writes/memtable");
    let told = append.zip(memtable).map_or_else(nothing, |(append, memtable)| {
        let part = memtable / (append + memtable).max(1.0);
        let sentence = format!(
            "Appending to the journal took {}, the memtable {}: {} of both.",
            time(append),
            time(memtable),
            share(part)
        );
        (sentence, Some(part < 0.2))
    });
    let figures = [("append_ns", append), ("memtable_ns", memtable)];
    let original = "The time of a PUT is that of the journal; the changes to the ledger cache in \
                    memory are largely irrelevant.";
    finding("put_ledger_cache", original, told, figures)
}

fn missing(whole: Stretch<'_>) -> Finding {
    let path = |place: &str| format!("/reads/look_ups/{place}/time");
    let missing = whole.sampled(&path("missing"));
    let levels: Vec<(String, f64)> = places()
        .into_iter()
        .skip(2)
        .filter_map(|(name, place)| Some((name, whole.sampled(&path(&place))?)))
        .collect();
    let dearest = levels.iter().max_by(|a, b| a.1.total_cmp(&b.1));
    let told = missing.zip(dearest).map_or_else(nothing, |(missing, (name, dearest))| {
        let sentence = format!(
            "To learn that a key is missing took {}; the dearest to find were those of {name}, at \
             {}.",
            time(missing),
            time(*dearest)
        );
        (sentence, Some(missing > dearest * 0.75))
    });
    let figures = [("missing_ns", missing), ("dearest_found_ns", dearest.map(|(_, ns)| *ns))];
    let original = "Look-ups of missing keys take surprisingly long, although filters should cover \
                    them.";
    finding("missing_time", original, told, figures)
}

fn filters(whole: Stretch<'_>) -> Finding {
    let sum = |path: &str| whole.levels("/reads/levels", path);
    let (asked, excluded, vain) = (sum("/asked"), sum("/excluded"), sum("/false_positives"));
    let ended = ratio(excluded, asked);
    let vain = ratio(vain, asked);
    let told = ended.zip(vain).map_or_else(nothing, |(ended, vain)| {
        let sentence = format!(
            "{} of the requests to files ended at directory or filter, {} fetched a block in vain, \
             and {} found their key.",
            share(ended),
            share(vain),
            share(1.0 - ended - vain)
        );
        (sentence, Some(vain < 0.02))
    });
    let figures = [
        ("excluded_share", ended),
        ("false_positive_share", vain),
        ("by_index_share", ratio(sum("/by_index"), asked)),
    ];
    let original = "80 % of the requests to files leave after the filter, with very few false \
                    positives; the other 20 % fetch a block.";
    finding("filter_exits", original, told, figures)
}

fn fetch(whole: Stretch<'_>) -> Finding {
    let sum = |step: &str| whole.levels("/reads/levels", &format!("/steps/{step}/sum_ns"));
    let asked = sum("directory") + sum("filter") + sum("index");
    let fetched = sum("fetch_cached") + sum("fetch_disk");
    let all = asked + fetched + sum("search");
    let part = ratio(fetched, all);
    let told = part.map_or_else(nothing, |part| {
        let sentence = format!(
            "Of the time within files, {} went into fetching blocks, {} into directory, filter and \
             index, and {} into searching the block.",
            share(part),
            share(asked / all),
            share(sum("search") / all)
        );
        (sentence, Some(part > 0.5))
    });
    let figures = [("fetch_share", part), ("lookup_share", ratio(asked, all))];
    let original = "Times within files are dominated by fetching the block.";
    finding("block_fetch", original, told, figures)
}

fn merging(whole: Stretch<'_>) -> Finding {
    let stage = |name: &str| whole.grown(|sample| stage_ns(sample, name));
    let merged = stage("merge_ns") + stage("build_ns");
    let duration = |sample: &Sample| {
        number(sample, "/background/flush/duration_ns")
            + over_levels(sample, "/background/compactions", "/duration_ns")
    };
    let part = ratio(merged, whole.grown(duration)).map(|part| part.min(1.0));
    let core =
        ratio(whole.grown(|sample| processor_ns(sample, "pellucid-ledger")) / 1e9, whole.seconds());
    let told = part.zip(core).map_or_else(nothing, |(part, core)| {
        let sentence = format!(
            "{} of the time of flushes and merges went into merging entries and building blocks; \
             their thread was busy for {} of a core.",
            share(part),
            share(core)
        );
        (sentence, Some(part > 0.5))
    });
    let original = "90 % of the time of making files is spent merging, which takes processor time: \
                    a quarter to a half of the machine's.";
    finding("merge_share", original, told, [("merge_share", part), ("merge_cores", core)])
}

fn level_1(whole: Stretch<'_>) -> Finding {
    let made = |to: usize| match to {
        0 => whole.number("/background/flush/tables_out"),
        to => whole.number(&format!("/background/compactions/{}/tables_out", to - 1)),
    };
    let below: f64 = (1..LEVELS).map(made).sum();
    let look_ups: f64 = places()
        .iter()
        .map(|(_, place)| whole.number(&format!("/reads/look_ups/{place}/count")))
        .sum();
    let found = ratio(whole.number("/reads/look_ups/level_1/count"), look_ups);
    let share_made = ratio(made(1), below);
    let told = share_made.zip(found).map_or_else(nothing, |(share_made, found)| {
        let sentence = format!(
            "{} of the files below level 0 were made for level 1, where {} of the look-ups ended.",
            share(share_made),
            share(found)
        );
        (sentence, Some(share_made > 0.5 && found < 0.1))
    });
    let figures = [
        ("level_1_files_share", share_made),
        ("level_1_found_share", found),
        ("level_0_files", Some(made(0))),
    ];
    let original = "Most files are made for level 1, and very few keys are found there.";
    finding("level_1", original, told, figures)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::sample::OperationSums;
    use super::super::track::Track;
    use super::*;

    /// GETs of 1 µs for the head and, from the third second on, 9 µs instead of 1 for the body; and
    /// an engine whose counters grow evenly.
    fn samples() -> Vec<Sample> {
        let sample = |second: u64| {
            let body_ns = second * 1_000 + second.saturating_sub(2) * 8_000;
            let get = OperationSums {
                count: second,
                total_ns: (second * 1_000 + body_ns) as f64,
                parts_ns: [
                    ("ledger".to_owned(), (second * 1_000) as f64),
                    ("journal_read".to_owned(), body_ns as f64),
                ]
                .into(),
            };
            let sampled = |ns: u64| json!({ "samples": second, "sum_ns": second * ns });
            Sample {
                seconds: second as f64,
                engine: json!({
                    "reads": {
                        "journal": {
                            "place": sampled(10),
                            "read_cached": sampled(100),
                            "read_disk": sampled(900),
                        },
                        "levels": [{
                            "asked": second * 100, "excluded": second * 80,
                            "false_positives": second, "by_index": 0,
                            "steps": {
                                "directory": sampled(1),
                                "fetch_cached": sampled(8),
                                "search": sampled(1),
                            },
                        }],
                    },
                    "writes": { "journal_append": sampled(900), "memtable": sampled(100) },
                }),
                operations: [("get ok".to_owned(), get)].into(),
                ..Sample::default()
            }
        };
        (0..=6).map(sample).collect()
    }

    fn found(findings: &[Finding], name: &str) -> Finding {
        findings.iter().find(|finding| finding.name == name).expect(name).clone()
    }

    #[test]
    fn sentences_are_drawn_from_the_figures() {
        let samples = samples();
        let track = Track::new(&samples);
        let source = Source { track, memory_bytes: Some(1), outgrown_seconds: Some(2.0) };
        let findings = findings(&source);
        assert_eq!(findings.len(), 9);
        let body = found(&findings, "get_body_share");
        assert_eq!(body.figures["body_share_before"], 0.5);
        assert_eq!(body.figures["body_share_after"], 0.9);
        assert_eq!(body.is_same, Some(true));
        assert!(body.sentence.contains("50 %") && body.sentence.contains("90 %"), "{body:?}");
        assert_eq!(found(&findings, "head_time_stable").is_same, Some(true));
        let journal = found(&findings, "journal_fetch");
        assert_eq!((journal.figures["read_ns"], journal.figures["disk_share"]), (500.0, 0.5));
        assert_eq!(journal.is_same, Some(true));
        assert_eq!(found(&findings, "filter_exits").figures["excluded_share"], 0.8);
        assert_eq!(found(&findings, "block_fetch").figures["fetch_share"], 0.8);
        assert_eq!(found(&findings, "put_ledger_cache").is_same, Some(true));
        assert_eq!(found(&findings, "merge_share").is_same, None, "there was no merge");
    }

    #[test]
    fn what_cannot_be_told_is_said() {
        let samples = samples();
        let track = Track::new(&samples);
        let source = Source { track, memory_bytes: None, outgrown_seconds: None };
        let all = findings(&source);
        assert_eq!(found(&all, "get_body_share").is_same, None);
        assert!(found(&all, "get_body_share").sentence.contains("never outgrew"));
        assert_eq!(found(&all, "head_time_stable").is_same, None);
        let none = Source { track: Track::new(&[]), memory_bytes: None, outgrown_seconds: None };
        assert_eq!(findings(&none), []);
        let one =
            Source { track: Track::new(&samples[..1]), memory_bytes: None, outgrown_seconds: None };
        assert!(findings(&one).iter().all(|finding| finding.is_same.is_none()));
    }
}
