//! Limits on attempts to log in: passwords that wait to be verified, and counts of wrong passwords.
//!
//! Verifying a password costs milliseconds of processor time, and strangers can send any number of
//! them. So the number of waiting passwords is limited, with lower limits for each address and each
//! name. After wrong passwords for a name from an address, further ones for this name from this
//! address are refused for a while, which doubles each time. Other addresses are not affected, so
//! that nobody can lock an owner out of an account. If many requests have the same password, it is
//! verified once.

use std::collections::HashMap;
use std::time::Duration;

use pellucid_http::ClientOrigin;

use crate::access::identity::Identity;
use crate::access::verification_cache::Digest;

/// The limit of waiting passwords: as many as one thread verifies in about a second.
pub(crate) const PENDING_MAX: usize = 64;
/// The limit of different waiting passwords from one address.
const PENDING_OF_ADDRESS_MAX: usize = 16;
/// The limit of different waiting passwords for one name.
const PENDING_OF_NAME_MAX: usize = 16;
/// The limit of requests that wait for the same password.
const WAITERS_MAX: usize = 4_096;
/// The number of wrong passwords for a name from an address that cause no delay.
const FREE_FAILURES: u32 = 10;
/// The first delay; it doubles with each further wrong password.
const DELAY_FIRST: Duration = Duration::from_secs(1);
/// The longest delay.
const DELAY_MAX: Duration = Duration::from_secs(60);
/// The time after the last wrong password until the count is forgotten.
const FORGET_AFTER: Duration = Duration::from_secs(15 * 60);
/// The limit of remembered pairs of name and address. Beyond it, a pair with the fewest failures is
/// forgotten.
const REMEMBERED_MAX: usize = 4_096;

/// The continuation of a request that waits for a verdict; it gets the caller if the password is
/// right.
pub(crate) type Waiter = Box<dyn FnOnce(Option<Identity>) + Send>;

/// The refusal of a password that cannot be verified now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RateLimitError {
    /// The time after which the client may retry, in seconds.
    pub(crate) seconds: u64,
}

impl RateLimitError {
    /// The line for the client.
    pub(crate) const WHAT: &'static str =
        "too many passwords wait to be verified, or were wrong: try again later";
}

/// A password that waits to be verified, and the requests that wait for it.
struct PendingPassword {
    digest: Digest,
    name: String,
    origin: ClientOrigin,
    waiters: Vec<Waiter>,
}

/// The wrong passwords for a name from an origin.
struct Failures {
    count: u32,
    /// The time of the last one, since the verifier was started.
    last: Duration,
}

impl Failures {
    /// The time after the last wrong password in which further ones are refused.
    fn delay(&self) -> Duration {
        match self.count.checked_sub(FREE_FAILURES) {
            None => Duration::ZERO,
            Some(beyond) => DELAY_FIRST.saturating_mul(1 << beyond.min(16)).min(DELAY_MAX),
        }
    }

    /// Returns true if the count has expired.
    fn is_over(&self, now: Duration) -> bool {
        now.saturating_sub(self.last) >= FORGET_AFTER
    }
}

/// All waiting passwords, and the counts of wrong ones.
#[derive(Default)]
pub(crate) struct Attempts {
    pending: Vec<PendingPassword>,
    failures: HashMap<(String, ClientOrigin), Failures>,
}

impl Attempts {
    /// Adds a request that waits for the verdict about a password. Returns true if it is the first
    /// one, so that the caller must have the password verified.
    ///
    /// # Errors
    /// If too many passwords wait, or the delay for this name and origin is not over.
    pub(crate) fn enter(
        &mut self,
        digest: Digest,
        name: &str,
        origin: ClientOrigin,
        waiter: Waiter,
        now: Duration,
    ) -> Result<bool, RateLimitError> {
        let same = |of: &&mut PendingPassword| of.digest == digest && of.origin == origin;
        if let Some(pending) = self.pending.iter_mut().find(same) {
            if pending.waiters.len() >= WAITERS_MAX {
                return Err(RateLimitError { seconds: 1 });
            }
            pending.waiters.push(waiter);
            return Ok(false);
        }
        if let Some(failures) = self.failures.get(&(name.to_owned(), origin)) {
            let until = failures.last + failures.delay();
            if now < until {
                let seconds = (until - now).as_millis().div_ceil(1_000) as u64;
                return Err(RateLimitError { seconds });
            }
        }
        let of_address = self.pending.iter().filter(|of| of.origin == origin).count();
        let of_name = self.pending.iter().filter(|of| of.name == name).count();
        if self.pending.len() >= PENDING_MAX
            || of_address >= PENDING_OF_ADDRESS_MAX
            || of_name >= PENDING_OF_NAME_MAX
        {
            return Err(RateLimitError { seconds: 1 });
        }
        let waiters = vec![waiter];
        self.pending.push(PendingPassword { digest, name: name.to_owned(), origin, waiters });
        Ok(true)
    }

    /// Removes a password and returns the requests that wait for it. Counts a failure, or forgets
    /// earlier ones if the password was right.
    pub(crate) fn leave(
        &mut self,
        digest: Digest,
        origin: ClientOrigin,
        is_right: bool,
        now: Duration,
    ) -> Vec<Waiter> {
        let same = |of: &PendingPassword| of.digest == digest && of.origin == origin;
        let Some(place) = self.pending.iter().position(same) else { return Vec::new() };
        let PendingPassword { name, waiters, .. } = self.pending.swap_remove(place);
        let key = (name, origin);
        if is_right {
            self.failures.remove(&key);
        } else {
            self.note_failure(key, now);
        }
        waiters
    }

