//! The current job of a ledger.

use crate::ledger::LEVELS;

/// A background job of a ledger.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Job {
    /// A memtable is written to a table of level 0.
    Flush,
    /// Tables of level `from` are merged into level `to`.
    Compaction {
        /// The upper level.
        from: u8,
        /// The level of the output.
        to: u8,
    },
}

impl Job {
    pub(crate) fn number(self) -> u8 {
        match self {
            Job::Flush => 1,
            Job::Compaction { from, to } => 2 + from * LEVELS as u8 + to,
        }
    }

    pub(crate) fn from_number(number: u8) -> Option<Job> {
        match number {
            0 => None,
            1 => Some(Job::Flush),
            _ => {
                let levels = number - 2;
                let (from, to) = (levels / LEVELS as u8, levels % LEVELS as u8);
                Some(Job::Compaction { from, to })
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn job_numbers_round_trip() {
        let merges = (0..LEVELS as u8)
            .flat_map(|from| (from + 1..LEVELS as u8).map(move |to| Job::Compaction { from, to }));
        for job in merges.chain([Job::Flush]) {
            assert_eq!(Job::from_number(job.number()), Some(job));
        }
    }
}
