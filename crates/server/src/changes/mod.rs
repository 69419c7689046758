//! `GET /v0/changes`: the writes of entities or of a collection in their order, once or as they
//! come.
//!
//! A follower holds nothing of the store: it is read from the journal again for each piece that a
//! client takes, and one that is slower than the journal is collected is told so and ends.

mod api;
mod body;
mod content;
mod followers;
mod form;
mod pieces;
mod query;
mod reader;

pub(crate) use api::{ChangesApi, ChangesOf};
pub(crate) use query::ChangesQuery;
