//! Trace contexts (W3C Trace Context): the trace and the span of a request.

use std::fmt;

use pellucid_cluster::TRACE_STATE_BYTES_MAX;
use pellucid_http::Header;

/// The place of a request in a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TraceContext {
    /// The trace ID; never zero.
    pub(crate) trace: u128,
    /// The span ID of the caller; zero if the trace begins here.
    pub(crate) parent: u64,
    /// The span ID of this request; never zero.
    pub(crate) span: u64,
}

/// The content of a header `traceparent`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TraceParent {
    pub(crate) trace: u128,
    pub(crate) span: u64,
    /// True if the caller records this trace.
    pub(crate) is_sampled: bool,
}

impl TraceParent {
    /// Parses the header: `version-trace-span-flags`, all in lower-case hexadecimal. Versions above
    /// 0 may have further fields; version `ff` is invalid.
    pub(crate) fn parse(header: &[u8]) -> Option<TraceParent> {
        let text = std::str::from_utf8(header).ok()?;
        let mut fields = text.split('-');
        let version = number(fields.next()?, 2)?;
        let (trace, span) = (number(fields.next()?, 32)?, number(fields.next()?, 16)?);
        let flags = number(fields.next()?, 2)?;
        let is_whole = version != 0 || fields.next().is_none();
        let is_valid = version != 0xff && trace != 0 && span != 0 && is_whole;
        let span = u64::try_from(span).ok()?;
        is_valid.then_some(TraceParent { trace, span, is_sampled: flags & 1 != 0 })
    }
}

/// The longest `tracestate`, in bytes, with all its headers joined. The standard requires at least
/// as much, and the peer protocol has room for it.
const STATE_BYTES_MAX: usize = TRACE_STATE_BYTES_MAX;
/// The limit of members of a `tracestate`.
const STATE_MEMBERS_MAX: usize = 32;

/// The headers `tracestate`, joined to one list in their order: data of other systems about the
/// trace. `None` if there is none, or the list is malformed or too long.
pub(crate) fn trace_state(headers: &[Header<'_>]) -> Option<Box<str>> {
    let named = |header: &&Header<'_>| {
        header.name.len() == 10 && header.name.eq_ignore_ascii_case("tracestate")
    };
    let mut members = Vec::new();
    for header in headers.iter().filter(named) {
        let text = std::str::from_utf8(header.value).ok()?;
        let each = text.split(',').map(|member| member.trim_matches([' ', '\t']));
        members.extend(each.filter(|member| !member.is_empty()));
    }
    let is_member = |member: &&str| {
        let pair = member.split_once('=');
        let is_pair = pair.is_some_and(|(key, value)| !key.is_empty() && !value.is_empty());
        is_pair && member.bytes().all(|byte| matches!(byte, b' '..=b'~'))
    };
    let is_list = (1..=STATE_MEMBERS_MAX).contains(&members.len()) && members.iter().all(is_member);
    let state = members.join(",");
    (is_list && state.len() <= STATE_BYTES_MAX).then(|| state.into_boxed_str())
}

fn number(digits: &str, length: usize) -> Option<u128> {
    let is_lower_hex = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
    let is_number = digits.len() == length && digits.bytes().all(is_lower_hex);
    if is_number { u128::from_str_radix(digits, 16).ok() } else { None }
}

/// Writes the context in the form of the header `traceresponse`.
impl fmt::Display for TraceContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "00-{:032x}-{:016x}-01", self.trace, self.span)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const EXAMPLE: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

    #[test]
    fn a_header_is_parsed_as_in_the_standard() {
        let parsed = TraceParent::parse(EXAMPLE.as_bytes()).unwrap();
        assert_eq!(parsed.trace, 0x0af7_6519_16cd_43dd_8448_eb21_1c80_319c);
        assert_eq!((parsed.span, parsed.is_sampled), (0xb7ad_6b71_6920_3331, true));
        let unsampled = EXAMPLE.replace("-01", "-00");
        assert!(!TraceParent::parse(unsampled.as_bytes()).unwrap().is_sampled);
        let later = format!("cc{}-what-the-future-brings", &EXAMPLE[2..]);
        assert!(TraceParent::parse(later.as_bytes()).is_some());
    }

    #[test]
    fn an_invalid_trace_context_is_ignored() {
        for header in [
            "",
            "00",
            "ff-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
            "00-00000000000000000000000000000000-b7ad6b7169203331-01",
            "00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01",
            "00-0AF7651916CD43DD8448EB211C80319C-b7ad6b7169203331-01",
            "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-more",
            "00-0af7651916cd43dd8448eb211c80319c-b7ad6b716920333-01",
            "00-+af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
        ] {
            assert_eq!(TraceParent::parse(header.as_bytes()), None, "{header}");
        }
        assert_eq!(TraceParent::parse(&[0xff; 55]), None);
    }

    fn state(values: &[&str]) -> Option<String> {
        let other = Header { name: "trace-state", value: b"x=y" };
        let headers =
            values.iter().map(|value| Header { name: "TraceState", value: value.as_bytes() });
        let headers: Vec<Header<'_>> = [other].into_iter().chain(headers).collect();
        trace_state(&headers).map(String::from)
    }

    #[test]
    fn trace_states_are_joined_in_their_order() {
        assert_eq!(state(&["rojo=00f0,congo=t61r"]).unwrap(), "rojo=00f0,congo=t61r");
        assert_eq!(state(&["a=1 , ,b=2", "t@s=3=3"]).unwrap(), "a=1,b=2,t@s=3=3");
        let longest = format!("k={}", "v".repeat(STATE_BYTES_MAX - 2));
        assert_eq!(state(&[&longest]), Some(longest.clone()));
        let most = vec!["a=1"; STATE_MEMBERS_MAX].join(",");
        assert_eq!(state(&[&most]), Some(most.clone()));
        let (too_long, too_many) = (format!("{longest}v"), format!("{most},a=1"));
        for malformed in ["", "a", "a=", "=1", "a=\u{7f}", &too_long, &too_many] {
            assert_eq!(state(&[malformed]), None, "{malformed:?}");
        }
        assert_eq!(state(&[]), None);
    }

    #[test]
    fn a_context_round_trips() {
        let context = TraceContext { trace: 7, parent: 0, span: 9 };
        let read = TraceParent::parse(context.to_string().as_bytes()).unwrap();
        assert_eq!((read.trace, read.span, read.is_sampled), (7, 9, true));
    }
}
