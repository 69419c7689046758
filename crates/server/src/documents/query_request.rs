//! Requests for queries: the members of the body, bounded by the limits of the server.

use std::sync::Arc;
use std::time::Duration;

use pellucid_aql::QueryOptions;
use pellucid_budget::Budget;
use pellucid_document::{DocumentError, ErrorNumber, Result};
use pellucid_value::{ObjectRef, Ref, Value};

use super::call::{Call, open};
use super::settings::DocumentSettings;

/// The default of `ttl`, the time after which a cursor that is not read expires; also for a `ttl`
/// of zero or less.
const TTL_SECONDS_DEFAULT: f64 = 30.0;

/// The upper limit of `ttl`: an hour.
const TTL_SECONDS_MAX: f64 = 3_600.0;

/// The default of `batchSize`.
pub(super) const BATCH_SIZE_DEFAULT: usize = 1_000;

/// The upper limit of `batchSize`. The bytes of a batch have a limit of their own.
const BATCH_SIZE_MAX: usize = 1_000_000;

/// The default of `maxWarningCount`.
const WARNINGS_DEFAULT: usize = 10;

/// The upper limit of `maxWarningCount`.
const WARNINGS_MAX: usize = 1_000;

/// A parsed request for a query.
pub(super) struct QueryRequest {
    pub(super) query: String,
    pub(super) bind_variables: Value,
    pub(super) options: QueryOptions,
    pub(super) batch_size: usize,
    pub(super) counts: bool,
    pub(super) is_stream: bool,
    pub(super) may_retry: bool,
    pub(super) profile: i64,
    pub(super) ttl_ms: u64,
    /// True if an explanation has to list all plans.
    pub(super) wants_all_plans: bool,
}

impl QueryRequest {
    /// True without options that need an execution: retries, a time limit, or a full count.
    pub(super) fn is_plain(&self) -> bool {
        !self.may_retry && self.options.runtime_max.is_none() && !self.options.full_count
    }

    /// Parses the body of a call. The query takes its memory from `budget`.
    ///
    /// # Errors
    /// 600 if the body is no JSON, 1502 if the query is empty, 17 for a member of a wrong type.
    pub(super) fn of(
        call: &Call<'_>,
        settings: &DocumentSettings,
        budget: &Budget,
    ) -> Result<QueryRequest> {
        if call.body.trim_ascii().is_empty() {
            return Err(ErrorNumber::QUERY_EMPTY.into());
        }
        let document = call.packed()?;
        let given = Members::of(open(&document));
        if !matches!(given.options, Ref::Null | Ref::Object(_)) {
            return Err(expecting("an object", "options"));
        }
        let query = given.query.as_str().unwrap_or_default().to_owned();
        if query.trim().is_empty() {
            return Err(ErrorNumber::QUERY_EMPTY.into());
        }
        let bind_variables = match given.bind_variables {
            Ref::Null => Value::Object(Arc::default()),
            binds @ Ref::Object(_) => binds.to_value(),
            _ => return Err(expecting("an object", "bindVars")),
        };
        let batch_size = match number("batchSize", given.batch_size)? {
            None => BATCH_SIZE_DEFAULT,
            Some(size) if size >= 1.0 => (size as usize).min(BATCH_SIZE_MAX),
            Some(_) => return Err(expecting("a positive value", "batchSize")),
        };
        let profile = match given.profile {
            Ref::Bool(profiles) => i64::from(profiles),
            level => number("profile", level)?.unwrap_or(0.0) as i64,
        };
        let ttl_seconds = number("ttl", given.ttl)?.filter(|seconds| *seconds > 0.0);
        let ttl_seconds = ttl_seconds.unwrap_or(TTL_SECONDS_DEFAULT).clamp(0.001, TTL_SECONDS_MAX);
        let options = QueryOptions { profile: profile > 0, ..given.limits(settings, budget)? };
        Ok(QueryRequest {
            query,
            bind_variables,
            options,
            batch_size,
            counts: flag("count", given.count)?,
            is_stream: flag("stream", given.stream)?,
            may_retry: flag("allowRetry", given.allow_retry)?,
            profile,
            ttl_ms: (ttl_seconds * 1e3) as u64,
            wants_all_plans: flag("allPlans", given.all_plans)?,
        })
    }

