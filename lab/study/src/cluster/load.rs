//! The kinds of load: scripts with random keys, and the percentiles of response times.

/// Connections of the load, as in the original.
pub(super) const CONNECTIONS: u32 = 64;
/// Threads of the load, as in the original.
pub(super) const THREADS: u32 = 4;
/// The length of a value in bytes.
pub(super) const VALUE_BYTES: usize = 290;
/// The length of a key in bytes.
pub(super) const KEY_BYTES: usize = 10;

pub(super) fn key(number: u64) -> String {
    format!("k{number:09}")
}

/// The kind of requests of a load.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LoadKind {
    Put,
    Get,
    /// GETs, 3 in 10 of which ask for a key that does not exist.
    GetMissing,
}

impl LoadKind {
    pub(super) const ALL: [LoadKind; 3] = [LoadKind::Put, LoadKind::Get, LoadKind::GetMissing];

    pub(super) fn title(self) -> &'static str {
        match self {
            LoadKind::Put => "PUT",
            LoadKind::Get => "GET",
            LoadKind::GetMissing => "GET, 30 % missing",
        }
    }

    /// The prefix of the names of charts.
    pub(super) fn name(self) -> &'static str {
        match self {
            LoadKind::Put => "put",
            LoadKind::Get => "get",
            LoadKind::GetMissing => "get_missing",
        }
    }

    /// The rate of the original in requests per second.
    pub(super) fn original_rate(self) -> f64 {
        match self {
            LoadKind::Put => 60_000.0,
            LoadKind::Get | LoadKind::GetMissing => 30_000.0,
        }
    }

    /// Returns true for writes. Reads use keys that no load writes.
    pub(super) fn writes(self) -> bool {
        self == LoadKind::Put
    }

    /// A wrk script that chooses one of `keys` for each request. All keys are in one string, each
    /// of [`KEY_BYTES`], because a table of strings would take ten times the memory in each thread.
    pub(super) fn script(self, keys: &[String]) -> String {
        let choice = format!(
            "local at = math.random(0, {}) * {KEY_BYTES}\n  local key = keys:sub(at + 1, at + \
             {KEY_BYTES})\n",
            keys.len() - 1
        );
        let mut script = String::with_capacity(keys.len() * KEY_BYTES + 1_024);
        script += "local keys = '";
        for key in keys {
            script += key;
        }
        script += "'\n";
        if self.writes() {
            script += &format!("wrk.method = 'PUT'\nwrk.body = '{}'\n", "v".repeat(VALUE_BYTES));
        }
        script += &format!("function request()\n  {choice}");
        if self == LoadKind::GetMissing {
            script += "  if math.random(10) <= 3 then key = key .. '-none' end\n";
        }
        script + "  return wrk.format(nil, '/v0/entity?id=' .. key)\nend\n"
    }
}

/// The percentiles of the original, and the maximum.
pub(super) const PERCENTILES: [(&str, f64); 8] = [
    ("p50", P50),
    ("p75", 0.75),
    ("p90", 0.9),
    ("p99", P99),
    ("p99.9", 0.999),
    ("p99.99", 0.9999),
    ("p99.999", 0.99999),
    ("max", 1.0),
];
pub(super) const P50: f64 = 0.5;
pub(super) const P99: f64 = 0.99;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scripts_have_all_keys_in_one_string() {
        let keys = [3, 41].map(key);
        assert!(keys.iter().all(|key| key.len() == KEY_BYTES));
        let script = LoadKind::GetMissing.script(&keys);
        assert!(script.starts_with("local keys = 'k000000003k000000041'\n"), "{script}");
        assert!(script.contains("math.random(0, 1) * 10") && script.contains("-none"), "{script}");
        let put = LoadKind::Put.script(&keys);
        assert!(put.contains("wrk.method = 'PUT'") && !put.contains("-none"), "{put}");
    }
}
