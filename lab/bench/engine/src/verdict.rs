//! Prints the results: tables of medians, and the bars.

use crate::bars::{Bar, judge, median};
use crate::child::{READERS, WRITER_PER_SECOND};
use crate::figures::Figures;
use crate::peer::{PELLUCID, ROCKSDB};
use crate::suite::{Plan, Results};

/// The rates of leveled on a machine of this kind (1,000,000 keys, OTP 25, no compression, no
/// sync). It is not a peer of the benchmark, because it needs Erlang.
const LEVELED_PUT_PER_S: f64 = 9_100.0;
const LEVELED_GET_PER_S: f64 = 5_200.0;
const LEVELED_HEAD_PER_S: f64 = 12_400.0;

/// The operations and their titles in the table.
const OPERATIONS: [(&str, &str); 11] = [
    ("put", "random PUT until all is merged"),
    ("settled_get", "GET, before compaction"),
    ("settled_get_missing", "GET of missing keys, before compaction"),
    ("settled_get_mixed", "GET, 30 % missing, before compaction"),
    ("settled_head", "HEAD, before compaction"),
    ("get", "GET"),
    ("get_missing", "GET of missing keys"),
    ("get_mixed", "GET, 30 % missing"),
    ("head", "HEAD (else by GET)"),
    ("get_beside_writer", "GET, two threads beside a writer"),
    ("get_confined", "GET in bounded memory"),
];

/// The further figures and their titles with units.
const FURTHER: [(&str, &str); 24] = [
    ("scan_after_fill_per_s", "scan after the fill, rows/s"),
    ("scan_after_fill_cpu_us", "the same, µs of CPU per row"),
    ("scan_after_compaction_per_s", "scan after compaction, rows/s"),
    ("scan_after_compaction_cpu_us", "the same, µs of CPU per row"),
    ("put_longest_stolen_ms", "of the longest PUT, what the host took, ms"),
    ("put_longest_own_ms", "longest PUT without what the host took, ms"),
    ("put_unsettled_per_s", "PUT/s without the wait for merges"),
    ("compaction_s", "compaction of everything, s"),
    ("put_beside_readers_per_s", "PUT/s beside the readers"),
    ("written_per_byte", "bytes written per user byte, by the kernel's account"),
    ("written_with_compaction_per_byte", "the same, compaction of everything included"),
    ("cancelled_per_byte", "of them, deleted before they were written back"),
    ("written_by_own_count_per_byte", "bytes written per user byte, by the store's count"),
    ("counted_with_compaction_per_byte", "the same, compaction of everything included"),
    ("disk_per_live_byte", "disk per live byte, compacted"),
    ("live_bytes", "live bytes of keys and values"),
    ("memory_anonymous_mb", "memory beside the page cache at most, MB"),
    ("memory_per_setting", "the same, per byte of the setting"),
    ("confined_to_mb", "bounded memory, MB, page cache included"),
    ("confined_reads_per_get", "disk reads per GET in it"),
    ("confined_faults_per_get", "major faults per GET in it"),
    ("confined_bytes_read_per_get", "bytes read per GET in it, read-ahead included"),
    ("clean_open_s", "opening after a clean stop, nothing cached, s"),
    ("killed_open_s", "opening after a kill, nothing cached, s"),
];

