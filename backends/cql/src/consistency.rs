//! From numbers of copies to the ring's consistency levels.

use pellucid_store::{Copies, Result, StoreError};
use scylla::statement::Consistency;

/// The level at which `ack` copies of a keyspace that keeps so many have to answer.
pub(crate) fn level_of(copies: Copies, replication: u32) -> Result<Consistency> {
    let Copies { ack, from } = copies;
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
            "the ring can wait for 1, 2, 3, {} or {replication} copies, not for {ack}",
            majority(replication)
        ))),
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
        level_of(Copies { ack, from: replication }, replication).unwrap()
    }

    #[test]
    fn numbers_have_levels() {
        assert_eq!((level(1, 1), level(1, 3)), (Consistency::All, Consistency::One));
        assert_eq!((level(2, 3), level(3, 3)), (Consistency::Quorum, Consistency::All));
        assert_eq!((level(2, 5), level(3, 7)), (Consistency::Two, Consistency::Three));
        assert!(level_of(Copies { ack: 5, from: 7 }, 7).is_err());
        assert!(level_of(Copies { ack: 1, from: 2 }, 3).is_err(), "`from` is all copies");
    }
}
