//! Flame graphs as files and in a browser.

use std::path::PathBuf;

use pellucid_report::{FlameGraph, FlameSample, FlameUnit, flame_html, flame_svg};

use crate::browser::{Window, after, in_browser, in_window, picture, title_of, with_steps};

fn sample(with_base: bool) -> FlameGraph {
    let functions = ["pellucid_http::run", "pellucid_engine::put", "core::ptr::<copy>", "write"];
    let functions = functions.map(str::to_owned).to_vec();
    let mut graph = FlameGraph::new("Processor time".to_owned(), FlameUnit::Nanoseconds, functions);
    graph.duration_ns = 3_000_000_000;
    graph.shares = vec![("execute".to_owned(), "engine".to_owned(), 6e8)];
    let mut add = |root, stack: &[u32], ms: u64, at_ms: u64, is_base| {
        let (amount, at_ns) = (ms as f64 * 1e6, at_ms * 1_000_000);
        graph.add(&FlameSample { root, stack, amount, at_ns }, is_base);
    };
    add("entity_put execute", &[0, 1, 2], 600, 100, false);
    add("entity_put write", &[0, 3], 300, 1_200, false);
    add("job flush", &[1], 100, 2_950, false);
    if with_base {
        add("entity_put execute", &[0, 1, 2], 300, 100, true);
        add("entity_put write", &[0, 3], 700, 100, true);
    }
    graph
}

#[test]
fn the_svg_file_is_complete_and_shows_every_share() {
    let svg = flame_svg(&sample(false));
    assert!(svg.starts_with("<svg") && svg.ends_with("</svg>"));
    assert!(svg.contains("xmlns=\"http://www.w3.org/2000/svg\""));
    assert!(svg.contains("core::ptr::&lt;copy&gt;: 60.0 %, 600 ms"));
    assert!(svg.contains("job flush: 10.0 %, 100 ms"));
}

#[test]
fn differences_have_a_sign_beside_their_colour() {
    let svg = flame_svg(&sample(true));
    assert!(svg.contains(">+ pellucid_engine::put<") && svg.contains("class=\"d-up2\""));
    assert!(svg.contains(">− write<") && svg.contains("class=\"d-down2\""));
    assert!(!flame_svg(&sample(false)).contains("class=\"d-"));
}

#[test]
fn the_page_needs_nothing_else() {
    let page = flame_html(&sample(true));
    // The names of XML namespaces look like addresses, but nothing is loaded from them.
    let addresses = page.replace("http://www.w3.org/", "");
    assert!(!addresses.contains("http://") && !addresses.contains("https://"));
    assert_eq!(page.matches("<script").count(), 3, "two scripts and the data");
    assert!(page.contains("\\u003ccopy>"), "data cannot end its element");
    let empty = FlameGraph::new("Nothing".to_owned(), FlameUnit::Bytes, Vec::new());
    assert!(flame_html(&empty).contains("0 B in all."));
}

#[test]
fn in_a_browser_it_can_be_zoomed_searched_and_narrowed_to_a_time() {
    let steps = "var seen = [];
        function bars() { return document.querySelectorAll('.flame-place g[data-node]').length; }
        function note(what) { seen.push(what + '=' + bars()); }
        note('all');
        var bar = Array.from(document.querySelectorAll('.flame-place g')).find(function (g) {
          return g.getAttribute('aria-label').indexOf('write:') === 0; });
        bar.dispatchEvent(new MouseEvent('click', { bubbles: true })); note('zoomed');
        bar = document.activeElement;
        bar.dispatchEvent(new KeyboardEvent('keydown', { key: 'Escape', bubbles: true }));
        note('out');
        var search = document.querySelector('.flame-search'); search.value = 'COPY';
        search.dispatchEvent(new Event('input'));
        seen.push('found=' + document.querySelectorAll('.flame-place g.found').length);
        seen.push(document.querySelector('.flame-found').textContent);
        var to = document.querySelector('.flame-to'); to.value = 1;
        to.dispatchEvent(new Event('change')); note('first second');
        document.querySelector('.flame-whole').click(); note('all again');
        var heat = document.querySelector('.flame-heat'), area = heat.getBoundingClientRect();
        heat.setPointerCapture = function () {};
        function point(kind, second) {
          var x = area.left + area.width * (second + 0.5) / 3;
          heat.dispatchEvent(new PointerEvent(kind, { clientX: x, bubbles: true })); }
        point('pointerdown', 2); point('pointerup', 1); note('dragged');
        seen.push(document.querySelector('.flame-from').value + ' to ' + to.value);
        document.title = seen.join('; ');";
    let shown = after(&flame_html(&sample(false)), steps);
    let expected = "all=10; zoomed=4; out=10; found=1; 60.0 % of what is shown is in functions \
                    that match; first second=5; all again=10; dragged=6; 1 to 3";
    assert_eq!(title_of(&shown), expected, "{shown}");
}

/// Regression: bars that are too narrow to be drawn were missing in the share, which so depended on
/// the width of the window.
#[test]
fn a_search_counts_functions_that_are_too_narrow_to_be_drawn() {
    let callers = 5_000;
    let mut functions: Vec<_> = (0..callers).map(|number| format!("caller{number}")).collect();
    functions.push("sought".to_owned());
    let mut graph = FlameGraph::new("Callers".to_owned(), FlameUnit::Nanoseconds, functions);
    for caller in 0..callers {
        let stack = &[caller, callers];
        graph.add(&FlameSample { root: "get", stack, amount: 1e6, at_ns: 0 }, false);
    }
    let steps = "var search = document.querySelector('.flame-search'); search.value = 'sought';
        search.dispatchEvent(new Event('input'));
        document.title = document.querySelector('.flame-found').textContent;";
    let shown = after(&flame_html(&graph), steps);
    let title = title_of(&shown);
    assert_eq!(title, "100.0 % of what is shown is in functions that match");
}

