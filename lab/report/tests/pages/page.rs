//! The page as a file: complete, well formed, independent of other files, and small.

use std::time::Duration;

use pellucid_report::{
    Chart, ChartEvent, ChartForm, ChartGroup, ChartSection, CompletedStep, Estimate, Finding,
    JudgedLoad, Machine, ProfileSection, ProfileShare, ProfileStack, Report, Series, Span,
    StudyReport, Unit, html, study_html,
};

use crate::sample;

/// Elements that have no end tag and are not written as `<name/>`.
const BARE: [&str; 1] = ["!DOCTYPE"];
const PAGE_BYTES_MAX: usize = 1 << 20;

/// Returns the names of all elements; an error if the tags do not balance.
fn elements_of(page: &str) -> Result<Vec<String>, String> {
    let (mut open, mut seen) = (Vec::new(), Vec::new());
    let mut rest = page;
    while let Some(start) = rest.find('<') {
        let end = tag_end(&rest[start..]).ok_or("a tag does not end")? + start;
        let tag = &rest[start + 1..end];
        rest = &rest[end + 1..];
        let name: String = tag.chars().take_while(|c| !c.is_whitespace() && *c != '>').collect();
        if let Some(closed) = name.strip_prefix('/') {
            let opened = open.pop();
            if opened.as_deref() != Some(closed) {
                return Err(format!("</{closed}> closes {opened:?}"));
            }
        } else if !BARE.contains(&name.as_str()) {
            let name = name.trim_end_matches('/').to_owned();
            seen.push(name.clone());
            if matches!(name.as_str(), "script" | "style") {
                let close = format!("</{name}>");
                let content = rest.find(&close).ok_or("a script or style does not end")?;
                rest = &rest[content + close.len()..];
            } else if !tag.ends_with('/') {
                open.push(name);
            }
        }
    }
    if open.is_empty() { Ok(seen) } else { Err(format!("left open: {open:?}")) }
}

/// The end of the tag with which the text begins, outside of quotes.
fn tag_end(text: &str) -> Option<usize> {
    let mut quoted = false;
    text.char_indices().find_map(|(at, character)| {
        quoted ^= character == '"';
        (character == '>' && !quoted).then_some(at)
    })
}

fn count(page: &str, needle: &str) -> usize {
    page.matches(needle).count()
}

fn without_figures(mut report: Report) -> Report {
    for section in &mut report.sections {
        section.requests = 0;
        section.duration = std::time::Duration::ZERO;
        section.response_time.clear();
        section.service_time = None;
        section.send_lateness = None;
        section.throughput_per_second.clear();
        section.samples.clear();
        section.timeline.clear();
    }
    report
}

#[test]
fn tags_balance_and_every_chart_has_its_table() {
    let page = html(&sample::report(&["PUT", "GET"], 20_000));
    let elements = elements_of(&page).unwrap();
    let number = |name: &str| elements.iter().filter(|element| *element == name).count();
    assert_eq!(number("figure"), 14, "seven charts for each of two loads");
    for figure in page.split("<figure").skip(1) {
        let figure = figure.split("</figure>").next().unwrap();
        assert!(figure.contains("<details>") && figure.contains("<table>"), "{figure}");
        assert!(count(figure, "<td ") >= 8, "the table has figures: {figure}");
        assert!(figure.contains("role=\"img\"") && figure.contains("aria-label="), "{figure}");
    }
    assert_eq!(number("h1"), 1);
    assert!(elements_of("<p><b></p></b>").is_err(), "the check itself can fail");
}

/// Regression: the table took its medians from the drawn points, of which every second one is the
/// slowest of its group.
#[test]
fn the_jitter_table_counts_all_requests() {
    let mut report = sample::report(&["GET"], 60_000);
    for (index, sample) in report.sections[0].samples.iter_mut().enumerate() {
        sample.response_time_ns = if index % 3 == 0 { 2_000_000 } else { 1_000_000 };
    }
    let page = html(&report);
    let figure = page.split("Jitter over time").nth(1).unwrap().split("</figure>").next().unwrap();
    assert!(figure.contains("4,000 of 60,000 recorded requests are drawn"), "{figure}");
    let rows: Vec<&str> = figure.split("<tr>").skip(2).take(20).collect();
    assert!(rows.iter().all(|row| row.contains("3,000") && row.contains(">1 ms<")), "{rows:?}");
}

