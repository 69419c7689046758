//! The accounts of a running server.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use arc_swap::ArcSwap;
use hmac::Mac;
use pellucid_thread::Mutex;
use subtle::ConstantTimeEq;

use crate::access::credentials::Credentials;
use crate::access::error::AccessError;
use crate::access::file::{AccountFile, FileStamp};
use crate::access::identity::{Identity, Proof, WebToken};
use crate::access::jwt::{self, Subject};
use crate::access::password;
use crate::access::record::{AccountList, AccountRecord};
use crate::access::secret::Secret;
use crate::access::token::{self, TokenRecord};
use crate::access::verification_cache::{Digest, Key, VerificationCache};

/// The rule whether requests need credentials.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Authentication {
    /// Credentials are needed as soon as there is an account. A store without accounts is open.
    /// When the first account has been added, the running server stays protected, even if all
    /// accounts are removed.
    #[default]
    Auto,
    /// Requests always need credentials.
    On,
    /// Requests never need credentials.
    Off,
}

/// The result of a check of credentials that does not block.
pub(crate) enum Verdict {
    /// The credentials are right, or none are needed.
    Known(Identity),
    /// The credentials are missing or wrong.
    Denied,
    /// Only [`Accounts::verify_password`] can decide, which takes milliseconds.
    Slow,
}

/// One state of the accounts. Each change makes a new state, which remembers no passwords.
struct State {
    by_name: HashMap<String, Arc<AccountRecord>>,
    by_token: HashMap<String, (Arc<AccountRecord>, TokenRecord)>,
    jwt_key: jwt::Key,
    /// The number of the secret: how often it has changed in this process.
    secret_number: u64,
    verified: ArcSwap<VerificationCache>,
}

/// The accounts of a running server.
pub(crate) struct Accounts {
    file: AccountFile,
    authentication: Authentication,
    is_enforced: AtomicBool,
    jwt_secret: Option<Secret>,
    /// The key that signs web tokens while the server is open. No server accepts such a token.
    open_key: jwt::Key,
    state: ArcSwap<State>,
    /// True if the file existed and could not be read, until the next read that succeeds.
    is_doubtful: AtomicBool,
    /// The stamp of the file from which `state` was read; locked while the file is read.
    read: Mutex<Option<FileStamp>>,
    /// The key of the digests of passwords.
    key: Key,
}

impl Accounts {
    /// Opens the accounts of the store in `folder`. `jwt_secret` replaces the secret in the file.
    ///
    /// # Errors
    /// If the file cannot be read, or the system provides no random bytes.
    pub(crate) fn open(
        folder: &Path,
        authentication: Authentication,
        jwt_secret: Option<Secret>,
    ) -> Result<Accounts, AccessError> {
        let file = AccountFile::new(folder);
        let read = file.stamp();
        let state = State::new(&file.read()?, jwt_secret.as_ref());
        Ok(Accounts {
            is_enforced: AtomicBool::new(is_enforced(authentication, &state)),
            authentication,
            jwt_secret,
            open_key: jwt::key_of(&token::random::<32>()?),
            state: ArcSwap::from_pointee(state),
            is_doubtful: AtomicBool::new(false),
            read: Mutex::new(read),
            key: Key::random()?,
            file,
        })
    }

    /// Returns true if requests need credentials now.
    pub(crate) fn is_enforced(&self) -> bool {
        // In this order: a doubt ends only after the accounts that it was about are enforced.
        self.is_doubtful.load(Ordering::Acquire) || self.is_enforced.load(Ordering::Relaxed)
    }

    /// Checks the header `Authorization` without blocking. The time is in seconds since 1970.
    pub(crate) fn verify(&self, authorization: Option<&[u8]>, now_unix_seconds: u64) -> Verdict {
        if !self.is_enforced() {
            return Verdict::Known(Identity::Anybody);
        }
        let state = self.state.load();
        let credentials = authorization.and_then(Credentials::parse);
        match credentials {
            None => Verdict::Denied,
            Some(Credentials::Bearer(token)) => state.bearer(&token, now_unix_seconds),
            Some(Credentials::Basic { name, password }) => {
                if let Some(identity) = state.token_of(&name, &password, now_unix_seconds) {
                    return Verdict::Known(identity);
                }
                match state.verified.load().get(&self.key.digest(&name, &password)) {
                    Some(true) => state.account(&name, Proof::Password),
                    Some(false) => Verdict::Denied,
                    None => Verdict::Slow,
                }
            }
        }
    }

