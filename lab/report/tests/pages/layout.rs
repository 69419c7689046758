//! The layout of pages: they fit the screens of telephones and desktops, light and dark, closed and
//! open.

use pellucid_report::{
    FlameGraph, FlameSample, FlameUnit, StudyReport, flame_html, html, study_html,
};

use crate::browser::{after_sized, title_of};
use crate::long_report;
use crate::sample;

/// The greatest height of a page as it opens, on a desktop screen.
const HEIGHT_MAX: u32 = 12_000;
const WIDTHS: [u32; 2] = [400, 1_280];
/// The variable with a folder of reports as JSON, which are checked besides the made-up one.
const REPORTS_VARIABLE: &str = "PELLUCID_REPORTS";

/// A script that lists misfits in both themes: a document that is too wide, labels outside of their
/// card, cells that are cut, cards alone in half a row, tables that are wider than their place and
/// do not show that, and texts with too little contrast to their background (WCAG 2.2, 1.4.3: 4.5
/// to 1, large texts 3 to 1).
const LOOK: &str = "
    var root = document.documentElement, height = 0;
    function colour(text) {
      var parts = text.match(/[0-9.]+/g).map(Number);
      return { rgb: parts.slice(0, 3), alpha: parts.length > 3 ? parts[3] : 1 };
    }
    function light(rgb) {
      var parts = rgb.map(function (part) {
        part /= 255;
        return part <= 0.04045 ? part / 12.92 : Math.pow((part + 0.055) / 1.055, 2.4);
      });
      return 0.2126 * parts[0] + 0.7152 * parts[1] + 0.0722 * parts[2];
    }
    function ground(node) {
      for (; node; node = node.parentElement) {
        var found = colour(getComputedStyle(node).backgroundColor);
        if (found.alpha > 0.99) return found.rgb;
      }
      return [255, 255, 255];
    }
    function contrast(node) {
      var of = light(colour(getComputedStyle(node).color).rgb), on = light(ground(node));
      return (Math.max(of, on) + 0.05) / (Math.min(of, on) + 0.05);
    }
    function has_text(node) {
      return Array.from(node.childNodes).some(function (child) {
        return child.nodeType === 3 && child.textContent.trim();
      });
    }
    function misfits(theme) {
      var bad = [];
      function name(node) {
        var figure = node.closest('figure, .folded, .card');
        var heading = figure && figure.querySelector('h2, h3');
        var text = node.textContent.trim().slice(0, 40);
        return (heading ? heading.textContent : '?').slice(0, 60) + ': ' + text;
      }
      document.querySelector('button[data-theme=' + theme + ']').click();
      if (root.scrollWidth > innerWidth) bad.push('the page is ' + root.scrollWidth + ' wide');
      document.querySelectorAll('.scroll').forEach(function (table) {
        var says = getComputedStyle(table, '::before').content.indexOf('scroll sideways') >= 0;
        if (table.scrollWidth > table.clientWidth + 1 && !says) {
          bad.push('a table scrolls: ' + name(table));
        }
      });
      document.querySelectorAll('svg text').forEach(function (text) {
        var card = text.closest('.card').getBoundingClientRect(), at = text.getBoundingClientRect();
        if (!at.width || text.closest('svg.flame')) return;
        if (at.left < card.left - 1 || at.right > card.right + 1) {
          bad.push('beyond its card: ' + name(text));
        }
      });
      document.querySelectorAll('td, dd, .answer li').forEach(function (cell) {
        var is_cut = cell.clientWidth && cell.scrollWidth > cell.clientWidth + 1;
        if (is_cut) bad.push('cut: ' + name(cell));
      });
      var halves = {};
      document.querySelectorAll('.charts > *').forEach(function (card) {
        var at = card.getBoundingClientRect(), row = card.parentNode.getBoundingClientRect();
        var key = Math.round(row.top) + ' ' + Math.round(at.top);
        halves[key] = (halves[key] || 0) + at.width / row.width;
      });
      Object.keys(halves).forEach(function (key) {
        if (halves[key] < 0.9) bad.push('a card alone in half a row');
      });
      document.querySelectorAll('main *').forEach(function (node) {
        if (node.closest('svg, button, [hidden]') || !has_text(node) || !node.clientHeight) return;
        var style = getComputedStyle(node), size = parseFloat(style.fontSize);
        var is_large = size >= 24 || (size >= 18.66 && style.fontWeight >= 700);
        if (contrast(node) < (is_large ? 3 : 4.5)) {
          bad.push('faint, ' + contrast(node).toFixed(1) + ' to 1: ' + name(node));
        }
      });
      return bad.slice(0, 12).map(function (misfit) { return theme + ', ' + misfit; });
    }
    setTimeout(function () {
      height = root.scrollHeight;
      document.querySelectorAll('details').forEach(function (all) { all.open = true; });
    }, 200);
    setTimeout(function () {
      document.title = JSON.stringify([height, misfits('light').concat(misfits('dark'))]);
      parent.document.title = document.title;
    }, 600);";

