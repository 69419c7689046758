//! Authorisation of calls: by the database or the collection that was found, and never by the text
//! that names it.
//!
//! Handlers get the database or the collection from here, so that no handler can use one that its
//! caller has no right to.

use std::borrow::Cow;
use std::sync::Arc;

use pellucid_document::{Collection, Database, DocumentError, Documents, ErrorNumber};

use super::call::{Call, bad_request};
use super::reply::error_as;
use crate::access::{Identity, Right, Scope};
use crate::gate::challenged;
use crate::reply::Reply;
use crate::routes::RequiredRight;

/// The failure of a call.
pub(super) enum CallError {
    /// The caller may not use this database. The reply is the same as to an unknown caller.
    NoAccess,
    Failed(DocumentError),
}

impl CallError {
    /// The reply to `call`, which has failed so.
    pub(super) fn into_reply(self, call: &Call<'_>) -> Reply {
        match self {
            CallError::NoAccess => challenged(error_as(401, &forbidden()), call.is_quiet),
            CallError::Failed(error) => error.into(),
        }
    }
}

impl From<DocumentError> for CallError {
    fn from(error: DocumentError) -> CallError {
        CallError::Failed(error)
    }
}

/// The database of a call, if its caller has the right that its route needs.
pub(super) fn database_of(
    documents: &Documents,
    call: &Call<'_>,
    caller: &Identity,
) -> Result<Arc<Database>, CallError> {
    let right = needed(call);
    match documents.database(call.database()) {
        Ok(database) if caller.may(Scope::Database(&database.name), right) => Ok(database),
        Err(error) if caller.may(Scope::Database(call.database()), right) => Err(error.into()),
        _ => Err(CallError::NoAccess),
    }
}

/// The collection of a call and its database, if its caller has the right that its route needs.
pub(super) fn collection_of(
    documents: &Documents,
    call: &Call<'_>,
    caller: &Identity,
) -> Result<(Arc<Database>, Arc<Collection>), CallError> {
    let Some(name) = name_of_collection(call) else {
        database_of(documents, call, caller)?;
        return Err(nothing_named(call).into());
    };
    let found = find_collection(documents, (call.database(), &name), caller, needed(call));
    found.map_err(CallError::Failed)
}

/// The collection of this name and its database, if the caller has this right to it.
pub(super) fn find_collection(
    documents: &Documents,
    (database_name, name): (&str, &str),
    caller: &Identity,
    right: Right,
) -> Result<(Arc<Database>, Arc<Collection>), DocumentError> {
    let found = documents.database(database_name).and_then(|database| {
        let collection = database.collection(name)?;
        Ok((database, collection))
    });
    match found {
        Ok((database, collection)) => {
            authorize_collection(caller, &database, &collection, right)?;
            Ok((database, collection))
        }
        Err(error) => {
            // Only callers with a right to the name learn that it does not exist.
            authorize(caller, database_name, name, right)?;
            Err(error)
        }
    }
}

/// Checks that the caller has this right to a collection.
pub(super) fn authorize_collection(
    caller: &Identity,
    database: &Database,
    collection: &Collection,
    right: Right,
) -> Result<(), DocumentError> {
    if matches!(caller, Identity::Anybody | Identity::Superuser(_)) {
        return Ok(());
    }
    authorize(caller, &database.name, &collection.shape().definition.name, right)
}

/// As [`authorize_collection`], for the name of a collection that may not exist.
pub(super) fn authorize(
    caller: &Identity,
    database: &str,
    collection: &str,
    right: Right,
) -> Result<(), DocumentError> {
    match caller.may(Scope::Collection(database, collection), right) {
        true => Ok(()),
        false => Err(forbidden()),
    }
}

/// Checks that a call about an account comes from its owner or from an administrator.
pub(super) fn authorize_account(call: &Call<'_>, caller: &Identity) -> Result<(), DocumentError> {
    let RequiredRight::OwnAccount(right) = call.route.need else { return Ok(()) };
    let is_own = caller.name().is_some() && call.part("{user}") == caller.name();
    if is_own || caller.may(Scope::Admin, right) {
        return Ok(());
    }
    Err(ErrorNumber::FORBIDDEN.into())
}

/// The right that a route about a database or a collection needs.
fn needed(call: &Call<'_>) -> Right {
    match call.route.need {
        RequiredRight::Database(right) | RequiredRight::Collection(right) => right,
        // Routes with other needs name no collection.
        _ => Right::Write,
    }
}

/// The name or number of the collection that a call is about.
fn name_of_collection<'a>(call: &'a Call<'_>) -> Option<Cow<'a, str>> {
    match call.part("{collection}") {
        Some(name) => Some(Cow::Borrowed(name)),
        None => call.parameter("collection").filter(|name| !name.is_empty()),
    }
}

fn nothing_named(call: &Call<'_>) -> DocumentError {
    if call.segment(1) != Some("document") {
        return ErrorNumber::COLLECTION_PARAMETER_MISSING.into();
    }
    bad_request("expecting /_api/document/<collection>")
}

fn forbidden() -> DocumentError {
    DocumentError::new(ErrorNumber::FORBIDDEN, "not authorized to execute this request")
}
