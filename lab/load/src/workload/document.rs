//! The TOML file of a description of work, and its translation to operations.
//!
//! The TOML reader refuses unknown names and wrong types of values, and reports what it expected.
//! Everything else (ranges, units, settings that exclude each other) is checked here, while every
//! value still has its position in the text.

use std::collections::BTreeMap;
use std::ops::Range;

use serde::Deserialize;
use toml::Spanned;

use super::check::Check;
use super::keys::{Distribution, KEYS_MAX, Keys, Zipf};
use super::operation::{MAX_OPERATIONS, Operation};
use super::settings::Settings;
use super::template::Template;
use super::value::{VALUE_BYTES_MAX, Values};
use super::workload_file::{ParseError, WorkloadFile};
use crate::stages::Stage;
use pellucid_client::http::Header;

/// The highest weight of an operation.
const WEIGHT_MAX: u64 = 1 << 32;
/// The largest number of stages in a file.
const STAGES_MAX: usize = 1_000;
const METHODS: &str = "a method is GET, HEAD, PUT, POST, DELETE, PATCH or OPTIONS";

/// Headers by their names.
type HeadersTable = BTreeMap<String, Spanned<toml::Value>>;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Document {
    /// The settings of the run itself.
    #[serde(default)]
    pub(super) load: Settings,
    keys: Option<Spanned<KeysTable>>,
    #[serde(default)]
    headers: HeadersTable,
    /// The seed of everything that is drawn at random.
    #[serde(default)]
    pub(super) seed: u64,
    /// The stages of rate and connections over time.
    #[serde(default)]
    pub(super) stage: Vec<Stage>,
    #[serde(default)]
    operation: Vec<Spanned<OperationTable>>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct KeysTable {
    count: Spanned<u64>,
    distribution: Option<DistributionName>,
    skew: Option<Spanned<f64>>,
    missing: Option<Spanned<f64>>,
}

#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
enum DistributionName {
    Uniform,
    Zipf,
    Sequential,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct OperationTable {
    name: Option<Spanned<String>>,
    weight: Option<Spanned<u64>>,
    method: Option<Spanned<String>>,
    path: Spanned<String>,
    #[serde(default)]
    headers: HeadersTable,
    keys: Option<Spanned<KeysTable>>,
    value: Option<Spanned<ValueTable>>,
    expect: Option<Spanned<ExpectTable>>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ValueTable {
    size: Option<Size>,
    file: Option<Spanned<String>>,
    text: Option<Spanned<String>>,
}

#[derive(Debug, Deserialize)]
#[serde(untagged, expecting = "a size is a number of bytes, or [least, greatest]")]
enum Size {
    Fixed(u64),
    Range([u64; 2]),
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ExpectTable {
    #[serde(default)]
    status: Vec<Status>,
    contains: Option<String>,
    size: Option<u64>,
}

#[derive(Debug, Deserialize)]
#[serde(untagged, expecting = "a status is a number such as 200, or a class such as \"2xx\"")]
enum Status {
    Code(u16),
    Class(String),
}

impl Document {
    /// Parses the text; mistakes are reported with their line.
    pub(super) fn parse(place: &WorkloadFile<'_>) -> Result<Document, ParseError> {
        let document: Document = toml::from_str(place.text).map_err(|error| {
            let line = error.span().map_or(1, |span| place.line(&span));
            (line, error.message().replace('\n', " "))
        })?;
        if document.operation.is_empty() {
            let text =
                "the file describes no work: it needs at least one [[operation]] with a path";
            return Err((1, text.to_owned()));
        }
        if document.operation.len() > MAX_OPERATIONS || document.stage.len() > STAGES_MAX {
            return Err((1, "a file has at most 64 operations and 1000 stages".to_owned()));
        }
        Ok(document)
    }

    /// The operations, at least one.
    pub(super) fn operations(
        &self,
        place: &WorkloadFile<'_>,
    ) -> Result<Vec<Operation>, ParseError> {
        let common = headers_of(place, &self.headers)?;
        let keys = self.keys.as_ref().map(|keys| keys_of(place, keys)).transpose()?;
        let mut operations: Vec<Operation> = Vec::new();
        for table in &self.operation {
            let operation = operation_of(place, table, &common, keys)?;
            if operations.iter().any(|other| other.name == operation.name) {
                let text = format!("there are two operations named '{}'", operation.name);
                return Err(place.mistake(&table.span(), text + "; give them different names"));
            }
            operations.push(operation);
        }
        Ok(operations)
    }
}

fn keys_of(place: &WorkloadFile<'_>, keys: &Spanned<KeysTable>) -> Result<Keys, ParseError> {
    let table = keys.get_ref();
    let count = *table.count.get_ref();
    if !(1..=KEYS_MAX).contains(&count) {
        let text = format!("a set of keys has 1 to {KEYS_MAX} of them");
        return Err(place.mistake(&table.count.span(), text));
    }
    let missing = table.missing.as_ref().map_or(0.0, |missing| *missing.get_ref());
    if let Some(given) = table.missing.as_ref().filter(|_| !(0.0..=1.0).contains(&missing)) {
        let text = "the share of missing keys is between 0 and 1";
        return Err(place.mistake(&given.span(), text));
    }
    let name = table.distribution.unwrap_or(DistributionName::Uniform);
    let skew = table.skew.as_ref().map_or(0.99, |skew| *skew.get_ref());
    if let Some(given) = &table.skew {
        if name != DistributionName::Zipf {
            let text = "a skew is only for distribution = \"zipf\"";
            return Err(place.mistake(&given.span(), text));
        }
        if !(0.01..=10.0).contains(&skew) {
            return Err(place.mistake(&given.span(), "a skew is between 0.01 and 10"));
        }
    }
    let distribution = match name {
        DistributionName::Uniform => Distribution::Uniform,
        DistributionName::Zipf => Distribution::Zipf(Zipf::new(count, skew)),
        DistributionName::Sequential => Distribution::Sequential,
    };
    Ok(Keys { count, distribution, missing })
}

fn operation_of(
    place: &WorkloadFile<'_>,
    table: &Spanned<OperationTable>,
    common: &[(Header, Range<usize>)],
    keys: Option<Keys>,
) -> Result<Operation, ParseError> {
    let table = table.get_ref();
    let method = table.method.as_ref().map_or("GET", |method| method.get_ref().as_str());
    let known = ["GET", "HEAD", "PUT", "POST", "DELETE", "PATCH", "OPTIONS"];
    if let Some(given) = table.method.as_ref().filter(|_| !known.contains(&method)) {
        return Err(place.mistake(&given.span(), format!("'{method}' is unknown: {METHODS}")));
    }
    let path = table.path.get_ref();
    if !path.starts_with('/') || path.bytes().any(|byte| byte <= b' ' || byte == 0x7f) {
        let text = format!("'{path}' is no path: it begins with / and holds no spaces");
        return Err(place.mistake(&table.path.span(), text));
    }
    let own_keys = table.keys.as_ref().map(|keys| keys_of(place, keys)).transpose()?;
    let any = Keys { count: KEYS_MAX, distribution: Distribution::Uniform, missing: 0.0 };
    let keys_used = own_keys.or(keys);
    let template = |text: &str, span: Range<usize>| {
        let template = Template::parse(text).map_err(|text| place.mistake(&span, text))?;
        if template.has_key() && keys_used.is_none() {
            let text = "{key} stands here, but there is no [keys] with a count";
            return Err(place.mistake(&span, text));
        }
        Ok(template)
    };
    let mut head = template(&format!("{method} {path} HTTP/1.1\r\n"), table.path.span())?;
    let own = headers_of(place, &table.headers)?;
    let hidden = |name: &str| own.iter().any(|(header, _)| header.name.eq_ignore_ascii_case(name));
    let names = common.iter().chain(&own).map(|(header, _)| header.name.clone());
    for (header, span) in common.iter().filter(|(header, _)| !hidden(&header.name)).chain(&own) {
        let line = format!("{}: {}\r\n", header.name, header.value);
        head.append(template(&line, span.clone())?);
    }
    let values = table.value.as_ref().map(|value| values_of(place, value, template)).transpose()?;
    let weight = table.weight.as_ref().map_or(1, |weight| *weight.get_ref());
    if let Some(given) = table.weight.as_ref().filter(|_| !(1..=WEIGHT_MAX).contains(&weight)) {
        return Err(place.mistake(&given.span(), "a weight is a number from 1 on"));
    }
    let name = table.name.as_ref().map_or_else(|| method.to_lowercase(), |n| n.get_ref().clone());
    Ok(Operation {
        name,
        weight,
        bodiless: matches!(method, "GET" | "HEAD" | "DELETE" | "OPTIONS"),
        header_names: names.collect(),
        head,
        keys: keys_used.unwrap_or(any),
        values,
        check: table.expect.as_ref().map_or(Ok(Check::default()), |e| check_of(place, e))?,
    })
}

fn headers_of(
    place: &WorkloadFile<'_>,
    table: &HeadersTable,
) -> Result<Vec<(Header, Range<usize>)>, ParseError> {
    let headers = table.iter().map(|(name, value)| {
        let wrong = |text: String| place.mistake(&value.span(), text);
        let text = match value.get_ref() {
            toml::Value::String(text) => text.clone(),
            toml::Value::Integer(number) => number.to_string(),
            _ => return Err(wrong(format!("the header '{name}' is neither a text nor a number"))),
        };
        if ["content-length", "transfer-encoding"].contains(&name.to_ascii_lowercase().as_str()) {
            let text = format!("the header '{name}' follows from the value; leave it out");
            return Err(wrong(text));
        }
        let header = Header::parse(&format!("{name}: {text}"));
        header.map(|header| (header, value.span())).map_err(|error| wrong(error.to_string()))
    });
    headers.collect()
}

fn values_of(
    place: &WorkloadFile<'_>,
    value: &Spanned<ValueTable>,
    template: impl Fn(&str, Range<usize>) -> Result<Template, ParseError>,
) -> Result<Values, ParseError> {
    let wrong = |text: String| place.mistake(&value.span(), text);
    let table = value.get_ref();
    match (&table.size, &table.file, &table.text) {
        (Some(size), None, None) => {
            let (least, greatest) = match size {
                Size::Fixed(size) => (*size, *size),
                Size::Range([least, greatest]) => (*least, *greatest),
            };
            if least > greatest || greatest > VALUE_BYTES_MAX {
                let text = format!("a size is 0 to {VALUE_BYTES_MAX} bytes, the least first");
                return Err(wrong(text));
            }
            Ok(Values::sized(least as usize, greatest as usize))
        }
        (None, Some(file), None) => {
            let path = place.folder.join(file.get_ref());
            let shown = path.display();
            let size = std::fs::metadata(&path).map(|facts| facts.len());
            if size.as_ref().is_ok_and(|size| *size > VALUE_BYTES_MAX) {
                return Err(wrong(format!("{shown} is longer than {VALUE_BYTES_MAX} bytes")));
            }
            let bytes = std::fs::read(&path);
            let bytes = bytes.map_err(|reason| wrong(format!("cannot read {shown}: {reason}")))?;
            Ok(Values::Same(bytes.into()))
        }
        (None, None, Some(text)) => template(text.get_ref(), text.span()).map(Values::Text),
        _ => Err(wrong("a value has exactly one of size, file and text".to_owned())),
    }
}

fn check_of(place: &WorkloadFile<'_>, expect: &Spanned<ExpectTable>) -> Result<Check, ParseError> {
    let table = expect.get_ref();
    let statuses = table.status.iter().map(|status| match status {
        Status::Code(code) if (100..=599).contains(code) => Ok((*code, *code)),
        Status::Class(class) => class_of(class).ok_or_else(|| class.clone()),
        Status::Code(code) => Err(code.to_string()),
    });
    let statuses = statuses.collect::<Result<_, _>>().map_err(|given| {
        let text = format!("'{given}' is no status: allowed are 100 to 599 and \"1xx\" to \"5xx\"");
        place.mistake(&expect.span(), text)
    })?;
    let contains = table.contains.clone().map(String::into_bytes);
    Ok(Check { statuses, contains, size_bytes: table.size })
}

fn class_of(class: &str) -> Option<(u16, u16)> {
    let digit: u16 = class.strip_suffix("xx")?.parse().ok()?;
    (1..=5).contains(&digit).then_some((digit * 100, digit * 100 + 99))
}