/// Prints the medians of all peers.
pub fn show(plan: &Plan, results: &Results) {
    println!(
        "{} puts of uniform random keys out of as many, 10 bytes; values of 280 bytes that cannot \
         be compressed; one thread unless said; no fsync; {} run(s); medians.\n\
         Where CPU µs of a thread is well below 1,000,000 ÷ rate, other work held it up.\n\
         {READERS} readers run beside one writer of {WRITER_PER_SECOND} puts/s.",
        plan.keys, plan.runs
    );
    for (peer, runs) in results {
        println!("{peer}: {}", runs[0].text_of("version").unwrap_or("version unknown"));
    }
    for (name, title) in OPERATIONS {
        println!("\n{title}");
        println!(
            "  {:<18}{:>12}{:>9}{:>9}{:>10}{:>11}{:>9}{:>12}{:>12}",
            "",
            "per s",
            "p50 µs",
            "p99 µs",
            "p99.9 µs",
            "max µs",
            "CPU µs",
            "ours faster",
            "by CPU"
        );
        for (peer, runs) in results {
            let of = |suffix: &str| cell(middle(runs, &format!("{name}_{suffix}")));
            let ratio = ratios(results, peer, &format!("{name}_per_s"));
            let cpu_ratio = ratios(results, peer, &format!("{name}_cpu_us"));
            println!(
                "  {peer:<18}{:>12}{:>9}{:>9}{:>10}{:>11}{:>9}{:>12}{:>12}",
                of("per_s"),
                of("p50_us"),
                of("p99_us"),
                of("p999_us"),
                of("max_us"),
                of("cpu_us"),
                cell(Some(median(&ratio))),
                cell(Some(1.0 / median(&cpu_ratio)))
            );
        }
    }
    show_further(results);
}

fn show_further(results: &Results) {
    print!("\n{:<54}", "");
    for peer in results.keys() {
        print!("{peer:>17}");
    }
    println!();
    for (name, title) in FURTHER {
        print!("{title:<54}");
        for runs in results.values() {
            print!("{:>17}", cell(middle(runs, name)));
        }
        println!();
    }
    println!();
}

/// Formats a figure with about three digits.
fn significant(figure: f64) -> String {
    match figure {
        100.0.. => format!("{figure:.0}"),
        10.0.. => format!("{figure:.1}"),
        _ => format!("{figure:.2}"),
    }
}

/// The columns of the README's table: the figure, its title, and the divisor.
const COLUMNS: [(&str, &str, f64); 8] = [
    ("put_per_s", "random PUT, k/s", 1e3),
    ("put_p999_us", "p99.9, µs", 1.0),
    ("get_per_s", "GET, k/s", 1e3),
    ("get_missing_per_s", "GET of missing keys, k/s", 1e3),
    ("scan_after_compaction_per_s", "scan, k rows/s", 1e3),
    ("written_with_compaction_per_byte", "bytes written per byte put", 1.0),
    ("disk_per_live_byte", "disk per live byte", 1.0),
    ("memory_anonymous_mb", "memory, MB", 1.0),
];

/// Prints the medians as a Markdown table with a row for each peer.
pub fn show_table(plan: &Plan, results: &Results) {
    let titles: Vec<_> = COLUMNS.iter().map(|(_, title, _)| *title).collect();
    println!("| | {} |", titles.join(" | "));
    println!("|---|{}", "---|".repeat(COLUMNS.len()));
    for peer in &plan.peers {
        let Some(runs) = results.get(peer) else { continue };
        let cells = COLUMNS.iter().map(|(name, _, by)| {
            middle(runs, name).map_or("–".to_owned(), |figure| significant(figure / by))
        });
        let version = runs[0].text_of("version").unwrap_or(peer);
        println!("| {version} | {} |", cells.collect::<Vec<_>>().join(" | "));
    }
}

fn cell(figure: Option<f64>) -> String {
    match figure {
        Some(figure) if figure.is_nan() => "–".to_owned(),
        Some(figure) if figure >= 1_000.0 => format!("{figure:.0}"),
        Some(figure) => format!("{figure:.2}"),
        None => "–".to_owned(),
    }
}

fn each(runs: &[Figures], name: &str) -> Vec<f64> {
    runs.iter().filter_map(|run| run.get(name)).collect()
}

fn middle(runs: &[Figures], name: &str) -> Option<f64> {
    let figures = each(runs, name);
    if figures.is_empty() { None } else { Some(median(&figures)) }
}

/// The ratios of our figure called `name` to that of `peer`, round by round.
fn ratios(results: &Results, peer: &str, name: &str) -> Vec<f64> {
    crossed(results, name, peer, name)
}

