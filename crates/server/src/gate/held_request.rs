//! Copies of requests that wait until another thread has verified their password.

use std::sync::atomic::{AtomicUsize, Ordering};

use pellucid_http::{Header, Request};

/// The limit of bytes that waiting requests may hold together.
const HELD_BYTES_MAX: usize = 64 << 20;
/// The bytes of a copied header besides its text: its place in the list, and at most 32 for each of
/// its two allocations.
const HEADER_BYTES: usize = size_of::<(String, Vec<u8>)>() + 2 * 32;

/// Bytes that waiting requests of all event loops hold now.
static HELD_BYTES: AtomicUsize = AtomicUsize::new(0);

/// A copy of a request, so that the event loop can reuse its buffer meanwhile.
pub(crate) struct HeldRequest {
    method: String,
    path: String,
    query: Option<String>,
    headers: Vec<(String, Vec<u8>)>,
    body: Vec<u8>,
    length_bytes: usize,
}

impl HeldRequest {
    /// Copies a request; `None` if the limit of held bytes would be exceeded.
    pub(super) fn of(request: &Request<'_>) -> Option<HeldRequest> {
        let headers = request.headers.iter();
        let headers = headers.map(|h| h.name.len() + h.value.len() + HEADER_BYTES);
        let texts = [request.method, request.path, request.query.unwrap_or_default()];
        let length_bytes = size_of::<HeldRequest>()
            + request.body.len()
            + texts.map(str::len).iter().sum::<usize>()
            + headers.sum::<usize>();
        if HELD_BYTES.fetch_add(length_bytes, Ordering::Relaxed) + length_bytes > HELD_BYTES_MAX {
            HELD_BYTES.fetch_sub(length_bytes, Ordering::Relaxed);
            return None;
        }
        let header = |header: &Header<'_>| (header.name.to_owned(), header.value.to_vec());
        Some(HeldRequest {
            method: request.method.to_owned(),
            path: request.path.to_owned(),
            query: request.query.map(str::to_owned),
            headers: request.headers.iter().map(header).collect(),
            body: request.body.to_vec(),
            length_bytes,
        })
    }

    /// Calls `serve` with the request, and returns its result.
    pub(crate) fn with_request<T>(&self, serve: impl FnOnce(&Request<'_>) -> T) -> T {
        let headers = self.headers.iter();
        let headers: Vec<Header<'_>> =
            headers.map(|(name, value)| Header { name, value }).collect();
        serve(&Request {
            method: &self.method,
            path: &self.path,
            query: self.query.as_deref(),
            headers: &headers,
            body: &self.body,
        })
    }
}

impl Drop for HeldRequest {
    fn drop(&mut self) {
        HELD_BYTES.fetch_sub(self.length_bytes, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Regression: the query and the costs of short headers were left out, so that the requests of
    /// a limit of 64 MiB could take three times as much.
    #[test]
    fn all_memory_of_a_held_request_counts() {
        let query = "q".repeat(10_000);
        let headers = [Header { name: "a", value: b"b" }; 100];
        let held = HeldRequest::of(&Request {
            method: "PUT",
            path: "/v0/entity",
            query: Some(&query),
            headers: &headers,
            body: b"body",
        });
        let held = held.unwrap();
        let list = held.headers.capacity() * size_of::<(String, Vec<u8>)>();
        assert!(held.length_bytes >= query.len() + list + 200, "{}", held.length_bytes);
    }
}
