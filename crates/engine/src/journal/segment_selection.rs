//! Selects the segments that make up the journal, if an interrupted garbage collection left others
//! behind.

use std::collections::HashMap;

use crate::ledger::Manifest;

/// The sequence numbers that a segment covers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Span {
    pub(crate) number: u64,
    pub(crate) first_sequence: u64,
    /// The last sequence number; below the first one if there is no record.
    pub(crate) last_sequence: u64,
    pub(crate) is_collected: bool,
}

/// Returns, for each of `spans`, whether it is part of the journal that belongs to `manifest`.
///
/// A segment that the manifest names is. Of the others, a collected segment was not yet part of the
/// journal, and one within the range of the manifest's sealed segments is no longer part of it. A
/// manifest without segments means that the ledger is being rebuilt: if several segments cover a
/// sequence number, the one with the highest number is current, because each of them was complete
/// before it got its name.
pub(crate) fn current_segments(spans: &[Span], manifest: &Manifest) -> Vec<bool> {
    if manifest.segments.is_empty() {
        return newest_of_each(spans);
    }
    let named: HashMap<u64, u64> =
        manifest.segments.iter().map(|facts| (facts.number, facts.last_sequence)).collect();
    let sealed_up_to = named.values().copied().max().unwrap_or(0);
    let is_current = |span: &Span| {
        let is_later = !span.is_collected && span.first_sequence > sealed_up_to;
        named.contains_key(&span.number) || is_later
    };
    spans.iter().map(is_current).collect()
}

fn newest_of_each(spans: &[Span]) -> Vec<bool> {
    let mut by_age: Vec<usize> = (0..spans.len()).collect();
    by_age.sort_by_key(|index| std::cmp::Reverse(spans[*index].number));
    let mut is_current = vec![true; spans.len()];
    // The current spans: from first to last sequence number.
    let mut taken = std::collections::BTreeMap::new();
    for index in by_age {
        let span = &spans[index];
        if span.last_sequence < span.first_sequence {
            continue;
        }
        let before = taken.range(..=span.last_sequence).next_back();
        if before.is_some_and(|(_, last)| *last >= span.first_sequence) {
            is_current[index] = false;
        } else {
            taken.insert(span.first_sequence, span.last_sequence);
        }
    }
    is_current
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ledger::SegmentMetadata;

    fn span(number: u64, first_sequence: u64, last_sequence: u64, is_collected: bool) -> Span {
        Span { number, first_sequence, last_sequence, is_collected }
    }

    /// An interrupted collection: 1 and 2 were collected into 4, then 4 and 3 into 6; 5 is being
    /// written.
    fn left_behind() -> Vec<Span> {
        vec![
            span(1, 1, 10, false),
            span(2, 11, 20, false),
            span(3, 21, 30, false),
            span(4, 1, 20, true),
            span(5, 31, 35, false),
            span(6, 1, 30, true),
        ]
    }

    fn manifest(named: &[(u64, u64, u64)]) -> Manifest {
        let facts = |(number, first_sequence, last_sequence): &(u64, u64, u64)| SegmentMetadata {
            number: *number,
            first_sequence: *first_sequence,
            last_sequence: *last_sequence,
            ..SegmentMetadata::default()
        };
        Manifest { segments: named.iter().map(facts).collect(), ..Manifest::empty(1) }
    }

    #[test]
    fn the_manifest_decides() {
        let is_current =
            |named: &[(u64, u64, u64)]| current_segments(&left_behind(), &manifest(named));
        let before = is_current(&[(1, 1, 10), (2, 11, 20), (3, 21, 30)]);
        assert_eq!(before, [true, true, true, false, true, false]);
        let between = is_current(&[(4, 1, 20), (3, 21, 30), (5, 31, 0)]);
        assert_eq!(between, [false, false, true, true, true, false]);
        let after = is_current(&[(6, 1, 30)]);
        assert_eq!(after, [false, false, false, false, true, true]);
    }

    /// Segment 3 is the collected copy of segment 2, which the manifest does not know to be sealed
    /// yet.
    #[test]
    fn a_collected_segment_that_is_not_in_the_manifest_is_not_current() {
        let spans = [span(1, 1, 10, false), span(2, 11, 20, false), span(3, 11, 20, true)];
        let manifest = manifest(&[(1, 1, 10), (2, 11, 0)]);
        assert_eq!(current_segments(&spans, &manifest), [true, true, false]);
    }

    #[test]
    fn without_a_manifest_the_newest_decides() {
        let is_current = current_segments(&left_behind(), &manifest(&[]));
        assert_eq!(is_current, [false, false, false, false, true, true]);
        let empty = [span(8, 36, 35, false), span(9, 36, 40, false)];
        assert_eq!(current_segments(&empty, &manifest(&[])), [true, true]);
    }
}
