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
    match (left, right) {
        (Number::Double(left), Number::Double(right)) => compare_doubles(left, right),
        (Number::Double(left), right) => compare_whole(right, left).reverse(),
        (left, Number::Double(right)) => compare_whole(left, right),
        (left, right) => left.wide().cmp(&right.wide()),
    }
}

/// Compares doubles. NaN, which no value should have, is less than all others, so that the order is
/// total.
fn compare_doubles(left: f64, right: f64) -> Ordering {
    left.partial_cmp(&right).unwrap_or_else(|| right.is_nan().cmp(&left.is_nan()))
}

/// 2^53. Whole numbers up to this size are exact as doubles.
const EXACT_WHOLE_MAX: u64 = 1 << 53;

/// Compares an `Int` or `Uint` with a double.
fn compare_whole(whole: Number, double: f64) -> Ordering {
    if let Number::Int(whole) = whole
        && whole.unsigned_abs() <= EXACT_WHOLE_MAX
    {
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
    let truncated = Some(double as i128);
    whole.wide().cmp(&truncated).then_with(|| {
        let fraction = double.fract();
        0.0_f64.partial_cmp(&fraction).unwrap_or(Ordering::Equal)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn infinities_and_negative_zero_compare_with_whole_numbers() {
        use Number::{Double, Int, Uint};
        for whole in [Int(i64::MIN), Int(0), Uint(u64::MAX)] {
            assert!(compare_numbers(Double(f64::NEG_INFINITY), whole).is_lt());
            assert!(compare_numbers(whole, Double(f64::INFINITY)).is_lt());
        }
        assert!(compare_numbers(Double(-0.0), Int(0)).is_eq());
    }
}
