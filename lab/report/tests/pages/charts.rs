//! Reports in a browser: each chart is drawn, and its table has the figures.

use std::time::Duration;

use pellucid_report::{
    Chart, ChartForm, ChartGroup, ChartSection, Estimate, Finding, MOMENT_NS, ProfileSection,
    ProfileShare, ProfileStack, Report, Series, Span, StudyReport, Unit, html, study_html,
};

use crate::browser::{after, in_browser, title_of};
use crate::sample;

/// A script that opens each chart's table as a reader would. For each chart, it writes the heading,
/// the number of visible marks, and the cells of the table into the title.
const READ_TABLES: &str = "
    var seen = [];
    document.querySelectorAll('details.group, details.folded').forEach(function (group) {
      group.querySelector('summary').click();
      group.open = true;
    });
    document.querySelectorAll('figure').forEach(function (figure) {
      var details = figure.querySelector('details'), rows = figure.querySelectorAll('tbody tr');
      var closed = rows[0].offsetHeight;
      details.querySelector('summary').click();
      details.open = true;
      var svg = figure.querySelector('svg[role=img]').getBoundingClientRect();
      var marks = Array.from(figure.querySelectorAll('svg[role=img] path, svg[role=img] rect'));
      marks = marks.filter(function (mark) {
        var area = mark.getBoundingClientRect();
        return area.width + area.height > 0;
      });
      var cells = function (row) {
        return Array.from(row.cells).map(function (cell) { return cell.textContent; }).join('|');
      };
      var all = Array.from(rows).map(cells).join('~');
      seen.push([figure.querySelector('h3').textContent, rows[0].offsetHeight > 0,
        svg.width > 100 && svg.height > 20, marks.length, all].join('^'));
    });
    document.title = seen.join('#');";

/// A chart, as the script has read it.
#[derive(Debug)]
struct RenderedChart {
    heading: String,
    table_opens: bool,
    is_drawn: bool,
    marks: usize,
    rows: Vec<Vec<String>>,
}

impl RenderedChart {
    fn of(text: &str) -> RenderedChart {
        let parts: Vec<&str> = text.split('^').collect();
        let row = |row: &str| row.split('|').map(str::to_owned).collect();
        RenderedChart {
            heading: parts[0].to_owned(),
            table_opens: parts[1] == "true",
            is_drawn: parts[2] == "true",
            marks: parts[3].parse().unwrap(),
            rows: parts[4].split('~').map(row).collect(),
        }
    }

    /// The cell in a column of the row that begins with `row`, as a number in the unit's base.
    fn number(&self, row: &str, column: usize) -> f64 {
        let found = self.rows.iter().find(|words| words[0].starts_with(row));
        let words = found.unwrap_or_else(|| panic!("no row {row} in {self:?}"));
        number(&words[column])
    }

    /// The sum of a column of counts.
    fn sum(&self, column: usize) -> f64 {
        self.rows.iter().map(|words| number(&words[column])).sum()
    }
}

/// Parses `1,234`, `12.3 µs` or `4 %`; times are in nanoseconds.
fn number(text: &str) -> f64 {
    let (digits, unit) = text.split_once(' ').unwrap_or((text, ""));
    let value: f64 =
        digits.replace(',', "").parse().unwrap_or_else(|_| panic!("no number: {text}"));
    let times = [("µs", 1e3), ("ms", 1e6), ("s", 1e9)];
    value * times.iter().find(|(name, _)| *name == unit).map_or(1.0, |(_, times)| *times)
}

fn read(page: &str) -> Vec<RenderedChart> {
    let shown = after(page, READ_TABLES);
    let text = title_of(&shown).replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&");
    text.split('#').map(RenderedChart::of).collect()
}

fn chart<'a>(all: &'a [RenderedChart], heading: &str) -> &'a RenderedChart {
    let found = all.iter().find(|chart| chart.heading.starts_with(heading));
    found.unwrap_or_else(|| panic!("no chart {heading}"))
}

/// Asserts that two figures are equal within the three digits that are shown.
fn assert_near(found: f64, known: f64, what: &str) {
    assert!((found - known).abs() <= known.abs() * 0.005 + 0.5, "{what}: {found}, not {known}");
}

