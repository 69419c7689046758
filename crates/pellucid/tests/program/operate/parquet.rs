//! Tests of `export` and `import` of Parquet files against the built server.

use std::fs;
use std::path::Path;

use serde_json::json;

use super::data::fails;
use super::transfer::{
    TEXTS, documents, entities, expiry, name, parsed, put_all, refused, summary,
};
use crate::common::{done, entity, feed, run, serve};

#[test]
fn entities_come_back_byte_for_byte() {
    let (folder, from) = serve(&[]);
    let all: Vec<u8> = (0..=255).collect();
    let large: Vec<u8> = (0..=255).rev().cycle().take(3 << 20).collect();
    put_all(&from, &TEXTS);
    let source = from.url();
    let text = folder.path().join("text.parquet");
    done(&run(&["export", &source, "-o", name(&text), "--text"]));
    put_all(&from, &[(b"\0", &all), (b"\xff\xfe", b"\xfd"), (&all, b""), (b"large", &large)]);
    let mut client = from.client();
    assert_eq!(client.put(&format!("{}&ttl=5000", entity("short")), "lived").status, 201);
    let bytes = folder.path().join("bytes.parquet");
    done(&run(&["export", &source, "-o", name(&bytes)]));
    let (_folder, to) = serve(&[]);
    let copy = to.url();
    let import = |file: &Path| summary(&run(&["import", &copy, name(file)]));
    assert_eq!(import(&text), "7 entities are written");
    assert_eq!(import(&bytes), "12 entities are written");
    assert!(entities(&copy) == entities(&source));
    let apart_ms = expiry(&copy, "short").abs_diff(expiry(&source, "short"));
    assert!(apart_ms < 1_000, "{apart_ms} ms");

    // Text has the type of text in the file, and half a file is refused.
    let half = folder.path().join("half.parquet");
    fails(&["export", &source, "-o", name(&half), "--text"], 1, "is no UTF-8: leave out --text");
    assert!(!half.exists());
    fails(&["export", &source, "--text"], 2, "--format parquet");
    fails(&["export", &source, "-o", name(&half), "--base64"], 2, "--base64 is for text");
    fails(&["import", &copy, "-", "--format", "parquet"], 2, "not standard input");
    // An export without entities makes a file without rows, also on standard output.
    let (_folder, empty) = serve(&[]);
    let written = run(&["export", &empty.url(), "--format", "parquet"]);
    assert_eq!(written.status.code(), Some(0));
    fs::write(&half, &written.stdout).unwrap();
    assert_eq!(import(&half), "0 entities are written");
}

/// Returns documents whose attributes make columns of every kind.
fn of_every_kind() -> String {
    let all = [
        json!({"_key": "a", "text": "1", "is": true, "whole": 1, "wide": -9_007_199_254_740_993_i64,
            "number": 1, "mixed": 1, "list": [1.5, {"a": null}], "large": u64::MAX}),
        json!({"_key": "b", "text": "", "is": false, "whole": -2, "wide": i64::MAX,
            "number": 0.38120423768821243, "mixed": "1", "list": [], "null": null, "huge": 1e20,
            "exact": 1e300}),
        json!({"_key": "c", "number": -5e-324, "mixed": null, "exact": 1.5e18, "low": -1e20}),
    ];
    all.iter().map(|document| format!("{document}\n")).collect()
}

#[test]
fn documents_come_back_as_they_were() {
    let (folder, from) = serve(&[]);
    let source = &from.url();
    for (collection, documents) in
        [("c", documents()), ("d", of_every_kind()), ("e", String::new())]
    {
        let into = ["import", source, "-", "--collection", collection, "--create", "documents"];
        done(&feed(&into, documents.as_bytes()));
        let file = folder.path().join(format!("{collection}.parquet"));
        done(&run(&["export", source, "--collection", collection, "-o", name(&file)]));
        let copied = format!("{collection}-copied");
        let import = ["import", source, name(&file), "--collection", &copied];
        done(&run(&[&import[..], &["--create", "documents"]].concat()));
        let lines = |of: &str| {
            let output = run(&["export", source, "--collection", of]);
            done(&output).to_owned()
        };
        // Digits are compared: a parser might round both alike.
        assert_eq!(lines(&copied), lines(collection), "{collection}");
    }
    let some = folder.path().join("some.parquet");
    let export = ["export", source, "--collection", "d", "-o", name(&some)];
    done(&run(&[&export[..], &["--attributes", "_key,none,whole"]].concat()));
    let import = ["import", source, name(&some), "--collection", "some", "--create", "documents"];
    assert_eq!(summary(&run(&import)), "3 documents are new");
    let read = run(&["export", source, "--collection", "some"]);
    let expected = [json!({"_key": "a", "whole": 1}), json!({"_key": "b", "whole": -2})];
    assert_eq!(parsed(done(&read)), [&expected[..], &[json!({"_key": "c"})]].concat());
}

#[test]
fn a_bad_row_is_named_and_a_damaged_file_is_an_error() {
    let (folder, server) = serve(&[]);
    let url = &server.url();
    let file = folder.path().join("a.parquet");
    let lines = "{\"_key\":\"a\",\"key\":\"1\",\"value\":1}\n{\"_key\":\"b\",\"key\":\"2\"}\n\
                 {\"_key\":\"d\"}\n{\"_key\":\"f\"}\n";
    let into = ["import", url, "-", "--collection", "c", "--create", "documents"];
    done(&feed(&into, lines.as_bytes()));
    let export = ["export", url, "--collection", "c", "-o", name(&file)];
    done(&run(&export));
    let batches = [url, name(&file), "--collection", "c", "--batch", "2"];
    refused(&batches, b"", &["row 1: ", "1210", "nothing is written"]);
    done(&run(&["query", url, "FOR d IN c FILTER d._key IN [\"a\", \"b\"] REMOVE d IN c"]));
    let expected = ["row 3: ", "1210", "all up to row 2 is written: go on with --skip 2"];
    refused(&batches, b"", &expected);
    let ignoring = [&["import"], &batches[..], &["--skip", "3", "--on-duplicate", "ignore"]];
    let summarised = summary(&run(&ignoring.concat()));
    assert_eq!(summarised, "0 documents are new, 1 were there already");
    fails(&["import", url, name(&file), "--collection", "c", "--infer"], 2, "--format csv");
    // The file has the columns of entities.
    refused(&[url, name(&file)], b"", &["entities have no column `_key`"]);
    done(&run(&[&export[..], &["--attributes", "key,value"]].concat()));
    let expected = ["row 1: column `value`: it is neither bytes nor a text", "nothing is written"];
    refused(&[url, name(&file)], b"", &expected);

    let whole = fs::read(&file).unwrap();
    fs::write(&file, &whole[..whole.len() / 2]).unwrap();
    refused(&[url, name(&file)], b"", &["a.parquet: it is cut"]);
    fs::write(&file, "key,value\na,b,c,d,e\n").unwrap();
    refused(&[url, name(&file)], b"", &["a.parquet: it is no Parquet file"]);
    let packed = whole.windows(2).position(|two| two == [0x1f, 0x8b]).unwrap();
    let mut flipped = whole.clone();
    flipped[packed + 12] ^= 1;
    fs::write(&file, flipped).unwrap();
    refused(&[url, name(&file)], b"", &["row 1: column `key`: ", "damaged"]);
    refused(&[url, name(folder.path()), "--format", "parquet"], b"", &["it is no file"]);
}
