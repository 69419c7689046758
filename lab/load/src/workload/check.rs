//! Checks of answers.

use crate::source::Acceptance;
use pellucid_client::http::CapturedResponse;

/// The expected properties of an answer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Check {
    /// The expected statuses, as ranges from and to; if empty, any status below 400.
    pub(crate) statuses: Vec<(u16, u16)>,
    /// The text that the body must contain.
    pub(crate) contains: Option<Vec<u8>>,
    /// The expected length of the body.
    pub(crate) size_bytes: Option<u64>,
}

impl Check {
    pub(crate) fn wants_body(&self) -> bool {
        self.contains.is_some() || self.size_bytes.is_some()
    }

    /// Judges an answer. The status comes first: the body of an error page means nothing.
    pub(crate) fn judge(&self, status: u16, answer: Option<&CapturedResponse>) -> Acceptance {
        let listed = self.statuses.iter().any(|(from, to)| (*from..=*to).contains(&status));
        if !self.statuses.is_empty() && !listed {
            return Acceptance::Failed;
        }
        if self.statuses.is_empty() && status >= 400 {
            return Acceptance::ByStatus;
        }
        let body = answer.map_or(&[][..], |answer| &answer.body);
        let sized = self.size_bytes.is_none_or(|size| size == body.len() as u64);
        let found = self.contains.as_ref().is_none_or(|wanted| contains(body, wanted));
        if sized && found { Acceptance::Passed } else { Acceptance::Failed }
    }
}

fn contains(body: &[u8], wanted: &[u8]) -> bool {
    wanted.is_empty() || body.windows(wanted.len()).any(|window| window == wanted)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn status_length_and_content_are_judged() {
        use Acceptance::{ByStatus, Failed, Passed};
        let answer = CapturedResponse { head: Vec::new(), body: b"hello world".to_vec() };
        let judged = |check: &Check, status| check.judge(status, Some(&answer));
        let statuses = Check { statuses: vec![(200, 299), (404, 404)], ..Check::default() };
        assert_eq!([200, 404, 500].map(|s| judged(&statuses, s)), [Passed, Passed, Failed]);
        let words = Check { contains: Some(b"o w".to_vec()), ..Check::default() };
        assert_eq!([200, 500].map(|s| judged(&words, s)), [Passed, ByStatus]);
        let other = Check { contains: Some(b"bye".to_vec()), ..Check::default() };
        assert_eq!(judged(&other, 200), Failed);
        let size = |size| Check { size_bytes: Some(size), ..Check::default() };
        assert_eq!([11, 12].map(|length| judged(&size(length), 200)), [Passed, Failed]);
        assert_eq!(judged(&Check::default(), 200), Passed);
    }
}
