//! Tests of the report of a real load in a browser: each chart is drawn, its table has figures, and
//! nothing exceeds the width of the window, in narrow and wide windows and in both colour schemes.

use crate::browser::{after_sized, title_of};
use crate::common::{done, run, serve};

/// The headings of the charts of a load on Pellucid.
const CHARTS: [&str; 8] = [
    "Percentiles",
    "Heat map",
    "The way of requests around percentiles",
    "The way of the slowest requests",
    "What ran in the server",
    "What the server",
    "Errors and backlog",
    "Throughput",
];

/// A script that sets the colour scheme, opens all tables, and collects by how much the page
/// exceeds the window, and for each chart its heading, whether it is drawn, and the numbers in its
/// table.
const LOOK: &str = "
    var button = document.querySelector('[data-theme=THEME]');
    button.click();
    var root = document.documentElement, seen = [];
    document.querySelectorAll('details').forEach(function (details) { details.open = true; });
    document.querySelectorAll('figure').forEach(function (figure) {
      var drawn = Array.from(figure.querySelectorAll('svg[role=img], table')).some(function (one) {
        var area = one.getBoundingClientRect();
        return area.width > 100 && area.height > 20;
      });
      var cells = Array.from(figure.querySelectorAll('tbody td')).map(function (cell) {
        return parseFloat(cell.textContent);
      });
      var numbers = cells.filter(function (number) { return number >= 0; });
      var most = numbers.reduce(function (a, b) { return Math.max(a, b); }, -1);
      seen.push([figure.querySelector('h3').textContent, drawn, numbers.length, most].join('^'));
    });
    var colour = getComputedStyle(document.body).backgroundColor;
    document.title = [root.clientWidth, root.scrollWidth, colour].concat(seen).join('#');";

struct RenderedPage {
    width: i64,
    sticks_out: i64,
    background: String,
    /// For each chart: its heading, whether it is drawn, the number of figures in its table, and
    /// the greatest of them.
    charts: Vec<(String, bool, usize, f64)>,
}

fn look(page: &str, width: u32, theme: &str) -> RenderedPage {
    let shown = after_sized(page, &LOOK.replace("THEME", theme), width);
    let parts: Vec<&str> = title_of(&shown).split('#').collect();
    let chart = |text: &&str| {
        let parts: Vec<&str> = text.split('^').collect();
        let [heading, drawn, numbers, most] = parts[..] else { panic!("{text}") };
        let drawn = drawn == "true";
        (heading.to_owned(), drawn, numbers.parse().unwrap(), most.parse().unwrap())
    };
    let width: i64 = parts[0].parse().unwrap();
    RenderedPage {
        width,
        sticks_out: parts[1].parse::<i64>().unwrap() - width,
        background: parts[2].to_owned(),
        charts: parts[3..].iter().map(chart).collect(),
    }
}

fn report() -> String {
    let (folder, server) = serve(&[]);
    let script = folder.path().join("put.lua");
    let code = "request = function()
            return wrk.format('PUT', '/v0/entity?id=' .. math.random(1, 1000), {}, ('v'):rep(4000))
        end";
    std::fs::write(&script, code).unwrap();
    let html = folder.path().join("r.html");
    let [script, html] = [&script, &html].map(|path| path.to_str().unwrap());
    let url = server.url() + "/";
    let flags = ["load", "-t", "1", "-c", "4", "-d", "3s", "-R", "400", "-s", script];
    done(&run(&[&flags[..], &["-H", "X-Note: two words", "--html", html, &url]].concat()));
    server.stop();
    std::fs::read_to_string(html).unwrap()
}

#[test]
fn a_browser_shows_every_chart_of_a_load_with_its_table() {
    let page = report();
    assert!(page.contains("-H &#39;X-Note: two words&#39;"), "the command can be given again");
    let mut backgrounds = Vec::new();
    for (width, theme) in [(400, "light"), (400, "dark"), (1_400, "light"), (1_400, "dark")] {
        let shown = look(&page, width, theme);
        let case = format!("{width} wide, {theme}: {:?}", shown.charts);
        assert!(shown.sticks_out <= 0, "{} pixels stick out, {case}", shown.sticks_out);
        assert!((shown.width - i64::from(width)).abs() <= 20, "{} wide, {case}", shown.width);
        for heading in CHARTS {
            let chart = shown.charts.iter().find(|(other, ..)| other.starts_with(heading));
            let (_, drawn, numbers, most) = chart.unwrap_or_else(|| panic!("{heading}, {case}"));
            assert!(*drawn && *numbers > 0 && *most >= 0.0, "{heading}, {case}");
        }
        for (heading, drawn, numbers, _) in &shown.charts {
            assert!(*drawn && *numbers > 0, "{heading}, {case}");
        }
        backgrounds.push(shown.background);
    }
    assert_ne!(backgrounds[0], backgrounds[1], "dark is another colour than light");
    assert_eq!(backgrounds[..2], backgrounds[2..]);
}