    /// The digest by which this process remembers a name with a password.
    pub(crate) fn digest(&self, name: &str, password: &str) -> Digest {
        self.key.digest(name, password)
    }

    /// Verifies a password and remembers the outcome. Returns the account if the password is right.
    /// It takes milliseconds, so it must not run on an event loop.
    pub(crate) fn verify_password(&self, name: &str, password: &str) -> Option<Identity> {
        let state = self.state.load();
        let digest = self.key.digest(name, password);
        let is_right = state.verified.load().get(&digest).unwrap_or_else(|| {
            let record = state.by_name.get(name).filter(|record| record.active);
            let kept = record.and_then(|record| record.password_hash());
            // An unknown name takes as long as a known one, so that the time does not tell which
            // names exist.
            let is_right =
                password::verify(password, kept.unwrap_or(password::NOBODY)) && kept.is_some();
            state.remember(digest, is_right);
            is_right
        });
        match state.account(name, Proof::Password) {
            Verdict::Known(identity) if is_right => Some(identity),
            _ => None,
        }
    }

    /// Makes a web token for an account, valid for an hour. While the server is open, it makes a
    /// token that no server accepts: another server with accounts may have the same secret.
    pub(crate) fn sign(&self, name: &str, now_unix_seconds: u64) -> String {
        match self.is_enforced() {
            true => jwt::sign(&self.state.load().jwt_key, name, now_unix_seconds),
            false => jwt::sign(&self.open_key, name, now_unix_seconds),
        }
    }

    /// The caller of a long request with the present rights; `None` if the caller would be denied
    /// now.
    pub(crate) fn again(&self, identity: &Identity, now_unix_seconds: u64) -> Option<Identity> {
        match identity {
            Identity::Anybody if self.is_enforced() => None,
            Identity::Nobody | Identity::Anybody => Some(identity.clone()),
            Identity::Superuser(token) => {
                self.state.load().accepts(*token, now_unix_seconds).then(|| identity.clone())
            }
            Identity::Account(record, proof) => {
                let state = self.state.load();
                let current = state.again(record, *proof, now_unix_seconds)?;
                Some(Identity::Account(Arc::clone(current), *proof))
            }
        }
    }

    /// The account with this name.
    pub(crate) fn account(&self, name: &str) -> Option<Arc<AccountRecord>> {
        self.state.load().by_name.get(name).cloned()
    }

    /// All accounts, in the order of their names.
    pub(crate) fn list(&self) -> Vec<Arc<AccountRecord>> {
        let mut list: Vec<_> = self.state.load().by_name.values().cloned().collect();
        list.sort_by(|a, b| a.name.cmp(&b.name));
        list
    }

    /// Changes the accounts in the file and in memory: either all that `change` does, or nothing.
    /// It waits for the disk, so it must not run on an event loop.
    ///
    /// # Errors
    /// If `change` fails, or if the file cannot be read or written.
    pub(crate) fn change<T>(
        &self,
        change: impl FnOnce(&mut AccountList) -> Result<T, AccessError>,
    ) -> Result<T, AccessError> {
        let outcome = self.file.change(change)?;
        self.refresh()?;
        Ok(outcome)
    }

    /// Reads the file again if it has changed, or could not be read. Returns true if it was read.
    ///
    /// # Errors
    /// If the file cannot be read: the accounts stay as they were, and the next call tries again.
    pub(crate) fn refresh(&self) -> Result<bool, AccessError> {
        let mut read = self.read.lock();
        let stamp = self.file.stamp();
        if stamp == *read && !self.is_doubtful.load(Ordering::Relaxed) {
            return Ok(false);
        }
        let list = self.file.read();
        if list.is_err() && stamp.is_some() && self.authentication == Authentication::Auto {
            // The file may have accounts: until it can be read, the server must not be open.
            self.is_doubtful.store(true, Ordering::Relaxed);
        }
        let list = list?;
        let mut state = State::new(&list, self.jwt_secret.as_ref());
        let before = self.state.load();
        // The same secret signs an empty text in the same way.
        let [was, is] = [&before.jwt_key, &state.jwt_key].map(|key| key.clone().finalize());
        state.secret_number = before.secret_number + u64::from(was != is);
        // Only after the file was read: otherwise an error, such as a lack of descriptors, would
        // hide the change for ever.
        *read = stamp;
        if is_enforced(self.authentication, &state) {
            // Never set to false again: removing the last account must not open the server.
            self.is_enforced.store(true, Ordering::Relaxed);
        }
        self.state.store(Arc::new(state));
        self.is_doubtful.store(false, Ordering::Release);
        Ok(true)
    }
}