    fn note_failure(&mut self, key: (String, ClientOrigin), now: Duration) {
        if self.failures.len() >= REMEMBERED_MAX && !self.failures.contains_key(&key) {
            self.failures.retain(|_, failures| !failures.is_over(now));
            if self.failures.len() >= REMEMBERED_MAX {
                let least = self.failures.iter().min_by_key(|(_, of)| (of.count, of.last));
                if let Some(least) = least.map(|(key, _)| key.clone()) {
                    self.failures.remove(&least);
                }
            }
        }
        let failures = self.failures.entry(key).or_insert(Failures { count: 0, last: now });
        if failures.is_over(now) {
            failures.count = 0;
        }
        failures.count = failures.count.saturating_add(1);
        failures.last = now;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::access::verification_cache::Key;

    struct Bench {
        attempts: Attempts,
        key: Key,
        now: Duration,
    }

    impl Bench {
        fn new() -> Bench {
            Bench {
                attempts: Attempts::default(),
                key: Key::random().unwrap(),
                now: Duration::ZERO,
            }
        }

        fn enter(
            &mut self,
            name: &str,
            password: &str,
            address: &str,
        ) -> Result<bool, RateLimitError> {
            let origin = ClientOrigin::of(Some(address.parse().unwrap()));
            let digest = self.key.digest(name, password);
            self.attempts.enter(digest, name, origin, Box::new(drop), self.now)
        }

        fn leave(&mut self, name: &str, password: &str, address: &str, is_right: bool) -> usize {
            let origin = ClientOrigin::of(Some(address.parse().unwrap()));
            let digest = self.key.digest(name, password);
            self.attempts.leave(digest, origin, is_right, self.now).len()
        }

        fn fail(&mut self, name: &str, address: &str, times: u32) {
            for guess in 0..times {
                let guess = guess.to_string();
                self.enter(name, &guess, address).unwrap();
                self.leave(name, &guess, address, false);
            }
        }
    }

    #[test]
    fn a_password_that_many_send_is_verified_once() {
        let mut bench = Bench::new();
        assert_eq!(bench.enter("ada", "secret", "10.0.0.1"), Ok(true));
        for _ in 0..100 {
            assert_eq!(bench.enter("ada", "secret", "10.0.0.1"), Ok(false));
        }
        assert_eq!(bench.leave("ada", "secret", "10.0.0.1", true), 101);
        assert_eq!(bench.enter("ada", "secret", "10.0.0.1"), Ok(true));
    }

    #[test]
    fn limits_of_one_address_and_one_name_leave_room_for_others() {
        let mut bench = Bench::new();
        for guess in 0..PENDING_OF_ADDRESS_MAX {
            let name = format!("name {guess}");
            assert_eq!(bench.enter(&name, "x", "10.0.0.1"), Ok(true));
        }
        assert_eq!(bench.enter("ada", "secret", "10.0.0.1"), Err(RateLimitError { seconds: 1 }));
        for guess in 0..PENDING_OF_NAME_MAX {
            let address = format!("10.0.1.{guess}");
            assert_eq!(bench.enter("ada", &guess.to_string(), &address), Ok(true));
        }
        assert_eq!(bench.enter("ada", "secret", "10.0.0.2"), Err(RateLimitError { seconds: 1 }));
        assert_eq!(bench.enter("bob", "secret", "10.0.0.2"), Ok(true));
    }

    #[test]
    fn delays_double_for_one_name_at_one_address_only() {
        let mut bench = Bench::new();
        bench.fail("ada", "10.0.0.1", FREE_FAILURES);
        assert_eq!(bench.enter("ada", "next", "10.0.0.1"), Err(RateLimitError { seconds: 1 }));
        assert_eq!(bench.enter("ada", "secret", "10.0.0.2"), Ok(true), "from elsewhere");
        assert_eq!(bench.enter("bob", "secret", "10.0.0.1"), Ok(true), "another name");
        for seconds in [1, 2, 4, 8, 16, 32, 60, 60] {
            assert_eq!(bench.enter("ada", "next", "10.0.0.1"), Err(RateLimitError { seconds }));
            bench.now += Duration::from_secs(seconds);
            bench.fail("ada", "10.0.0.1", 1);
        }
        bench.now += FORGET_AFTER;
        bench.fail("ada", "10.0.0.1", FREE_FAILURES);
    }

    #[test]
    fn the_right_password_resets_the_count() {
        let mut bench = Bench::new();
        bench.fail("ada", "10.0.0.1", FREE_FAILURES - 1);
        bench.enter("ada", "secret", "10.0.0.1").unwrap();
        bench.leave("ada", "secret", "10.0.0.1", true);
        bench.fail("ada", "10.0.0.1", FREE_FAILURES);
    }

    #[test]
    fn memory_is_bounded_and_the_most_guessed_is_kept() {
        let mut bench = Bench::new();
        bench.fail("ada", "10.0.0.1", FREE_FAILURES);
        for name in 0..REMEMBERED_MAX + 10 {
            bench.fail(&name.to_string(), "10.0.0.1", 1);
        }
        assert_eq!(bench.attempts.failures.len(), REMEMBERED_MAX);
        assert!(bench.enter("ada", "next", "10.0.0.1").is_err());
    }
}
