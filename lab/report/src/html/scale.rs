//! Scales of axes: from figures to positions, and the ticks.

/// The steps between ticks of a linear axis, in each power of ten.
const STEPS: [f64; 4] = [1.0, 2.0, 5.0, 10.0];
/// The largest number of ticks of an axis, whatever its range.
const TICKS_MAX: usize = 40;

/// The scale of an axis from its least to its greatest value; positions are from 0 to 1.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Scale {
    /// Equal distances are equal differences.
    Linear {
        /// The end; the axis begins at 0. If the end is 0 as well, all values are zeros.
        greatest: f64,
    },
    /// Equal distances are equal ratios.
    Logarithmic {
        /// The begin, above 0.
        least: f64,
        /// The end.
        greatest: f64,
    },
}

impl Scale {
    /// A linear axis from 0 to a round number that is at least `greatest`. If `greatest` is 0,
    /// there is no other number on the axis: it would be read as a measured value.
    pub(crate) fn linear_to(greatest: f64) -> Scale {
        if !(greatest.is_finite() && greatest > 0.0) {
            return Scale::Linear { greatest: 0.0 };
        }
        let step = round_step(greatest, 5);
        Scale::Linear { greatest: (greatest / step - 1e-9).ceil() * step }
    }

    /// A linear axis from 0 to exactly `greatest`.
    pub(crate) fn linear_until(greatest: f64) -> Scale {
        Scale::Linear { greatest: if greatest > 0.0 { greatest } else { 1.0 } }
    }

    /// A logarithmic axis around the values, widened to 1, 2 or 5 times a power of ten.
    pub(crate) fn logarithmic_around(least: f64, greatest: f64) -> Scale {
        let least = if least.is_finite() { least.max(1.0) } else { 1.0 };
        let greatest = if greatest.is_finite() { greatest.max(least) } else { least };
        let (below, above) = (next_round(least, false), next_round(greatest, true));
        Scale::Logarithmic {
            least: below,
            greatest: if above > below { above } else { below * 10.0 },
        }
    }

    /// The position of a value, 0 to 1; values beyond the ends are at the ends.
    pub(crate) fn place(&self, value: f64) -> f64 {
        let place = match self {
            Scale::Linear { greatest } => value / greatest,
            Scale::Logarithmic { least, greatest } => {
                (value.max(*least) / least).ln() / (greatest / least).ln()
            }
        };
        if place.is_finite() { place.clamp(0.0, 1.0) } else { 0.0 }
    }

    /// The values of the ticks, about `wished` of them.
    pub(crate) fn ticks(&self, wished: usize) -> Vec<f64> {
        match *self {
            Scale::Linear { greatest } if greatest <= 0.0 => vec![0.0],
            Scale::Linear { greatest } => {
                let step = round_step(greatest, wished);
                let ticks = (0..TICKS_MAX).map(|index| index as f64 * step);
                ticks.take_while(|tick| *tick <= greatest * (1.0 + 1e-9)).collect()
            }
            Scale::Logarithmic { least, greatest } => logarithmic_ticks(least, greatest, wished),
        }
    }
}

fn logarithmic_ticks(least: f64, greatest: f64, wished: usize) -> Vec<f64> {
    let decades = (greatest / least).log10();
    let factors: &[f64] = match decades {
        few if few * 3.0 <= wished as f64 => &[1.0, 2.0, 5.0],
        some if some * 2.0 <= wished as f64 => &[1.0, 3.0],
        _ => &[1.0],
    };
    let first = least.log10().floor() as i32;
    let powers = (0..TICKS_MAX as i32).map(|index| 10_f64.powi(first + index));
    powers
        .take_while(|power| *power <= greatest * (1.0 + 1e-9))
        .flat_map(|power| factors.iter().map(move |factor| power * factor))
        .filter(|tick| *tick >= least * (1.0 - 1e-9) && *tick <= greatest * (1.0 + 1e-9))
        .collect()
}

/// The smallest round step that divides the range into at most `wished` parts.
fn round_step(range: f64, wished: usize) -> f64 {
    let exact = range / wished.max(1) as f64;
    let power = 10_f64.powf(exact.log10().floor());
    let step = STEPS.iter().find(|step| *step * power >= exact * (1.0 - 1e-9));
    step.map_or(power * 10.0, |step| step * power)
}

/// The next number at or beyond a value that is 1, 2 or 5 times a power of ten.
fn next_round(value: f64, upwards: bool) -> f64 {
    let power = 10_f64.powf(value.log10().floor());
    let mut rounds = STEPS.iter().map(|step| step * power);
    let found = match upwards {
        true => rounds.find(|round| *round >= value * (1.0 - 1e-9)),
        false => rounds.rfind(|round| *round <= value * (1.0 + 1e-9)),
    };
    found.unwrap_or(value)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn linear_axes_end_at_round_numbers() {
        let scale = Scale::linear_to(137_000.0);
        assert_eq!(scale.ticks(5), [0.0, 50_000.0, 100_000.0, 150_000.0]);
        assert_eq!(scale.place(75_000.0), 0.5);
        assert_eq!(Scale::linear_to(20.0).ticks(5), [0.0, 5.0, 10.0, 15.0, 20.0]);
    }

    /// Regression: a chart of zeros had an axis up to `1 B/s`.
    #[test]
    fn an_axis_of_zeros_has_no_other_number() {
        for greatest in [0.0, -1.0, f64::NAN, f64::INFINITY] {
            let scale = Scale::linear_to(greatest);
            assert_eq!((scale.ticks(5), scale.place(0.0)), (vec![0.0], 0.0));
        }
    }

    #[test]
    fn logarithmic_axes_have_ticks_at_powers_and_between_where_there_is_room() {
        let scale = Scale::logarithmic_around(12_000.0, 180_000.0);
        assert_eq!(scale.ticks(8), [10_000.0, 20_000.0, 50_000.0, 100_000.0, 200_000.0]);
        let wide = Scale::logarithmic_around(1.0, 1e9);
        assert_eq!(wide.ticks(8).len(), 10);
        assert_eq!(wide.place(0.0), 0.0);
    }

    proptest! {
        #[test]
        fn places_stay_on_the_axis_and_ticks_are_few(
            least in any::<f64>(), greatest in any::<f64>(), value in any::<f64>(),
        ) {
            let scales = [
                Scale::linear_to(greatest),
                Scale::linear_until(greatest.abs().min(1e18)),
                Scale::logarithmic_around(least.abs().min(1e18), greatest.abs().min(1e18)),
            ];
            for scale in scales {
                prop_assert!((0.0..=1.0).contains(&scale.place(value)));
                prop_assert!(scale.ticks(6).len() <= 3 * TICKS_MAX);
            }
        }
    }
}
