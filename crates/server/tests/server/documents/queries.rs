//! Queries and cursors over HTTP.

use super::{ask, asked, call, expect, make_index, with_collection, with_empty_collection};
use crate::common::{Client, TestStore, serve};
use serde_json::{Value, json};

#[test]
fn queries_find_documents_by_scan_and_by_index() {
    let (_server, mut client) = with_empty_collection();
    let items: Vec<_> = (0..500).map(|n| json!({"_key": format!("k{n}"), "n": n})).collect();
    expect(&mut client, "POST", "/_api/document/c", &json!(items), 202);
    let find = "FOR d IN @@c FILTER d.n == @n RETURN d._id";
    let variables = json!({"@c": "c", "n": 7});
    assert_eq!(ask(&mut client, find, &variables), json!(["c/k7"]));
    make_index(&mut client, "n");
    let body = json!({"query": find, "bindVars": variables});
    let found = expect(&mut client, "POST", "/_api/cursor", &body, 201);
    assert_eq!(
        (&found["result"], &found["extra"]["stats"]["scannedFull"]),
        (&json!(["c/k7"]), &json!(0))
    );
    let range = "FOR d IN c FILTER d.n >= 497 SORT d.n DESC RETURN d.n";
    assert_eq!(ask(&mut client, range, &json!({})), json!([499, 498, 497]));
    assert_eq!(ask(&mut client, "RETURN DOCUMENT('c/k3').n", &json!({})), json!([3]));
    assert_eq!(expect(&mut client, "POST", "/_api/cursor", &Value::Null, 400)["errorNum"], 1502);
}

#[test]
fn queries_write_and_show_the_revisions_that_were_written() {
    let (_server, mut client) = with_empty_collection();
    let insert = "FOR i IN 1..3 INSERT {_key: CONCAT('k', i), n: i} INTO c RETURN NEW";
    let written = ask(&mut client, insert, &json!({}));
    for document in written.as_array().unwrap() {
        let path = format!("/_api/document/{}", document["_id"].as_str().unwrap());
        assert_eq!(&expect(&mut client, "GET", &path, &Value::Null, 200), document);
    }
    let update = "FOR d IN c UPDATE d WITH {n: d.n + 10} IN c RETURN [OLD.n, NEW.n]";
    assert_eq!(ask(&mut client, update, &json!({})), json!([[1, 11], [2, 12], [3, 13]]));
    ask(&mut client, "FOR d IN c FILTER d.n > 11 REMOVE d IN c", &json!({}));
    assert_eq!(ask(&mut client, "FOR d IN c RETURN d._key", &json!({})), json!(["k1"]));
    let twice = json!({"query": "FOR i IN 1..2 INSERT {_key: 'same'} INTO c"});
    assert_eq!(expect(&mut client, "POST", "/_api/cursor", &twice, 409)["errorNum"], 1210);
    let count = expect(&mut client, "GET", "/_api/collection/c/count", &Value::Null, 200);
    assert_eq!(count["count"], 1);
}

#[test]
fn cursors_return_their_batches_and_are_then_removed() {
    let (_server, mut client) = serve();
    for is_stream in [false, true] {
        let body = json!({
            "query": "FOR i IN 1..5 RETURN i", "batchSize": 2, "count": true,
            "options": {"stream": is_stream},
        });
        let first = expect(&mut client, "POST", "/_api/cursor", &body, 201);
        assert_eq!((&first["result"], &first["hasMore"]), (&json!([1, 2]), &json!(true)));
        assert_eq!(first.get("count").is_some(), !is_stream);
        let (id, next) = (first["id"].as_str().unwrap(), first["nextBatchId"].as_str().unwrap());
        let path = format!("/_api/cursor/{id}");
        let second = expect(&mut client, "POST", &format!("{path}/{next}"), &Value::Null, 200);
        assert_eq!(second["result"], json!([3, 4]));
        // Regression: a batch that was asked for again was the next one.
        for (batch, status, number) in [(next, 400, 400), ("9", 404, 1600), ("x", 404, 1600)] {
            let target = format!("{path}/{batch}");
            let refused = expect(&mut client, "POST", &target, &Value::Null, status);
            assert_eq!(refused["errorNum"], number, "{batch}");
        }
        let third = expect(&mut client, "PUT", &path, &Value::Null, 200);
        assert_eq!((&third["result"], &third["hasMore"]), (&json!([5]), &json!(false)));
        assert!(third.get("id").is_none() && third["extra"]["stats"]["executionTime"].is_number());
        assert_eq!(expect(&mut client, "PUT", &path, &Value::Null, 404)["errorNum"], 1600);
        let again = expect(&mut client, "POST", "/_api/cursor", &body, 201);
        let path = format!("/_api/cursor/{}", again["id"].as_str().unwrap());
        assert_eq!(expect(&mut client, "DELETE", &path, &Value::Null, 202)["error"], false);
        assert_eq!(expect(&mut client, "DELETE", &path, &Value::Null, 404)["errorNum"], 1600);
    }
}