#[test]
fn the_page_loads_nothing_and_runs_only_its_own_script() {
    let page = html(&sample::report(&["GET"], 5_000));
    for foreign in ["http://", "https://", "//cdn", "@import", "<link", "<img", " src=", "<iframe"]
    {
        assert!(!page.contains(foreign), "{foreign} is in the page");
    }
    assert_eq!(count(&page, "url("), 0);
    assert_eq!((count(&page, "<script"), count(&page, "<style")), (1, 1));
    assert!(!page.contains(" style=\"") && !page.contains(" onclick="), "the policy forbids them");
    let policy = page.split("Content-Security-Policy").nth(1).unwrap();
    assert!(policy.starts_with("\" content=\"default-src &#39;none&#39;; style-src &#39;sha256-"));
    assert!(!policy.split("/>").next().unwrap().contains("unsafe"));
}

#[test]
fn quoted_texts_cannot_become_markup() {
    let mut report = sample::report(&["GET"], 1_000);
    let hostile = "</title></script><script>alert(1)</script>\" onload='x' <!-- & \u{0}";
    report.title = hostile.to_owned();
    report.command = hostile.to_owned();
    report.notes = vec![hostile.to_owned()];
    report.machine.processor = Some(hostile.to_owned());
    let section = &mut report.sections[0];
    section.name = hostile.to_owned();
    section.description = hostile.to_owned();
    section.errors = vec![(hostile.to_owned(), 1)];
    let account = section.account.as_mut().unwrap();
    account.operation = hostile.to_owned();
    account.parts[0].name = hostile.to_owned();
    account.around[0].phases[0].name = hostile.to_owned();
    let page = html(&report);
    elements_of(&page).unwrap();
    assert_eq!(count(&page, "<script"), 1);
    assert!(!page.contains("alert(1)</script>") && !page.contains("<!--"));
    assert!(count(&page, "&lt;script&gt;alert(1)") >= 8, "it is shown as text");
}

#[test]
fn a_report_without_figures_is_a_page_too() {
    let mut report = without_figures(sample::report(&["GET"], 10));
    let with_account = html(&report);
    elements_of(&with_account).unwrap();
    assert!(with_account.contains("A typical GET took"));
    report.sections[0].account = None;
    let without_account = html(&report);
    elements_of(&without_account).unwrap();
    assert!(without_account.contains("No request was answered."));
    assert_eq!(count(&without_account, "<figure"), 0);
    report.sections.clear();
    elements_of(&html(&report)).unwrap();
    for page in [with_account, without_account] {
        assert!(!page.contains("NaN") && !page.contains("inf%"));
    }
}

/// Regression: a count near the end of its range made the name of the last percentile endlessly
/// long.
#[test]
fn figures_at_the_end_of_their_range_make_a_page() {
    let mut report = sample::report(&["GET"], 1_000);
    let section = &mut report.sections[0];
    section.response_time.clear();
    section.response_time.saturating_record_n(1_000, u64::MAX / 2);
    let account = section.account.as_mut().unwrap();
    account.count = u64::MAX;
    account.total.count = u64::MAX;
    account.total.max_ns = u64::MAX;
    account.total.mean_ns = f64::INFINITY;
    account.total.buckets.push((1 << 63, u64::MAX, u64::MAX));
    account.total.log2.push((1 << 63, u64::MAX));
    account.around[0].total_mean_ns = f64::NAN;
    account.around[1].phases[0].mean_ns = f64::INFINITY;
    account.phases[0].distribution.mean_ns = f64::NAN;
    section.throughput_per_second = vec![u64::MAX; 2_000];
    section.samples[0].response_time_ns = u64::MAX;
    section.samples[1].offset_ns = u64::MAX;
    let page = html(&report);
    elements_of(&page).unwrap();
    assert!(page.len() < PAGE_BYTES_MAX && !page.contains("NaN%") && !page.contains("inf%"));
    assert!(
        !pellucid_report::text::account(report.sections[0].account.as_ref().unwrap()).is_empty()
    );
}