/// Returns the height of a page and its misfits, on a screen of this width.
fn look(page: &str, width: u32) -> (u32, Vec<String>) {
    let shown = after_sized(page, LOOK, width);
    let title = title_of(&shown).replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&");
    serde_json::from_str(&title).unwrap_or_else(|error| panic!("{error}: {title}"))
}

fn assert_fits(name: &str, page: &str) {
    for width in WIDTHS {
        let (height, bad) = look(page, width);
        assert_eq!(bad, Vec::<String>::new(), "{name} at {width} pixels");
        assert!(width < 1_000 || height < HEIGHT_MAX, "{name}: {height} pixels high at {width}");
    }
}

#[test]
fn the_page_of_a_study_fits_a_telephone_and_a_desk() {
    assert_fits("made up", &study_html(&long_report::study()));
    let Some(folder) = std::env::var_os(REPORTS_VARIABLE) else { return };
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|ending| ending == "json") {
            let text = std::fs::read_to_string(&path).unwrap();
            let report: StudyReport = serde_json::from_str(&text).unwrap();
            assert_fits(&report.name, &study_html(&report));
        }
    }
}

#[test]
fn the_page_of_a_load_fits_a_telephone_and_a_desk() {
    assert_fits("load", &html(&sample::report(&["PUT", "GET"], 20_000)));
    let mut with_charts = sample::report(&["GET"], 20_000);
    with_charts.sections[0].charts = long_report::charts();
    assert_fits("load with charts", &html(&with_charts));
}

/// Pages of profiles, which a server makes, too.
#[test]
fn the_page_of_a_profile_fits_a_telephone_and_a_desk() {
    let names = ["pellucid_http::event_loop::EventLoop<S>::run", "pellucid_engine::write::put"];
    let names = names.map(str::to_owned).to_vec();
    let mut graph = FlameGraph::new("Processor time".to_owned(), FlameUnit::Nanoseconds, names);
    graph.duration_ns = 60_000_000_000;
    graph.shares = vec![("entity_put execute".to_owned(), "engine journal".to_owned(), 3e9)];
    for at in 0..600_u64 {
        let root = ["entity_put execute", "job compaction"][(at % 2) as usize];
        let at_ns = at * 100_000_000 + 1;
        graph.add(&FlameSample { root, stack: &[0, 1], amount: 5e6, at_ns }, false);
    }
    assert_fits("profile", &flame_html(&graph));
}

/// The script of these tests does find misfits.
#[test]
fn misfits_are_seen() {
    let page = study_html(&long_report::study());
    let sees = |from: &str, to: &str, width: u32, misfit: &str| {
        assert!(page.contains(from), "{from}");
        let page = page.replace(from, to).replace("More columns: scroll sideways", "");
        let (_, bad) = look(&page, width);
        assert!(bad.iter().any(|bad| bad.contains(misfit)), "{misfit}: {bad:?}");
    };
    sees("</main>", "<svg width=\"900\"></svg></main>", 400, "the page is");
    // Earlier faults: no lists, no hint to scroll, rows of two halves, names within plots, cells
    // that are cut.
    sees("@container (", "@media print and (", 1_280, "a table scrolls");
    sees("flex: 1 1 calc(50% - 10px)", "flex: 0 0 calc(50% - 10px)", 1_280, "a card alone");
    let axis = "</svg><div class=\"axis-title x\"";
    let label = "<text x=\"100%\" y=\"9\">the store outgrows memory</text>";
    sees(axis, &format!("{label}{axis}"), 400, "beyond its card");
    sees(".answer li {", ".answer li { width: 9px; overflow: hidden;", 400, "cut");
    sees("--muted: #a4afba;", "--muted: #505860;", 400, "faint");
}