/// Regression: a cursor of a dropped database answered in a new one of the same name.
#[test]
fn a_cursor_is_gone_with_its_database() {
    let (_server, mut client) = serve();
    let database = json!({"name": "d"});
    call(&mut client, "POST", "/_api/database", &database).having(201);
    let body = json!({"query": "FOR i IN 1..3 RETURN i", "batchSize": 1});
    let first = expect(&mut client, "POST", "/_db/d/_api/cursor", &body, 201);
    call(&mut client, "DELETE", "/_api/database/d", &Value::Null).having(200);
    call(&mut client, "POST", "/_api/database", &database).having(201);
    let path = format!("/_db/d/_api/cursor/{}", first["id"].as_str().unwrap());
    for method in ["PUT", "DELETE"] {
        assert_eq!(expect(&mut client, method, &path, &Value::Null, 404)["errorNum"], 1600);
    }
}

#[test]
fn a_cursor_with_retries_gives_its_last_batch_again() {
    let (_server, mut client) = serve();
    let body = json!({
        "query": "FOR i IN 1..4 RETURN i", "batchSize": 2, "options": {"allowRetry": true},
    });
    let first = expect(&mut client, "POST", "/_api/cursor", &body, 201);
    let path = format!("/_api/cursor/{}", first["id"].as_str().unwrap());
    for (batch, status) in [("x", 404), ("2", 200), ("2", 200), ("1", 404), ("3", 404)] {
        let answer = expect(&mut client, "POST", &format!("{path}/{batch}"), &Value::Null, status);
        match status {
            200 => assert_eq!(answer["result"], json!([3, 4])),
            _ => assert_eq!(answer["errorNum"], 1600, "{batch}"),
        }
    }
}

/// Values longer than a key can hold are found through an index, and are not confused with others
/// that have the same beginning. Regression: an equality found nothing.
#[test]
fn an_index_tells_long_values_apart() {
    let (_server, mut client) = with_empty_collection();
    let index = json!({"type": "persistent", "fields": ["text", "n"]});
    expect(&mut client, "POST", "/_api/index?collection=c", &index, 201);
    let long = |end: &str| format!("{}{end}", "x".repeat(1_000));
    let items: Vec<_> = ["a", "b", "c"]
        .iter()
        .enumerate()
        .map(|(n, end)| json!({"_key": *end, "text": long(end), "n": n}))
        .collect();
    expect(&mut client, "POST", "/_api/document/c", &json!(items), 202);
    let find = "FOR d IN c FILTER d.text == @text RETURN d._key";
    assert_eq!(ask(&mut client, find, &json!({"text": long("b")})), json!(["b"]));
    assert_eq!(ask(&mut client, find, &json!({"text": long("")})), json!([]));
    let from = "FOR d IN c FILTER d.text >= @text SORT d._key RETURN d._key";
    assert_eq!(ask(&mut client, from, &json!({"text": long("b")})), json!(["b", "c"]));
    let below = "FOR d IN c FILTER d.text < @text SORT d._key RETURN d._key";
    assert_eq!(ask(&mut client, below, &json!({"text": long("b")})), json!(["a"]));
    let both = "FOR d IN c FILTER d.text == @text AND d.n == 1 RETURN d._key";
    assert_eq!(ask(&mut client, both, &json!({"text": long("b")})), json!(["b"]));
}