/// Regression: after a load that was longer than the window of the server's account, the finding
/// left out what the client saw.
#[test]
fn an_account_of_the_end_of_a_load_is_set_against_the_client_figures() {
    let mut report = sample::report(&["GET"], 1_000);
    report.sections[0].account_window = Duration::from_secs(10);
    let both = report.sections[0].response_time.clone();
    report.sections[0].response_time.add(both).unwrap();
    for (seconds, is_comparable) in [(20, true), (15, false)] {
        report.sections[0].duration = Duration::from_secs(seconds);
        assert_eq!(html(&report).contains(" The client saw "), is_comparable, "{seconds} s");
    }
}

#[test]
fn the_page_stays_below_its_limit() {
    let names = ["GET", "PUT", "GET 2", "PUT 2", "GET 3", "PUT 3", "GET 4", "PUT 4"];
    let page = html(&sample::report(&names, 20_000));
    assert!(page.len() < PAGE_BYTES_MAX, "{} bytes", page.len());
    let single = html(&sample::report(&["GET"], 40_000));
    let points = single.split("class=\"dots\"").nth(1).unwrap().split("/>").next().unwrap();
    assert!((2_000..=4_000).contains(&count(points, "h0")), "{}", count(points, "h0"));
}

fn chart(name: &str, unit: Unit, form: ChartForm) -> Chart {
    let values = [Some(3.0), None, Some(f64::NAN), Some(-1.0), Some(5e12)];
    let values: Vec<_> = values.into_iter().cycle().take(form.length()).collect();
    let series = |index: usize| Series::new(format!("<s{index}> & \"co\""), values.clone());
    let words = (name, format!("</title> {name}"), "<b>");
    Chart {
        moments: vec![ChartEvent { at_seconds: 1.5, label: "<now>".to_owned() }],
        spans: vec![
            Span { from_seconds: -1.0, to_seconds: 0.5, label: "<flush>".to_owned() },
            Span { from_seconds: 1.0, to_seconds: 9e9, label: "a & b".to_owned() },
        ],
        ..Chart::new(words, unit, form, (0..11).map(series))
    }
}

/// A profile with more shares than the table has rows, and a stack with the index of a function
/// that does not exist.
fn profile() -> ProfileSection {
    let share = |number: u32| ProfileShare {
        phase: format!("<phase {number}>"),
        component: "engine".to_owned(),
        amount: 1e6,
        share: 0.05,
    };
    let stack = |stack: &[u32]| ProfileStack {
        root: "get execute".to_owned(),
        stack: stack.to_vec(),
        amount: 1e7,
        moments: if stack == [0, 1] { vec![(0, 4e6), (30, 6e6)] } else { Vec::new() },
    };
    ProfileSection {
        title: "Processor <time>".to_owned(),
        is_bytes: false,
        duration_ns: 2_000_000_000,
        samples: 7_654,
        explained: 0.985,
        shares: (0..20).map(share).collect(),
        functions: vec!["run".to_owned(), "<T>::get".to_owned()],
        stacks: vec![stack(&[0, 1]), stack(&[0, 99])],
        notes: vec!["7 samples <were> lost.".to_owned()],
    }
}

#[test]
fn a_study_shows_where_its_time_went() {
    let page = study_html(&study());
    let profiles = page.split("id=\"profiles\"").nth(1).unwrap();
    assert!(profiles.contains("20.0 ms in all in 2.00 s, 7,654 samples; 98.5 %"), "{profiles}");
    assert!(profiles.contains("7 samples &lt;were&gt; lost."), "what is missing is said");
    assert!(profiles.contains("all others") && profiles.contains("40.0 %"));
    assert!(profiles.contains("&lt;T&gt;::get: 50.0 %, 10.0 ms"));
    let without = StudyReport { profiles: Vec::new(), ..study() };
    assert!(!study_html(&without).contains("profiles"));
    // A report from before there were profiles is read as one without.
    let mut json: serde_json::Value = serde_json::from_str(&without.json().unwrap()).unwrap();
    json.as_object_mut().unwrap().remove("profiles");
    assert!(serde_json::from_value::<StudyReport>(json).unwrap().profiles.is_empty());
}

