//! Compares the conclusions of the original study with our runs.
//!
//! A run is long, and its store grows. So it is divided into stretches, and each figure has one
//! value per stretch: the stretches serve as repetitions.

use pellucid_report::{Estimate, Finding, Unit, both};

use super::sample::Sample;
use super::sample_interval::{STRETCHES, SampleInterval};
use super::sample_series::{LEVELS, number, over_levels, places, processor_ns, ratio, stage_ns};
use super::source::Source;

/// The largest factor by which a stable time may change.
const STABLE_FACTOR: f64 = 1.5;
/// The number of stretches of each part of a run, before and after the store outgrew its memory.
const STRETCHES_BESIDE: usize = 4;

/// The stretches of all runs: of the whole time, and of the time before and after the store outgrew
/// its memory.
struct SampleIntervals<'a> {
    whole: Vec<SampleInterval<'a>>,
    before: Vec<SampleInterval<'a>>,
    after: Vec<SampleInterval<'a>>,
}

impl<'a> SampleIntervals<'a> {
    fn of(sources: &[Source<'a>]) -> SampleIntervals<'a> {
        let mut all = SampleIntervals { whole: Vec::new(), before: Vec::new(), after: Vec::new() };
        for source in sources {
            let samples = source.track.samples();
            all.whole.extend(SampleInterval::cut(samples, STRETCHES));
            let Some(at) = source.outgrown_seconds else { continue };
            let border = samples.iter().position(|sample| sample.seconds >= at);
            let Some(border) = border else { continue };
            all.before.extend(SampleInterval::cut(&samples[..=border], STRETCHES_BESIDE));
            all.after.extend(SampleInterval::cut(&samples[border..], STRETCHES_BESIDE));
        }
        all
    }

    /// Estimates a figure over the stretches of the whole time.
    fn whole(
        &self,
        name: &str,
        unit: Unit,
        of: impl Fn(&SampleInterval<'_>) -> Option<f64>,
    ) -> Estimate {
        Estimate::of_runs(name, unit, self.whole.iter().map(of)).in_stretches()
    }

    /// Estimates a figure twice: before the store outgrew its memory, and after.
    fn halves(
        &self,
        name: &str,
        unit: Unit,
        of: impl Fn(&SampleInterval<'_>) -> Option<f64>,
    ) -> [Estimate; 2] {
        let halves = [("before", &self.before), ("after", &self.after)];
        halves.map(|(when, stretches)| {
            let name = format!("{name}, {when} outgrowing memory");
            Estimate::of_runs(name, unit, stretches.iter().map(&of)).in_stretches()
        })
    }
}

/// All conclusions.
pub(super) fn findings(sources: &[Source<'_>]) -> Vec<Finding> {
    let stretches = SampleIntervals::of(sources);
    if stretches.whole.is_empty() {
        return Vec::new();
    }
    let findings: [fn(&SampleIntervals<'_>) -> Finding; 9] =
        [body, heads_stay, journal_read, ledger_cache, missing, filters, fetch, merging, level_1];
    findings.iter().map(|finding| finding(&stretches)).collect()
}

fn body_share(stretch: &SampleInterval<'_>) -> Option<f64> {
    let (head, body) = (stretch.get_part("ledger")?, stretch.get_part("journal_read")?);
    ratio(body, head + body)
}

fn body(stretches: &SampleIntervals<'_>) -> Finding {
    let all = stretches.whole("body, of the time of head and body", Unit::Share, body_share);
    let [before, after] =
        stretches.halves("body, of the time of head and body", Unit::Share, body_share);
    let sentence = match after.value() {
        Some(_) => format!(
            "The body took {before} of the time of head and body while the store fitted into \
             memory, and {after} after it had outgrown it."
        ),
        None => format!(
            "The body took {all} of the time of head and body; the store never outgrew memory."
        ),
    };
    Finding::new(
        "get_body_share",
        "Most of the time of a GET goes into fetching the body, the more so once the data is \
         larger than the page cache.",
        sentence,
        after.is_above(0.5),
        [all, before, after],
    )
}

fn heads_stay(stretches: &SampleIntervals<'_>) -> Finding {
    let [before, after] =
        stretches.halves("head of a GET", Unit::Nanoseconds, |stretch| stretch.get_part("ledger"));
    let sentence = format!(
        "The head of a GET took {before} before the store had outgrown memory and {after} \
         afterwards."
    );
    let holds = before.value().and_then(|before| after.is_below(before * STABLE_FACTOR));
    Finding::new(
        "head_time_stable",
        "Head times stay stable while body times grow: heads are still served from the page cache.",
        sentence,
        holds,
        [before, after],
    )
}

fn journal_read(stretches: &SampleIntervals<'_>) -> Finding {
    let [cached, disk] = ["read_cached", "read_disk"].map(|name| format!("/reads/journal/{name}"));
    let sum = |stretch: &SampleInterval<'_>, what: &str| {
        stretch.number(&format!("{cached}/{what}")) + stretch.number(&format!("{disk}/{what}"))
    };
    let place = |stretch: &SampleInterval<'_>| stretch.sampled("/reads/journal/place");
    let read =
        |stretch: &SampleInterval<'_>| ratio(sum(stretch, "sum_ns"), sum(stretch, "samples"));
    let part = stretches
        .whole("place over read", Unit::Ratio, |stretch| Some(place(stretch)? / read(stretch)?));
    let from_disk = stretches.whole("reads from disk", Unit::Share, |stretch| {
        ratio(stretch.number(&format!("{disk}/samples")), sum(stretch, "samples"))
    });
    let place = stretches.whole("finding the place", Unit::Nanoseconds, place);
    let read = stretches.whole("reading", Unit::Nanoseconds, read);
    let each = |name: &str, path: &str| {
        stretches.whole(name, Unit::Nanoseconds, |stretch| stretch.sampled(path))
    };
    let (from_cache, disk) = (each("from the page cache", &cached), each("from disk", &disk));
    let sentence = format!(
        "Finding the place took {place}, reading {read}; {from_disk} of the reads came from disk."
    );
    Finding::new(
        "journal_fetch",
        "In the journal nearly all time is consumed by fetching the data, not by looking up where \
         it is.",
        sentence,
        part.is_below(0.25),
        [place, read, part, from_disk, from_cache, disk],
    )
}

fn ledger_cache(stretches: &SampleIntervals<'_>) -> Finding {
    let append = |stretch: &SampleInterval<'_>| stretch.sampled("/writes/journal_append");
    let memtable = |stretch: &SampleInterval<'_>| stretch.sampled("/writes/memtable");
    let part = stretches.whole("memtable, of both", Unit::Share, |stretch| {
        let (append, memtable) = (append(stretch)?, memtable(stretch)?);
        ratio(memtable, append + memtable)
    });
    let append = stretches.whole("appending to the journal", Unit::Nanoseconds, append);
    let memtable = stretches.whole("memtable", Unit::Nanoseconds, memtable);
    let sentence =
        format!("Appending to the journal took {append}, the memtable {memtable}: {part} of both.");
    Finding::new(
        "put_ledger_cache",
        "The time of a PUT is that of the journal; the changes to the ledger cache in memory are \
         largely irrelevant.",
        sentence,
        part.is_below(0.2),
        [append, memtable, part],
    )
}

fn missing(stretches: &SampleIntervals<'_>) -> Finding {
    let time = |stretch: &SampleInterval<'_>, place: &str| {
        stretch.sampled(&format!("/reads/look_ups/{place}/time"))
    };
    let dearest = |stretch: &SampleInterval<'_>| {
        let levels = places().into_iter().skip(2);
        levels.filter_map(|(_, place)| time(stretch, &place)).reduce(f64::max)
    };
    let missing = |stretch: &SampleInterval<'_>| time(stretch, "missing");
    let part = stretches.whole("missing over the dearest found", Unit::Ratio, |stretch| {
        Some(missing(stretch)? / dearest(stretch)?)
    });
    let missing = stretches.whole("missing", Unit::Nanoseconds, missing);
    let dearest = stretches.whole("the dearest level to find in", Unit::Nanoseconds, dearest);
    let sentence = format!(
        "To learn that a key is missing took {missing}; to find one in the dearest level \
         {dearest}."
    );
    Finding::new(
        "missing_time",
        "Look-ups of missing keys take surprisingly long, although filters should cover them.",
        sentence,
        part.is_above(0.75),
        [missing, dearest, part],
    )
}

fn filters(stretches: &SampleIntervals<'_>) -> Finding {
    let share = |name: &str, path: &'static str| {
        stretches.whole(name, Unit::Share, move |stretch| {
            let of = |path: &str| stretch.levels("/reads/levels", path);
            ratio(of(path), of("/asked"))
        })
    };
    let ended = share("ended at directory or filter", "/excluded");
    let vain = share("fetched a block in vain", "/false_positives");
    let by_index = share("by filter and index", "/by_index");
    let sentence = format!(
        "{ended} of the requests to files ended at directory or filter, and {vain} fetched a block \
         in vain."
    );
    Finding::new(
        "filter_exits",
        "80 % of the requests to files leave after the filter, with very few false positives; the \
         other 20 % fetch a block.",
        sentence,
        vain.is_below(0.02),
        [ended, vain, by_index],
    )
}

fn fetch(stretches: &SampleIntervals<'_>) -> Finding {
    let share = |name: &str, steps: &'static [&'static str]| {
        stretches.whole(name, Unit::Share, move |stretch| {
            let of =
                |step: &&str| stretch.levels("/reads/levels", &format!("/steps/{step}/sum_ns"));
            let all = ["directory", "filter", "index", "fetch_cached", "fetch_disk", "search"];
            ratio(steps.iter().map(of).sum(), all.iter().map(of).sum())
        })
    };
    let fetched = share("fetching blocks", &["fetch_cached", "fetch_disk"]);
    let asked = share("directory, filter and index", &["directory", "filter", "index"]);
    let sentence = format!(
        "Of the time within files, {fetched} went into fetching blocks and {asked} into directory, \
         filter and index."
    );
    Finding::new(
        "block_fetch",
        "Times within files are dominated by fetching the block.",
        sentence,
        fetched.is_above(0.5),
        [fetched, asked],
    )
}

fn merging(stretches: &SampleIntervals<'_>) -> Finding {
    let duration = |sample: &Sample| {
        number(sample, "/background/flush/duration_ns")
            + over_levels(sample, "/background/compactions", "/duration_ns")
    };
    let part = stretches.whole("merging entries, of flushes and merges", Unit::Share, |stretch| {
        let stage = |name: &str| stretch.grown(|sample| stage_ns(sample, name));
        let part = ratio(stage("merge_ns") + stage("build_ns"), stretch.grown(duration));
        part.map(|part| part.min(1.0))
    });
    let core = stretches.whole("their thread, of a core", Unit::Share, |stretch| {
        let busy = stretch.grown(|sample| processor_ns(sample, "pellucid-ledger")) / 1e9;
        ratio(busy, stretch.seconds())
    });
    let sentence = format!(
        "{part} of the time of flushes and merges went into merging entries and building blocks; \
         their thread was busy for {core} of a core."
    );
    Finding::new(
        "merge_share",
        "90 % of the time of making files is spent merging, which takes processor time: a quarter \
         to a half of the machine's.",
        sentence,
        part.is_above(0.5),
        [part, core],
    )
}

fn level_1(stretches: &SampleIntervals<'_>) -> Finding {
    let made = |stretch: &SampleInterval<'_>, to: usize| {
        stretch.number(&format!("/background/compactions/{}/tables_out", to - 1))
    };
    let part =
        stretches.whole("files for level 1, of those below level 0", Unit::Share, |stretch| {
            ratio(made(stretch, 1), (1..LEVELS).map(|level| made(stretch, level)).sum())
        });
    let found = stretches.whole("look-ups that end in level 1", Unit::Share, |stretch| {
        let of = |place: &str| stretch.number(&format!("/reads/look_ups/{place}/count"));
        ratio(of("level_1"), places().iter().map(|(_, place)| of(place)).sum())
    });
    let sentence = format!(
        "{part} of the files below level 0 were made for level 1, where {found} of the look-ups \
         ended."
    );
    Finding::new(
        "level_1",
        "Most files are made for level 1, and very few keys are found there.",
        sentence,
        both(part.is_above(0.5), found.is_below(0.1)),
        [part, found],
    )
}

#[cfg(test)]
mod tests {
    use pellucid_report::Judgement;
    use serde_json::json;

