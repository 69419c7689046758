//! Sums of the store's counts for requests, which explain the times of `execute`.

use pellucid_clock::Clock;
use serde::{Deserialize, Serialize};

use crate::phase::Phase;
use crate::shape::{TOTAL, TRANSPORT};
use crate::timeline::EngineCounts;

/// The places where a key can be found: nowhere, in a memtable, in one of 14 levels.
const PLACES_MAX: usize = 16;

/// The store's counts for the requests of one operation and outcome.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct EngineWork {
    /// Look-ups in the ledger.
    pub look_ups: u64,
    /// Tables in which the key was looked up.
    pub tables: u64,
    /// Tables that their filter or directory ruled out.
    pub filters_excluded: u64,
    /// Tables whose filter or directory let the key pass although it is not there.
    pub filters_false: u64,
    /// Blocks searched.
    pub blocks: u64,
    /// Records read from the journal.
    pub records: u64,
    /// The requests that looked something up, by the place where their last look-up ended.
    pub found: Vec<LookupLocation>,
}

/// The requests whose key was found in one place.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LookupLocation {
    /// The name of the place: `missing`, `memtable`, `level_0` and so on.
    pub place: String,
    /// The number of requests.
    pub count: u64,
    /// The mean of their `execute`.
    pub execute_mean_ns: f64,
    /// The mean of their totals.
    pub total_mean_ns: f64,
}

/// The name of a place ([`EngineCounts::found_in`]).
pub(crate) fn place_name(place: usize) -> String {
    match place {
        0 => "missing".to_owned(),
        1 => "memtable".to_owned(),
        level => format!("level_{}", level - 2),
    }
}

/// The number of requests for one place, and the sums of their times.
#[derive(Clone, Copy, Debug, Default)]
struct LocationSums {
    count: u64,
    execute: u64,
    total: u64,
}

/// The sums for [`EngineWork`]: in ticks while a second is being filled, later in nanoseconds.
#[derive(Clone, Debug, Default)]
pub(crate) struct WorkSums {
    /// The counts, in the order of the fields of [`EngineWork`].
    counts: [u64; 6],
    places: [LocationSums; PLACES_MAX],
}

impl WorkSums {
    /// Converts the sums from ticks to nanoseconds.
    pub(crate) fn in_ns(&self, clock: &Clock) -> WorkSums {
        let places = self.places.map(|place| LocationSums {
            execute: clock.nanoseconds(place.execute),
            total: clock.nanoseconds(place.total),
            ..place
        });
        WorkSums { counts: self.counts, places }
    }

    pub(crate) fn add(&mut self, counts: &EngineCounts, measures: &[u64; TRANSPORT]) {
        if *counts == EngineCounts::default() {
            return;
        }
        let amounts = [
            counts.look_ups, counts.tables, counts.filters_excluded, counts.filters_false,
            counts.blocks, counts.records,
        ];
        for (sum, amount) in self.counts.iter_mut().zip(amounts) {
            *sum += u64::from(amount);
        }
        if counts.look_ups > 0 {
            let place = &mut self.places[usize::from(counts.found_in).min(PLACES_MAX - 1)];
            place.count += 1;
            place.execute += measures[Phase::Execute as usize];
            place.total += measures[TOTAL];
        }
    }

    pub(crate) fn merge(&mut self, other: &WorkSums) {
        for (sum, other) in self.counts.iter_mut().zip(other.counts) {
            *sum += other;
        }
        for (place, other) in self.places.iter_mut().zip(&other.places) {
            place.count += other.count;
            place.execute += other.execute;
            place.total += other.total;
        }
    }

    pub(crate) fn describe(&self) -> EngineWork {
        let [look_ups, tables, filters_excluded, filters_false, blocks, records] = self.counts;
        let found = |(number, place): (usize, &LocationSums)| {
            let mean_ns = |sum_ns: u64| sum_ns as f64 / place.count.max(1) as f64;
            LookupLocation {
                place: place_name(number),
                count: place.count,
                execute_mean_ns: mean_ns(place.execute),
                total_mean_ns: mean_ns(place.total),
            }
        };
        let places = self.places.iter().enumerate().filter(|(_, place)| place.count > 0);
        EngineWork {
            look_ups,
            tables,
            filters_excluded,
            filters_false,
            blocks,
            records,
            found: places.map(found).collect(),
        }
    }
}
