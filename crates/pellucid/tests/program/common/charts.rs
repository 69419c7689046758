//! The charts of the report of a study.

use serde_json::Value;

/// All charts of a report, in their order.
pub(crate) struct Charts<'a>(pub(crate) Vec<&'a Value>);

impl<'a> Charts<'a> {
    pub(crate) fn of(report: &'a Value) -> Charts<'a> {
        let sections = report["sections"].as_array().unwrap();
        let with_groups = sections.iter().flat_map(|section| {
            let groups = section["groups"].as_array().into_iter().flatten();
            [section].into_iter().chain(groups)
        });
        Charts(with_groups.flat_map(|part| part["charts"].as_array().unwrap()).collect())
    }

    pub(crate) fn names(&self) -> Vec<&'a str> {
        self.0.iter().map(|chart| chart["name"].as_str().unwrap()).collect()
    }

    pub(crate) fn chart(&self, name: &str) -> &'a Value {
        let found = self.0.iter().find(|chart| chart["name"] == name);
        found.unwrap_or_else(|| panic!("there is no chart {name}"))
    }

    /// Returns the names of the series of a chart, which are the rows of its table.
    pub(crate) fn rows(&self, chart: &str) -> Vec<&'a str> {
        let series = self.chart(chart)["series"].as_array().unwrap().iter();
        series.map(|series| series["name"].as_str().unwrap()).collect()
    }

    /// Returns the values of the series with this name, or else of the first whose name begins with
    /// it: the name of an instrument may follow.
    pub(crate) fn row(&self, chart: &str, name: &str) -> Vec<Option<f64>> {
        let names = self.rows(chart);
        let place = names.iter().position(|row| *row == name);
        let place = place.or_else(|| names.iter().position(|row| row.starts_with(name)));
        let place = place.unwrap_or_else(|| panic!("{chart} has no {name}: {names:?}"));
        figures(&self.chart(chart)["series"][place])
    }
}

/// Returns the values of a series.
pub(crate) fn figures(series: &Value) -> Vec<Option<f64>> {
    series["values"].as_array().unwrap().iter().map(Value::as_f64).collect()
}

/// Returns the sum of those values that are numbers.
pub(crate) fn sum(values: &[Option<f64>]) -> f64 {
    values.iter().flatten().sum()
}
