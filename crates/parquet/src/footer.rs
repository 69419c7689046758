//! The footer of a file, which describes its columns and row groups.

use parquet::file::metadata::{ParquetMetaData, ParquetMetaDataReader};

use crate::column_type::nested;
use crate::guard::guarded;
use crate::source::Source;
use crate::thrift::{Thrift, ThriftError};

/// The most bytes of a footer, which is enough for some hundred thousand column chunks.
const BYTES_MAX: u32 = 32 << 20;
/// The most columns of a table.
const COLUMNS_MAX: usize = 10_000;
/// The magic bytes at the beginning and the end of a file.
const MAGIC: &[u8] = b"PAR1";
/// The magic bytes at the end of a file whose footer is encrypted.
const MAGIC_ENCRYPTED: &[u8] = b"PARE";
/// The bytes behind the footer: its length and the magic bytes.
const END_BYTES: usize = 8;

/// Reads the metadata of a file without nested columns.
pub(crate) fn read(source: &Source) -> Result<ParquetMetaData, String> {
    let length = source.length();
    if length < (MAGIC.len() + END_BYTES) as u64 || source.bytes(0, MAGIC.len())? != MAGIC {
        return Err("it is no Parquet file".to_owned());
    }
    let end = source.bytes(length - END_BYTES as u64, END_BYTES)?;
    let (footer_bytes, magic) = end.split_at(4);
    if magic == MAGIC_ENCRYPTED {
        return Err("it is encrypted, which is not taken".to_owned());
    }
    if magic != MAGIC {
        return Err("it is cut, or was not written to its end".to_owned());
    }
    let footer_bytes = footer_bytes.try_into().map(u32::from_le_bytes).unwrap_or_default();
    let begin = length - END_BYTES as u64;
    let begin = begin.checked_sub(u64::from(footer_bytes)).filter(|_| footer_bytes <= BYTES_MAX);
    let begin = begin.ok_or_else(|| format!("its footer has {footer_bytes} bytes: too many"))?;
    let footer = source.bytes(begin, footer_bytes as usize)?;
    check_columns(&footer)?;
    let described = guarded(|| ParquetMetaDataReader::decode_metadata(&footer));
    described.map_err(|what| format!("its footer cannot be read: {what}"))
}

/// Checks the columns before the library parses them, because the library recurses for each level
/// of nesting and allocates memory for as many columns as the footer claims.
fn check_columns(footer: &[u8]) -> Result<(), String> {
    let mut elements = Vec::new();
    let mut thrift = Thrift::new(footer);
    let read = thrift.structure(&mut |thrift, field| {
        if field.id != 2 {
            return Ok(false);
        }
        let count = thrift.list_of_structures()?;
        for _ in 0..count {
            elements.push(Element::read(thrift)?);
            if elements.len() > COLUMNS_MAX + 1 {
                return Err(ThriftError::Malformed);
            }
        }
        Ok(true)
    });
    if elements.len() > COLUMNS_MAX + 1 {
        return Err(format!("it has more than {COLUMNS_MAX} columns"));
    }
    read.map_err(|_| "its footer is damaged".to_owned())?;
    let [table, columns @ ..] = &elements[..] else { return Err("it has no columns".to_owned()) };
    if let Some(column) = columns.iter().find(|column| column.children > 0) {
        return Err(nested(&String::from_utf8_lossy(column.name)));
    }
    if table.children as usize != columns.len() || columns.is_empty() {
        return Err("its footer is damaged: it tells its columns twice".to_owned());
    }
    Ok(())
}

/// An element of the footer's schema: the table or a column.
#[derive(Default)]
struct Element<'a> {
    name: &'a [u8],
    children: u32,
}

impl<'a> Element<'a> {
    fn read(thrift: &mut Thrift<'a>) -> Result<Element<'a>, ThriftError> {
        let mut element = Element::default();
        thrift.structure(&mut |thrift, field| {
            match field.id {
                4 => element.name = thrift.binary()?,
                5 => element.children = thrift.size()?,
                _ => return Ok(false),
            }
            Ok(true)
        })?;
        Ok(element)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A footer whose elements have these numbers of children.
    fn footer(children: &[u8]) -> Vec<u8> {
        let element = |children: &u8| [0x48, 1, b'x', 0x15, children * 2, 0];
        let elements: Vec<u8> = children.iter().flat_map(element).collect();
        let count = children.len();
        let count = [count & 0x7f | 0x80, count >> 7 & 0x7f | 0x80, count >> 14];
        let count = count.map(|part| part as u8);
        [&[0x15, 4, 0x19, 0xfc][..], &count, &elements, &[0]].concat()
    }

    #[test]
    fn nested_columns_are_refused() {
        assert_eq!(check_columns(&footer(&[2, 0, 0])), Ok(()));
        for (children, what) in [
            (&[2, 1, 0][..], "`x` is nested"),
            (&[1; 10_000], "`x` is nested"),
            (&[1; 20_000], "more than 10000 columns"),
            (&[60, 0, 0], "damaged"),
            (&[0], "damaged"),
            (&[], "no columns"),
        ] {
            let error = check_columns(&footer(children)).unwrap_err();
            assert!(error.contains(what), "{error}");
        }
        assert!(check_columns(&footer(&[1, 0])[..8]).unwrap_err().contains("damaged"));
    }
}
