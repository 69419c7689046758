//! Conversion of numbers of copies to the ring's consistency levels.

use std::collections::BTreeSet;

use pellucid_store::{ReplicaQuorum, Result, StoreError};
use scylla::statement::Consistency;

/// The level at which `ack` copies have to answer, in a keyspace that keeps `replication` copies.
///
/// # Errors
/// If the ring has no such level, or `from` is not `replication`.
pub(crate) fn level_of(copies: ReplicaQuorum, replication: u32) -> Result<Consistency> {
    let ReplicaQuorum { ack, from } = copies;
    if from != replication {
        return Err(StoreError::Unacceptable(format!(
            "`from` has to be {replication}: the ring asks all copies that it keeps"
        )));
    }
    match ack {
        _ if ack == replication => Ok(Consistency::All),
        1 => Ok(Consistency::One),
        _ if ack == majority(replication) => Ok(Consistency::Quorum),
        2 => Ok(Consistency::Two),
        3 => Ok(Consistency::Three),
        _ => Err(StoreError::Unacceptable(format!(
            "the ring can wait for {} copies, not for {ack}",
            accepted(replication)
        ))),
    }
}

/// The numbers of copies that have a level, in words.
fn accepted(replication: u32) -> String {
    let all = BTreeSet::from([1, 2, 3, majority(replication), replication]);
    let all: Vec<_> = all.into_iter().filter(|ack| *ack <= replication).collect();
    match &all[..] {
        [rest @ .., last] if !rest.is_empty() => {
            let rest: Vec<_> = rest.iter().map(u32::to_string).collect();
            format!("{} or {last}", rest.join(", "))
        }
        _ => replication.to_string(),
    }
}

/// More than half of the copies.
pub(crate) fn majority(replication: u32) -> u32 {
    replication / 2 + 1
}

#[cfg(test)]
mod tests {
    use super::*;

    fn level(ack: u32, replication: u32) -> Consistency {
        level_of(ReplicaQuorum { ack, from: replication }, replication).unwrap()
    }

    #[test]
    fn numbers_of_copies_have_levels() {
        assert_eq!((level(1, 1), level(1, 3)), (Consistency::All, Consistency::One));
        assert_eq!((level(2, 3), level(3, 3)), (Consistency::Quorum, Consistency::All));
        assert_eq!((level(2, 5), level(3, 7)), (Consistency::Two, Consistency::Three));
        assert!(level_of(ReplicaQuorum { ack: 5, from: 7 }, 7).is_err());
        assert!(level_of(ReplicaQuorum { ack: 1, from: 2 }, 3).is_err(), "`from` is all copies");
    }

    /// Regression: the list for four of five copies was "1, 2, 3, 3 or 5".
    #[test]
    fn an_error_lists_each_accepted_number_once() {
        for (ack, replication, list) in [(4, 5, "1, 2, 3 or 5"), (6, 7, "1, 2, 3, 4 or 7")] {
            let error =
                level_of(ReplicaQuorum { ack, from: replication }, replication).unwrap_err();
            let told = format!("the ring can wait for {list} copies, not for {ack}");
            assert_eq!(error, StoreError::Unacceptable(told));
        }
        let lists = [1, 2, 3, 4].map(accepted);
        assert_eq!(lists, ["1", "1 or 2", "1, 2 or 3", "1, 2, 3 or 4"]);
    }
}
