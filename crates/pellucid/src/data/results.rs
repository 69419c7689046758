//! Reads the results of a query from a server, batch after batch.

use std::time::Duration;

use super::json::{attribute, elements, members};
use crate::Failure;
use crate::remote_server::{Answer, RemoteServer, encoded, question};

/// A function that takes the results of one batch, each as JSON. It returns false if it wants no
/// more.
pub(super) type ResultCallback<'a> = dyn FnMut(&[&[u8]]) -> Result<bool, Failure> + 'a;

/// The most results in one answer.
pub(super) const BATCH_RESULTS: u32 = 1_000;
/// The longest answer in bytes. A server ends a batch at 16 MiB, or after one larger result.
const ANSWER_BYTES_MAX: usize = 1 << 30;

/// A database that is asked.
pub(super) struct DatabaseClient<'a> {
    pub(super) remote: &'a RemoteServer,
    pub(super) database: &'a str,
    /// The longest wait for an answer.
    pub(super) patience: Duration,
}

impl DatabaseClient<'_> {
    /// Runs a query and passes its results to `take`, batch by batch and unchanged. `query` is the
    /// body of the request.
    pub(super) fn results(
        &self,
        query: &str,
        take: &mut ResultCallback<'_>,
    ) -> Result<(), Failure> {
        let path = format!("/_db/{}/_api/cursor", encoded(self.database));
        let mut answer = self.ask("POST", &path, query.as_bytes())?;
        loop {
            let members = members(&answer.body).ok_or_else(malformed)?;
            let results = attribute(&members, r#""result""#).and_then(elements);
            let taken = take(&results.ok_or_else(malformed)?);
            if attribute(&members, r#""hasMore""#) != Some(b"true") {
                return taken.map(|_| ());
            }
            let id = attribute(&members, r#""id""#);
            let id = id.and_then(|id| serde_json::from_slice::<String>(id).ok());
            let path = format!("{path}/{}", encoded(id.ok_or_else(malformed)?));
            if !matches!(taken, Ok(true)) {
                // Delete the cursor, which would otherwise hold memory until it expires.
                let deleted = self.ask("DELETE", &path, b"");
                return taken.and(deleted.map(|_| ()));
            }
            answer = self.ask("POST", &path, b"")?;
        }
    }

    fn ask(&self, method: &str, path: &str, body: &[u8]) -> Result<Answer, Failure> {
        let asked = question(method, path, body, self.patience);
        let mut whole = Vec::new();
        let answer = self.remote.ask_in_pieces(&asked, &mut |status, body| {
            if (200..300).contains(&status) {
                whole.append(body);
            }
            if whole.len() > ANSWER_BYTES_MAX {
                return Err(format!("a batch of results has more than {ANSWER_BYTES_MAX} bytes"));
            }
            Ok(())
        })?;
        if (200..300).contains(&answer.status) {
            return Ok(Answer { body: whole, ..answer });
        }
        Err(answer.failure("database/NAME=read"))
    }
}

fn malformed() -> Failure {
    Failure::work("the server's answer is no batch of results; is it Pellucid?")
}
