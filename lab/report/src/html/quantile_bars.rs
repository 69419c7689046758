//! The mean times of the requests around a quantile, as stacked bars. Means add up; quantiles of
//! phases would not.

use pellucid_account::{OperationAccount, QuantileBreakdown, Share};

use super::chart::{Segment, write_stack};
use super::figure::{Mark, Table, Width, figure, legend};
use super::markup::Markup;
use crate::phases::class;
use crate::units::{count, duration, percent, quantile_name};

/// Writes the chart, or nothing if there are no requests around any quantile.
pub(crate) fn write(markup: &mut Markup, account: &OperationAccount) {
    let shapes: Vec<&QuantileBreakdown> =
        account.around.iter().filter(|a| a.count > 0 && a.total_mean_ns > 0.0).collect();
    let Some(first) = shapes.first() else { return };
    let longest_ns = shapes.iter().map(|around| around.total_mean_ns).fold(0.0, f64::max);
    figure(
        markup,
        ("Where the time goes, phase by phase", Width::Half),
        "Mean times of the requests around each percentile of the server's total, which is why \
         they add up. Above in absolute time, below as shares.",
        |markup| {
            let entries: Vec<_> = first
                .phases
                .iter()
                .map(|phase| (class(&phase.name), Mark::Area, phase.name.as_str()))
                .collect();
            legend(markup, &entries);
            markup.leaf("h4", &[], "In time");
            for around in &shapes {
                write_bar(markup, around, longest_ns, true);
            }
            markup.leaf("h4", &[], "In share");
            for around in &shapes {
                write_bar(markup, around, around.total_mean_ns, false);
            }
        },
        &table_of(&shapes),
    );
}

/// Writes the bar of one quantile; `full_ns` would fill the width of the plot.
fn write_bar(markup: &mut Markup, around: &QuantileBreakdown, full_ns: f64, with_facts: bool) {
    let name = quantile_name(around.quantile);
    markup.element("p", &[("class", "bar-label")], |markup| {
        markup.leaf("strong", &[], &name);
        markup.text(&format!(" {}", duration(around.total_mean_ns)));
        if with_facts {
            let requests = count(around.count);
            let receive = duration(around.receive_mean_ns);
            let facts = format!(" mean of {requests} requests; {receive} to receive before that");
            markup.leaf("span", &[("class", "muted")], &facts);
        }
    });
    let title = format!("Phases of the requests around {name}");
    let segments = around.phases.iter().map(|phase| {
        let time = duration(phase.mean_ns);
        let told = format!("{}\n{time}, {} of the total", phase.name, percent(phase.share));
        let (class, width) = (class(&phase.name).to_owned(), phase.mean_ns / full_ns);
        Segment { class, name: &phase.name, told, width }
    });
    write_stack(markup, &title, segments);
}

fn table_of(shapes: &[&QuantileBreakdown]) -> Table {
    let mut table = Table::with_header(["phase"]);
    for around in shapes {
        let name = quantile_name(around.quantile);
        table.header.extend([format!("{name} mean"), format!("{name} share")]);
    }
    let names = |shares: fn(&QuantileBreakdown) -> &Vec<Share>| {
        let mut names: Vec<&str> = Vec::new();
        for share in shapes.iter().flat_map(|around| shares(around)) {
            if !names.contains(&share.name.as_str()) {
                names.push(&share.name);
            }
        }
        names
    };
    let row = |name: &str, shown: &str, shares: fn(&QuantileBreakdown) -> &Vec<Share>| {
        let mut row = vec![shown.to_owned()];
        for around in shapes {
            let found = shares(around).iter().find(|share| share.name == name);
            row.push(found.map_or_else(|| "-".to_owned(), |share| duration(share.mean_ns)));
            row.push(found.map_or_else(|| "-".to_owned(), |share| percent(share.share)));
        }
        row
    };
    for name in names(|around| &around.phases) {
        table.rows.push(row(name, name, |around| &around.phases));
        if let Some(part) = shapes.iter().find_map(|around| around.transport_part_of(name)) {
            let (name, shown) = (&part.name, format!("  {}", part.name));
            table.rows.push(row(name, &shown, |around| &around.transport_parts));
        }
        if name == "execute" {
            for part in names(|around| &around.parts) {
                table.rows.push(row(part, &format!("  {part}"), |around| &around.parts));
            }
        }
    }
    let mut total = vec!["total".to_owned()];
    let mut receive = vec!["receive (before the total)".to_owned()];
    for around in shapes {
        total.extend([duration(around.total_mean_ns), "100 %".to_owned()]);
        receive.extend([duration(around.receive_mean_ns), "-".to_owned()]);
    }
    table.rows.extend([total, receive]);
    if let Some(part) = shapes.iter().find_map(|around| around.transport_part_of("receive")) {
        let mut decrypt = vec![format!("  {}", part.name)];
        for around in shapes {
            let mean_ns = around.transport_part_of("receive").map_or(0.0, |part| part.mean_ns);
            decrypt.extend([duration(mean_ns), "-".to_owned()]);
        }
        table.rows.push(decrypt);
    }
    table
}
