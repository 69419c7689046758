//! The load: scripts that choose keys at random, and what is read from their response times.

/// Connections and threads, as in the original.
pub(super) const CONNECTIONS: u32 = 64;
pub(super) const THREADS: u32 = 4;
/// Bytes of a value.
pub(super) const VALUE_BYTES: usize = 290;

/// What is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Work {
    Put,
    Get,
    /// GETs of which 3 in 10 are for keys that are not there.
    GetMissing,
}

impl Work {
    pub(super) const ALL: [Work; 3] = [Work::Put, Work::Get, Work::GetMissing];

    pub(super) fn title(self) -> &'static str {
        match self {
            Work::Put => "PUT",
            Work::Get => "GET",
            Work::GetMissing => "GET, 30 % missing",
        }
    }

    /// A script of wrk's. Keys are those of `keys`, in lines of Lua.
    pub(super) fn script(self, keys: &[String]) -> String {
        let mut script = String::from("local keys = {");
        for key in keys {
            script += &format!("'{key}',");
        }
        script += "}\nlocal count = #keys\n";
        script += &match self {
            Work::Put => {
                let value = "v".repeat(VALUE_BYTES);
                format!(
                    "wrk.method = 'PUT'\nwrk.body = '{value}'\nfunction request()\n  return \
                     wrk.format(nil, '/v0/entity?id=' .. keys[math.random(count)])\nend\n"
                )
            }
            Work::Get => "function request()\n  return wrk.format(nil, '/v0/entity?id=' .. \
                          keys[math.random(count)])\nend\n"
                .to_owned(),
            Work::GetMissing => "function request()\n  local key = keys[math.random(count)]\n  \
                                 if math.random(10) <= 3 then key = key .. '-none' end\n  return \
                                 wrk.format(nil, '/v0/entity?id=' .. key)\nend\n"
                .to_owned(),
        };
        script
    }
}

/// The percentiles of the original, and the most.
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