    /// Bounds the time limit of the query by that of the server; zero means no limit.
    pub(super) fn bound_runtime(&mut self, longest: Duration) {
        if !longest.is_zero() {
            let asked = self.options.runtime_max.unwrap_or(longest);
            self.options.runtime_max = Some(asked.min(longest));
        }
    }
}

/// The known members of a body; missing ones are null.
#[derive(Default)]
struct Members<'a> {
    query: Ref<'a>,
    bind_variables: Ref<'a>,
    options: Ref<'a>,
    batch_size: Ref<'a>,
    count: Ref<'a>,
    ttl: Ref<'a>,
    memory_limit: Ref<'a>,
    max_runtime: Ref<'a>,
    max_warning_count: Ref<'a>,
    fail_on_warning: Ref<'a>,
    full_count: Ref<'a>,
    stream: Ref<'a>,
    allow_retry: Ref<'a>,
    profile: Ref<'a>,
    all_plans: Ref<'a>,
}

impl<'a> Members<'a> {
    fn of(body: Ref<'a>) -> Members<'a> {
        let mut given = Members::default();
        let Some(body) = body.as_object() else { return given };
        for (name, value) in body.iter() {
            match name {
                "query" => given.query = value,
                "bindVars" => given.bind_variables = value,
                "options" => given.options = value,
                "batchSize" => given.batch_size = value,
                "count" => given.count = value,
                "ttl" => given.ttl = value,
                _ => given.take_option(name, value),
            }
        }
        if let Some(options) = given.options.as_object() {
            given.take_options(options);
            given.all_plans = options.get("allPlans").unwrap_or(Ref::Null);
        }
        given
    }

    /// The limits of the query, bounded by those of the server.
    fn limits(&self, settings: &DocumentSettings, budget: &Budget) -> Result<QueryOptions> {
        let memory_max = settings.query_memory_max;
        let memory = number("memoryLimit", self.memory_limit)?.filter(|limit| *limit > 0.0);
        let runtime = number("maxRuntime", self.max_runtime)?.filter(|seconds| *seconds > 0.0);
        let warnings = number("maxWarningCount", self.max_warning_count)?;
        Ok(QueryOptions {
            memory_bytes_max: memory.map_or(memory_max, |limit| (limit as usize).min(memory_max)),
            runtime_max: runtime.map(|seconds| Duration::from_secs_f64(seconds.min(1e9))),
            warnings_max: warnings
                .map_or(WARNINGS_DEFAULT, |count| (count as usize).min(WARNINGS_MAX)),
            fail_on_warning: flag("failOnWarning", self.fail_on_warning)?,
            full_count: flag("fullCount", self.full_count)?,
            profile: false,
            is_light: false,
            budget: budget.clone(),
        })
    }

    /// Takes the members of `options`, which override members of the same names in the body.
    fn take_options(&mut self, options: ObjectRef<'a>) {
        for (name, value) in options.iter().filter(|(_, value)| !matches!(value, Ref::Null)) {
            self.take_option(name, value);
        }
    }

    fn take_option(&mut self, name: &str, value: Ref<'a>) {
        let place = match name {
            "memoryLimit" => &mut self.memory_limit,
            "maxRuntime" => &mut self.max_runtime,
            "maxWarningCount" => &mut self.max_warning_count,
            "failOnWarning" => &mut self.fail_on_warning,
            "fullCount" => &mut self.full_count,
            "stream" => &mut self.stream,
            "allowRetry" => &mut self.allow_retry,
            "profile" => &mut self.profile,
            // Other options have no effect here.
            _ => return,
        };
        *place = value;
    }
}

/// A number, unless it is missing or null.
fn number(name: &str, value: Ref<'_>) -> Result<Option<f64>> {
    match value {
        Ref::Null => Ok(None),
        Ref::Number(number) => Ok(Some(number.to_double())),
        _ => Err(expecting("a number", name)),
    }
}

/// A flag, which is false if it is missing or null.
fn flag(name: &str, value: Ref<'_>) -> Result<bool> {
    match value {
        Ref::Null => Ok(false),
        Ref::Bool(flag) => Ok(flag),
        _ => Err(expecting("true or false", name)),
    }
}

fn expecting(what: &str, name: &str) -> DocumentError {
    DocumentError::new(ErrorNumber::TYPE_ERROR, format!("expecting {what} for '{name}'"))
}

#[cfg(test)]
mod tests {
    use pellucid_http::Request;

