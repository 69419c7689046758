//! Handlers of `/_api/collection` and `/_api/database`.

use std::sync::Arc;

use pellucid_document::{
    Collection, CollectionDefinition, CollectionKind, Database, DocumentError, Documents,
    ErrorNumber, Result, SYSTEM_DATABASE, document_of, revision_text,
};
use serde_json::{Map, Value, json};

use super::authorization::{authorize, authorize_collection};
use super::call::{Call, bad_parameter, flag_in, not_implemented};
use super::completion::ReplyResult;
use super::document::encode;
use super::reply::success;
use super::users::{check_users, make_users, remove_grants};
use crate::access::{Accounts, Identity, Right, Scope};
use crate::reply::Reply;
use crate::routes::Method;

/// Lists the collections that the caller may read.
pub(super) fn list(
    documents: &Documents,
    call: &Call<'_>,
    database: &Database,
    caller: &Identity,
) -> ReplyResult {
    let leaves_out = call.is_set("excludeSystem")?;
    let is_shown = |collection: &&Arc<Collection>| {
        (!leaves_out || !collection.shape().definition.is_system)
            && authorize_collection(caller, database, collection, Right::Read).is_ok()
    };
    let collections = database.collections();
    let shown = collections.iter().filter(is_shown);
    let list: Vec<_> = shown.map(|collection| facts(documents, collection)).collect();
    Ok(success(200, json!({ "result": list })))
}

/// Creates a collection, if the caller may write to a collection of that name.
pub(super) fn create(
    documents: &Documents,
    call: &Call<'_>,
    database: &Database,
    caller: &Identity,
) -> ReplyResult {
    let body = call.object()?;
    let Some(name) = body.get("name").and_then(Value::as_str) else {
        return Err(ErrorNumber::ILLEGAL_NAME.into());
    };
    authorize(caller, &database.name, name, Right::Write)?;
    let kind = match body.get("type") {
        None | Some(Value::Null) => CollectionKind::Documents,
        Some(Value::String(text)) if matches!(&**text, "edge" | "3") => CollectionKind::Edges,
        Some(Value::String(text)) if matches!(&**text, "document" | "2") => {
            CollectionKind::Documents
        }
        Some(number) if number.as_u64() == Some(2) => CollectionKind::Documents,
        Some(number) if number.as_u64() == Some(3) => CollectionKind::Edges,
        Some(_) => return Err(ErrorNumber::COLLECTION_TYPE_INVALID.into()),
    };
    refuse_unbuilt(&body)?;
    let new = CollectionDefinition {
        kind,
        is_system: flag_in(&body, "isSystem")?.unwrap_or(false),
        wait_for_sync: flag_in(&body, "waitForSync")?.unwrap_or(false),
        allow_user_keys: allows_user_keys(body.get("keyOptions"))?,
        ..CollectionDefinition::named(name)
    };
    let collection = documents.create_collection(database, new)?;
    Ok(success(200, properties(documents, &collection)))
}

pub(super) fn drop_one(
    documents: &Documents,
    call: &Call<'_>,
    database: &Database,
    collection: &Collection,
) -> ReplyResult {
    if collection.shape().definition.is_system && !call.is_set("isSystem")? {
        return Err(ErrorNumber::FORBIDDEN.into());
    }
    documents.drop_collection(database, collection)?;
    Ok(success(200, json!({ "id": collection.id.to_string() })))
}

/// Shows a collection, or the part of it that the path names, such as its count.
pub(super) fn view(
    documents: &Documents,
    call: &Call<'_>,
    collection: &Arc<Collection>,
) -> ReplyResult {
    let Some(what) = call.segment(3) else {
        return Ok(success(200, facts(documents, collection)));
    };
    let mut fields = match what {
        "checksum" => facts(documents, collection),
        "properties" | "count" | "figures" | "revision" => properties(documents, collection),
        _ => return Err(unknown_action(what)),
    };
    match what {
        "count" => fields["count"] = json!(collection.count()),
        "revision" => fields["revision"] = json!(revision_of(collection)),
        "figures" => {
            fields["count"] = json!(collection.count());
            fields["figures"] = figures(documents, call, collection)?;
            if call.is_set("details")? {
                // Entries of other indexes are not counted.
                let count = collection.count();
                let primary = json!({"type": "primary", "id": 0, "count": count});
                fields["figures"]["engine"] = json!({"documents": count, "indexes": [primary]});
            }
        }
        "checksum" => {
            fields["revision"] = json!(revision_of(collection));
            let checksum = checksum(documents, call, collection)?;
            fields["checksum"] = json!(checksum.to_string());
        }
        _ => {}
    }
    Ok(located(call, success(200, fields)))
}

