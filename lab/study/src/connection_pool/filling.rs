//! Fills the collection `transactionRelationship`. Its documents are edges between accounts, each a
//! payment with the identifier `EndToEndId`.

use std::fmt::Write as _;
use std::net::SocketAddr;
use std::time::Duration;

use pellucid_client::http::{HttpRequest, Target, TlsOptions};
use pellucid_io::SeededRandom;

use crate::error::StudyError;

pub(super) const COLLECTION: &str = "transactionRelationship";

/// The number of documents in one import.
const DOCUMENTS_AT_ONCE: u64 = 50_000;
/// The longest wait for an answer, enough for an index over 200,000 documents on a slow machine.
const PATIENCE: Duration = Duration::from_secs(600);

/// The identifier of a document: it looks like a random UUID, and is the same in each run.
pub(super) fn end_to_end_id(number: u64) -> String {
    let (high, low) = (SeededRandom::at(2 * number), SeededRandom::at(2 * number + 1));
    format!(
        "{:08x}-{:04x}-4{:03x}-a{:03x}-{:012x}",
        high >> 32,
        (high >> 16) & 0xffff,
        high & 0xfff,
        low >> 52,
        low & 0xffff_ffff_ffff
    )
}

/// Makes the collection and imports its documents.
pub(super) fn fill(address: SocketAddr, documents: u64) -> Result<(), StudyError> {
    let collection = format!(r#"{{"name":"{COLLECTION}","type":3}}"#);
    send(address, "/_api/collection", "", collection.as_bytes())?;
    let target = format!("/_api/import?collection={COLLECTION}&type=documents&complete=false");
    let mut first = 0;
    while first < documents {
        let next = (first + DOCUMENTS_AT_ONCE).min(documents);
        let mut lines = String::new();
        (first..next).for_each(|number| document(number, &mut lines));
        let answer = send(address, &target, "", lines.as_bytes())?;
        let answer = String::from_utf8_lossy(&answer);
        if !answer.contains(&format!("\"created\":{}", next - first)) {
            return Err(StudyError::Step(format!("the import says: {answer}")));
        }
        first = next;
    }
    Ok(())
}

fn document(number: u64, out: &mut String) {
    let id = end_to_end_id(number);
    let (from, to) = (SeededRandom::at(number) % 10_000, SeededRandom::at(!number) % 10_000);
    // Writing to a string does not fail.
    let _ = writeln!(
        out,
        "{{\"_from\":\"accounts/{from}\",\"_to\":\"accounts/{to}\",\"TxTp\":\"pacs.008.001.10\",\
         \"CreDtTm\":\"2023-09-0{}T12:{:02}:{:02}.000Z\",\"Amt\":{}.{:02},\"Ccy\":\"XTS\",\
         \"PmtInfId\":\"{number:032x}\",\"EndToEndId\":\"{id}\"}}",
        1 + number % 9,
        number / 60 % 60,
        number % 60,
        number % 5_000,
        number % 100,
    );
}

/// Makes the index that queries then use.
pub(super) fn make_index(address: SocketAddr) -> Result<(), StudyError> {
    let target = format!("/_api/index?collection={COLLECTION}");
    let index = br#"{"type":"persistent","fields":["EndToEndId"]}"#;
    send(address, &target, "", index).map(|_| ())
}

/// Returns the whole response to a query for this identifier, as a driver receives it.
pub(super) fn response(address: SocketAddr, id: &str) -> Result<String, StudyError> {
    let query = format!(
        "{{\"query\":\"FOR doc IN {COLLECTION} FILTER doc.EndToEndId == @id RETURN doc\",\
         \"bindVars\":{{\"id\":\"{id}\"}}}}"
    );
    let answer = send(address, "/_api/cursor", "Prefer: timing\r\n", query.as_bytes())?;
    String::from_utf8(answer).map_err(StudyError::step)
}

/// Sends a POST on a new connection and returns the whole response.
///
/// # Errors
/// If there is no answer, or its status is not 2xx.
fn send(
    address: SocketAddr,
    path: &str,
    headers: &str,
    body: &[u8],
) -> Result<Vec<u8>, StudyError> {
    let target = Target::parse(&format!("http://{address}/")).map_err(StudyError::step)?;
    let (method, patience) = ("POST", PATIENCE);
    let question = HttpRequest { method, headers, body, patience, ..HttpRequest::get(path) };
    let (status, answer) =
        question.ask(&target, &TlsOptions::default()).map_err(StudyError::Step)?;
    let response = [answer.head, answer.body].concat();
    if (200..300).contains(&status) {
        return Ok(response);
    }
    let text = String::from_utf8_lossy(&response).into_owned();
    Err(StudyError::Step(format!("POST {path} is refused: {text}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn identifiers_look_like_random_ones_and_stay_the_same() {
        let id = end_to_end_id(7);
        assert_eq!((id.len(), &id[14..15]), (36, "4"));
        assert_eq!(id, end_to_end_id(7));
        assert_ne!(id, end_to_end_id(8));
        let mut line = String::new();
        document(7, &mut line);
        let read: serde_json::Value = serde_json::from_str(&line).unwrap();
        assert_eq!(read["EndToEndId"], id);
    }
}