/// Regression: the work of a query in the store was not reported.
#[test]
fn a_profile_reports_the_work_in_the_store() {
    let (_server, mut client) = with_empty_collection();
    make_index(&mut client, "n");
    let unique = json!({"type": "persistent", "fields": ["u"], "unique": true});
    expect(&mut client, "POST", "/_api/index?collection=c", &unique, 201);
    let text = "more than lies beside a key".repeat(100);
    let item = |n: u32| json!({"_key": format!("k{n}"), "n": n % 10, "u": n, "text": text});
    let items: Vec<_> = (0..100).map(item).collect();
    expect(&mut client, "POST", "/_api/document/c", &json!(items), 202);
    let mut account = |query: &str| {
        let body = json!({"query": query, "options": {"profile": 1}});
        let extra = expect(&mut client, "POST", "/_api/cursor", &body, 201)["extra"].clone();
        for phase in ["initializing", "parsing", "instantiating plan", "executing", "finalizing"] {
            assert!(extra["profile"][phase].as_f64().unwrap() > 0.0, "{phase}: {extra}");
        }
        extra["store"].clone()
    };
    let counts = |account: &Value| {
        ["index_look_ups", "index_entries", "document_reads", "look_ups", "records"]
            .map(|name| account[name].as_u64().unwrap())
    };
    // Only the embedded store has a journal.
    let (parts, record) = match TestStore::asked_for() {
        TestStore::Embedded => (&["ledger_ns", "journal_read_ns"][..], 1),
        TestStore::Rocks => (&["memtable_ns"][..], 0),
    };
    let found = account("FOR d IN c FILTER d.n == 3 RETURN d");
    assert_eq!(counts(&found), [1, 10, 10, 10, 10 * record], "{found}");
    for part in parts {
        assert!(found[*part].as_u64().unwrap() > 0, "{part}: {found}");
    }
    let unique = account("FOR d IN c FILTER d.u == 3 RETURN d");
    assert_eq!(counts(&unique)[..4], [1, 1, 1, 2], "{unique}");
    let key = account("RETURN DOCUMENT('c/k7')");
    assert_eq!(counts(&key), [0, 0, 1, 1, record], "{key}");
    let scan = account("FOR d IN c FILTER d.n * 1 == 3 RETURN d");
    assert_eq!(counts(&scan)[..4], [0, 0, 100, 0], "{scan}");
    let covering = account("FOR d IN c FILTER d.n >= 8 RETURN d.n");
    assert_eq!(counts(&covering)[..4], [1, 20, 0, 0], "{covering}");
}

/// Strings are found by prefix with an index as without, even if the index has only their first
/// bytes.
#[test]
fn prefixes_of_strings_are_found_by_an_index_as_without() {
    let (_server, mut client) = serve();
    let long = "x".repeat(650);
    let texts =
        ["abc", "abd", "ab", "Abc", "é", "", "abc\u{0}", "abc\u{10ffff}"].map(str::to_owned);
    let texts = texts.into_iter().chain(["", "a", "b", "ab"].map(|end| format!("{long}{end}")));
    let mut items: Vec<_> = texts.map(|text| json!({"v": text})).collect();
    items.extend([json!({"v": 12}), json!({"v": null}), json!({}), json!({"v": ["abc"]})]);
    for name in ["plain", "c"] {
        expect(&mut client, "POST", "/_api/collection", &json!({"name": name}), 200);
        expect(&mut client, "POST", &format!("/_api/document/{name}"), &json!(items), 202);
    }
    let index = json!({"type": "persistent", "fields": ["v"]});
    expect(&mut client, "POST", "/_api/index?collection=c", &index, 201);
    for prefix in ["a", "ab", "abc", "é", "1", "z", &long, &format!("{long}a")] {
        for condition in ["d.v LIKE CONCAT(@p, '%')", "STARTS_WITH(d.v, @p)"] {
            let query = format!("FOR d IN @@c FILTER {condition} SORT TO_STRING(d.v) RETURN d.v");
            let variables = |name: &str| json!({"@c": name, "p": prefix});
            let found = ask(&mut client, &query, &variables("c"));
            assert_eq!(found, ask(&mut client, &query, &variables("plain")), "{query} {prefix}");
        }
    }
    let body = json!({"query": "FOR d IN c FILTER STARTS_WITH(d.v, 'ab') RETURN d"});
    let plan = expect(&mut client, "POST", "/_api/explain", &body, 200)["plan"].clone();
    assert_eq!(plan["nodes"][1]["condition"], "d.v >= \"ab\" && d.v < \"ac\"");
    assert_eq!(plan["nodes"][1]["filter"], json!(["STARTS_WITH(d.v, \"ab\")"]));
}

