//! `OPTIONS` of statements.

use pellucid_value::Value;

use super::builder::Builder;
use super::expressions::plan_expression;
use crate::parse::ast::Expression;
use crate::{OverwriteMode, QueryError, Result, WriteOptions, number};

/// The members of an options object, which must be known before the query runs.
pub(super) fn read_options(
    builder: &mut Builder<'_>,
    options: &Expression,
) -> Result<Vec<(String, Value)>> {
    let code = plan_expression(builder, options)?;
    match code.constant() {
        Some(value) if value.view().as_object().is_some() => {
            Ok(value.each_member(false).map(|(name, value)| (name.to_string(), value)).collect())
        }
        _ => {
            let message = "OPTIONS must be an object of values that are known in advance";
            Err(QueryError::new(number::COMPILE_TIME_OPTIONS, message))
        }
    }
}

fn warn_unknown(builder: &mut Builder<'_>, name: &str, statement: &str) -> Result<()> {
    let message = format!("unknown attribute '{name}' in OPTIONS of {statement}");
    builder.run.warn(number::INVALID_OPTIONS_ATTRIBUTE, message)
}

/// Checks the options of `FOR`. They are hints without effect here; only one that must not be
/// ignored is refused.
pub(super) fn check_for_options(builder: &mut Builder<'_>, options: &Expression) -> Result<()> {
    for (name, value) in read_options(builder, options)? {
        match name.as_str() {
            "forceIndexHint" if value.is_true() => {
                return Err(QueryError::unsupported("forceIndexHint"));
            }
            "indexHint" | "forceIndexHint" | "disableIndex" | "maxProjections" | "useCache"
            | "lookahead" => {}
            _ => warn_unknown(builder, &name, "FOR")?,
        }
    }
    Ok(())
}

pub(super) fn plan_write_options(
    builder: &mut Builder<'_>,
    options: Option<&Expression>,
    statement: &str,
) -> Result<WriteOptions> {
    let mut write = WriteOptions::default();
    let Some(options) = options else { return Ok(write) };
    let (mut mode, mut overwrites) = (None, false);
    for (name, value) in read_options(builder, options)? {
        let is_true = value.is_true();
        match name.as_str() {
            "keepNull" => write.merge.keep_null = is_true,
            "mergeObjects" => write.merge.merge_objects = is_true,
            "waitForSync" => write.wait_for_sync = is_true,
            "ignoreErrors" => write.ignore_errors = is_true,
            "ignoreRevs" => write.checks_revisions = !is_true,
            "overwrite" => overwrites = is_true,
            "overwriteMode" => match value.as_str().and_then(OverwriteMode::named) {
                Some(named) => mode = Some(named),
                None => warn_unknown(builder, "overwriteMode", "INSERT")?,
            },
            "versionAttribute" if value.as_str().is_some() => {
                return Err(QueryError::unsupported("versionAttribute"));
            }
            "exclusive" | "refillIndexCaches" | "indexHint" | "forceIndexHint" | "disableIndex"
            | "readOwnWrites" | "versionAttribute" => {}
            _ => warn_unknown(builder, &name, statement)?,
        }
    }
    // The older option counts only without a mode.
    let replaces = overwrites.then_some(OverwriteMode::Replace);
    write.overwrite_mode = mode.or(replaces).unwrap_or_default();
    Ok(write)
}
