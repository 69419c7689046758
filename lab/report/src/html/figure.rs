//! The frame of all charts: a heading, a line on how to read it, the drawing, and the same numbers
//! as a table for readers who cannot or do not want to look at the drawing.

use super::markup::Markup;

/// A table; the first cell of each row is its name.
#[derive(Debug, Default)]
pub(crate) struct Table {
    pub(crate) header: Vec<String>,
    pub(crate) rows: Vec<Vec<String>>,
}

impl Table {
    /// A table with these columns and no rows yet.
    pub(crate) fn with_header<const COLUMNS: usize>(header: [&str; COLUMNS]) -> Table {
        Table { header: header.map(str::to_owned).to_vec(), rows: Vec::new() }
    }

    /// Writes the table. A row whose name begins with spaces is indented. If the table is wider
    /// than its place, its rows become lists, each figure with the name of its column.
    pub(crate) fn write(&self, markup: &mut Markup, title: &str) {
        let class = match self.header.len() {
            ..=3 => "scroll few",
            4..=5 => "scroll some",
            6..=8 => "scroll many",
            _ => "scroll most",
        };
        let region = [("class", class), ("tabindex", "0"), ("role", "region")];
        let labelled = [&region[..], &[("aria-label", title)]].concat();
        markup.element("div", &labelled, |markup| {
            markup.element("table", &[], |markup| {
                markup.leaf("caption", &[], title);
                markup.element("thead", &[], |markup| {
                    markup.element("tr", &[], |markup| {
                        for name in &self.header {
                            markup.leaf("th", &[("scope", "col")], name);
                        }
                    });
                });
                markup.element("tbody", &[], |markup| {
                    self.rows.iter().for_each(|row| write_row(markup, &self.header, row));
                });
            });
        });
    }
}

fn write_row(markup: &mut Markup, header: &[String], row: &[String]) {
    markup.element("tr", &[], |markup| {
        for (column, word) in row.iter().enumerate() {
            match column {
                0 if word.starts_with(' ') => {
                    markup.leaf("th", &[("scope", "row"), ("class", "part")], word.trim_start());
                }
                0 => markup.leaf("th", &[("scope", "row")], word),
                _ => {
                    let label = header.get(column).map_or("", String::as_str);
                    markup.leaf("td", &[("data-of", label)], word);
                }
            }
        }
    });
}

/// The part of a row of the page that a chart takes on a wide screen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Width {
    /// Half of the row.
    Half,
    /// The whole row.
    Whole,
}

/// Writes a chart: its heading, a line on how to read it, the drawing, and its numbers as a table.
pub(crate) fn figure(
    markup: &mut Markup,
    (heading, width): (&str, Width),
    how_to_read: &str,
    draw: impl FnOnce(&mut Markup),
    table: &Table,
) {
    let class = if width == Width::Whole { "card chart wide" } else { "card chart" };
    markup.element("figure", &[("class", class)], |markup| {
        markup.element("figcaption", &[], |markup| {
            markup.leaf("h3", &[], heading);
            markup.leaf("p", &[], how_to_read);
        });
        draw(markup);
        markup.element("details", &[], |markup| {
            markup.leaf("summary", &[], "The figures as a table");
            table.write(markup, heading);
        });
    });
}

/// Writes a part of a page that stays closed until the reader opens it; `told` is visible while it
/// is closed.
pub(crate) fn folded(
    markup: &mut Markup,
    (id, name): (&str, &str),
    told: &str,
    content: impl FnOnce(&mut Markup),
) {
    let attributes = [("class", "folded"), ("id", id)];
    markup.element("details", &attributes, |markup| {
        markup.element("summary", &[], |markup| {
            markup.leaf("h2", &[], name);
            if !told.is_empty() {
                markup.leaf("p", &[("class", "muted")], told);
            }
        });
        content(markup);
    });
}

/// Writes a legend: for each entry the class of its mark, the shape of the mark, and its name.
pub(crate) fn legend(markup: &mut Markup, entries: &[(&str, Mark, &str)]) {
    markup.element("ul", &[("class", "legend")], |markup| {
        for (class, mark, name) in entries {
            markup.element("li", &[], |markup| {
                let width = if *mark == Mark::Area { "14" } else { "28" };
                let size = [("width", width), ("height", "14"), ("aria-hidden", "true")];
                markup.element("svg", &size, |markup| {
                    match mark {
                        Mark::Area => markup.empty(
                            "rect",
                            &[
                                ("x", "1"),
                                ("y", "1"),
                                ("width", "12"),
                                ("height", "12"),
                                ("rx", "2"),
                                ("class", &format!("area {class}")),
                            ],
                        ),
                        line => {
                            let path = [("d", "M1 7H27"), ("class", &format!("line {class}"))];
                            markup.empty("path", &path);
                            line.write(markup, "14", "7", class);
                        }
                    };
                });
                markup.text(name);
            });
        }
    });
}

/// The shape of a mark: a second cue besides its colour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mark {
    /// A filled area.
    Area,
    /// A line without marks.
    Line,
    /// A line with round points.
    Circle,
    /// A line with square points.
    Square,
    /// A line with triangles.
    Triangle,
}

impl Mark {
    /// Writes the mark of a line at a position.
    pub(crate) fn write(self, markup: &mut Markup, x: &str, y: &str, class: &str) {
        let path = match self {
            Mark::Area | Mark::Line => return,
            Mark::Circle => "M-4 0a4 4 0 1 0 8 0a4 4 0 1 0 -8 0z",
            Mark::Square => "M-3.7 -3.7H3.7V3.7H-3.7z",
            Mark::Triangle => "M0 -5L5 3.8H-5z",
        };
        let place = [("x", x), ("y", y), ("class", "point-at")];
        markup.element("svg", &place, |markup| {
            markup.empty("path", &[("d", path), ("class", &format!("point {class}"))]);
        });
    }
}
