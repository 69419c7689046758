//! What the body of a query asks for. Each query has one, so it is gone through once.

use std::sync::Arc;
use std::time::Duration;

use pellucid_aql::QueryOptions;
use pellucid_document::{DocumentError, ErrorNumber};
use pellucid_value::{ObjectRef, Ref, Value, json, packed};

use super::call::Call;
use super::document::bad_json;

/// Memory that one query may take that does not say.
const MEMORY_BYTES_DEFAULT: usize = 512 << 20;

/// Time that a cursor waits to be asked, if the query does not say: 30 s.
const TTL_SECONDS_DEFAULT: f64 = 30.0;

/// Values of a batch, if the query does not say.
pub(super) const BATCH_SIZE_DEFAULT: usize = 1_000;

/// Warnings that are kept, if the query does not say.
const WARNINGS_DEFAULT: usize = 10;

/// What a body asks for.
pub(super) struct Asked {
    pub(super) query: String,
    pub(super) bind_variables: Value,
    pub(super) options: QueryOptions,
    pub(super) batch_size: usize,
    pub(super) counts: bool,
    pub(super) is_stream: bool,
    pub(super) may_retry: bool,
    pub(super) profile: i64,
    pub(super) ttl_ms: u64,
}

impl Asked {
    /// Whether nothing has to be kept of it and nothing ends it but its result.
    pub(super) fn is_plain(&self) -> bool {
        !self.may_retry && self.options.runtime_max.is_none() && !self.options.full_count
    }
}

/// The members of a body that are known; null are those that are not there.
struct Given<'a> {
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
}

impl<'a> Given<'a> {
    fn of(body: Ref<'a>) -> Given<'a> {
        let mut given = Given {
            query: Ref::Null,
            bind_variables: Ref::Null,
            options: Ref::Null,
            batch_size: Ref::Null,
            count: Ref::Null,
            ttl: Ref::Null,
            memory_limit: Ref::Null,
            max_runtime: Ref::Null,
            max_warning_count: Ref::Null,
            fail_on_warning: Ref::Null,
            full_count: Ref::Null,
            stream: Ref::Null,
            allow_retry: Ref::Null,
            profile: Ref::Null,
        };
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
        }
        given
    }

    /// Those within `options` come before those beside it.
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
            // Others make no difference here.
            _ => return,
        };
        *place = value;
    }
}

/// Reads what a body asks for.
pub(super) fn asked(call: &Call<'_>) -> Result<Asked, DocumentError> {
    if call.body.trim_ascii().is_empty() {
        return Err(ErrorNumber::QUERY_EMPTY.into());
    }
    let document =
        json::parse_packed(&call.body, json::Limits::default()).map_err(|e| bad_json(&e))?;
    let given = Given::of(packed::open(&document).unwrap_or(Ref::Null));
    let query = given.query.as_str().unwrap_or_default().to_owned();
    if query.trim().is_empty() {
        return Err(ErrorNumber::QUERY_EMPTY.into());
    }
    let type_error =
        |what: &str| DocumentError::new(ErrorNumber::TYPE_ERROR, format!("expecting {what}"));
    let bind_variables = match given.bind_variables {
        Ref::Null => Value::Object(Arc::default()),
        binds @ Ref::Object(_) => binds.to_value(),
        _ => return Err(type_error("an object for 'bindVars'")),
    };
    let batch_size = match number(given.batch_size) {
        None => BATCH_SIZE_DEFAULT,
        Some(size) if size >= 1.0 => size as usize,
        Some(_) => return Err(type_error("a positive value for 'batchSize'")),
    };
    let memory = number(given.memory_limit).filter(|limit| *limit > 0.0);
    let runtime = number(given.max_runtime).filter(|seconds| *seconds > 0.0);
    let profile = match given.profile {
        Ref::Bool(profiles) => i64::from(profiles),
        Ref::Number(number) => number.to_int(),
        _ => 0,
    };
    let ttl_seconds = number(given.ttl).unwrap_or(TTL_SECONDS_DEFAULT).clamp(0.0, 1e9);
    let warnings_max = number(given.max_warning_count);
    Ok(Asked {
        query,
        bind_variables,
        options: QueryOptions {
            memory_bytes_max: memory.map_or(MEMORY_BYTES_DEFAULT, |limit| limit as usize),
            runtime_max: runtime.map(|seconds| Duration::from_secs_f64(seconds.min(1e9))),
            warnings_max: warnings_max.map_or(WARNINGS_DEFAULT, |count| count as usize),
            fail_on_warning: given.fail_on_warning.is_true(),
            full_count: given.full_count.is_true(),
            profile: profile > 0,
            ..QueryOptions::default()
        },
        batch_size,
        counts: given.count.is_true(),
        is_stream: given.stream.is_true(),
        may_retry: given.allow_retry.is_true(),
        profile,
        ttl_ms: (ttl_seconds * 1e3) as u64,
    })
}

fn number(value: Ref<'_>) -> Option<f64> {
    match value {
        Ref::Number(number) => Some(number.to_double()),
        _ => None,
    }
}