/// Renames a collection, if the caller may also write to a collection of the new name.
pub(super) fn rename(
    documents: &Documents,
    call: &Call<'_>,
    database: &Database,
    collection: &Arc<Collection>,
    caller: &Identity,
) -> ReplyResult {
    let body = call.object()?;
    let name = body.get("name").and_then(Value::as_str);
    let name = name.ok_or(ErrorNumber::ILLEGAL_NAME)?;
    authorize(caller, &database.name, name, Right::Write)?;
    documents.rename_collection(database, collection, name)?;
    Ok(located(call, success(200, facts(documents, collection))))
}

/// Executes the action on a collection that the path names.
pub(super) fn change(
    documents: &Documents,
    call: &Call<'_>,
    collection: &Arc<Collection>,
) -> ReplyResult {
    let what = call.segment(3).unwrap_or_default();
    let body = call.object()?;
    let fields = match what {
        "properties" => {
            refuse_unbuilt(&body)?;
            if let Some(waits) = flag_in(&body, "waitForSync")? {
                documents.set_wait_for_sync(collection, waits)?;
            }
            properties(documents, collection)
        }
        "truncate" => {
            documents.truncate(collection)?;
            facts(documents, collection)
        }
        "load" => {
            let mut fields = facts(documents, collection);
            if flag_in(&body, "count")? != Some(false) {
                fields["count"] = json!(collection.count());
            }
            fields
        }
        "unload" | "compact" => facts(documents, collection),
        "loadIndexesIntoMemory" => json!({ "result": true }),
        "recalculateCount" => {
            documents.recount(collection, &|| call.check())?;
            json!({ "result": true, "count": collection.count() })
        }
        "responsibleShard" => {
            let message = "this is not a cluster";
            return Err(DocumentError::new(ErrorNumber(1471), message));
        }
        _ => return Err(unknown_action(what)),
    };
    Ok(located(call, success(200, fields)))
}

/// The members that every reply about a collection has.
fn facts(documents: &Documents, collection: &Collection) -> Value {
    let shape = collection.shape();
    let definition = &shape.definition;
    let unique_id = if definition.is_system {
        definition.name.clone()
    } else {
        format!("{}/{}", documents.identity(), definition.id)
    };
    json!({
        "id": definition.id.to_string(),
        "name": definition.name,
        "status": 3,
        "type": definition.kind.number(),
        "isSystem": definition.is_system,
        "globallyUniqueId": unique_id,
    })
}

fn properties(documents: &Documents, collection: &Collection) -> Value {
    let shape = collection.shape();
    let mut fields = facts(documents, collection);
    let more = json!({
        "waitForSync": shape.definition.wait_for_sync,
        "writeConcern": 1,
        "schema": null,
        "computedValues": null,
        "cacheEnabled": false,
        "keyOptions": {
            "type": "traditional",
            "allowUserKeys": shape.definition.allow_user_keys,
            "lastValue": collection.last_number(),
        },
        "statusString": "loaded",
        "usesRevisionsAsDocumentIds": true,
        "syncByRevision": true,
        "supportsRBAC": true,
        "isSmartChild": false,
        "internalValidatorType": 0,
        "objectId": shape.definition.storage.to_string(),
    });
    if let (Value::Object(fields), Value::Object(more)) = (&mut fields, more) {
        fields.extend(more);
    }
    fields
}

fn figures(documents: &Documents, call: &Call<'_>, collection: &Arc<Collection>) -> Result<Value> {
    let shape = collection.shape();
    let sizes = pellucid_document::sizes(documents, &shape, &|| call.check())?;
    Ok(json!({
        "indexes": {
            "count": 1 + shape.readable_indexes().count(),
            "size": sizes.index_bytes,
        },
        "documentsSize": sizes.document_bytes,
        "cacheInUse": false,
        "cacheSize": 0,
        "cacheUsage": 0,
    }))
}

/// A checksum over all documents that does not depend on their order; zero if there are none.
fn checksum(documents: &Documents, call: &Call<'_>, collection: &Collection) -> Result<u64> {
    let (with_revisions, with_data) = (call.is_set("withRevisions")?, call.is_set("withData")?);
    let shape = collection.shape();
    let mut checksum = 0;
    pellucid_document::for_each(documents, &shape, &|| call.check(), |key, object| {
        let mut one = pellucid_document::hash(key);
        if with_revisions {
            one = one.wrapping_add(object.head.sequence.wrapping_mul(0x9E37_79B9_7F4A_7C15));
        }
        if with_data {
            let document = document_of(&shape, object)?;
            one = one.wrapping_add(pellucid_document::hash_of_data(&document));
        }
        checksum ^= one;
        Ok(())
    })?;
    Ok(checksum)
}

