//! Charts that are shown as a table.

use super::figure::Table;
use super::markup::Markup;
use super::series::show;
use crate::chart::Chart;

/// Writes the heading, how to read the chart, and a table with a row for each series.
pub(super) fn write(markup: &mut Markup, chart: &Chart, columns: &[String]) {
    let mut table = Table::with_header([""]);
    table.header.extend_from_slice(columns);
    for series in &chart.series {
        let values = (0..columns.len()).map(|at| show(chart, series.drawn(at)));
        table.rows.push([series.name.clone()].into_iter().chain(values).collect());
    }
    markup.element("figure", &[("class", "card chart wide plain")], |markup| {
        markup.element("figcaption", &[], |markup| {
            markup.leaf("h3", &[], &chart.title);
            markup.leaf("p", &[], &chart.how_to_read);
        });
        table.write(markup, &chart.title);
    });
}