/// Regression: a part of `NEW._rev` broke the JSON of the reply, or showed the text by which the
/// server finds revisions that it has to fill in. So did the whole of it after 45 documents.
#[test]
fn revisions_of_written_documents_are_whole_or_cut() {
    let (_server, mut client) = with_collection("{}");
    let query = "FOR i IN 1..100 INSERT {} INTO c RETURN [NEW._key, NEW._rev]";
    let written = ask(&mut client, query, &json!({}));
    let stored_revision = |client: &mut Client, key: &Value| {
        let stored = client.get(&format!("/_api/document/c/{}", key.as_str().unwrap()));
        stored.json()["_rev"].as_str().unwrap().to_owned()
    };
    for pair in written.as_array().unwrap() {
        assert_eq!(pair[1], stored_revision(&mut client, &pair[0]));
    }
    let query = "FOR i IN 1..3 INSERT {} INTO c RETURN [NEW._key, LEFT(NEW._rev, 7)]";
    let cut = ask(&mut client, query, &json!({}));
    let first = stored_revision(&mut client, &cut[0][0]);
    assert!(cut.as_array().unwrap().iter().all(|pair| pair[1] == first[..7]), "{cut}");
}

/// Regression: a query could disclose the text that stands for revisions, which was that of all
/// queries. Documents with that text were then shown changed, and could not be written.
#[test]
fn a_disclosed_placeholder_is_an_ordinary_text_elsewhere() {
    let (_server, mut client) = with_collection("{}");
    let query = "INSERT {} INTO c LET hex = TO_HEX(NEW._rev) RETURN SUBSTRING(hex, 0, 14)";
    let hex = ask(&mut client, query, &json!({}))[0].as_str().unwrap().to_owned();
    let byte = |at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap();
    let text = String::from_utf8((0..14).step_by(2).map(byte).collect()).unwrap();
    let items = json!([{"_key": "a", "v": 1}, {"_key": "b", "v": text}, {"_key": "c", "v": 3}]);
    let written = expect(&mut client, "POST", "/_api/document/c", &items, 202);
    assert_eq!(written[1]["_key"], "b", "{written}");
    let query = "FOR d IN c FILTER d.v != null SORT d._key UPDATE d WITH {n: 1} IN c RETURN NEW.v";
    assert_eq!(ask(&mut client, query, &json!({})), json!([1, text, 3]));
}

/// Regression: the revision of a document that the same query wrote was stored as the text that
/// stands for it until the query ends.
#[test]
fn a_query_stores_no_revision_that_it_gives() {
    let (_server, mut client) = with_collection("{}");
    assert_eq!(call(&mut client, "POST", "/_api/collection", &json!({"name": "log"})).status, 200);
    let logged = |what: &str| {
        let query = format!("INSERT {{n: 1}} INTO c LET new = NEW INSERT {what} INTO log");
        json!({ "query": query })
    };
    for what in ["{of: new._rev}", "{new: new}", "{texts: [CONCAT('r', new._rev)]}"] {
        let refused = asked(&mut client, &logged(what));
        let json = refused.json();
        assert_eq!((refused.status, &json["errorNum"]), (501, &json!(9)), "{what}: {json}");
        assert!(json["errorMessage"].as_str().unwrap().contains("`_rev`"), "{json}");
    }
    for what in ["new", "{of: new._key}", "{new: UNSET(new, '_rev')}"] {
        let written = asked(&mut client, &logged(what));
        assert_eq!(written.status, 201, "{what}: {}", written.text());
    }
    assert_eq!(client.get("/_api/collection/c/count").json()["count"], 4);
}
