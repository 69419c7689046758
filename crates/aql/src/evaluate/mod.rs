//! Values of expressions.

mod compute;
mod expression_text;
mod operators;
mod regex_matching;

pub(crate) use expression_text::text_of;
pub(crate) use operators::{SET_COMPARISONS_MIN, compare_by, like, like_prefix, range_bounds};
pub(crate) use regex_matching::{Matches, captures, is_match};
