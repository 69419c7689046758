//! Shapes of past seconds, packed as variable-length integers. Six hundred seconds are kept of
//! every operation, with dozens of shapes each, whose sums are mostly small or zero: packed, they
//! take a quarter of the memory.

use crate::shape::Shape;

/// Shapes in ascending order of their numbers, as a byte string: for each the distance to the
/// previous number, the count, and each sum, all as LEB128 integers.
#[derive(Debug, Default)]
pub(crate) struct PackedShapes {
    bytes: Box<[u8]>,
}

impl PackedShapes {
    pub(crate) fn of(shapes: impl Iterator<Item = (usize, Shape)>) -> PackedShapes {
        let (mut bytes, mut before) = (Vec::new(), 0);
        for (bucket, shape) in shapes {
            assert!(bucket >= before, "shapes are packed in the order of their numbers");
            write(&mut bytes, (bucket - before) as u64);
            write(&mut bytes, shape.count);
            shape.sums.iter().for_each(|sum| write(&mut bytes, *sum));
            before = bucket;
        }
        PackedShapes { bytes: bytes.into_boxed_slice() }
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (usize, Shape)> + '_ {
        let (mut rest, mut bucket) = (&*self.bytes, 0);
        std::iter::from_fn(move || {
            if rest.is_empty() {
                return None;
            }
            bucket += read(&mut rest) as usize;
            let mut shape = Shape { count: read(&mut rest), ..Shape::EMPTY };
            shape.sums.iter_mut().for_each(|sum| *sum = read(&mut rest));
            Some((bucket, shape))
        })
    }
}

fn write(bytes: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        bytes.push(value as u8 | 0x80);
        value >>= 7;
    }
    bytes.push(value as u8);
}

/// Reads the next integer. The input is always the output of `write`, so it is not checked.
fn read(rest: &mut &[u8]) -> u64 {
    let (mut value, mut shift) = (0, 0);
    while let Some((byte, after)) = rest.split_first() {
        *rest = after;
        value |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            break;
        }
        shift += 7;
    }
    value
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shape::MEASURES;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn packed_shapes_round_trip(
            buckets in proptest::collection::btree_map(
                0_usize..5_000,
                (any::<u64>(), proptest::collection::vec(any::<u64>(), MEASURES)),
                0..20,
            ),
        ) {
            let shapes: Vec<(usize, u64, Vec<u64>)> =
                buckets.into_iter().map(|(bucket, (count, sums))| (bucket, count, sums)).collect();
            let packed = PackedShapes::of(shapes.iter().map(|(bucket, count, sums)| {
                let mut shape = Shape { count: *count, ..Shape::EMPTY };
                shape.sums.copy_from_slice(sums);
                (*bucket, shape)
            }));
            let unpacked: Vec<(usize, u64, Vec<u64>)> = packed
                .iter()
                .map(|(bucket, shape)| (bucket, shape.count, shape.sums.to_vec()))
                .collect();
            prop_assert_eq!(unpacked, shapes);
        }
    }
}
