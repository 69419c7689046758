//! Charts of PUT: the journal, the ledger's memtable, and the waits of writers.

use pellucid_report::{Chart, ChartSection, Series, Unit};

use super::super::sample_series::number;
use super::super::source::Source;
use super::series::{less, part_mean, total_mean};

const PUT: &str = "put ok";
const PUT_DISK: &str = "put_disk ok";

pub(super) fn section(source: &Source<'_>) -> ChartSection {
    ChartSection::new(
        "PUT",
        "A PUT copies its record into the journal and its head into the memtable, which the \
         original calls the ledger cache. One in 128 waits until it is on the medium.",
        vec![parts(source), samples(source), durable(source), stalls(source)],
    )
}

fn parts(source: &Source<'_>) -> Chart {
    let track = &source.track;
    let of = |part| part_mean(track, PUT, part);
    let parts = ["stall", "writer_wait", "journal_append", "memtable"].map(of);
    let rest = less(&total_mean(track, PUT), &parts.each_ref());
    let [stall, writer_wait, append, memtable] = parts;
    source.areas(
        ("put_parts", "PUT: journal and ledger cache"),
        "Mean time of the PUTs that did not wait for the medium, by their own accounts. The \
         journal's part includes rolling over to the next segment.",
        Unit::Nanoseconds,
        vec![
            Series::new("journal append", append),
            Series::new("ledger cache (memtable)", memtable),
            Series::new("waiting for another writer", writer_wait),
            Series::new("stall", stall),
            Series::new("rest", rest),
        ],
    )
}

fn samples(source: &Source<'_>) -> Chart {
    let sampled = |name: &str, path: &str| Series::new(name, source.track.sampled(path));
    source.times(
        ("put_samples", "PUT: journal append against ledger cache, by samples"),
        "Mean times of one batch in 64 of each thread, without what stands before the append.",
        vec![
            sampled("journal append", "/writes/journal_append"),
            sampled("ledger cache (memtable)", "/writes/memtable"),
        ],
    )
}

fn durable(source: &Source<'_>) -> Chart {
    let track = &source.track;
    let group = part_mean(track, PUT_DISK, "group_wait");
    let sync = part_mean(track, PUT_DISK, "sync");
    let rest = less(&total_mean(track, PUT_DISK), &[&group, &sync]);
    source.areas(
        ("put_durable", "PUT on the medium: waiting for the group, and the sync"),
        "Mean time of the PUTs that waited for the medium. Writers that wait at the same time \
         share a sync; one that comes while a sync runs waits for the next.",
        Unit::Nanoseconds,
        vec![
            Series::new("sync", sync),
            Series::new("waiting for the group", group),
            Series::new("all else of the PUT", rest),
        ],
    )
}

fn stalls(source: &Source<'_>) -> Chart {
    let waited = |name: &str, path: &'static str| {
        let values = source.track.rate(|sample| number(sample, path));
        Series::new(name, values)
    };
    source.areas(
        ("put_stalls", "Waiting writers, by cause"),
        "Time that writers waited in each second, of all threads together. Another writer: one \
         writes at a time. Flushes behind: all memtables are full. Merges behind: a delay in \
         proportion to level 0.",
        Unit::Nanoseconds,
        vec![
            waited("another writer", "/writes/waits/other_writer/sum_ns"),
            waited("flushes behind", "/writes/waits/memtables_full/sum_ns"),
            waited("merges behind", "/writes/waits/merges_behind/sum_ns"),
        ],
    )
}
