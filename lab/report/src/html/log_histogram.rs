//! The logarithmic histogram of the server's total as bars, one row per power of two, as in text.

use pellucid_account::Distribution;

use super::figure::{Table, Width, figure};
use super::markup::Markup;
use super::plot::percentage;
use crate::text::powers_of_two;
use crate::units::{count, duration, percent};

/// The height of a row in pixels.
const ROW_PIXELS: usize = 26;
/// The height of a bar in pixels.
const BAR_PIXELS: usize = 16;

/// Writes the chart, or nothing if no request was counted.
pub(crate) fn write(markup: &mut Markup, total: &Distribution) {
    let rows = powers_of_two(&total.log2);
    let all: u64 = rows.iter().fold(0, |sum, (_, count)| sum.saturating_add(*count));
    let most = rows.iter().map(|(_, count)| *count).max().unwrap_or(0);
    if most == 0 {
        return;
    }
    let title = "Server total, logarithmic histogram";
    let mut table = Table::with_header(["total", "requests", "share"]);
    for (power, number) in &rows {
        let share = percent(*number as f64 / all as f64);
        table.rows.push(vec![label_of(*power), count(*number), share]);
    }
    figure(
        markup,
        (title, Width::Half),
        "How many requests took how long in the server. Each row reaches twice as far as the one \
         above it.",
        |markup| {
            let height = (rows.len() * ROW_PIXELS).to_string();
            let size = [("width", "100%"), ("height", height.as_str())];
            let named = [&size[..], &[("role", "img"), ("aria-label", title)]].concat();
            markup.element("div", &[("class", "plot rows")], |markup| {
                markup.element("svg", &named, |markup| {
                    markup.leaf("title", &[], title);
                    for (row, (words, (_, number))) in table.rows.iter().zip(&rows).enumerate() {
                        write_row(markup, row, words, *number as f64 / most as f64);
                    }
                });
            });
        },
        &table,
    );
}

fn write_row(markup: &mut Markup, row: usize, words: &[String], length: f64) {
    let (top, base) = (row * ROW_PIXELS + (ROW_PIXELS - BAR_PIXELS) / 2, row * ROW_PIXELS + 17);
    let (top, base) = (top.to_string(), base.to_string());
    let [label, number, share] = words else { return };
    markup.leaf("text", &[("class", "row-label"), ("x", "-10"), ("y", &base)], label);
    let width = percentage(length);
    if length > 0.0 {
        // A bar that would be too short to see gets this width.
        let sliver = [("x", "0"), ("y", &top), ("width", "2"), ("height", "16")];
        markup.empty("rect", &[&sliver[..], &[("class", "bar server")]].concat());
        let bar = [("x", "0"), ("y", top.as_str()), ("width", width.as_str()), ("height", "16")];
        markup.element("rect", &[&bar[..], &[("class", "bar server")]].concat(), |markup| {
            markup.leaf("title", &[], &format!("{label}\n{number} requests, {share}"));
        });
    }
    let place = [("class", "row-value"), ("x", width.as_str()), ("y", base.as_str()), ("dx", "8")];
    markup.leaf("text", &place, number);
}

fn label_of(power: Option<u32>) -> String {
    let bound = |power: u32| duration(2_f64.powi(power as i32));
    match power {
        None => "0 ns".to_owned(),
        Some(power) => {
            let (from, to) = (bound(power), bound(power + 1));
            let unit = |text: &str| text.split(' ').next_back().map(str::to_owned);
            let same_unit = unit(&from) == unit(&to);
            let from = if same_unit { from.split(' ').next().unwrap_or("") } else { &from };
            format!("{from} – {to}")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_labelled_in_one_unit_where_they_can_be() {
        assert_eq!(label_of(Some(14)), "16.4 – 32.8 µs");
        assert_eq!(label_of(Some(9)), "512 ns – 1.02 µs");
        assert_eq!(label_of(Some(0)), "1 – 2 ns");
        assert_eq!(label_of(Some(63)).matches("s").count(), 1);
    }
}
