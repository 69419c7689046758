//! A plot with two axes that fills the available width of the page.
//!
//! Marks are drawn in a box with fixed coordinates that is stretched to the area of the plot.
//! Labels are placed by percentages of the area. So lines follow the width of the window and text
//! keeps its size, without a script.

use super::markup::Markup;
use super::scale::Scale;

/// The width of the coordinate box of marks.
pub(crate) const BOX_WIDTH: f64 = 10_000.0;
/// The height of the coordinate box of marks.
pub(crate) const BOX_HEIGHT: f64 = 1_000.0;

/// An axis: its scale, its title, and its labelled ticks.
#[derive(Debug)]
pub(crate) struct Axis {
    pub(crate) scale: Scale,
    pub(crate) title: String,
    pub(crate) ticks: Vec<(f64, String)>,
}

impl Axis {
    /// An axis with about `ticks_wished` ticks, labelled by `label`; where the label is empty,
    /// there is no tick.
    pub(crate) fn new(
        scale: Scale,
        title: &str,
        ticks_wished: usize,
        label: impl Fn(f64) -> String,
    ) -> Axis {
        let ticks = scale.ticks(ticks_wished).into_iter().map(|tick| (tick, label(tick)));
        let ticks = ticks.filter(|(_, label)| !label.is_empty());
        Axis { scale, title: title.to_owned(), ticks: ticks.collect() }
    }
}

/// The axes of a plot, its title and its attributes.
#[derive(Debug)]
pub(crate) struct Plot<'text> {
    /// The title of the plot, for screen readers.
    pub(crate) title: &'text str,
    /// The class of the plot, and data that the script reads.
    pub(crate) attributes: Vec<(&'text str, String)>,
    /// The height of the plot's area in pixels.
    pub(crate) height_pixels: u32,
    pub(crate) x: Axis,
    pub(crate) y: Axis,
}

impl Plot<'_> {
    /// Writes the axes, then the marks in the box, and the labels above it, by percentages.
    pub(crate) fn write(
        &self,
        markup: &mut Markup,
        marks: impl FnOnce(&mut Markup),
        labels: impl FnOnce(&mut Markup),
    ) {
        markup.element("div", &[("class", "plot")], |markup| {
            markup.element("div", &[("class", "axis-title"), ("aria-hidden", "true")], |markup| {
                markup.text(&self.y.title);
            });
            let height = self.height_pixels.to_string();
            let mut attributes =
                vec![("width", "100%"), ("height", height.as_str()), ("role", "img")];
            attributes.push(("aria-label", self.title));
            attributes.extend(self.attributes.iter().map(|(name, value)| (*name, value.as_str())));
            markup.element("svg", &attributes, |markup| {
                markup.leaf("title", &[], self.title);
                self.write_grid(markup);
                markup.element("svg", &box_attributes(), marks);
                labels(markup);
            });
            markup.element(
                "div",
                &[("class", "axis-title x"), ("aria-hidden", "true")],
                |markup| {
                    markup.text(&self.x.title);
                },
            );
        });
    }

    fn write_grid(&self, markup: &mut Markup) {
        markup.element("g", &[("class", "ticks y")], |markup| {
            for (value, label) in &self.y.ticks {
                let y = percentage(1.0 - self.y.scale.place(*value));
                markup.empty("line", &[("x1", "0"), ("x2", "100%"), ("y1", &y), ("y2", &y)]);
                markup.leaf("text", &[("x", "-8"), ("y", &y), ("dy", "4")], label);
            }
        });
        markup.element("g", &[("class", "ticks x")], |markup| {
            for (value, label) in &self.x.ticks {
                let x = percentage(self.x.scale.place(*value));
                markup.empty("line", &[("x1", &x), ("x2", &x), ("y1", "0"), ("y2", "100%")]);
                markup.leaf("text", &[("x", &x), ("y", "100%"), ("dy", "18")], label);
            }
        });
    }

    /// The position of a pair of values in the box.
    pub(crate) fn in_box(&self, x: f64, y: f64) -> (i64, i64) {
        let across = self.x.scale.place(x) * BOX_WIDTH;
        let down = (1.0 - self.y.scale.place(y)) * BOX_HEIGHT;
        (across.round() as i64, down.round() as i64)
    }

    /// The same position in percent of the plot's area, for elements that keep their size.
    pub(crate) fn at(&self, x: f64, y: f64) -> (String, String) {
        (percentage(self.x.scale.place(x)), percentage(1.0 - self.y.scale.place(y)))
    }

    /// The path of a line through pairs of values.
    pub(crate) fn line(&self, values: impl IntoIterator<Item = (f64, f64)>) -> String {
        let mut path = String::new();
        for (x, y) in values {
            let (across, down) = self.in_box(x, y);
            path.push_str(&format!("{}{across} {down}", if path.is_empty() { 'M' } else { 'L' }));
        }
        path
    }
}

fn box_attributes() -> [(&'static str, &'static str); 6] {
    [
        ("class", "marks"),
        ("width", "100%"),
        ("height", "100%"),
        ("viewBox", "0 0 10000 1000"),
        ("preserveAspectRatio", "none"),
        ("aria-hidden", "true"),
    ]
}

/// Writes an invisible part of the axis, by shares of it, that shows `told` at the pointer.
pub(crate) fn write_hit(markup: &mut Markup, left: f64, width: f64, told: &str) {
    let (x, width) = (percentage(left), percentage(width));
    let place = [("class", "hit"), ("x", &x), ("y", "0"), ("width", &width), ("height", "100%")];
    markup.element("rect", &place, |markup| markup.leaf("title", &[], told));
}

/// A position between 0 and 1 as a percentage with two decimals.
pub(crate) fn percentage(place: f64) -> String {
    format!("{:.2}%", if place.is_finite() { place * 100.0 } else { 0.0 })
}
