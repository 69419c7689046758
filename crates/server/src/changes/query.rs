//! The parameters of a request for changes.

use std::borrow::Cow;

use pellucid_http::Request;
use pellucid_store::{Acknowledgement, KEY_LENGTH_MAX};

use super::form::ChangeForm;
use crate::query::{flag_parameter, number_parameter, parameter, text_parameter};

/// The header with which a browser resumes a stream of events.
const LAST_EVENT: &str = "last-event-id";

/// The names of a collection and its database.
type CollectionNames<'q> = (Cow<'q, str>, Cow<'q, str>);

/// The parameters of a stream of changes.
pub(crate) struct ChangesQuery<'q> {
    /// The sequence number after which the stream begins; `None` for the newest one.
    pub(super) since: Option<u64>,
    /// The prefix of keys.
    pub(super) prefix: Cow<'q, [u8]>,
    /// True if the stream goes on with later writes.
    pub(super) is_followed: bool,
    /// True if a change is sent only when it survives a loss of power.
    pub(super) is_durable: bool,
    pub(super) form: ChangeForm,
    /// The collection and its database, if the stream is about a collection.
    pub(crate) collection: Option<CollectionNames<'q>>,
}

impl<'q> ChangesQuery<'q> {
    /// Reads the parameters of a request. The parameter `sync` has been read already and is given
    /// as `acknowledgement`.
    ///
    /// # Errors
    /// If a parameter is invalid; the text names it.
    pub(crate) fn parse(
        request: &Request<'q>,
        acknowledgement: Acknowledgement,
    ) -> Result<ChangesQuery<'q>, String> {
        let form = ChangeForm::accepted_by(request);
        let is_asked = flag_parameter(request.query, "follow")?;
        let is_events = form == ChangeForm::Events;
        if is_events && !is_asked && parameter(request.query, "follow")?.is_some() {
            return Err("events follow what is written: leave out `follow=false`".to_owned());
        }
        let is_followed = is_events || is_asked;
        let since = number_parameter(request.query, "since")?;
        let since = match request.header(LAST_EVENT) {
            Some(id) => Some(event_id(id)?),
            None => since,
        };
        if since.is_none() && !is_followed {
            return Err(
                "`since` is missing: name the last sequence number that you know, or 0 for \
                        all changes; or follow what comes from now on with `follow=true`"
                    .to_owned(),
            );
        }
        let prefix = parameter(request.query, "prefix")?.unwrap_or_default();
        if prefix.len() > KEY_LENGTH_MAX {
            return Err(format!("`prefix` has more than the {KEY_LENGTH_MAX} bytes of a key"));
        }
        let is_durable = acknowledgement == Acknowledgement::Disk;
        let collection = collection_in(request.query)?;
        Ok(ChangesQuery { since, prefix, is_followed, is_durable, form, collection })
    }
}

/// The collection that the parameters name, and its database.
fn collection_in(query: Option<&str>) -> Result<Option<CollectionNames<'_>>, String> {
    let database = text_parameter(query, "database")?;
    let has_table = parameter(query, "table")?.is_some();
    match (text_parameter(query, "collection")?, database) {
        (None, None) => Ok(None),
        (None, Some(_)) => Err("`database` is given with `collection` alone".to_owned()),
        (Some(_), _) if has_table => {
            Err("`table` and `collection` are two things: ask for each apart".to_owned())
        }
        (Some(name), _) if name.is_empty() => Err("`collection` is empty".to_owned()),
        (Some(name), database) => {
            Ok(Some((name, database.unwrap_or(Cow::Borrowed(pellucid_document::SYSTEM_DATABASE)))))
        }
    }
}

fn event_id(id: &[u8]) -> Result<u64, String> {
    let text = std::str::from_utf8(id).ok().map(str::trim);
    let number = text.and_then(|text| text.parse().ok());
    number.ok_or_else(|| "`Last-Event-ID` is not the id of an event of this stream".to_owned())
}

#[cfg(test)]
mod tests {
    use pellucid_http::Header;

    use super::*;

    fn parsed(query: &str, headers: &[(&str, &str)]) -> Result<(Option<u64>, bool), String> {
        let headers: Vec<Header<'_>> =
            headers.iter().map(|(name, value)| Header { name, value: value.as_bytes() }).collect();
        let query = Some(query).filter(|query| !query.is_empty());
        let request =
            Request { method: "GET", path: "/v0/changes", query, headers: &headers, body: b"" };
        let query = ChangesQuery::parse(&request, Acknowledgement::Os)?;
        Ok((query.since, query.is_followed))
    }

    #[test]
    fn a_stream_of_events_follows_and_resumes_after_the_last_event() {
        let events = ("Accept", "text/event-stream");
        assert_eq!(parsed("since=7", &[]), Ok((Some(7), false)));
        assert_eq!(parsed("since=7&follow", &[]), Ok((Some(7), true)));
        assert_eq!(parsed("", &[events]), Ok((None, true)));
        assert_eq!(parsed("since=7", &[events, ("Last-Event-ID", "9")]), Ok((Some(9), true)));
        for (query, headers, what) in [
            ("", &[][..], "`since` is missing"),
            ("since=-1", &[], "whole number"),
            ("since=0&follow=perhaps", &[], "neither true nor false"),
            ("since=0&database=d", &[], "with `collection` alone"),
            ("since=0&collection=", &[], "empty"),
            ("since=0&collection=c&table=t", &[], "two things"),
            ("", &[("Last-Event-ID", "x")], "Last-Event-ID"),
            // An invalid parameter is refused, even if the header overrides it.
            ("since=x", &[("Last-Event-ID", "9")], "whole number"),
        ] {
            let error = parsed(query, headers).unwrap_err();
            assert!(error.contains(what), "{query}: {error}");
        }
    }
}