fn is_enforced(authentication: Authentication, state: &State) -> bool {
    match authentication {
        Authentication::Auto => !state.by_name.is_empty(),
        Authentication::On => true,
        Authentication::Off => false,
    }
}

impl State {
    fn new(list: &AccountList, jwt_secret: Option<&Secret>) -> State {
        let mut state = State {
            by_name: HashMap::new(),
            by_token: HashMap::new(),
            jwt_key: jwt::key_of(jwt_secret.map_or(list.jwt_secret.as_bytes(), Secret::bytes)),
            secret_number: 0,
            verified: ArcSwap::default(),
        };
        for record in list.accounts() {
            let record = Arc::new(record.clone());
            for token in record.tokens() {
                state.by_token.insert(token.hash.clone(), (Arc::clone(&record), token.clone()));
            }
            state.by_name.insert(record.name.clone(), record);
        }
        state
    }

    fn account(&self, name: &str, proof: Proof) -> Verdict {
        match self.by_name.get(name) {
            Some(record) if record.active => {
                Verdict::Known(Identity::Account(Arc::clone(record), proof))
            }
            _ => Verdict::Denied,
        }
    }

    fn bearer(&self, token: &str, now_unix_seconds: u64) -> Verdict {
        if let Some(hash) = token::hash(token) {
            let found = self.token(&hash, now_unix_seconds);
            return found.map_or(Verdict::Denied, |(record, token)| {
                Verdict::Known(Identity::Account(Arc::clone(record), Proof::Token(token.id)))
            });
        }
        let shown = |until: Option<f64>| WebToken {
            until: until.map_or(u64::MAX, |until| until.ceil() as u64),
            secret: self.secret_number,
        };
        match jwt::verify(&self.jwt_key, token, now_unix_seconds) {
            Some(Subject::Account { name, issued_at, until }) => {
                match self.account(&name, Proof::WebToken(shown(until))) {
                    // A token without a time of issue was made by a holder of the secret.
                    Verdict::Known(Identity::Account(record, _))
                        if issued_at.is_some_and(|at| !record.accepts_token_issued_at(at)) =>
                    {
                        Verdict::Denied
                    }
                    verdict => verdict,
                }
            }
            Some(Subject::Superuser { until }) => Verdict::Known(Identity::Superuser(shown(until))),
            None => Verdict::Denied,
        }
    }

    /// The account of a token that was sent in place of a password. The name must be that of the
    /// account, or empty.
    fn token_of(&self, name: &str, password: &str, now_unix_seconds: u64) -> Option<Identity> {
        let (record, token) = self.token(&token::hash(password)?, now_unix_seconds)?;
        let is_owner = name.is_empty() || name == record.name;
        is_owner.then(|| Identity::Account(Arc::clone(record), Proof::Token(token.id)))
    }

    /// The account of the token with this hash. The time of the look-up may depend on the hash,
    /// which reveals nothing about the token; equality is then decided in constant time.
    fn token(
        &self,
        hash: &str,
        now_unix_seconds: u64,
    ) -> Option<(&Arc<AccountRecord>, &TokenRecord)> {
        let (record, token) = self.by_token.get(hash)?;
        let is_equal: bool = token.hash.as_bytes().ct_eq(hash.as_bytes()).into();
        let is_good = is_equal && record.active && token.is_valid_at(now_unix_seconds);
        is_good.then_some((record, token))
    }

    /// True if a web token that was verified before is still accepted.
    fn accepts(&self, token: WebToken, now: u64) -> bool {
        token.until > now && token.secret == self.secret_number
    }

    /// The present record of the account `record`, if this proof is still accepted.
    fn again(&self, record: &AccountRecord, proof: Proof, now: u64) -> Option<&Arc<AccountRecord>> {
        let current = self.by_name.get(&record.name).filter(|current| current.active)?;
        let is_good = match proof {
            Proof::Password => current.has_same_password_as(record),
            Proof::WebToken(token) => {
                current.has_same_password_as(record) && self.accepts(token, now)
            }
            Proof::Token(id) => {
                let is_it = |token: &TokenRecord| token.id == id && token.is_valid_at(now);
                current.is_same_account_as(record) && current.tokens().iter().any(is_it)
            }
        };
        is_good.then_some(current)
    }