/// Regression: no time after the first 15 minutes could be chosen.
#[test]
fn times_of_a_long_profile_are_chosen_in_seconds() {
    let mut graph = sample(false);
    graph.duration_ns = 1_800_000_000_000;
    let steps = "var seen = [], from = document.querySelector('.flame-from');
        var to = document.querySelector('.flame-to');
        function note() {
          var bars = document.querySelectorAll('.flame-place g[data-node]').length;
          seen.push(from.value + ' to ' + to.value + ': ' + bars); }
        to.value = 2; to.dispatchEvent(new Event('change')); note();
        from.value = 2; to.value = 4; to.dispatchEvent(new Event('change')); note();
        document.querySelector('.flame-whole').click(); note();
        var heat = document.querySelector('.flame-heat'), area = heat.getBoundingClientRect();
        heat.setPointerCapture = function () {};
        ['pointerdown', 'pointerup'].forEach(function (kind) {
          var x = area.left + area.width / 2;
          heat.dispatchEvent(new PointerEvent(kind, { clientX: x, bubbles: true })); });
        seen.push('a column: ' + (to.value - from.value));
        document.title = seen.join('; ');";
    let shown = after(&flame_html(&graph), steps);
    let expected = "0 to 2: 8; 2 to 4: 3; 0 to 1800: 10; a column: 2";
    assert_eq!(title_of(&shown), expected, "{shown}");
}

/// Without its script, because of a wrong policy or a mistake in it, the first drawing would not
/// change.
#[test]
fn the_policy_of_the_page_lets_its_scripts_run() {
    let shown = in_browser(&flame_html(&sample(false)));
    assert!(shown.contains("role=\"button\"") && shown.contains("data-node"), "{shown}");
}

/// A profile of twelve seconds of PUTs and GETs, with a merge from the sixth to the eighth.
fn busy() -> FlameGraph {
    let functions = [
        "pellucid_http::event_loop::EventLoop<S>::run",
        "pellucid_server::entity::put",
        "pellucid_server::entity::get",
        "pellucid_engine::write::put",
        "pellucid_engine::journal::append",
        "pellucid_engine::ledger::memtable::insert",
        "pellucid_http::connection::write",
        "__libc_send",
        "pellucid_engine::ledger::merge::next",
        "core::slice::sort::merge",
    ];
    let functions = functions.map(str::to_owned).to_vec();
    let mut graph = FlameGraph::new("Processor time".to_owned(), FlameUnit::Nanoseconds, functions);
    graph.duration_ns = 12_000_000_000;
    graph.notes.push("7 samples were lost.".to_owned());
    for at in 0..2_400_u64 {
        let (at_ns, is_merging) = (at * 5_000_000 + 1, (1_000..1_600).contains(&at));
        let (root, stack): (&str, &[u32]) = match at * 7_919 % 10 {
            _ if is_merging && at % 2 == 0 => ("job compaction", &[8, 9]),
            0..=2 => ("entity_put execute", &[0, 1, 3, 4]),
            3 | 4 => ("entity_put execute", &[0, 1, 3, 5]),
            5 | 6 => ("entity_get execute", &[0, 2]),
            _ => ("entity_get write", &[0, 6, 7]),
        };
        // A greater amount during the merge, and now and then a moment with little.
        let amount = if is_merging { 5e6 } else { 1e6 + (at / 9 * 31 % 7) as f64 * 4e5 };
        graph.add(&FlameSample { root, stack, amount, at_ns }, false);
    }
    graph.shares = vec![
        ("execute".to_owned(), "engine journal".to_owned(), 4e9),
        ("job compaction".to_owned(), "compaction".to_owned(), 1.5e9),
    ];
    graph
}

/// The variable with a folder in which the pictures are kept, to look at them.
const PICTURES_VARIABLE: &str = "PELLUCID_PICTURES";

/// Heat map and flame graph on a wide light screen and on a narrow dark one: everything fits.
/// Pictures are taken if they are to be kept.
#[test]
fn pictures_fit_light_and_wide_screens_and_dark_and_narrow_ones() {
    let page = flame_html(&busy());
    let pictures = std::env::var_os(PICTURES_VARIABLE).map(PathBuf::from);
    let steps = "var ground = getComputedStyle(document.body).backgroundColor.match(/\\d+/g);
        var page = document.documentElement;
        document.title = [page.scrollWidth <= window.innerWidth ? 'fits' : 'is too wide: ' +
          page.scrollWidth + ' of ' + window.innerWidth, ground[0] < 128 ? 'dark' : 'light',
          document.querySelectorAll('.flame-heat').length,
          document.querySelectorAll('.flame-place g[data-node]').length > 8].join('; ');";
    for (name, width, is_dark) in [("light-wide", 1_600, false), ("dark-narrow", 520, true)] {
        let window = Window { width, height: 1_100, is_dark };
        let shown = in_window(&with_steps(&page, steps), window);
        let expected = format!("fits; {}; 1; true", if is_dark { "dark" } else { "light" });
        assert_eq!(title_of(&shown), expected, "{name}");
        if let Some(folder) = &pictures {
            picture(&page, window, &folder.join(format!("flame-{name}.png")));
        }
    }
}