#[test]
fn each_chart_of_a_report_is_drawn_and_its_table_has_the_figures() {
    let mut report: Report = sample::report(&["PUT"], 20_000);
    let section = &mut report.sections[0];
    // Regression: a last interval of half a second looked like a fall to half of the rate.
    section.duration += Duration::from_millis(500);
    section.throughput_per_second.push(section.throughput_per_second[0] / 2);
    let all = read(&html(&report));
    assert_eq!(all.len(), 7, "{:?}", all.iter().map(|chart| &chart.heading).collect::<Vec<_>>());
    for chart in &all {
        assert!(chart.table_opens && chart.is_drawn && chart.marks > 0, "{chart:?}");
        assert!(chart.rows.iter().all(|row| row.iter().all(|cell| !cell.is_empty())), "{chart:?}");
    }
    let section = &report.sections[0];
    let account = section.account.as_ref().unwrap();
    let p99 = chart(&all, "Percentiles").number("99 %", 1);
    assert_near(p99, section.response_time.value_at_quantile(0.99) as f64, "p99 of response time");
    let greatest = chart(&all, "Percentiles").number("100 %", 1);
    assert_near(greatest, section.response_time.max() as f64, "greatest response time");
    let answers: u64 = section.timeline.iter().map(|stretch| stretch.answered).sum();
    assert_near(chart(&all, "Heat map").sum(1), answers as f64, "answers of the heat map");
    let slowest = section.samples.iter().map(|sample| sample.response_time_ns).max().unwrap();
    let jitter = chart(&all, "Jitter").rows.iter().map(|row| number(&row[3])).fold(0.0, f64::max);
    assert_near(jitter, slowest as f64, "the slowest point");
    let second = section.throughput_per_second[0] as f64;
    assert_near(chart(&all, "Throughput").number("0 – 1 s", 1), second, "the first second");
    let last = number(&chart(&all, "Throughput").rows.last().unwrap()[1]);
    assert_near(last, second, "the half second at the end");
    let backlog = section.timeline.iter().map(|stretch| stretch.backlog).max().unwrap();
    let shown = &chart(&all, "Errors and backlog").rows;
    let shown = shown.iter().map(|row| number(&row[2])).fold(0.0, f64::max);
    assert_near(shown, backlog as f64, "the greatest backlog");
    let histogram =
        all.iter().find(|chart| chart.rows[0].len() == 3 && chart.rows[0][2].ends_with('%'));
    assert_near(histogram.unwrap().sum(1), account.total.count as f64, "requests in the server");
    let shapes = all.iter().find(|chart| chart.rows.iter().any(|row| row[0] == "execute"));
    let execute = account.around[0].phases.iter().find(|share| share.name == "execute").unwrap();
    assert_near(shapes.unwrap().number("execute", 1), execute.mean_ns, "mean of execute");
}

fn study() -> StudyReport {
    let seconds = vec![1.0, 2.0, 3.0];
    let values = vec![Some(1_000.0), Some(3_000.0), None];
    let chart = |title: &str, unit, form, values: &[Option<f64>]| Chart {
        // Spans across the end of the first second, and beyond both ends; bars do not show spans.
        spans: [(0.5, 1.5), (2.75, 9.0), (-1.0, 0.25)]
            .map(|(from_seconds, to_seconds)| Span {
                from_seconds,
                to_seconds,
                label: "flush".to_owned(),
            })
            .to_vec(),
        ..Chart::new(
            (title.to_lowercase(), title, "So."),
            unit,
            form,
            ["one", "other"].map(|name| Series::new(name, values.to_vec())),
        )
    };
    let lines = |is_logarithmic| ChartForm::Lines { seconds: seconds.clone(), is_logarithmic };
    let rows = ["a", "b", "c"].map(str::to_owned).to_vec();
    let quantiles = vec![0.5, 0.9, 0.999];
    let points = ChartForm::Points { seconds: seconds.clone(), ceiling: None };
    let zeros = [Some(0.0); 3];
    let charts = vec![
        chart("Lines", Unit::Nanoseconds, lines(false), &values),
        chart("Orders", Unit::Nanoseconds, lines(true), &values),
        chart("Areas", Unit::Count, ChartForm::Areas { seconds: seconds.clone() }, &values),
        chart("Bars", Unit::Bytes, ChartForm::Bars { rows: rows.clone() }, &values),
        chart("Groups", Unit::Nanoseconds, ChartForm::Groups { rows }, &values),
        chart("Curves", Unit::Nanoseconds, ChartForm::Percentiles { quantiles }, &values),
        chart("Points", Unit::Nanoseconds, points, &values),
        chart("Zeros", Unit::BytesPerSecond, lines(false), &zeros),
    ];
    let rows = ["x", "y", "z"].map(str::to_owned).to_vec();
    let aside = chart("Aside", Unit::Nanoseconds, ChartForm::Bars { rows }, &values);
    let figure = Estimate::of_runs("x", Unit::Ratio, [Some(1.0)]);
    let finding = Finding::new("f", "It was so.", "It is.", Some(true), [figure]);
    let group =
        ChartGroup { name: "G".to_owned(), description: "Aside.".to_owned(), charts: vec![aside] };
    let section = ChartSection { groups: vec![group], ..ChartSection::new("S", "D", charts) };
    let profiles = [("Processor time", false), ("Allocations", true), ("Waits", false)];
    StudyReport {
        findings: vec![finding],
        sections: vec![section],
        profiles: profiles.map(|(title, is_bytes)| profile(title, is_bytes)).to_vec(),
        ..StudyReport::default()
    }
}