    fn remember(&self, digest: Digest, is_right: bool) {
        self.verified.rcu(|verified| verified.with(digest, is_right));
    }
}

#[cfg(test)]
mod tests {
    use std::fs::Permissions;
    use std::os::unix::fs::PermissionsExt;

    use base64::Engine;
    use base64::engine::general_purpose::STANDARD;
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    use tempfile::TempDir;

    use super::*;
    use crate::access::record::ACCOUNTS_MAX;
    use crate::access::rights::{Right, Scope};

    fn basic(name: &str, password: &str) -> Vec<u8> {
        format!("Basic {}", STANDARD.encode(format!("{name}:{password}"))).into_bytes()
    }

    fn with_ada(folder: &TempDir) -> Accounts {
        let accounts = Accounts::open(folder.path(), Authentication::Auto, None).unwrap();
        let add = |list: &mut AccountList| {
            let mut ada = AccountRecord::new("ada")?;
            ada.set_password("secret")?;
            ada.grants.set("table/entities", Right::Read).map_err(AccessError::Unacceptable)?;
            list.add(ada)
        };
        accounts.change(add).unwrap();
        accounts
    }

    fn name_of(verdict: Verdict) -> Option<String> {
        match verdict {
            Verdict::Known(identity) => identity.name().map(str::to_owned),
            Verdict::Denied | Verdict::Slow => None,
        }
    }

    #[test]
    fn the_first_account_protects_the_server_and_the_last_one_does_not_open_it() {
        let folder = TempDir::new().unwrap();
        let open = Accounts::open(folder.path(), Authentication::Auto, None).unwrap();
        assert!(matches!(open.verify(None, 0), Verdict::Known(Identity::Anybody)));
        let accounts = with_ada(&folder);
        assert!(matches!(accounts.verify(None, 0), Verdict::Denied));
        assert!(!open.is_enforced());
        assert!(open.refresh().unwrap() && open.is_enforced(), "the other one follows the file");
        accounts.change(|list| list.remove("ada")).unwrap();
        assert!(accounts.is_enforced());
    }

    /// Regression: after a failed read, a removed account stayed valid until the next change.
    #[test]
    fn a_file_that_could_not_be_read_is_read_again() {
        const NAME: &str = "access::accounts::tests::a_file_that_could_not_be_read_is_read_again";
        crate::isolated_process::run(NAME, || {
            let folder = TempDir::new().unwrap();
            let open = Accounts::open(folder.path(), Authentication::Auto, None).unwrap();
            let (accounts, other) = (with_ada(&folder), AccountFile::new(folder.path()));
            other.change(|list| list.remove("ada")).unwrap();
            let limit = getrlimit(Resource::Nofile);
            setrlimit(Resource::Nofile, Rlimit { current: Some(0), ..limit }).unwrap();
            let (refused, unknown) = (accounts.refresh(), open.refresh());
            setrlimit(Resource::Nofile, limit).unwrap();
            assert!(matches!(refused, Err(AccessError::File(..))), "{refused:?}");
            assert!(unknown.is_err() && open.is_enforced(), "an open server stayed open");
            assert!(accounts.refresh().unwrap() && accounts.account("ada").is_none());
            assert!(open.refresh().unwrap() && !open.is_enforced(), "it has no account now");
        });
    }

    fn set_mode(folder: &TempDir, mode: u32) {
        let path = AccountFile::new(folder.path()).path();
        std::fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
    }

