//! Reads lines that a server streams: ranges of entities, and changes.

use pellucid_client::http::HttpRequest;

use super::PATIENCE;
use super::table::TableArgument;
use crate::Failure;
use crate::remote_server::RemoteServer;

/// A function that takes one or more complete lines at a time, without the last line end. It
/// returns false if it wants no more.
type LineCallback<'a> = dyn FnMut(&[u8]) -> Result<bool, String> + 'a;

/// The smallest key: the start of a range that has none.
pub(super) const LEAST_KEY: &[u8] = &[0];
/// The longest line of a server in bytes: enough for a value of 384 MiB in base64.
const LINE_BYTES_MAX: usize = 512 << 20;

/// Requests the range at `path` and passes its lines to `take`.
pub(super) fn lines_of_range(
    remote: &RemoteServer,
    (path, table): (&str, &TableArgument),
    take: &mut LineCallback<'_>,
) -> Result<(), Failure> {
    let headers = "Accept: application/x-ndjson\r\n";
    let asked = HttpRequest { headers, patience: PATIENCE, ..HttpRequest::get(path) };
    if streamed_lines(remote, &asked, ("an entity", &table.grant("read")), take)? {
        return Ok(());
    }
    Err(Failure::work("the range ended within an entity: ask again"))
}

/// Requests a stream of lines and passes them to `take`. Returns false if the stream ended within a
/// line. For messages, `what` names the content of a line, and `grant` the right that is needed.
pub(super) fn streamed_lines(
    remote: &RemoteServer,
    asked: &HttpRequest<'_>,
    (what, grant): (&str, &str),
    take: &mut LineCallback<'_>,
) -> Result<bool, Failure> {
    let (mut pending, mut is_read) = (Vec::new(), true);
    let answered = remote.ask_in_pieces(asked, &mut |status, body| {
        if status != 200 {
            return Ok(());
        }
        let seen = pending.len();
        pending.append(body);
        let Some(end) = pending[seen..].iter().rposition(|byte| *byte == b'\n') else {
            if pending.len() > LINE_BYTES_MAX {
                return Err(format!("{what} is longer than {LINE_BYTES_MAX} bytes in base64"));
            }
            return Ok(());
        };
        is_read = take(&pending[..seen + end])?;
        pending.drain(..=seen + end);
        if is_read { Ok(()) } else { Err("nobody reads the rest".to_owned()) }
    });
    if !is_read {
        return Ok(true);
    }
    let answer = answered?;
    if answer.status != 200 {
        return Err(answer.failure(grant));
    }
    Ok(pending.is_empty())
}
