//! The merge of a range over all nodes, page by page, in the order of keys.
//!
//! Each node is asked for one page at a time, so memory holds one page of each node, and no page is
//! read ahead of the reader. The code that sends the asks is elsewhere: in an event loop of a node,
//! or in the store of kind `sharded`.

use pellucid_store::{Head, Object, StoreError, Value};

use crate::frame::{AnswerStatus, Ask, AskKind};
use crate::outcome::{Outcome, SendResult};
use crate::owner::OwnerAnswer;
use crate::range::{Page, PageEntry, RangeAsk};

/// The state of one node's pages.
enum PageState {
    /// The next page has to be asked for.
    Wanted,
    /// The next page was asked for, and has not arrived.
    Asked,
    /// A page has arrived, and is not the last one.
    Here(Page),
    /// The last page has arrived.
    Last(Page),
    /// All entries were taken.
    Over,
    Failed(StoreError),
}

struct NodePages {
    pages: PageState,
    /// The key of the last entry that was taken.
    last_key: Option<Vec<u8>>,
}

/// An entry of the range.
#[derive(Debug)]
pub struct MergedEntry {
    /// The key of the entry.
    pub key: Vec<u8>,
    /// The head and the value.
    pub object: Object,
    /// The time at which the entry expires, in milliseconds since the Unix epoch.
    pub expires_at_ms: Option<u64>,
}

impl NodePages {
    /// The next entry; `None` if none is here.
    fn entry(&self) -> Option<PageEntry<'_>> {
        match &self.pages {
            PageState::Here(page) | PageState::Last(page) => page.entry(),
            _ => None,
        }
    }
}

/// The pages of a range over all nodes, merged in the order of keys.
pub struct RangePages {
    nodes: Vec<NodePages>,
    start: Vec<u8>,
    end: Option<Vec<u8>>,
    reverse: bool,
    entries_max: u32,
}

impl RangePages {
    /// The range from `start` to `end` over `nodes` nodes, in pages of at most `entries_max`
    /// entries.
    #[must_use]
    pub fn new(
        nodes: usize,
        start: Vec<u8>,
        end: Option<Vec<u8>>,
        reverse: bool,
        entries_max: u32,
    ) -> RangePages {
        let nodes = (0..nodes).map(|_| NodePages { pages: PageState::Wanted, last_key: None });
        RangePages { nodes: nodes.collect(), start, end, reverse, entries_max }
    }

    /// The nodes whose next page has to be asked for.
    #[must_use]
    pub fn wanted(&self) -> Vec<usize> {
        let is_wanted = |node: &usize| matches!(self.nodes[*node].pages, PageState::Wanted);
        (0..self.nodes.len()).filter(is_wanted).collect()
    }

