//! Numbers. Whole numbers are exact over the signed and unsigned range of 64 bits, all others are
//! doubles, and both compare by their exact values.

use std::cmp::Ordering;

/// A number.
#[derive(Clone, Copy, Debug)]
pub enum Number {
    /// A whole number in the signed range.
    Int(i64),
    /// A whole number above the signed range.
    Uint(u64),
    /// Any other number; never NaN in a value that this crate makes.
    Double(f64),
}

/// 2^63, the least double above all signed whole numbers.
const INT_END: f64 = 9_223_372_036_854_775_808.0;
/// 2^64, the least double above all unsigned whole numbers.
const UINT_END: f64 = 18_446_744_073_709_551_616.0;

impl Number {
    /// The nearest double.
    #[must_use]
    pub fn to_double(self) -> f64 {
        match self {
            Self::Int(value) => value as f64,
            Self::Uint(value) => value as f64,
            Self::Double(value) => value,
        }
    }

    /// The whole part, rounded towards zero and clamped to the signed range.
    #[must_use]
    pub fn to_int(self) -> i64 {
        match self {
            Self::Int(value) => value,
            Self::Uint(_) => i64::MAX,
            // `as` saturates, and converts NaN to 0.
            Self::Double(value) => value as i64,
        }
    }

    /// Makes a number of a wide whole number; a double if it does not fit in 64 bits.
    #[must_use]
    pub fn from_wide(value: i128) -> Self {
        if let Ok(value) = i64::try_from(value) {
            Self::Int(value)
        } else if let Ok(value) = u64::try_from(value) {
            Self::Uint(value)
        } else {
            Self::Double(value as f64)
        }
    }

    /// The whole number of an `Int` or `Uint`; `None` for any double.
    #[must_use]
    pub fn wide(self) -> Option<i128> {
        match self {
            Self::Int(value) => Some(i128::from(value)),
            Self::Uint(value) => Some(i128::from(value)),
            Self::Double(_) => None,
        }
    }

    /// The whole number that it equals, if it is one, also of a double.
    #[must_use]
    pub fn exact_whole(self) -> Option<i128> {
        self.wide().or_else(|| {
            let value = self.to_double();
            let is_whole = value.fract() == 0.0 && (-INT_END..UINT_END).contains(&value);
            is_whole.then_some(value as i128)
        })
    }

    /// True if it is zero.
    #[must_use]
    pub fn is_zero(self) -> bool {
        self.to_double() == 0.0
    }
}

/// Compares exactly, without rounding a whole number to a double.
pub(crate) fn compare_numbers(left: Number, right: Number) -> Ordering {
    match (left.wide(), right.wide()) {
        (Some(left), Some(right)) => left.cmp(&right),
        (Some(left), None) => compare_whole(left, right.to_double()),
        (None, Some(right)) => compare_whole(right, left.to_double()).reverse(),
        (None, None) => compare_doubles(left.to_double(), right.to_double()),
    }
}

/// Compares doubles. NaN, which no value should have, is less than all others, so that the order is
/// total.
fn compare_doubles(left: f64, right: f64) -> Ordering {
    left.partial_cmp(&right).unwrap_or_else(|| right.is_nan().cmp(&left.is_nan()))
}

/// 2^53. Whole numbers up to this size are exact as doubles.
const EXACT_WHOLE_MAX: u128 = 1 << 53;

fn compare_whole(whole: i128, double: f64) -> Ordering {
    if whole.unsigned_abs() <= EXACT_WHOLE_MAX {
        return compare_doubles(whole as f64, double);
    }
    if double.is_nan() || double < -INT_END {
        return Ordering::Greater;
    }
    if double >= UINT_END {
        return Ordering::Less;
    }
    // The truncated double is exact in 128 bits. The fraction decides only if the whole parts are
    // equal.
    let truncated = double as i128;
    whole.cmp(&truncated).then_with(|| {
        let fraction = double.fract();
        0.0_f64.partial_cmp(&fraction).unwrap_or(Ordering::Equal)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_numbers_and_doubles_compare_exactly() {
        use Number::{Double, Int, Uint};
        let ascending = [
            Double(f64::NEG_INFINITY),
            Double(-1e300),
            Int(i64::MIN),
            Double(-1.5),
            Int(-1),
            Double(-0.5),
            Int(0),
            Double(0.5),
            Int(1),
            Int((1 << 53) - 1),
            Double(9_007_199_254_740_992.0),
            Int((1 << 53) + 1),
            Int(i64::MAX),
            Double(INT_END),
            Uint((1 << 63) + 1),
            Uint(u64::MAX),
            Double(UINT_END),
            Double(f64::INFINITY),
        ];
        for (left_at, left) in ascending.iter().enumerate() {
            for (right_at, right) in ascending.iter().enumerate() {
                assert_eq!(
                    compare_numbers(*left, *right),
                    left_at.cmp(&right_at),
                    "{left:?} {right:?}"
                );
            }
        }
        assert_eq!(compare_numbers(Double(-0.0), Int(0)), Ordering::Equal);
    }
}
