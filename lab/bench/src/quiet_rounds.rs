//! Rounds without disturbance by the host. On a virtual machine the host takes processors away for
//! other guests, in bursts of tens of milliseconds. A round with such a burst measures the host.
//! The kernel counts the time that was taken (`steal` in `/proc/stat`). So disturbed rounds are
//! recognized by their cause, not by their figures, and are run again.

/// The share of all processor time that the host may take from a round that counts.
const STOLEN_AT_MOST: f64 = 0.005;
/// The index of the field in the first line of `/proc/stat` that counts the time taken by the host,
/// in hundredths of a second.
const STEAL: usize = 8;
const TICKS_PER_SECOND: f64 = 100.0;

/// Calls `round` with 0, 1, 2 and so on, until `count` rounds were undisturbed, or one and a half
/// times as many were run; then the least disturbed rounds fill the number up. Returns the figures
/// of `count` rounds in the order in which they were measured.
pub fn rounds<T>(
    count: usize,
    mut round: impl FnMut(usize) -> Result<T, String>,
) -> Result<Vec<T>, String> {
    let mut measured = Vec::new();
    while wanting(&measured, count) {
        let watch = StealTimeMeter::begin()?;
        let figures = round(measured.len())?;
        measured.push((watch.stolen_share()?, figures));
    }
    Ok(least_disturbed(measured, count))
}

/// Runs rounds of both sides. Each side is first in every second round: `measure` is called with
/// true for our side. Our figures are the first of each pair.
pub fn turns<T>(
    count: usize,
    mut measure: impl FnMut(bool) -> Result<T, String>,
) -> Result<Vec<(T, T)>, String> {
    rounds(count, |round| {
        if round % 2 == 0 {
            let ours = measure(true)?;
            Ok((ours, measure(false)?))
        } else {
            let theirs = measure(false)?;
            Ok((measure(true)?, theirs))
        }
    })
}

/// Transposes the figures of all rounds: returns one list for each kind of figure.
pub fn columns<const COUNT: usize>(rounds: &[[f64; COUNT]]) -> [Vec<f64>; COUNT] {
    std::array::from_fn(|column| rounds.iter().map(|round| round[column]).collect())
}

fn wanting<T>(measured: &[(f64, T)], count: usize) -> bool {
    let undisturbed = measured.iter().filter(|(stolen, _)| *stolen <= STOLEN_AT_MOST).count();
    undisturbed < count && measured.len() < count + count.div_ceil(2)
}

fn least_disturbed<T>(measured: Vec<(f64, T)>, count: usize) -> Vec<T> {
    let mut shares: Vec<f64> = measured.iter().map(|(stolen, _)| *stolen).collect();
    shares.sort_by(f64::total_cmp);
    let limit = shares.get(count - 1).copied().unwrap_or(f64::INFINITY).max(STOLEN_AT_MOST);
    if measured.len() > count {
        println!(
            "the host disturbed rounds: {} were run for {count}, of which up to {:.1} % was taken",
            measured.len(),
            limit * 100.0
        );
    }
    let kept = measured.into_iter().filter(|(stolen, _)| *stolen <= limit);
    kept.take(count).map(|(_, figures)| figures).collect()
}

/// A measurement of the time that the host takes, from `begin` on.
struct StealTimeMeter {
    begun: std::time::Instant,
    stolen: f64,
}

impl StealTimeMeter {
    fn begin() -> Result<Self, String> {
        Ok(Self { begun: std::time::Instant::now(), stolen: stolen_seconds()? })
    }

    fn stolen_share(&self) -> Result<f64, String> {
        Ok((stolen_seconds()? - self.stolen) / self.begun.elapsed().as_secs_f64())
    }
}

/// Returns the seconds that the host has taken since the machine started, as the mean of all
/// processors.
fn stolen_seconds() -> Result<f64, String> {
    let stat = std::fs::read_to_string("/proc/stat").map_err(|e| format!("/proc/stat: {e}"))?;
    let ticks = stat.lines().next().and_then(|line| line.split_whitespace().nth(STEAL));
    let ticks: f64 = ticks.and_then(|ticks| ticks.parse().ok()).ok_or("/proc/stat has no steal")?;
    let processors = stat.lines().skip(1).take_while(|line| line.starts_with("cpu")).count();
    Ok(ticks / TICKS_PER_SECOND / processors as f64)
}

#[cfg(test)]
mod tests {
    use super::{STOLEN_AT_MOST, least_disturbed, rounds, turns, wanting};

    #[test]
    fn undisturbed_rounds_are_enough() {
        let measured = vec![(0.0, 'a'), (STOLEN_AT_MOST, 'b')];
        assert!(wanting(&measured[..1], 2));
        assert!(!wanting(&measured, 2));
        assert_eq!(least_disturbed(measured, 2), ['a', 'b']);
    }

    #[test]
    fn disturbed_rounds_are_run_again_and_the_least_disturbed_fill_the_number_up() {
        let measured = vec![(0.2, 'a'), (0.0, 'b'), (0.03, 'c')];
        assert!(wanting(&measured[..2], 2));
        assert!(!wanting(&measured, 2), "three rounds are all that two may take");
        assert_eq!(least_disturbed(measured, 2), ['b', 'c']);
    }

    #[test]
    fn rounds_are_numbered_and_an_error_ends_them() {
        let figures = rounds(3, Ok).expect("no round fails");
        assert_eq!(figures.len(), 3);
        assert!(rounds(3, |_| Err::<(), _>("no server".to_owned())).is_err());
    }

    #[test]
    fn each_side_is_first_in_every_second_round() {
        let mut called = Vec::new();
        let pairs = turns(2, |is_ours| {
            called.push(is_ours);
            Ok(is_ours)
        });
        assert!(pairs.expect("no round fails").iter().all(|pair| *pair == (true, false)));
        assert_eq!(called[..4], [true, false, false, true]);
    }
}