/// The ratios of our figure `ours` to the figure `theirs` of `peer`, round by round.
fn crossed(results: &Results, ours: &str, peer: &str, theirs: &str) -> Vec<f64> {
    let (Some(our_runs), Some(their_runs)) = (results.get(PELLUCID), results.get(peer)) else {
        return Vec::new();
    };
    let pairs = our_runs.iter().zip(their_runs);
    pairs.filter_map(|(a, b)| Some(a.get(ours)? / b.get(theirs)?)).collect()
}

/// Prints the bars; returns true if all measured bars hold.
pub fn judge_all(results: &Results) -> bool {
    let against = |name: &str| ratios(results, ROCKSDB, name);
    let own = |name: &str| results.get(PELLUCID).map_or_else(Vec::new, |runs| each(runs, name));
    let scaled = |name: &str, by: f64| own(name).into_iter().map(|figure| figure / by).collect();
    let bars: [(&str, Vec<f64>, Bar); 21] = [
        ("put_vs_rocksdb", against("put_per_s"), Bar::AtLeast(6.0)),
        ("get_vs_rocksdb", against("get_per_s"), Bar::AtLeast(6.0)),
        ("get_missing_vs_rocksdb", against("get_missing_per_s"), Bar::AtLeast(2.5)),
        (
            "get_mixed_vs_present",
            crossed(results, "get_mixed_per_s", PELLUCID, "get_per_s"),
            Bar::AtLeast(1.0),
        ),
        (
            "head_vs_rocksdb_get",
            crossed(results, "head_per_s", ROCKSDB, "get_per_s"),
            Bar::AtLeast(8.0),
        ),
        ("scan_after_fill_vs_rocksdb", against("scan_after_fill_per_s"), Bar::AtLeast(1.0)),
        (
            "scan_after_compaction_vs_rocksdb",
            against("scan_after_compaction_per_s"),
            Bar::AtLeast(1.0),
        ),
        ("get_beside_writer_vs_rocksdb", against("get_beside_writer_per_s"), Bar::AtLeast(3.0)),
        ("put_p999_vs_rocksdb", against("put_p999_us"), Bar::AtMost(1.0)),
        ("put_longest_ms", scaled("put_max_us", 1e3), Bar::AtMost(20.0)),
        // Without the steal time, which no store can avoid.
        ("put_longest_own_ms", own("put_longest_own_ms"), Bar::AtMost(20.0)),
        // Compaction and collection are included, because disk space is measured after them.
        ("written_per_user_byte", own("written_with_compaction_per_byte"), Bar::AtMost(2.0)),
        ("disk_per_live_byte", own("disk_per_live_byte"), Bar::AtMost(1.35)),
        ("get_bounded_memory_vs_rocksdb", against("get_confined_per_s"), Bar::AtLeast(1.0)),
        ("disk_reads_per_get_bounded", own("confined_reads_per_get"), Bar::AtMost(1.1)),
        ("put_vs_leveled", scaled("put_per_s", LEVELED_PUT_PER_S), Bar::AtLeast(20.0)),
        ("get_vs_leveled", scaled("get_per_s", LEVELED_GET_PER_S), Bar::AtLeast(20.0)),
        ("head_vs_leveled", scaled("head_per_s", LEVELED_HEAD_PER_S), Bar::AtLeast(20.0)),
        ("open_after_clean_stop_s", own("clean_open_s"), Bar::AtMost(0.5)),
        ("open_after_kill_s", own("killed_open_s"), Bar::AtMost(3.0)),
        ("memory_per_setting", own("memory_per_setting"), Bar::AtMost(1.0)),
    ];
    let mut all_hold = true;
    for (name, figures, bar) in bars {
        if figures.is_empty() {
            eprintln!("bar {name}: not measured here");
        } else {
            all_hold &= judge(name, &figures, bar);
        }
    }
    all_hold
}
