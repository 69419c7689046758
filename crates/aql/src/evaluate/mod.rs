//! Values of expressions.

mod compute;
mod operators;
mod regular;
mod show;

pub(crate) use operators::{compare_by, like, like_prefix, range_bounds};
pub(crate) use regular::{Matches, captures, is_match};
pub(crate) use show::text_of;