fn study() -> StudyReport {
    let seconds = || vec![1.0, 2.0, 4.0, 5.0, 6.0];
    let lines = |is_logarithmic| ChartForm::Lines { seconds: seconds(), is_logarithmic };
    let rows = ["a", "b", "<c>", "d", "e"].map(str::to_owned).to_vec();
    let charts = vec![
        chart("lines", Unit::Bytes, lines(false)),
        chart("logarithmic", Unit::Nanoseconds, lines(true)),
        chart("areas", Unit::Share, ChartForm::Areas { seconds: seconds() }),
        chart("bars", Unit::Count, ChartForm::Bars { rows }),
        chart("no_time", Unit::Cores, ChartForm::Areas { seconds: Vec::new() }),
        chart("no_rows", Unit::Ratio, ChartForm::Bars { rows: Vec::new() }),
    ];
    let aside = ["v", "w", "x", "y", "z"].map(str::to_owned).to_vec();
    let finding = |holds| {
        let figure = Estimate::of_runs("x <y>", Unit::Ratio, [1.0, 2.0].map(Some));
        Finding::new("f", "It <was> so.", "It is.", holds, [figure])
    };
    let group = ChartGroup {
        name: "G".to_owned(),
        description: "Aside.".to_owned(),
        charts: vec![chart("aside", Unit::Count, ChartForm::Bars { rows: aside })],
    };
    let section = ChartSection { groups: vec![group], ..ChartSection::new("S", "D", charts) };
    StudyReport {
        title: "<Study>".to_owned(),
        question: "Why <not>?".to_owned(),
        answer: vec!["So <there>.".to_owned()],
        picture: Some(chart(
            "picture",
            Unit::Nanoseconds,
            ChartForm::Table { columns: Vec::new() },
        )),
        command: "pellucid study <x>".to_owned(),
        machine: Machine::of_this_machine("1"),
        settings: vec![("Load <s>".to_owned(), "5 s".to_owned())],
        steps: vec![CompletedStep { name: "Loading".to_owned(), seconds: 2.0 }],
        findings: [Some(true), Some(false), None].map(finding).to_vec(),
        loads: vec![JudgedLoad {
            name: "<load>".to_owned(),
            run: 1,
            verdict: "stalled".to_owned(),
            evidence: "Silent <for> 1 s.".to_owned(),
            ..JudgedLoad::default()
        }],
        sections: vec![section],
        profiles: vec![profile(), ProfileSection::default()],
        notes: vec!["A <note>.".to_owned()],
        ..StudyReport::default()
    }
}

#[test]
fn a_study_has_its_charts_with_their_tables_whatever_their_values() {
    let report = study();
    let page = study_html(&report);
    let elements = elements_of(&page).unwrap();
    let number = |name: &str| elements.iter().filter(|element| *element == name).count();
    assert_eq!(number("figure"), report.charts().count());
    let group = page.split("<details class=\"group\">").nth(1).unwrap();
    assert!(group.contains("</strong> Aside.</summary>"), "what it shows is seen while closed");
    assert_eq!(count(group.split("id=\"profiles\"").next().unwrap(), "<figure"), 1);
    for figure in page.split("<figure").skip(2).take(4) {
        let figure = figure.split("</figure>").next().unwrap();
        assert!(figure.contains("<table>") && count(figure, "<td ") >= 5 * 11, "{figure}");
        assert!(figure.contains("&lt;s3&gt; &amp; &quot;co&quot;"), "{figure}");
    }
    assert_eq!(count(&page, "&lt;now&gt;"), 4, "bars have no moments");
    for judgement in ["confirmed", "not confirmed here", "cannot be told"] {
        assert_eq!(count(&page, &format!(">{judgement}</span>")), 1, "{judgement}");
    }
    assert!(page.contains("1 confirmed, 1 not confirmed here, 1 cannot be told"));
    assert!(page.contains("1 load: 1 stalled.") && page.contains("Silent &lt;for&gt; 1 s."));
    assert!(page.contains("1.00 to 2.00 in 2 runs"), "each figure has its spread");
    // The names of XML namespaces look like addresses, but nothing is loaded from them.
    let addresses = page.replace("http://www.w3.org/", "");
    for foreign in ["NaN", "inf%", "http://", "<now>", "<note>", " style=\""] {
        assert!(!addresses.contains(foreign), "{foreign} is in the page");
    }
    let text = pellucid_report::text::findings(&report);
    assert!(text.contains("→ It is.") && text.contains("Note: A <note>."), "{text}");
}