    /// Builds the ask for the next page of a node, and sends it with `ask`. Returns false if it
    /// could not be sent; then the range fails.
    pub fn ask(&mut self, node: usize, ask: impl FnOnce(Ask<'_>) -> SendResult) -> bool {
        let last_key = self.nodes[node].last_key.as_deref();
        let range = RangeAsk {
            reverse: self.reverse,
            behind: last_key.is_some(),
            end: self.end.as_deref(),
            entries_max: self.entries_max,
            first: if self.reverse { &self.start } else { b"" },
        };
        let mut value = Vec::new();
        range.encode(&mut value);
        let key = last_key.unwrap_or(&self.start);
        let asked = ask(Ask { key, value: &value, ..Ask::plain(AskKind::Range) });
        let is_asked = asked.is_ok();
        self.nodes[node].pages = match asked {
            Ok(()) => PageState::Asked,
            Err(failure) => PageState::Failed(failure.into()),
        };
        is_asked
    }

    /// Takes the outcome of the ask for a page of this node.
    pub fn bring(&mut self, node: usize, outcome: Outcome<'_>) {
        let page = match outcome {
            Outcome::Failed(failure) => Err(failure.into()),
            Outcome::Answered(answer, times) => match answer.status {
                AnswerStatus::Page => Ok((answer.payload.to_vec(), answer.detail == 1)),
                status => {
                    let error = OwnerAnswer::new(&answer, times).error(answer.payload);
                    let other = || StoreError::Failed(format!("the answer is {status:?}, no page"));
                    Err(error.unwrap_or_else(other))
                }
            },
        };
        self.bring_page(node, page);
    }

    /// Takes a page of this node, and true if it is the last one, or the failure of the node.
    pub fn bring_page(&mut self, node: usize, page: Result<(Vec<u8>, bool), StoreError>) {
        let page = page.and_then(|(page, is_last)| {
            let page = Page::new(page).map_err(|error| StoreError::Failed(error.to_string()))?;
            Ok((page, is_last))
        });
        self.nodes[node].pages = match page {
            Ok((page, true)) => PageState::Last(page),
            Ok((page, false)) => PageState::Here(page),
            Err(error) => PageState::Failed(error),
        };
    }

    /// True if the next entry of the range is known: each node has an entry here, or has no more.
    ///
    /// # Errors
    /// The failure of a node.
    pub fn are_here(&mut self) -> Result<bool, StoreError> {
        let mut are_here = true;
        for node in &mut self.nodes {
            match &node.pages {
                PageState::Here(page) if page.entry().is_none() => {
                    node.pages = PageState::Wanted;
                    are_here = false;
                }
                PageState::Last(page) if page.entry().is_none() => node.pages = PageState::Over,
                PageState::Wanted | PageState::Asked => are_here = false,
                PageState::Failed(error) => return Err(error.clone()),
                PageState::Here(_) | PageState::Last(_) | PageState::Over => {}
            }
        }
        Ok(are_here)
    }

    /// Takes the next entry of the range, once all nodes have theirs here; `None` at its end.
    pub fn take_next(&mut self) -> Option<MergedEntry> {
        let entries = self.nodes.iter().enumerate();
        let entries = entries.filter_map(|(node, pages)| Some((node, pages.entry()?.key)));
        let by_key = |a: &(usize, &[u8]), b: &(usize, &[u8])| a.1.cmp(b.1);
        let (node, _) = if self.reverse { entries.max_by(by_key) } else { entries.min_by(by_key) }?;
        let NodePages { pages, last_key } = &mut self.nodes[node];
        let (PageState::Here(page) | PageState::Last(page)) = pages else { return None };
        let PageEntry { sequence, written_at_ms, expires_at_ms, key, value } = page.entry()?;
        let head = Head { sequence, written_at_ms, value_length: value.len() as u64 };
        let object = Object { head, value: Value::Owned(value.to_vec()) };
        let (key, expires_at_ms) = (key.to_vec(), (expires_at_ms > 0).then_some(expires_at_ms));
        page.advance();
        let last_key = last_key.get_or_insert_default();
        last_key.clear();
        last_key.extend_from_slice(&key);
        Some(MergedEntry { key, object, expires_at_ms })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::Answer;
    use crate::outcome::{AskTimes, Failure};
    use pellucid_clock::Ticks;

    fn bring(pages: &mut RangePages, node: usize, keys: &[&str], is_last: bool) {
        let mut payload = Vec::new();
        for key in keys {
            let key = key.as_bytes();
            PageEntry { sequence: 1, written_at_ms: 2, expires_at_ms: 0, key, value: b"" }
                .encode(&mut payload);
        }
        let answer = Answer {
            detail: u32::from(is_last),
            payload: &payload,
            ..Answer::plain(0, AnswerStatus::Page)
        };
        let times = AskTimes { asked: Ticks(0), sent: Ticks(0), received: Ticks(0) };
        pages.bring(node, Outcome::Answered(answer, times));
    }

    fn take(pages: &mut RangePages) -> String {
        let mut taken = String::new();
        while pages.are_here().unwrap() {
            let Some(entry) = pages.take_next() else { return taken + "." };
            taken += str::from_utf8(&entry.key).unwrap();
        }
        taken
    }

    #[test]
    fn entries_are_merged_in_order_and_pages_asked_for_on_demand() {
        let mut pages = RangePages::new(2, b"a".to_vec(), None, false, 9);
        assert_eq!(pages.wanted(), [0, 1]);
        let mut asked = Vec::new();
        for node in [0, 1] {
            assert!(pages.ask(node, |ask| {
                asked.push(ask.key.to_vec());
                Ok(())
            }));
        }
        assert_eq!((asked, pages.wanted()), (vec![b"a".to_vec(), b"a".to_vec()], vec![]));
        bring(&mut pages, 0, &["a", "d"], false);
        assert_eq!(take(&mut pages), "");
        bring(&mut pages, 1, &["b", "c", "e"], true);
        assert_eq!(take(&mut pages), "abcd");
        assert_eq!(pages.wanted(), [0], "the entry behind `d` may come before `e`");
        pages.ask(0, |ask| {
            assert_eq!(ask.key, b"d");
            Ok(())
        });
        bring(&mut pages, 0, &["f"], true);
        assert_eq!(take(&mut pages), "ef.");
    }

    #[test]
    fn a_node_that_fails_fails_the_range() {
        let mut pages = RangePages::new(2, Vec::new(), None, true, 9);
        let (owner, reason) = ("http://a:1".to_owned(), "it is off".to_owned());
        let gone = Failure::Unreachable { owner, reason };
        assert!(!pages.ask(0, |_| Err(gone)));
        let Err(StoreError::Unreachable(what)) = pages.are_here() else { panic!("it is off") };
        assert!(what.contains("it is off"), "{what}");
        let full = Failure::Full { owner: "http://a:1".to_owned() };
        pages.bring(0, Outcome::Failed(full));
        assert!(matches!(pages.are_here(), Err(StoreError::Busy(_))));
        let busy = Answer { payload: b"later", ..Answer::plain(0, AnswerStatus::Busy) };
        let times = AskTimes { asked: Ticks(0), sent: Ticks(0), received: Ticks(0) };
        pages.bring(0, Outcome::Answered(busy, times));
        assert_eq!(pages.are_here(), Err(StoreError::Busy("later".to_owned())));
    }
}
