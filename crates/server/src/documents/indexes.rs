//! Handlers of `/_api/index`.

use std::sync::Arc;

use pellucid_document::{
    Collection, DocumentError, Documents, ErrorNumber, Index, IndexDefinition, IndexKind,
    IndexState, find_index,
};
use serde_json::{Map, Value, json};

use super::call::{Call, bad_parameter, flag_in, not_implemented};
use super::completion::ReplyResult;
use super::memory::RequestMemory;
use super::owner::Owner;
use super::reply::{error_as, success};
use super::running_queries::{RunningQueries, RunningQuery};
use crate::access::Identity;
use crate::reply::Reply;

/// ArangoDB's index types that are not implemented here.
const UNBUILT: &[&str] =
    &["geo", "geo1", "geo2", "fulltext", "inverted", "mdi", "mdi-prefixed", "zkd", "vector"];

/// The reply to an error at the creation of an index. Other errors than these have the status 400
/// there, whatever their number.
pub(super) fn refusal(error: DocumentError) -> Reply {
    match error.number {
        ErrorNumber::NOT_IMPLEMENTED
        | ErrorNumber::COLLECTION_NOT_FOUND
        | ErrorNumber::HTTP_SERVICE_UNAVAILABLE
        | ErrorNumber::STORE_FULL
        | ErrorNumber::READ_ONLY
        | ErrorNumber::QUERY_KILLED
        | ErrorNumber::QUEUE_FULL
        | ErrorNumber::INTERNAL => error.into(),
        _ => error_as(400, &error),
    }
}

/// Creates an index. Its time grows with the collection, so it is listed like a query and can be
/// killed.
pub(super) fn create(
    documents: &Documents,
    running: &Arc<RunningQueries>,
    memory: &RequestMemory,
    call: &Call<'_>,
    collection: &Collection,
    caller: &Identity,
) -> ReplyResult {
    let wanted = wanted_index(&call.object()?)?;
    let text = format!("create an index of {}", collection.name());
    let id = running.next_id();
    let owner = Owner::of(caller);
    let task = RunningQuery::beside_queries(id, call.database(), text, owner, memory.of_call());
    let listed = running.begin(task);
    let goes_on = || listed.check();
    let made = pellucid_document::create_index_while(documents, collection, wanted, &goes_on);
    let (definition, is_new) = made?;
    let mut fields = describe(&collection.name(), &definition);
    fields["isNewlyCreated"] = json!(is_new);
    Ok(success(if is_new { 201 } else { 200 }, fields))
}

/// Removes the index that the path names. It may block.
pub(super) fn drop_index(
    documents: &Documents,
    call: &Call<'_>,
    collection: &Collection,
) -> ReplyResult {
    let (id, shape) = (call.part("{index}").unwrap_or_default(), collection.shape());
    let number = match (id, find_index(&shape, id)) {
        ("0" | "primary", _) => 0,
        ("edge", _) if shape.is_edges() => return Err(ErrorNumber::FORBIDDEN.into()),
        (_, Some(index)) => index.definition.id,
        (_, None) => return Err(ErrorNumber::INDEX_NOT_FOUND.into()),
    };
    pellucid_document::drop_index(documents, collection, number)?;
    let id = format!("{}/{number}", shape.definition.name);
    Ok(success(200, json!({ "id": id })))
}

/// The definition that a body asks for.
fn wanted_index(body: &Map<String, Value>) -> Result<IndexDefinition, DocumentError> {
    let kind = match body.get("type").and_then(Value::as_str) {
        Some("persistent" | "hash" | "skiplist") => IndexKind::Persistent,
        Some("ttl") => IndexKind::Ttl,
        Some(other) if UNBUILT.contains(&other) => {
            return Err(not_implemented(format!("indexes of type {other} are not implemented")));
        }
        _ => return Err(bad_parameter("invalid index type")),
    };
    let fields = body.get("fields").and_then(Value::as_array);
    let fields = fields.ok_or_else(|| bad_parameter("`fields` is an array of strings"))?;
    let fields = fields.iter().map(|field| field.as_str().map(str::to_owned));
    let fields: Option<Vec<_>> = fields.collect();
    let fields = fields.ok_or_else(|| bad_parameter("`fields` is an array of strings"))?;
    if body.get("storedValues").and_then(Value::as_array).is_some_and(|values| !values.is_empty()) {
        return Err(not_implemented("storedValues is not implemented"));
    }
    let name = match body.get("name") {
        None | Some(Value::Null) => None,
        Some(Value::String(name)) => Some(&**name),
        Some(_) => return Err(bad_parameter("`name` is a string")),
    };
    let is_ttl = kind == IndexKind::Ttl;
    let expire_after_seconds = match body.get("expireAfter") {
        Some(value) if is_ttl => {
            let seconds = value.as_f64().filter(|seconds| *seconds >= 0.0);
            Some(seconds.ok_or_else(|| bad_parameter("`expireAfter` is a number of seconds"))?)
        }
        None if is_ttl => return Err(bad_parameter("`expireAfter` is missing")),
        _ => None,
    };
    Ok(IndexDefinition {
        id: 0,
        name: name.unwrap_or("").to_owned(),
        kind,
        fields,
        unique: flag_in(body, "unique")?.unwrap_or(false) && !is_ttl,
        sparse: flag_in(body, "sparse")?.unwrap_or(false) || is_ttl,
        deduplicate: flag_in(body, "deduplicate")?.unwrap_or(true),
        expire_after_seconds,
        state: IndexState::Ready,
    })
}

