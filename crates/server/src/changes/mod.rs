//! `GET /v0/changes`: streams the writes of entities or of a collection in their order, up to now,
//! or following later writes.
//!
//! A stream holds no resources of the store: each piece is read from the journal when the client
//! has taken the one before. If the journal's garbage collection overtakes a slow client, the
//! stream says so and ends.

mod api;
mod body;
mod content;
mod followers;
mod form;
mod memory;
mod pieces;
mod query;

pub(crate) use api::ChangesApi;
pub(crate) use content::Content;
pub(crate) use query::ChangesQuery;
