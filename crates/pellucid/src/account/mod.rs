//! `pellucid account`: manages the accounts of a server and their rights.
//!
//! It edits the file of accounts in the store's folder. A server that runs on that folder picks the
//! change up within a second. So no HTTP endpoint for accounts has to be protected, and no initial
//! password has to be shipped.

mod password;
mod show;

use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use pellucid_clock::WallTime;
use pellucid_io::{FileSystem, SystemFileSystem};
use pellucid_server::access::{AccessError, AccountFile, AccountRecord, Right};

use crate::Failure;

/// Manage the accounts of a server, whether it runs or not.
///
/// Passwords are read from the terminal, or from the first line of standard input.
///
/// Example: pellucid account add ada --grant table/entities=write --data ./data
#[derive(Args)]
pub(crate) struct AccountArguments {
    /// The folder of the store.
    #[arg(long, env = "PELLUCID_DATA", global = true)]
    data: Option<PathBuf>,
    #[command(subcommand)]
    action: Action,
}

#[derive(Subcommand)]
enum Action {
    /// Add an account.
    Add {
        /// Its name.
        name: String,
        /// Let it do everything: the same as --grant '*=write' --grant admin=write.
        #[arg(long)]
        admin: bool,
        /// A scope and a right, as table/entities=read, database/shop=write or admin=read.
        #[arg(long = "grant", value_name = "SCOPE=RIGHT")]
        grants: Vec<Grant>,
        /// Give it no password: only tokens let it in.
        #[arg(long)]
        no_password: bool,
    },
    /// List the accounts.
    List {
        /// As JSON.
        #[arg(long)]
        json: bool,
    },
    /// Remove an account.
    Remove {
        /// Its name.
        name: String,
    },
    /// Set an account's password.
    Password {
        /// The account's name.
        name: String,
    },
    /// Give rights, or take them.
    Grant {
        /// The account's name.
        name: String,
        /// Scopes and rights, as table/entities=read; SCOPE=unset takes a grant away.
        #[arg(required = true, value_name = "SCOPE=RIGHT")]
        grants: Vec<Grant>,
    },
    /// Let an account log in again.
    Enable {
        /// The account's name.
        name: String,
    },
    /// Keep an account from logging in.
    Disable {
        /// The account's name.
        name: String,
    },
    /// Manage an account's tokens.
    #[command(subcommand)]
    Token(TokenAction),
}

#[derive(Subcommand)]
enum TokenAction {
    /// Make a token and print it: it cannot be seen again.
    Add {
        /// The account's name.
        account: String,
        /// The purpose that the token is for.
        name: String,
        /// Days until it ends, at least one [default: never].
        #[arg(long, value_parser = clap::value_parser!(u32).range(1..))]
        days: Option<u32>,
    },
    /// List an account's tokens.
    List {
        /// The account's name.
        account: String,
    },
    /// Remove a token.
    Remove {
        /// The account's name.
        account: String,
        /// The token's number, as `list` shows it.
        id: u64,
    },
}

/// One argument `SCOPE=RIGHT`; `right` is `None` for `SCOPE=unset`, which removes the grant.
#[derive(Clone)]
struct Grant {
    scope: String,
    right: Option<Right>,
}

impl std::str::FromStr for Grant {
    type Err = String;

    fn from_str(text: &str) -> Result<Grant, String> {
        let example = || format!("`{text}` is no grant: write it as table/entities=read");
        let (scope, right) = text.rsplit_once('=').ok_or_else(example)?;
        let right = if right == "unset" { None } else { Some(right.parse()?) };
        Ok(Grant { scope: scope.to_owned(), right })
    }
}

/// Runs the action of the command line.
pub(crate) fn run(arguments: &AccountArguments) -> Result<(), Failure> {
    let data = arguments.data.as_deref().ok_or_else(|| {
        Failure::usage("say where the store is: --data DIR (see pellucid account --help)")
    })?;
    if !matches!(arguments.action, Action::Add { .. }) && !data.is_dir() {
        return Err(Failure::usage(format!("{} is no folder", data.display())));
    }
    let file = AccountFile::new(data);
    match &arguments.action {
        Action::Add { name, admin, grants, no_password } => {
            add(data, &file, name, *admin, grants, *no_password)
        }
        Action::List { json } => show::accounts(&file.read()?, *json),
        Action::Remove { name } => change(&file, |list| list.remove(name)),
        Action::Password { name } => {
            let exists = file.read()?.accounts().iter().any(|account| account.name == *name);
            if !exists {
                return Err(Failure::work(AccessError::Missing(name.clone())));
            }
            let password = password::ask(name)?;
            change(&file, |list| list.account(name)?.set_password(&password))
        }
        Action::Grant { name, grants } => change(&file, |list| apply(grants, list.account(name)?)),
        Action::Enable { name } => set_active(&file, name, true),
        Action::Disable { name } => set_active(&file, name, false),
        Action::Token(action) => token(&file, action),
    }
}

fn add(
    data: &Path,
    file: &AccountFile,
    name: &str,
    admin: bool,
    grants: &[Grant],
    no_password: bool,
) -> Result<(), Failure> {
    let mut account = AccountRecord::new(name).map_err(Failure::usage)?;
    if admin {
        for scope in ["*", "admin"] {
            account.grants.set(scope, Right::Write)?;
        }
    }
    apply(grants, &mut account).map_err(Failure::usage)?;
    if !no_password {
        account.set_password(&password::ask(name)?).map_err(Failure::usage)?;
    }
    // The first account may be added before a server has made the folder of the store.
    SystemFileSystem
        .create_directory(data)
        .map_err(|error| Failure::work(format!("cannot make {}: {error}", data.display())))?;
    change(file, |list| list.add(account))
}

fn apply(grants: &[Grant], account: &mut AccountRecord) -> Result<(), AccessError> {
    for grant in grants {
        match grant.right {
            Some(right) => {
                let set = account.grants.set(&grant.scope, right);
                set.map_err(AccessError::Unacceptable)?;
            }
            None if account.grants.unset(&grant.scope) => {}
            None => {
                let what = format!("there is no grant for `{}`", grant.scope);
                return Err(AccessError::Unacceptable(what));
            }
        }
    }
    Ok(())
}

fn set_active(file: &AccountFile, name: &str, active: bool) -> Result<(), Failure> {
    change(file, |list| {
        list.account(name)?.active = active;
        Ok(())
    })
}

fn token(file: &AccountFile, action: &TokenAction) -> Result<(), Failure> {
    match action {
        TokenAction::Add { account, name, days } => {
            let now = WallTime::now().unix_ms() / 1_000;
            let until = days.map(|days| now + u64::from(days) * 86_400);
            let add = file.change(|list| list.account(account)?.add_token(name, until, now));
            let (_, text) = add?;
            print_line!("{text}");
            Ok(())
        }
        TokenAction::List { account } => {
            let mut list = file.read()?;
            show::tokens(list.account(account)?)
        }
        TokenAction::Remove { account, id } => change(file, |list| {
            if list.account(account)?.remove_token(*id) {
                return Ok(());
            }
            Err(AccessError::Unacceptable(format!("`{account}` has no token {id}")))
        }),
    }
}

fn change(
    file: &AccountFile,
    change: impl FnOnce(&mut pellucid_server::access::AccountList) -> Result<(), AccessError>,
) -> Result<(), Failure> {
    file.change(change).map_err(Failure::work)
}
