//! Thinning of samples, so that a plot stays small and still shows the slowest requests.

use crate::model::Sample;

/// Returns at most `limit` samples in the order of time. Of each stretch of equally many requests,
/// it keeps the slowest one, because a jitter plot is for finding those, and the first one, so that
/// ordinary requests are seen as well.
pub fn thin_out(samples: &[Sample], limit: usize) -> Vec<Sample> {
    let mut ordered = samples.to_vec();
    ordered.sort_by_key(|sample| (sample.offset_ns, sample.response_time_ns));
    if ordered.len() <= limit {
        return ordered;
    }
    let stretches = (limit / 2).max(1);
    let mut kept = Vec::with_capacity(limit);
    for stretch in ordered.chunks(ordered.len().div_ceil(stretches)) {
        let slowest = (0..stretch.len()).max_by_key(|index| stretch[*index].response_time_ns);
        let slowest = slowest.unwrap_or(0);
        if slowest > 0 && limit > 1 {
            kept.push(stretch[0]);
        }
        kept.push(stretch[slowest]);
    }
    assert!(kept.len() <= limit.max(1), "two samples are kept of each stretch");
    kept
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn sample(offset_ns: u64, response_time_ns: u64) -> Sample {
        Sample { offset_ns, response_time_ns, service_time_ns: response_time_ns }
    }

    #[test]
    fn few_samples_are_all_kept_in_the_order_of_time() {
        let samples = [sample(3, 1), sample(1, 9), sample(2, 5)];
        let offsets: Vec<u64> = thin_out(&samples, 3).iter().map(|s| s.offset_ns).collect();
        assert_eq!(offsets, [1, 2, 3]);
    }

    proptest! {
        #[test]
        fn the_slowest_survives_and_the_limit_holds(
            times in proptest::collection::vec(0_u64..1_000, 1..500),
            limit in 1_usize..100,
        ) {
            let samples: Vec<Sample> =
                times.iter().enumerate().map(|(at, time)| sample(at as u64, *time)).collect();
            let kept = thin_out(&samples, limit);
            prop_assert!(kept.len() <= limit && !kept.is_empty());
            let slowest = |samples: &[Sample]| samples.iter().map(|s| s.response_time_ns).max();
            prop_assert_eq!(slowest(&kept), slowest(&samples));
            prop_assert!(kept.windows(2).all(|pair| pair[0].offset_ns < pair[1].offset_ns));
        }
    }
}