/// Answers a call to `/_api/database…`.
pub(super) fn answer_databases(
    documents: &Documents,
    accounts: &Accounts,
    call: &Call<'_>,
    caller: &Identity,
) -> ReplyResult {
    // Only callers with a right to a database learn that it does not exist.
    if caller.may(Scope::Database(call.database()), Right::Read) {
        documents.database(call.database())?;
    }
    let is_system = call.database() == SYSTEM_DATABASE;
    match (call.method, call.segment(2)) {
        (Method::Get, None) if !is_system => Err(ErrorNumber::USE_SYSTEM_DATABASE.into()),
        (Method::Get, None | Some("user")) => {
            let may = |name: &String| caller.may(Scope::Database(name), Right::Read);
            let names: Vec<_> = documents.database_names().into_iter().filter(may).collect();
            Ok(success(200, json!({ "result": names })))
        }
        (Method::Post | Method::Delete, _) if !is_system => {
            Err(ErrorNumber::USE_SYSTEM_DATABASE.into())
        }
        (Method::Post, None) => {
            let body = call.object()?;
            let name = body.get("name").and_then(Value::as_str);
            let name = name.ok_or(ErrorNumber::DATABASE_NAME_INVALID)?;
            let users = check_users(&body, name, accounts, caller)?;
            documents.create_database(name)?;
            make_users(accounts, name, users)?;
            Ok(success(201, json!({ "result": true })))
        }
        (Method::Delete, Some(name)) => {
            let dropped = documents.drop_database(name);
            // An earlier call may have dropped it, and failed before its grants were removed.
            let is_gone = |error: &DocumentError| error.number == ErrorNumber::DATABASE_NOT_FOUND;
            if dropped.as_ref().err().is_none_or(is_gone) {
                remove_grants(accounts, name)?;
            }
            dropped?;
            Ok(success(200, json!({ "result": true })))
        }
        _ => Err(ErrorNumber::HTTP_METHOD_NOT_ALLOWED.into()),
    }
}

/// Shows a database.
pub(super) fn current_database(database: &Database) -> Reply {
    let result = json!({
        "id": database.id.to_string(),
        "name": database.name,
        "isSystem": database.name == SYSTEM_DATABASE,
        "path": "none",
    });
    success(200, json!({ "result": result }))
}

/// Adds the header `Location` with the path of the call.
fn located(call: &Call<'_>, reply: Reply) -> Reply {
    let segments = call.path.trim_start_matches("/_db/");
    let place = segments.find("/_api").map_or("", |at| &segments[at..]);
    reply.with_header("Location", format!("/_db/{}{place}", encode(call.database())))
}

fn revision_of(collection: &Collection) -> String {
    match collection.last_sequence() {
        0 => "0".to_owned(),
        sequence => revision_text(sequence),
    }
}

fn unknown_action(what: &str) -> DocumentError {
    let message = format!("expecting a known action behind the collection, not '{what}'");
    DocumentError::new(ErrorNumber::HTTP_NOT_FOUND, message)
}

/// Refuses options that are not implemented and cannot be ignored.
fn refuse_unbuilt(body: &Map<String, Value>) -> Result<()> {
    for name in ["schema", "computedValues"] {
        let is_given = body.get(name).is_some_and(|value| match value {
            Value::Null => false,
            Value::Array(values) => !values.is_empty(),
            Value::Object(fields) => !fields.is_empty(),
            _ => true,
        });
        if is_given {
            return Err(not_implemented(format!("{name} is not implemented")));
        }
    }
    Ok(())
}

fn allows_user_keys(options: Option<&Value>) -> Result<bool> {
    let options = match options {
        None | Some(Value::Null) => return Ok(true),
        Some(Value::Object(options)) => options,
        Some(_) => return Err(bad_parameter("`keyOptions` is an object")),
    };
    match options.get("type").map(|kind| kind.as_str()) {
        None | Some(Some("traditional" | "")) => {}
        _ => {
            let message = "invalid key generator: only `traditional` is implemented";
            return Err(DocumentError::new(ErrorNumber::INVALID_KEY_GENERATOR, message));
        }
    }
    Ok(flag_in(options, "allowUserKeys")?.unwrap_or(true))
}
