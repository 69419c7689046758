//! The entity API: `/v0/entity`, `/v0/entities`, `/v0/entities/get` and `/v0/batch`.

mod api;
pub(crate) mod batch;
mod conditions;
mod fields;
mod lifetime;
mod lines;
pub(crate) mod multi_get;
mod pieces;
pub(crate) mod ranges;
mod tables;

pub(crate) use api::{EntityApi, WriteParameters};
pub(crate) use conditions::EntityHeaders;
pub(crate) use fields::LIFETIME_SECONDS_MAX;
pub(crate) use multi_get::KEYS_MAX;
pub(crate) use pieces::EntitySelection;
pub(crate) use ranges::{names_type, write_base64, write_base64_piece};
pub use tables::is_entity_table;
pub(crate) use tables::{EntityTables, NAME_PATTERN, check_name, table_name};
