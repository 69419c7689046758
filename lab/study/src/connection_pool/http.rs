//! The requests that the study sends itself: to fill the collection, to make the index, and to get
//! the answer that the trivial server repeats.

use std::net::SocketAddr;
use std::time::Duration;

use pellucid_client::http::{HttpRequest, Target, TlsOptions};

use crate::error::StudyError;

/// The longest wait for an answer, enough for an index over 200,000 documents on a slow machine.
const PATIENCE: Duration = Duration::from_secs(600);

/// Sends a POST on a new connection and returns the whole response.
///
/// # Errors
/// If there is no answer, or its status is not 2xx.
pub(super) fn send(
    address: SocketAddr,
    path: &str,
    headers: &str,
    body: &[u8],
) -> Result<Vec<u8>, StudyError> {
    let target = Target::parse(&format!("http://{address}/")).map_err(StudyError::step)?;
    let question = HttpRequest { method: "POST", path, headers, body, patience: PATIENCE };
    let (status, answer) =
        question.ask(&target, &TlsOptions::default()).map_err(StudyError::Step)?;
    let response = [answer.head, answer.body].concat();
    if (200..300).contains(&status) {
        return Ok(response);
    }
    let text = String::from_utf8_lossy(&response).into_owned();
    Err(StudyError::Step(format!("POST {path} is refused: {text}")))
}