/// Lists the indexes of a collection.
pub(super) fn list(collection: &Collection) -> Reply {
    let shape = collection.shape();
    let name = &shape.definition.name;
    let mut indexes = vec![primary(name)];
    if shape.is_edges() {
        indexes.push(edge(name));
    }
    let own = shape.readable_indexes().filter(|index| index.definition.kind != IndexKind::Edge);
    indexes.extend(own.map(|index| describe(name, &index.definition)));
    let by_id = indexes.iter().filter_map(|index| Some((index["id"].as_str()?, index.clone())));
    let by_id: Map<String, Value> = by_id.map(|(id, index)| (id.to_owned(), index)).collect();
    success(200, json!({ "indexes": indexes, "identifiers": by_id }))
}

/// Shows the index that the path names.
pub(super) fn show(call: &Call<'_>, collection: &Collection) -> ReplyResult {
    let (id, shape) = (call.part("{index}").unwrap_or_default(), collection.shape());
    let name = &shape.definition.name;
    let is_edge = |index: &Index| index.definition.kind == IndexKind::Edge;
    let fields = match find_index(&shape, id) {
        _ if id == "0" || id == "primary" => primary(name),
        _ if id == "edge" && shape.is_edges() => edge(name),
        Some(index) if is_edge(&index) => edge(name),
        Some(index) => describe(name, &index.definition),
        None => return Err(ErrorNumber::INDEX_NOT_FOUND.into()),
    };
    Ok(success(200, fields))
}

fn primary(collection: &str) -> Value {
    json!({
        "id": format!("{collection}/0"),
        "type": "primary",
        "name": "primary",
        "fields": ["_key"],
        "unique": true,
        "sparse": false,
        "selectivityEstimate": 1,
    })
}

fn edge(collection: &str) -> Value {
    json!({
        "id": format!("{collection}/2"),
        "type": "edge",
        "name": "edge",
        "fields": ["_from", "_to"],
        "unique": false,
        "sparse": false,
        "selectivityEstimate": 1,
    })
}

fn describe(collection: &str, definition: &IndexDefinition) -> Value {
    let mut fields = json!({
        "id": format!("{collection}/{}", definition.id),
        "name": definition.name,
        "fields": definition.fields,
        "unique": definition.unique,
        "sparse": definition.sparse,
    });
    match definition.expire_after_seconds {
        Some(seconds) => {
            fields["type"] = json!("ttl");
            fields["estimates"] = json!(false);
            fields["expireAfter"] = match seconds.fract() == 0.0 {
                true => json!(seconds as u64),
                false => json!(seconds),
            };
        }
        None => {
            fields["type"] = json!("persistent");
            fields["estimates"] = json!(true);
            fields["cacheEnabled"] = json!(false);
            fields["deduplicate"] = json!(definition.deduplicate);
            fields["selectivityEstimate"] = json!(1);
        }
    }
    fields
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Regression: a server that had lost the documents answered the creation of an index with 400,
    /// so that drivers did not ask another server.
    #[test]
    fn an_index_that_another_server_would_create_is_refused_with_503() {
        assert_eq!(refusal(ErrorNumber::HTTP_SERVICE_UNAVAILABLE.into()).status, 503);
        assert_eq!(refusal(ErrorNumber::UNIQUE_CONSTRAINT.into()).status, 400);
    }
}
