//! Servers on the embedded store: their pages about themselves, and about their store.

mod account;
mod backups;
mod changes;
mod compact;
mod copies;
mod dashboard;
mod disk;
mod documents_owners;
mod engine_page;
mod hand_over;
mod metrics;
mod reporter;
mod request_pages;
mod routes;
mod sites;
mod streamed_queries;
mod transport_parts;
mod unix;
