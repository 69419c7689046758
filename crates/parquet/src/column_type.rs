//! The logical types of columns that are read.

use parquet::basic::{ConvertedType, LogicalType, TimeUnit, Type as Physical};
use parquet::schema::types::ColumnDescriptor;

/// The logical type of a column's values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ColumnType {
    Bytes,
    Text,
    Json,
    Boolean,
    Integer,
    Unsigned,
    Double,
    Day,
    Moment { per_second: u32, is_utc: bool },
}

impl ColumnType {
    /// The form of a column's values.
    ///
    /// # Errors
    /// If the type is not supported; the text names the column and the type.
    pub(crate) fn of(column: &ColumnDescriptor) -> Result<ColumnType, String> {
        let name = column.name();
        if column.max_rep_level() > 0 || column.path().parts().len() > 1 {
            return Err(nested(name));
        }
        let (physical, converted) = (column.physical_type(), column.converted_type());
        let form = match column.logical_type_ref() {
            Some(logical) => of_logical(physical, logical),
            None => of_converted(physical, converted),
        };
        form.ok_or_else(|| {
            let logical = column.logical_type_ref().map(|logical| format!("{logical:?}"));
            let told = logical.unwrap_or_else(|| converted.to_string());
            let cure = "cast it to a text, a number, a boolean, a timestamp or bytes";
            format!("the column `{name}` has a type that is not taken ({physical}, {told}): {cure}")
        })
    }
}

/// The message that refuses a nested column.
pub(crate) fn nested(name: &str) -> String {
    format!(
        "the column `{name}` is nested, as lists, maps and structs are, which is not taken: write \
         it as a text of JSON"
    )
}

fn of_logical(physical: Physical, logical: &LogicalType) -> Option<ColumnType> {
    match (physical, logical) {
        (Physical::BYTE_ARRAY, LogicalType::String | LogicalType::Enum) => Some(ColumnType::Text),
        (Physical::BYTE_ARRAY, LogicalType::Json) => Some(ColumnType::Json),
        (Physical::INT32 | Physical::INT64, LogicalType::Integer(integer)) => {
            Some(if integer.is_signed { ColumnType::Integer } else { ColumnType::Unsigned })
        }
        (Physical::INT32, LogicalType::Date) => Some(ColumnType::Day),
        (Physical::INT64, LogicalType::Timestamp(timestamp)) => {
            let per_second = match timestamp.unit {
                TimeUnit::MILLIS => 1_000,
                TimeUnit::MICROS => 1_000_000,
                TimeUnit::NANOS => 1_000_000_000,
            };
            Some(ColumnType::Moment { per_second, is_utc: timestamp.is_adjusted_to_u_t_c })
        }
        // In a column of unknown type, no row has a value.
        (_, LogicalType::Unknown) => plain(physical),
        _ => None,
    }
}

/// The form by the converted type, which older files have instead of a logical type.
fn of_converted(physical: Physical, converted: ConvertedType) -> Option<ColumnType> {
    let moment = |per_second| Some(ColumnType::Moment { per_second, is_utc: true });
    match (physical, converted) {
        (_, ConvertedType::NONE) => plain(physical),
        (Physical::BYTE_ARRAY, ConvertedType::UTF8 | ConvertedType::ENUM) => Some(ColumnType::Text),
        (Physical::BYTE_ARRAY, ConvertedType::JSON) => Some(ColumnType::Json),
        (Physical::INT32, ConvertedType::DATE) => Some(ColumnType::Day),
        (Physical::INT64, ConvertedType::TIMESTAMP_MILLIS) => moment(1_000),
        (Physical::INT64, ConvertedType::TIMESTAMP_MICROS) => moment(1_000_000),
        (Physical::INT32, ConvertedType::INT_8 | ConvertedType::INT_16 | ConvertedType::INT_32)
        | (Physical::INT64, ConvertedType::INT_64) => Some(ColumnType::Integer),
        (
            Physical::INT32,
            ConvertedType::UINT_8 | ConvertedType::UINT_16 | ConvertedType::UINT_32,
        )
        | (Physical::INT64, ConvertedType::UINT_64) => Some(ColumnType::Unsigned),
        _ => None,
    }
}

/// The form of a column with only a physical type.
fn plain(physical: Physical) -> Option<ColumnType> {
    match physical {
        Physical::BOOLEAN => Some(ColumnType::Boolean),
        Physical::INT32 | Physical::INT64 => Some(ColumnType::Integer),
        Physical::FLOAT | Physical::DOUBLE => Some(ColumnType::Double),
        Physical::BYTE_ARRAY | Physical::FIXED_LEN_BYTE_ARRAY => Some(ColumnType::Bytes),
        Physical::INT96 => None,
    }
}
