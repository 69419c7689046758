//! The parts of a journal on which its other parts are built.

use std::sync::Arc;

use pellucid_account::Activity;
use pellucid_clock::Clock;

use super::files::SegmentFiles;
use super::segments::SegmentSet;
use super::sync::GroupSync;

/// The files, segments and syncs of a journal, with the clock and the register of running jobs.
#[derive(Clone)]
pub(super) struct JournalBase {
    pub(super) files: Arc<SegmentFiles>,
    pub(super) segments: Arc<SegmentSet>,
    pub(super) sync: Arc<GroupSync>,
    pub(super) clock: Clock,
    pub(super) activity: Activity,
}
