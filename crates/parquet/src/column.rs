//! Columns of a table that is written.

use std::collections::HashSet;
use std::sync::Arc;

use parquet::basic::{LogicalType, Repetition, TimeUnit, Type as Physical};
use parquet::errors::ParquetError;
use parquet::schema::types::{Type, TypePtr};

/// A column.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Column {
    /// The name.
    pub name: String,
    /// The kind of its values.
    pub kind: Kind,
    /// True if every row has a value.
    pub is_required: bool,
}

/// A kind of values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Bytes of any kind.
    Bytes,
    /// Strings.
    Text,
    /// JSON texts.
    Json,
    /// Booleans.
    Boolean,
    /// Signed integers of 64 bits.
    Integer,
    /// Floating-point numbers of 64 bits.
    Double,
    /// Timestamps in UTC, in milliseconds.
    Moment,
}

impl Column {
    pub(crate) fn table(columns: &[Column]) -> Result<TypePtr, ParquetError> {
        let fields = columns.iter().map(|column| column.field().map(Arc::new));
        let fields = fields.collect::<Result<Vec<_>, _>>()?;
        Type::group_type_builder("schema").with_fields(fields).build().map(Arc::new)
    }

    fn field(&self) -> Result<Type, ParquetError> {
        let (physical, logical) = match self.kind {
            Kind::Bytes => (Physical::BYTE_ARRAY, None),
            Kind::Text => (Physical::BYTE_ARRAY, Some(LogicalType::String)),
            Kind::Json => (Physical::BYTE_ARRAY, Some(LogicalType::Json)),
            Kind::Boolean => (Physical::BOOLEAN, None),
            Kind::Integer => (Physical::INT64, None),
            Kind::Double => (Physical::DOUBLE, None),
            Kind::Moment => (Physical::INT64, Some(LogicalType::timestamp(true, TimeUnit::MILLIS))),
        };
        let needed = if self.is_required { Repetition::REQUIRED } else { Repetition::OPTIONAL };
        Type::primitive_type_builder(&self.name, physical)
            .with_logical_type(logical)
            .with_repetition(needed)
            .build()
    }
}

/// Checks that no two columns have the same name.
pub(crate) fn check_names<'a>(names: impl IntoIterator<Item = &'a String>) -> Result<(), String> {
    let mut seen = HashSet::new();
    match names.into_iter().find(|name| !seen.insert(name.as_str())) {
        Some(twice) => Err(format!("two columns are named `{twice}`")),
        None => Ok(()),
    }
}
