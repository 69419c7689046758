//! Charts of GET: reading the head from the ledger, and the body from the journal.

use pellucid_report::{ChartSection, Series, Unit};

use super::super::sample_series::number;
use super::super::source::Source;
use super::series::{less, part_mean, shares, total_mean};

const GET: &str = "get ok";

pub(super) fn section(source: &Source<'_>) -> ChartSection {
    let track = &source.track;
    let head = part_mean(track, GET, "ledger");
    let body = part_mean(track, GET, "journal_read");
    let share = source.areas(
        ("get_shares", "GET: shares of head and body"),
        "The same as shares of both together.",
        Unit::Share,
        shares(vec![Series::new("head (ledger)", head), Series::new("body (journal)", body)]),
    );
    ChartSection::new(
        "GET",
        "A GET looks the key up in the ledger and then reads one record of the journal, whose \
         checksum, key and number it compares.",
        vec![parts(source), share, steps(source), sources(source)],
    )
}

/// The times of head, body and the rest of a GET over time.
pub(super) fn parts(source: &Source<'_>) -> pellucid_report::Chart {
    let track = &source.track;
    let head = part_mean(track, GET, "ledger");
    let body = part_mean(track, GET, "journal_read");
    let rest = less(&total_mean(track, GET), &[&head, &body]);
    source.areas(
        ("get_parts", "GET: head time and body time"),
        "Mean time of the GETs that found their object, by their own accounts: the head is looked \
         up in the ledger, the body read from the journal.",
        Unit::Nanoseconds,
        vec![
            Series::new("head (ledger)", head),
            Series::new("body (journal)", body),
            Series::new("rest", rest),
        ],
    )
}

fn steps(source: &Source<'_>) -> pellucid_report::Chart {
    let sampled = |name: &str, path: &str| Series::new(name, source.track.sampled(path));
    source.times(
        ("journal_steps", "Journal: finding the place, and reading"),
        "Mean times of sampled reads. The place is found by sequence number: a search over \
         segments and one look-up in an array. Whether the record was in the page cache was asked \
         before it was touched.",
        vec![
            sampled("place look-up", "/reads/journal/place"),
            sampled("read, from page cache", "/reads/journal/read_cached"),
            sampled("read, from disk", "/reads/journal/read_disk"),
        ],
    )
}

fn sources(source: &Source<'_>) -> pellucid_report::Chart {
    let rate = |name: &str, path: &'static str| {
        Series::new(name, source.track.rate(|sample| number(sample, path)))
    };
    source.areas(
        ("journal_sources", "Journal: reads from page cache and from disk"),
        "Shares of the sampled reads.",
        Unit::Share,
        shares(vec![
            rate("page cache", "/reads/journal/read_cached/samples"),
            rate("disk", "/reads/journal/read_disk/samples"),
        ]),
    )
}