/// A profile of three seconds; a job runs in the last one.
fn profile(title: &str, is_bytes: bool) -> ProfileSection {
    let second = (1_000_000_000 / MOMENT_NS) as u32;
    let stack = |root: &str, stack: &[u32], moments: Vec<(u32, f64)>| ProfileStack {
        root: root.to_owned(),
        stack: stack.to_vec(),
        amount: moments.iter().map(|(_, amount)| amount).sum(),
        moments,
    };
    let share = |phase: &str, component: &str, share| ProfileShare {
        phase: phase.to_owned(),
        component: component.to_owned(),
        amount: share * 1e9,
        share,
    };
    ProfileSection {
        title: title.to_owned(),
        is_bytes,
        duration_ns: 3_000_000_000,
        samples: 60,
        explained: 0.98,
        shares: vec![share("execute", "engine", 0.7), share("job compaction", "compaction", 0.3)],
        functions: ["run", "put", "merge"].map(str::to_owned).to_vec(),
        stacks: vec![
            stack("entity_put execute", &[0, 1], (0..second * 2).map(|at| (at, 17.5e6)).collect()),
            stack("job compaction", &[2], (second * 2..second * 3).map(|at| (at, 15e6)).collect()),
        ],
        notes: Vec::new(),
    }
}

#[test]
fn each_form_of_chart_of_a_study_is_drawn_and_its_table_has_the_figures() {
    let all = read(&study_html(&study()));
    assert_eq!(all.len(), 9, "the eight forms, and one that is shown when it is asked for");
    for seen in &all {
        assert!(seen.table_opens && seen.is_drawn, "{seen:?}");
        let expected = match seen.heading.as_str() {
            "Zeros" => 0.0,
            "Points" => 3_000.0,
            "Bars" => 3.0,
            _ => 3_000.0,
        };
        let column = if seen.heading == "Points" { 3 } else { 1 };
        let cells = seen.rows.iter().filter(|row| row[column] != "-");
        let greatest = cells.map(|row| number(&row[column])).fold(0.0, f64::max);
        assert_near(greatest, expected, &seen.heading);
        if !["Bars", "Groups", "Curves", "Aside"].contains(&seen.heading.as_str()) {
            let ran = seen.rows.iter().map(|row| number(row.last().unwrap())).sum();
            assert_near(ran, 1.5e9, &format!("{}: how long the spans are within it", seen.heading));
        }
    }
}

/// Each of the three profiles of a study is independent: a choice in one changes no other.
#[test]
fn the_profiles_of_a_study_can_be_zoomed_searched_and_narrowed_to_a_time() {
    let steps = "document.querySelectorAll('details').forEach(function (all) { all.open = true; });
        var seen = [], views = document.querySelectorAll('.flame-view');
        function bars(view) { return view.querySelectorAll('.flame-place g[data-node]').length; }
        function all() { return Array.from(views).map(bars).join(','); }
        function note(what) { seen.push(what + '=' + all()); }
        note('all');
        var second = views[1], heat = second.querySelector('.flame-heat');
        heat.scrollIntoView();
        heat.setPointerCapture = function () {};
        function point(kind, at) {
          var area = heat.getBoundingClientRect();
          var x = area.left + area.width * (at + 0.5) / 3;
          heat.dispatchEvent(new PointerEvent(kind, { clientX: x, bubbles: true })); }
        point('pointerdown', 2); point('pointerup', 2); note('last second');
        second.querySelector('.flame-whole').click(); note('whole');
        var bar = Array.from(views[2].querySelectorAll('g')).find(function (g) {
          return g.getAttribute('aria-label').indexOf('put:') === 0; });
        bar.dispatchEvent(new MouseEvent('click', { bubbles: true })); note('zoomed');
        var search = views[0].querySelector('.flame-search'); search.value = 'merge';
        search.dispatchEvent(new Event('input'));
        seen.push(views[0].querySelector('.flame-found').textContent.split(' of')[0]);
        seen.push(views[0].querySelector('.flame-functions td').textContent);
        document.title = seen.join('; ');";
    let shown = after(&study_html(&study()), steps);
    // Six bars: the whole, two roots and three functions. In the last second there is only a job,
    // with three bars.
    let expected = "all=6,6,6; last second=6,3,6; whole=6,6,6; zoomed=6,6,4; 30.0 %; 70.0 %";
    assert_eq!(title_of(&shown), expected, "{shown}");
}

/// Without its scripts, because of a wrong policy or a mistake in them, the page would have no
/// buttons.
#[test]
fn the_policies_of_the_pages_let_their_scripts_run() {
    let shown = in_browser(&study_html(&study()));
    assert_eq!(shown.matches("data-node=\"0\"").count(), 3);
    let shown = in_browser(&html(&sample::report(&["GET"], 1_000)));
    assert!(shown.contains("aria-pressed"), "the switch between light and dark");
}
