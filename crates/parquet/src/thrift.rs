//! A parser of Thrift's compact protocol, in which the metadata of Parquet files is encoded.
//!
//! It implements only what is needed to check metadata before the parquet library trusts it.

/// The most levels of nested structures that are skipped.
const DEPTH_MAX: u8 = 32;

const TRUE: u8 = 1;
const FALSE: u8 = 2;
const BYTE: u8 = 3;
const DOUBLE: u8 = 7;
const BINARY: u8 = 8;
const LIST: u8 = 9;
const SET: u8 = 10;
const MAP: u8 = 11;
const STRUCT: u8 = 12;

/// The reason why bytes cannot be parsed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ThriftError {
    /// The bytes end within a structure.
    Short,
    Malformed,
}

/// A field of a structure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Field {
    pub(crate) id: i16,
    kind: u8,
}

impl Field {
    /// Its value, if it is a boolean.
    pub(crate) fn boolean(self) -> Option<bool> {
        matches!(self.kind, TRUE | FALSE).then_some(self.kind == TRUE)
    }
}

/// A parser at a position in bytes.
pub(crate) struct Thrift<'a> {
    rest: &'a [u8],
}

impl<'a> Thrift<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Thrift<'a> {
        Thrift { rest: bytes }
    }

    /// The number of bytes that are left.
    pub(crate) fn left(&self) -> usize {
        self.rest.len()
    }

    /// Parses a structure. `take` is called for each field, and returns true if it has parsed the
    /// field's value. Other fields are skipped.
    pub(crate) fn structure(
        &mut self,
        take: &mut dyn FnMut(&mut Thrift<'a>, Field) -> Result<bool, ThriftError>,
    ) -> Result<(), ThriftError> {
        self.structure_within(DEPTH_MAX, take)
    }

    fn structure_within(
        &mut self,
        depth: u8,
        take: &mut dyn FnMut(&mut Thrift<'a>, Field) -> Result<bool, ThriftError>,
    ) -> Result<(), ThriftError> {
        let mut last = 0_i16;
        loop {
            let begin = self.byte()?;
            if begin == 0 {
                return Ok(());
            }
            let id = match i16::from(begin >> 4) {
                0 => i16::try_from(self.integer()?).map_err(|_| ThriftError::Malformed)?,
                more => last.checked_add(more).ok_or(ThriftError::Malformed)?,
            };
            last = id;
            let field = Field { id, kind: begin & 0xf };
            if !take(self, field)? && field.boolean().is_none() {
                self.pass(field.kind, depth)?;
            }
        }
    }

    /// Parses the header of a list of structures. Returns the number of elements.
    pub(crate) fn list_of_structures(&mut self) -> Result<usize, ThriftError> {
        match self.list()? {
            (STRUCT, count) => Ok(count),
            _ => Err(ThriftError::Malformed),
        }
    }

    /// Parses an integer.
    pub(crate) fn integer(&mut self) -> Result<i64, ThriftError> {
        let raw = self.varint()?;
        Ok((raw >> 1) as i64 ^ -((raw & 1) as i64))
    }

    /// Parses an integer that is a size.
    pub(crate) fn size(&mut self) -> Result<u32, ThriftError> {
        u32::try_from(self.integer()?).map_err(|_| ThriftError::Malformed)
    }

    pub(crate) fn binary(&mut self) -> Result<&'a [u8], ThriftError> {
        let length = usize::try_from(self.varint()?).map_err(|_| ThriftError::Malformed)?;
        let (bytes, rest) = self.rest.split_at_checked(length).ok_or(ThriftError::Short)?;
        self.rest = rest;
        Ok(bytes)
    }

    fn byte(&mut self) -> Result<u8, ThriftError> {
        let (byte, rest) = self.rest.split_first().ok_or(ThriftError::Short)?;
        self.rest = rest;
        Ok(*byte)
    }

    fn varint(&mut self) -> Result<u64, ThriftError> {
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            value |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Ok(value);
            }
        }
        Err(ThriftError::Malformed)
    }

    /// Parses the header of a list: the kind and the number of its elements.
    fn list(&mut self) -> Result<(u8, usize), ThriftError> {
        let begin = self.byte()?;
        let count = match begin >> 4 {
            0xf => usize::try_from(self.varint()?).map_err(|_| ThriftError::Malformed)?,
            few => usize::from(few),
        };
        Ok((begin & 0xf, count))
    }

    /// Skips a value.
    fn pass(&mut self, kind: u8, depth: u8) -> Result<(), ThriftError> {
        let depth = depth.checked_sub(1).ok_or(ThriftError::Malformed)?;
        match kind {
            TRUE | FALSE | BYTE => drop(self.byte()?),
            4..=6 => drop(self.varint()?),
            DOUBLE => self.rest = self.rest.get(8..).ok_or(ThriftError::Short)?,
            BINARY => drop(self.binary()?),
            LIST | SET => {
                let (kind, count) = self.list()?;
                for _ in 0..count {
                    self.pass(kind, depth)?;
                }
            }
            MAP => {
                let count = self.varint()?;
                let kinds = if count > 0 { self.byte()? } else { 0 };
                for _ in 0..count {
                    self.pass(kinds >> 4, depth)?;
                    self.pass(kinds & 0xf, depth)?;
                }
            }
            STRUCT => self.structure_within(depth, &mut |_, _| Ok(false))?,
            _ => return Err(ThriftError::Malformed),
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The numbers of the fields of a structure, all of which are skipped.
    fn passed(bytes: &[u8]) -> Result<Vec<i16>, ThriftError> {
        let mut ids = Vec::new();
        let mut thrift = Thrift::new(bytes);
        thrift.structure(&mut |_, field| {
            ids.push(field.id);
            Ok(false)
        })?;
        Ok(ids)
    }

    #[test]
    fn fields_of_every_kind_are_skipped() {
        let bytes = [
            &[0x11][..],
            &[0x12],
            &[0x13, 0xff],
            &[0x15, 0x80, 0x01],
            &[0x17, 1, 2, 3, 4, 5, 6, 7, 8],
            &[0x18, 2, b'a', b'b'],
            &[0x19, 0x21, 1, 2],
            &[0x1b, 1, 0x85, 1, b'k', 4],
            &[0x1b, 0],
            &[0x1c, 0x15, 2, 0],
            &[0x05, 0x28, 2],
            &[0],
        ];
        let bytes = bytes.concat();
        assert_eq!(passed(&bytes).unwrap(), [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 20]);
        for end in 0..bytes.len() {
            assert_eq!(passed(&bytes[..end]), Err(ThriftError::Short), "{end}");
        }
    }

    #[test]
    fn malformed_structures_are_refused() {
        let deep = [[0x1c; 100], [0; 100]].concat();
        let lists = [&[0x19][..], &[0x19; 100]].concat();
        let long = [&[0x15][..], &[0xff; 10], &[0]].concat();
        for bytes in [&deep[..], &lists, &long, &[0x1f, 0], &[0x10, 0]] {
            assert_eq!(passed(bytes), Err(ThriftError::Malformed), "{bytes:?}");
        }
        // A list that claims more elements than there are bytes.
        assert_eq!(passed(&[0x19, 0xf5, 0xff, 0xff, 0xff, 0x7f, 2]), Err(ThriftError::Short));
        assert_eq!(Thrift::new(&[3]).size(), Err(ThriftError::Malformed));
    }
}
