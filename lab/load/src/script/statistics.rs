//! The second and the third argument of `done`: latencies and rates.

use hdrhistogram::Histogram;
use mlua::{Lua, Value};

use super::state::internal;

/// Makes the object by which scripts read a histogram.
pub(super) fn statistics(lua: &Lua, histogram: Histogram<u64>) -> mlua::Result<Value> {
    let parts = lua.create_table()?;
    parts.set("min", number(histogram.min()))?;
    parts.set("max", number(histogram.max()))?;
    parts.set("mean", histogram.mean())?;
    parts.set("stdev", histogram.stdev())?;
    let (values, counts) = (lua.create_table()?, lua.create_table()?);
    for step in histogram.iter_recorded() {
        values.raw_push(number(step.value_iterated_to()))?;
        counts.raw_push(number(step.count_since_last_iteration()))?;
    }
    parts.set("values", values)?;
    parts.set("counts", counts)?;
    let percentile = move |_: &Lua, percentile: f64| {
        Ok(number(histogram.value_at_percentile(percentile.clamp(0.0, 100.0))))
    };
    parts.set("percentile", lua.create_function(percentile)?)?;
    internal(lua, "new_statistics")?.call(parts)
}

/// Converts to Lua's floating-point numbers; times and counts are far below the largest integer
/// that these hold exactly.
fn number(value: u64) -> f64 {
    value as f64
}