    use super::super::sample::OperationSums;
    use super::super::sample_series::SampleSeries;
    use super::*;

    /// Samples of GETs that take 1 µs for the head and 1 µs for the body, but 9 µs for the body
    /// from the third second on, with an engine whose counters grow evenly.
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

    fn value(finding: &Finding, name: &str) -> Option<f64> {
        finding.figures.iter().find(|figure| figure.name == name).expect(name).value()
    }

    #[test]
    fn findings_follow_from_the_figures() {
        let samples = samples();
        let track = SampleSeries::new(&samples);
        let source = Source { track, memory_bytes: Some(1), outgrown_seconds: Some(2.0) };
        let findings = findings(&[source]);
        assert_eq!(findings.len(), 9);
        let body = found(&findings, "get_body_share");
        assert_eq!(body.figures[1].values, [0.5; 2], "two seconds before");
        assert_eq!(body.figures[2].values, [0.9; 4], "four seconds after");
        assert_eq!(body.judgement, Judgement::Confirmed);
        assert!(body.sentence.contains("50 %") && body.sentence.contains("90 %"), "{body:?}");
        // Two stretches are too few for an interval.
        assert_eq!(body.figures[1].interval(), None);
        let journal = found(&findings, "journal_fetch");
        assert_eq!(value(&journal, "reading"), Some(500.0));
        assert_eq!(value(&journal, "reads from disk"), Some(0.5));
        assert_eq!(journal.judgement, Judgement::Confirmed);
        let filters = found(&findings, "filter_exits");
        assert_eq!(value(&filters, "ended at directory or filter"), Some(0.8));
        assert_eq!(value(&found(&findings, "block_fetch"), "fetching blocks"), Some(0.8));
        assert_eq!(found(&findings, "put_ledger_cache").judgement, Judgement::Confirmed);
        let merging = found(&findings, "merge_share");
        assert_eq!(merging.judgement, Judgement::CannotBeTold, "there was no merge");
        assert_eq!(merging.figures[1].spread(), "0 % to 0 % in 6 stretches");
    }

    #[test]
    fn findings_without_data_cannot_be_told() {
        let samples = samples();
        let source = |samples| Source {
            track: SampleSeries::new(samples),
            memory_bytes: None,
            outgrown_seconds: None,
        };
        let all = findings(&[source(&samples)]);
        let body = found(&all, "get_body_share");
        assert_eq!(body.judgement, Judgement::CannotBeTold);
        assert!(body.sentence.contains("never outgrew"));
        assert_eq!(found(&all, "head_time_stable").judgement, Judgement::CannotBeTold);
        assert_eq!(findings(&[source(&[])]), []);
        assert_eq!(findings(&[source(&samples[..1])]), [], "one sample has no stretch");
        let few = findings(&[source(&samples[..3])]);
        assert!(few.iter().all(|finding| finding.judgement == Judgement::CannotBeTold));
    }
}