    /// Regression: while accounts that had become readable were taken over, the server was open.
    #[test]
    fn a_server_that_reads_its_first_accounts_late_is_never_open_meanwhile() {
        let folder = TempDir::new().unwrap();
        let accounts = Accounts::open(folder.path(), Authentication::Auto, None).unwrap();
        // So many that it takes a while to take them over.
        let add_all = |list: &mut AccountList| {
            let mut names = (0..ACCOUNTS_MAX).map(|number| number.to_string());
            names.try_for_each(|name| list.add(AccountRecord::new(&name)?))
        };
        AccountFile::new(folder.path()).change(add_all).unwrap();
        set_mode(&folder, 0o644);
        assert!(accounts.refresh().is_err());
        set_mode(&folder, 0o600);
        let is_over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !is_over.load(Ordering::Relaxed) {
                    assert!(matches!(accounts.verify(None, 0), Verdict::Denied));
                }
            });
            let refreshed = accounts.refresh();
            is_over.store(true, Ordering::Relaxed);
            assert!(refreshed.unwrap());
        });
    }

    /// Regression: a change of the mode alone was not noticed, and a server that had become
    /// doubtful without any accounts stayed closed when the file was removed.
    #[test]
    fn a_change_of_the_mode_and_the_removal_of_a_doubtful_file_are_noticed() {
        let folder = TempDir::new().unwrap();
        let open = Accounts::open(folder.path(), Authentication::Auto, None).unwrap();
        let accounts = with_ada(&folder);
        set_mode(&folder, 0o644);
        assert!(accounts.refresh().is_err() && accounts.account("ada").is_some());
        assert!(open.refresh().is_err() && open.is_enforced());
        set_mode(&folder, 0o600);
        assert!(accounts.refresh().unwrap() && !accounts.refresh().unwrap());
        std::fs::remove_file(AccountFile::new(folder.path()).path()).unwrap();
        assert!(open.refresh().unwrap() && !open.is_enforced());
    }

    #[test]
    fn a_password_is_verified_slowly_once_and_then_remembered() {
        let folder = TempDir::new().unwrap();
        let accounts = with_ada(&folder);
        let header = basic("ada", "secret");
        assert!(matches!(accounts.verify(Some(&header), 0), Verdict::Slow));
        let identity = accounts.verify_password("ada", "secret").unwrap();
        assert!(identity.may(Scope::Table("entities"), Right::Read));
        assert!(!identity.may(Scope::Table("entities"), Right::Write));
        assert_eq!(name_of(accounts.verify(Some(&header), 0)).as_deref(), Some("ada"));
        let wrong = basic("ada", "guess");
        assert!(accounts.verify_password("ada", "guess").is_none());
        assert!(matches!(accounts.verify(Some(&wrong), 0), Verdict::Denied), "also remembered");
        assert!(accounts.verify_password("bob", "secret").is_none());
    }

    #[test]
    fn a_change_forgets_remembered_passwords() {
        let folder = TempDir::new().unwrap();
        let accounts = with_ada(&folder);
        assert!(accounts.verify_password("ada", "secret").is_some());
        accounts.change(|list| list.account("ada")?.set_password("other")).unwrap();
        assert!(accounts.verify_password("ada", "secret").is_none(), "the old password is gone");
        assert!(accounts.verify_password("ada", "other").is_some());
        let stop = |list: &mut AccountList| {
            list.account("ada")?.active = false;
            Ok(())
        };
        accounts.change(stop).unwrap();
        assert!(accounts.verify_password("ada", "other").is_none(), "it may not log in");
    }

    #[test]
    fn tokens_are_accepted_at_once_until_they_expire() {
        let folder = TempDir::new().unwrap();
        let accounts = with_ada(&folder);
        let add = |list: &mut AccountList| list.account("ada")?.add_token("ci", Some(100), 0);
        let (_, token) = accounts.change(add).unwrap();
        let bearer = format!("Bearer {token}").into_bytes();
        for header in [bearer.clone(), basic("ada", &token), basic("", &token)] {
            assert_eq!(name_of(accounts.verify(Some(&header), 99)).as_deref(), Some("ada"));
        }
        assert!(matches!(accounts.verify(Some(&bearer), 100), Verdict::Denied));
        assert!(name_of(accounts.verify(Some(&basic("bob", &token)), 99)).is_none());
        let now = now_seconds();
        assert_eq!(
            name_of(accounts.verify(Some(&web(&accounts, "ada", now)), now)).unwrap(),
            "ada"
        );
        let nobody = web(&accounts, "bob", now);
        assert!(matches!(accounts.verify(Some(&nobody), now), Verdict::Denied));
    }

    fn now_seconds() -> u64 {
        pellucid_clock::WallTime::now().unix_ms() / 1_000
    }

    /// The header with a web token issued at `at`, in seconds.
    fn web(accounts: &Accounts, name: &str, at: u64) -> Vec<u8> {
        format!("Bearer {}", accounts.sign(name, at)).into_bytes()
    }

    /// Regression: a web token stayed valid after a change of the password.
    #[test]
    fn a_web_token_ends_with_the_password_it_was_issued_for() {
        let folder = TempDir::new().unwrap();
        let accounts = with_ada(&folder);
        let now = now_seconds();
        let earlier = web(&accounts, "ada", now - 60);
        assert!(matches!(accounts.verify(Some(&earlier), now), Verdict::Denied));
        let later = web(&accounts, "ada", now + 60);
        assert!(matches!(accounts.verify(Some(&later), now), Verdict::Known(_)));
    }

    /// Regression: a token of an open server was accepted by every server with the same secret,
    /// also for `root`.
    #[test]
    fn tokens_of_an_open_server_are_accepted_nowhere() {
        let [open, guarded] = [(); 2].map(|()| TempDir::new().unwrap());
        let secret = || Some(Secret::new(vec![7; 32]));
        let at_open = Accounts::open(open.path(), Authentication::Auto, secret()).unwrap();
        drop(with_ada(&guarded));
        let accounts = Accounts::open(guarded.path(), Authentication::Auto, secret()).unwrap();
        let now = now_seconds();
        assert!(matches!(
            accounts.verify(Some(&web(&accounts, "ada", now)), now),
            Verdict::Known(_)
        ));
        assert!(matches!(accounts.verify(Some(&web(&at_open, "ada", now)), now), Verdict::Denied));
    }

    /// Regression: a stream went on after its caller had lost the rights, the token or the account.
    #[test]
    fn a_long_request_has_the_present_rights_of_its_caller() {
        let folder = TempDir::new().unwrap();
        let accounts = with_ada(&folder);
        let by_password = accounts.verify_password("ada", "secret").unwrap();
        let add = |list: &mut AccountList| list.account("ada")?.add_token("ci", Some(100), 0);
        let (_, token) = accounts.change(add).unwrap();
        let bearer = format!("Bearer {token}").into_bytes();
        let Verdict::Known(by_token) = accounts.verify(Some(&bearer), 0) else { panic!() };
        let may_read = |identity: &Identity, at: u64| {
            let again = accounts.again(identity, at);
            again.is_some_and(|caller| caller.may(Scope::Table("entities"), Right::Read))
        };
        assert!(may_read(&by_password, 1_000) && may_read(&by_token, 99));
        assert!(!may_read(&by_token, 100), "the token is over");
        let set = |right| {
            let change = |list: &mut AccountList| {
                let account = list.account("ada")?;
                account.grants.set("table/entities", right).map_err(AccessError::Unacceptable)
            };
            accounts.change(change).unwrap();
        };
        set(Right::None);
        assert!(!may_read(&by_password, 1_000) && !may_read(&by_token, 0));
        set(Right::Read);
        assert!(may_read(&by_password, 1_000));
        accounts.change(|list| list.remove("ada")).unwrap();
        let mut other = AccountRecord::new("ada").unwrap();
        other.set_password("secret").unwrap();
        other.grants.set("*", Right::Write).unwrap();
        accounts.change(|list| list.add(other)).unwrap();
        assert!(!may_read(&by_password, 1_000), "another one of that name");
        assert!(accounts.again(&Identity::Anybody, 0).is_none());
    }

    /// Regression: a stream of a superuser survived the expiry of its token, and every stream by a
    /// web token survived a change of the secret.
    #[test]
    fn a_long_request_by_a_web_token_ends_with_the_token_or_its_secret() {
        let folder = TempDir::new().unwrap();
        let accounts = with_ada(&folder);
        let now = now_seconds();
        let known = |header: &[u8]| match accounts.verify(Some(header), now) {
            Verdict::Known(identity) => identity,
            Verdict::Denied | Verdict::Slow => panic!("the token is good"),
        };
        let claims = format!(r#"{{"iss":"arangodb","server_id":"tests","exp":{}}}"#, now + 9);
        let token = jwt::signed_with(&accounts.state.load().jwt_key, &claims);
        let superuser = known(format!("Bearer {token}").as_bytes());
        let ada = known(&web(&accounts, "ada", now));
        let goes_on = |identity: &Identity, at: u64| accounts.again(identity, at).is_some();
        assert!(goes_on(&superuser, now + 8) && !goes_on(&superuser, now + 9));
        assert!(goes_on(&ada, now + jwt::LIFETIME_SECONDS - 1));
        assert!(!goes_on(&ada, now + jwt::LIFETIME_SECONDS));
        accounts.change(|list| list.account("ada")?.add_token("ci", None, 0)).unwrap();
        assert!(goes_on(&superuser, now) && goes_on(&ada, now), "the secret is the same");
        let other = |list: &mut AccountList| {
            list.jwt_secret = "another secret".repeat(4);
            Ok(())
        };
        accounts.change(other).unwrap();
        assert!(!goes_on(&superuser, now) && !goes_on(&ada, now));
    }
}
