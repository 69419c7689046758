//! Credentials judged on the heads of requests whose bodies are still to come, so that a stranger's
//! body takes no memory and nobody's time.

use std::collections::HashMap;
use std::sync::PoisonError;

use pellucid_budget::Budget;
use pellucid_clock::WallTime;
use pellucid_http::{Admission, Applicant, Denial, Head, Header, Refusal};
use pellucid_thread::Mutex;

use crate::access::accounts::Verdict;
use crate::access::attempts::TooMany;
use crate::access::gate::{CHALLENGES, DENIED, is_open_to_all};
use crate::access::identity::Identity;
use crate::access::record::ACCOUNTS_MAX;
use crate::service::{Api, Later};

/// What bodies that come in may take, for each account.
pub(crate) struct BodyBudgets {
    account_bytes_max: usize,
    by_name: Mutex<HashMap<String, Budget>>,
}

impl BodyBudgets {
    /// Budgets of `account_bytes_max` bytes each.
    pub(crate) fn new(account_bytes_max: usize) -> BodyBudgets {
        BodyBudgets { account_bytes_max, by_name: Mutex::default() }
    }

    /// The budget of an account; none for those who are none.
    fn of(&self, identity: &Identity) -> Option<Budget> {
        let name = identity.name()?;
        let mut by_name = self.by_name.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(budget) = by_name.get(name) {
            return Some(budget.clone());
        }
        if by_name.len() >= ACCOUNTS_MAX {
            // Accounts may come and go.
            by_name.retain(|_, budget| budget.used_bytes() > 0);
        }
        let budget = Budget::new(self.account_bytes_max);
        by_name.insert(name.to_owned(), budget.clone());
        Some(budget)
    }
}

impl Api {
    /// Whether a body may come, by the credentials in its head.
    pub(crate) fn admit_body(
        &self,
        head: &Head<'_, '_>,
        applicant: &Applicant<'_, Later>,
    ) -> Admission {
        let accounts = &self.shared.accounts;
        if !accounts.is_enforced() || is_open_to_all(head) {
            return Admission::Granted(None);
        }
        let authorization = header_of(head, "authorization").map(|header| header.value);
        match accounts.verify(authorization, WallTime::now().unix_ms() / 1_000) {
            Verdict::Known(identity) => Admission::Granted(self.shared.bodies.of(&identity)),
            Verdict::Denied => denied(denial_of(head)),
            Verdict::Slow => self.admit_later(head, authorization.unwrap_or_default(), applicant),
        }
    }

    /// Has a password verified before its request goes on.
    fn admit_later(
        &self,
        head: &Head<'_, '_>,
        authorization: &[u8],
        applicant: &Applicant<'_, Later>,
    ) -> Admission {
        let (shared, judge, denial) = (self.shared.clone(), applicant.judge(), denial_of(head));
        let then = move |identity: Option<Identity>| {
            judge.decide(match identity {
                Some(identity) => Admission::Granted(shared.bodies.of(&identity)),
                None => denied(denial),
            });
        };
        let from = Some(applicant.address());
        match self.shared.verifier.verify_header(authorization, from, then) {
            Ok(()) => Admission::Pending,
            Err(TooMany { seconds }) => {
                let what = TooMany::WHAT;
                Admission::Refused(Refusal::TooManyAttempts { what, seconds })
            }
        }
    }
}

fn denied(denial: Denial) -> Admission {
    Admission::Refused(Refusal::Unauthorized(denial))
}

/// How a request without good credentials is answered: in the form that its path's clients know.
fn denial_of(head: &Head<'_, '_>) -> Denial {
    let is_quiet = header_of(head, "x-omit-www-authenticate").is_some();
    let challenges = if is_quiet { &[][..] } else { &CHALLENGES[..] };
    let body = head.path.starts_with("/_").then_some(("application/json", DENIED));
    Denial { challenges, body }
}

fn header_of<'a>(head: &Head<'a, '_>, name: &str) -> Option<&'a Header<'a>> {
    head.headers.iter().find(|header| header.name.eq_ignore_ascii_case(name))
}
