//! Charts as studies begin them: with nothing drawn yet.

use pellucid_report::{Chart, Form, Unit};

/// A chart without series.
pub(crate) fn chart(name: String, title: &str, how_to_read: &str, unit: Unit, form: Form) -> Chart {
    Chart {
        name,
        title: title.to_owned(),
        how_to_read: how_to_read.to_owned(),
        unit,
        form,
        series: Vec::new(),
        moments: Vec::new(),
        spans: Vec::new(),
    }
}
