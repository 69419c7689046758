//! A report of a study in which everything is long: names, figures, tables of many columns,
//! sections.

use pellucid_report::{
    Chart, ChartEvent, ChartForm, ChartGroup, ChartSection, CompletedStep, Estimate, Finding,
    JudgedLoad, Machine, ProfileSection, ProfileShare, ProfileStack, Series, Span, StudyReport,
    Unit,
};

const LONG: &str = "arangojs 8.3.0, loadBalancingStrategy ROUND_ROBIN, maxSockets 100";
const SECTIONS: usize = 28;

fn chart(name: &str, unit: Unit, form: ChartForm, series: usize) -> Chart {
    let length = form.length();
    let value = |at: usize| Some([1_234_567_890.0, 82_456.0, 0.4, 3e7][at % 4] * (1 + at) as f64);
    let series = (0..series).map(|index| {
        let name = format!("{} {index}", ["the rest of the server", "flush", LONG][index % 3]);
        Series::new(name, (0..length).map(|at| value(at + index)).collect())
    });
    let title = format!("A title of some length, as that of {name} is");
    let how_to_read = "A sentence on how to read it, and another one. ".repeat(3);
    Chart {
        moments: [0.02, 5.9, 11.98]
            .map(|at_seconds| ChartEvent {
                at_seconds,
                label: "the store outgrows memory".to_owned(),
            })
            .to_vec(),
        spans: vec![Span { from_seconds: 11.0, to_seconds: 99.0, label: "compaction".to_owned() }],
        ..Chart::new((name, title, how_to_read), unit, form, series)
    }
}

fn names(count: usize) -> Vec<String> {
    (0..count).map(|at| format!("{} {at}", ["p99.999", LONG, "flushes"][at % 3])).collect()
}

pub(crate) fn charts() -> Vec<Chart> {
    let seconds = || (1..=90).map(|at| f64::from(at) * 12.0 / 90.0).collect::<Vec<f64>>();
    let lines = |is_logarithmic| ChartForm::Lines { seconds: seconds(), is_logarithmic };
    let quantiles = vec![0.0, 0.5, 0.9, 0.99, 0.999, 0.9999, 0.99999];
    vec![
        chart("two", Unit::PerSecond, ChartForm::Table { columns: names(2) }, 6),
        chart("four", Unit::Count, ChartForm::Table { columns: names(4) }, 6),
        chart("seven", Unit::Nanoseconds, ChartForm::Table { columns: names(7) }, 6),
        chart("eleven", Unit::Bytes, ChartForm::Table { columns: names(11) }, 6),
        chart("lines", Unit::BytesPerSecond, lines(false), 9),
        chart("logarithmic", Unit::Nanoseconds, lines(true), 4),
        chart("areas", Unit::Bytes, ChartForm::Areas { seconds: seconds() }, 7),
        chart("bars", Unit::Nanoseconds, ChartForm::Bars { rows: names(5) }, 8),
        chart("groups", Unit::Count, ChartForm::Groups { rows: names(5) }, 5),
        chart("curves", Unit::Nanoseconds, ChartForm::Percentiles { quantiles }, 5),
        chart(
            "dots",
            Unit::Nanoseconds,
            ChartForm::Points { seconds: seconds(), ceiling: None },
            1,
        ),
    ]
}

fn profile() -> ProfileSection {
    let name = "pellucid_http::event_loop::EventLoop<pellucid_server::service::Service>::run";
    let share = |phase: &str| ProfileShare {
        phase: phase.to_owned(),
        component: "engine journal".to_owned(),
        amount: 5e8,
        share: 0.5,
    };
    ProfileSection {
        title: "PUT, three, all forwarded: processor time".to_owned(),
        duration_ns: 120_000_000_000,
        samples: 1_234_567,
        shares: vec![share("entity_put execute"), share("job compaction")],
        functions: vec![name.to_owned(), name.replace("run", "write")],
        stacks: vec![ProfileStack {
            root: "entity_put execute".to_owned(),
            stack: vec![0, 1],
            amount: 1e9,
            moments: (0..2_400).map(|at| (at, 4e5)).collect(),
        }],
        ..ProfileSection::default()
    }
}

pub(crate) fn study() -> StudyReport {
    let section = |at: usize, part: Option<&str>| ChartSection {
        name: format!("/_api/version, HTTP/1.1 over TLS, hand-over always {at}"),
        description: "82,456 requests/s, 70 % of the highest rate. ".repeat(3),
        part: part.map(str::to_owned),
        charts: if at == 0 { charts() } else { charts().split_off(8) },
        groups: vec![ChartGroup {
            name: "execute".to_owned(),
            description: "median 12.3 µs, 99.9 % 1,234 µs, max 12.3 ms".to_owned(),
            charts: charts().split_off(9),
        }],
    };
    let figure = |at: usize| {
        let values = [1.9 + at as f64, 2.8, 3.4].map(Some);
        Estimate::of_runs(format!("{LONG}, over the others"), Unit::PerSecond, values)
    };
    let sentence = "A forwarded PUT costs 1.51 times the processor time of one of the node's own, \
                    all nodes together, and a GET 1.53 times.";
    let finding =
        |holds| Finding::new("f", sentence.repeat(2), sentence, holds, [0, 1, 2, 3, 4].map(figure));
    let load = |at: usize| JudgedLoad {
        name: format!("{LONG} with ArangoDB's queue of 4,096 calls"),
        run: at + 1,
        offered_per_second: Some(1_234_567.0),
        answered_per_second: 1_234_567.0,
        p99_ns: Some(1.234e9),
        verdict: ["stable", "generator-limited"][at % 2].to_owned(),
        evidence: sentence.to_owned(),
    };
    StudyReport {
        title: "A study whose title is as long as that of the longest one".to_owned(),
        question: sentence.to_owned(),
        answer: vec![sentence.to_owned(); 5],
        picture: Some(charts().swap_remove(8)),
        scale: "default".to_owned(),
        command: format!("pellucid study long --data /{}", "folder/".repeat(30)),
        machine: Machine::of_this_machine("1"),
        settings: vec![("connections".to_owned(), names(9).join("; ")); 7],
        steps: vec![CompletedStep { name: LONG.repeat(2), seconds: 123.4 }; 30],
        findings: [Some(true), Some(false), None, None, Some(true), None].map(finding).to_vec(),
        loads: (0..90).map(load).collect(),
        sections: (0..SECTIONS).map(|at| section(at, (at > 1).then_some("Single runs"))).collect(),
        profiles: vec![profile(), profile(), profile()],
        notes: vec![sentence.repeat(2); 9],
        ..StudyReport::default()
    }
}