    use super::*;
    use crate::routes::Target;

    fn read(body: &str) -> QueryRequest {
        try_read(body).unwrap()
    }

    fn try_read(body: &str) -> Result<QueryRequest> {
        let body = body.as_bytes();
        let (method, path, query, headers) = ("POST", "/_api/cursor", None, &[][..]);
        let mut target = Target::of(method, path, query);
        let call = Call::of(&Request { method, path, query, headers, body }, &mut target, 0);
        QueryRequest::of(&call, &DocumentSettings::default(), &Budget::unbounded())
    }

    /// Regression: the memory, the warnings and the cursor's time of a query had no upper limits.
    #[test]
    fn options_of_a_query_have_upper_limits() {
        let most = DocumentSettings::default().query_memory_max;
        for (limit, expected) in
            [("", most), (r#","memoryLimit":0"#, most), (r#","memoryLimit":1e18"#, most)]
        {
            let asked = read(&format!(r#"{{"query":"RETURN 1"{limit}}}"#));
            assert_eq!(asked.options.memory_bytes_max, expected, "{limit}");
        }
        let asked = read(r#"{"query":"RETURN 1","memoryLimit":1000,"ttl":5,"batchSize":7}"#);
        assert_eq!(asked.options.memory_bytes_max, 1_000);
        assert_eq!((asked.ttl_ms, asked.batch_size), (5_000, 7));
        // Regression: such a cursor expired at once.
        for ttl in [0, -1] {
            let asked = read(&format!(r#"{{"query":"RETURN 1","ttl":{ttl}}}"#));
            assert_eq!(asked.ttl_ms, (TTL_SECONDS_DEFAULT * 1e3) as u64, "{ttl}");
        }
        let asked = read(
            r#"{"query":"RETURN 1","ttl":1e9,"batchSize":1e15,"options":{"maxWarningCount":1e15}}"#,
        );
        assert_eq!(asked.ttl_ms, (TTL_SECONDS_MAX * 1e3) as u64);
        assert_eq!(asked.batch_size, BATCH_SIZE_MAX);
        assert_eq!(asked.options.warnings_max, WARNINGS_MAX);
    }

    /// Regression: a limit in quotes was ignored, and a flag in quotes was false.
    #[test]
    fn members_of_another_type_are_refused() {
        for member in [
            r#""memoryLimit":"1000""#,
            r#""batchSize":"7""#,
            r#""ttl":{}"#,
            r#""count":"true""#,
            r#""options":{"stream":1}"#,
            r#""options":{"failOnWarning":"yes"}"#,
            r#""options":{"allPlans":[]}"#,
            r#""options":7"#,
        ] {
            let refused = try_read(&format!(r#"{{"query":"RETURN 1",{member}}}"#)).err();
            assert_eq!(refused.unwrap().number, ErrorNumber::TYPE_ERROR, "{member}");
        }
        assert!(!read(r#"{"query":"RETURN 1","count":null,"ttl":null}"#).counts);
    }
}
