//! Writes the initial corpus of each fuzz target, `DIR/TARGET/NUMBER`: real requests, responses and
//! files, so that no time goes into finding out what one looks like.

use std::path::Path;
use std::{env, fs, io};

use pellucid_cluster::{PageEntry, PartOperation, RangeAsk};
use pellucid_engine::{Engine, verify};
use pellucid_fuzz::checksums::{HEADER_BYTES, TABLE_FOOTER_BYTES, fix_file};
use pellucid_fuzz::store::{EXAMPLE, FOLDER, options, with_file, with_files};
use pellucid_store::{Condition, Operation};
use pellucid_value::DuplicateRule;
use pellucid_value::json::parse_packed;

const REQUESTS: &[&str] = &[
    "GET /v0/entity?id=7 HTTP/1.1\r\nHost: a\r\n\r\n",
    "PUT /v0/entity?id=7 HTTP/1.1\r\nHost: a\r\n\
     Content-Length: 3\r\nExpect: 100-continue\r\n\r\nabc",
    "PUT http://a:1/v0/entity?id=7 HTTP/1.0\r\n\
     Connection: keep-alive\r\nContent-Length: 1, 1\r\n\r\nx",
    "POST /v0/batch HTTP/1.1\r\nHost: a\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n\
     4;a=b\r\nWiki\r\nE\r\nin \r\n\r\nchunks.\r\n0\r\nX: y\r\n\r\n",
    "OPTIONS * HTTP/1.1\r\nhost: a\r\n\r\nGET / HTTP/1.1\r\nHost: b\r\n\r\n",
];

const RESPONSES: &[&str] = &[
    "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabcHTTP/1.1 204 No Content\r\n\r\n",
    "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n",
    "HTTP/1.1 200 OK\r\nServer: a\r\nTransfer-Encoding: chunked\r\n\r\n\
     3;a=b\r\nabc\r\n0\r\nX: y\r\n\r\n",
    "HTTP/1.0 200 OK\r\nConnection: close\r\n\r\nuntil the end",
    "HTTP/1.1 304 Not Modified\r\nContent-Length: 7\r\nConnection: keep-alive\r\n\r\n",
];

const BATCHES: &[&str] = &[
    "{\"op\":\"put\",\"key\":\"YQ==\",\"value\":\"eA==\"}\n{\"op\":\"delete\",\"key\":\"Yg==\"}\n",
    "{\"op\":\"put\",\"key\":\"YQ==\",\"value\":\"\",\"if_match\":\"7\"}",
    "{\"op\":\"put\",\"key\":\"YQ==\",\"value\":\"\",\"if_match\":\"*\"}",
    "\n{\"op\":\"put\",\"key\":\"YQ==\",\"value\":\"\",\"if_none_match\":\"*\"}\n\n",
];

const QUERIES: &[&str] = &["id=7", "x=1&id=a%20b%00%ff&y", "id=a+b=c&start=%41", "id=1&id=2"];

const AQL: &[&str] = &[
    "FOR i IN 1..9 FILTER i % 2 == 0 && i != 4 SORT i DESC LIMIT 1, 2 RETURN { i, [\"a\"]: -i }",
    "LET a = [{b: 'x'}, {b: [1, .5e3, 0xff]}] RETURN a[* FILTER CURRENT.b RETURN COUNT(CURRENT.b)]",
    "FOR x IN [1, null, 'a'] COLLECT t = TYPENAME(x) AGGREGATE m = MAX(x) INTO g RETURN [t, m, g]",
    "UPSERT {a: @x} INSERT {a: 1} UPDATE {n: OLD.n + 1} IN c OPTIONS {keepNull: false} RETURN NEW",
    "RETURN (FOR i IN 1..2 RETURN i) ALL IN [1, 2] ? SUBSTITUTE('abc', {b: 'd'}) : 'a' =~ '^b+$'",
    "FOR d IN c FILTER d.a == @v && d.b.c >= null || d.u IN ['one', 3] RETURN d",
    "FOR d IN c FILTER d.s LIKE 'ab%' && STARTS_WITH(d.s, 'a') SORT d.s DESC RETURN [d.s, d.t]",
    "FOR d IN @@c FOR x IN e FILTER x._from == d._id && x.w > 0 && 2 IN d.t[*] RETURN {d, x}",
    "FOR d IN c FILTER d._key < 'd' && d.a > false UPDATE d WITH {n: d.a + 1} IN c RETURN NEW",
];

const JSON: &[&str] = &[
    "{\"a\":[1,-2.5e3,18446744073709551615,true,null],\"b\":{\"c\":\"\\u00fc\\ud83e\\udd51\"}}",
    "[{\"_key\":\"1\",\"x\":\"a longer text, with \\\"quotes\\\" and \\n\"},[],{}]",
    "{\"a\":1,\"b\":2,\"a\":3}",
];

/// Bodies of imports, each prefixed by its option byte.
const IMPORTS: &[&str] = &[
    "\0{\"_key\":\"k\",\"a\":[1,{\"b\":null}],\"t\":[{\"x\":1},{\"x\":\"y\"}]}\n\n\
     {\"u\":1}\nnonsense",
    "\x0b[{\"_key\":\"k\",\"_rev\":7,\"a\":1},{\"_key\":\"k\",\"_id\":\"c/k\",\"u\":2}]",
    "\x02[\"_key\",\"a\"]\n[\"k\",1]\n[\"l\"]\n",
    "\x34{\"_from\":\"a\",\"_to\":\"c/b\"}\n{\"_key\":\"k\",\"u\":1}\n{\"u\":1}\n",
];

/// Definitions of tables: plain, of heads only, with a metadata extractor, compressed with inlined
/// values, and of an index.
const DEFINITIONS: &[&[u8]] = &[
    b"\x01\0\x02\0\0\0\0\0\x01\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0",
    b"\x01\0\x02\0\x01\0\0\0\x01\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0",
    b"\x01\0\x02\0\0\0\0\0\x01\0\0\0\0\0\0\0\0\0\x04\0\0\0\0\0rule",
    b"\x01\0\x02\0\0\0\0\0\x01\x01\x01\0\x40\0\0\0\0\0\0\0\0\0\0\0",
    b"\x02\0\x02\0\0\0\0\0\x02\0\0\0\0\0\0\0\x01\0\0\0\0\0\0\0",
];

/// The bodies of a put and of the answer to a ping.
const FRAMES: &[&[u8]] = &[
    b"\x07\0\0\0\0\0\0\0\x03\x01\x03\0\xe8\x03\0\0\x05\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\
      \0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\x03\0\0\0\x05\0\0\0keyvalue",
    b"\x07\0\0\0\0\0\0\0\x82\0\0\0",
];

/// A list of nodes.
const NODES: &[u8] =
    b"PELLNODE\x01\0\0\0\0\0\0\0\x01\0\0\0\0\0\0\0\x01\0\0\0\0\0\0\0\x0a\0http://a:1";

const INDEX_KEYS: &[&[u8]] = &[b"term\0\0key", b"\0\xff\0\xff\0\0\0", b"\0\0key", b"a\0\x01k"];

/// Returns every input, prefixed by each of the strings of option bytes.
fn behind<'a>(switches: &[&[u8]], inputs: impl Iterator<Item = &'a [u8]> + Clone) -> Vec<Vec<u8>> {
    let with = |first: &&[u8]| inputs.clone().map(|input| [first, input].concat()).collect();
    switches.iter().map(with).collect::<Vec<Vec<_>>>().concat()
}

fn with_switches(switches: &[&[u8]], texts: &[&str]) -> Vec<Vec<u8>> {
    behind(switches, texts.iter().map(|text| text.as_bytes()))
}

fn write(directory: &Path, target: &str, seeds: &[Vec<u8>]) -> io::Result<()> {
    let directory = directory.join(target);
    fs::create_dir_all(&directory)?;
    for (number, seed) in seeds.iter().enumerate() {
        fs::write(directory.join(number.to_string()), seed)?;
    }
    Ok(())
}

/// Returns messages of the peer protocol, each prefixed by the byte that selects its kind.
fn peer_seeds() -> Vec<Vec<u8>> {
    let frames = FRAMES.iter().map(|frame| [b"\0", *frame].concat());
    let entry =
        |key, value| PageEntry { sequence: 7, written_at_ms: 1, expires_at_ms: 0, key, value };
    let mut page = vec![2];
    entry(b"a", b"value").encode(&mut page);
    entry(b"b", b"").encode(&mut page);
    let mut range = vec![3];
    let end = Some(b"z".as_slice());
    RangeAsk { reverse: true, behind: true, end, entries_max: 9, first: b"a" }.encode(&mut range);
    let mut operations = vec![5];
    let put = Operation {
        key: b"a:1",
        value: Some(b"value"),
        condition: Condition::Sequence(7),
        lifetime_ms: Some(3),
    };
    for operation in [put, Operation::plain(put.key, None)] {
        PartOperation { operation, part_length: 1 }.encode(&mut operations);
    }
    frames.chain([page, range, [b"\x04", NODES].concat(), operations]).collect()
}

/// Checks that the targets for files start from a valid store, and that the checksums are where
/// [`fix_file`] expects them: a copy of the store with another identity in each file is valid once
/// its checksums are fixed.
fn check_example() {
    let files = with_file(usize::MAX, b"", false).expect("the simulated files do not fail");
    let report = verify(FOLDER, &files).expect("the example can be read");
    assert_eq!(report.problems, []);
    let engine = Engine::open(FOLDER, options(&files)).expect("the example can be opened");
    engine.close().expect("the example can be closed");
    let other = |is_fixed| {
        let files = with_files(|_, stored| {
            let mut bytes = stored.bytes.clone();
            bytes.resize(stored.length, 0);
            bytes[16..24].copy_from_slice(&7_u64.to_le_bytes());
            if is_fixed {
                fix_file(&stored.bytes, &mut bytes);
            }
            (bytes, stored.length)
        });
        verify(FOLDER, &files.expect("the simulated files do not fail"))
    };
    let report = other(true).expect("the fixed example can be read");
    assert_eq!(report.problems, []);
    let is_sound = other(false).is_ok_and(|report| report.problems.is_empty());
    assert!(!is_sound, "nothing had to be fixed");
}

/// Writes the seeds of the targets for files, which come from the files of a real store.
fn write_files(directory: &Path) -> io::Result<()> {
    let (mut manifests, mut tables, mut segments) = (Vec::new(), Vec::new(), Vec::new());
    let mut stores = Vec::new();
    for (index, file) in EXAMPLE.iter().enumerate() {
        match &file.bytes[..8] {
            b"PLCDMANI" => manifests.push(&file.bytes),
            b"PLCDTABL" => tables.push(&file.bytes),
            b"PLCDJRNL" => segments.push(&file.bytes),
            _ => continue,
        }
        assert!(index < 16, "the number of the file takes four bits of the option byte");
        for switches in [0_u8, 1, 2, 4] {
            stores.push([&[switches << 4 | index as u8], &file.bytes[..]].concat());
        }
    }
    write(directory, "store", &stores)?;
    let whole = |files: &[&Vec<u8>]| behind(&[b"\0", b"\x01"], files.iter().map(|file| &file[..]));
    write(directory, "manifest", &whole(&manifests))?;
    write(directory, "segment", &whole(&segments))?;
    let records = segments.iter().filter_map(|file| part(file, HEADER_BYTES, 4));
    write(directory, "record", &behind(&[b"\0", b"\x01"], records))?;
    let blocks = tables.iter().filter_map(|file| part(file, HEADER_BYTES, 4));
    write(directory, "block", &behind(&[b""], blocks))?;
    write(
        directory,
        "table",
        &tables.iter().flat_map(|file| parts_of_table(file)).collect::<Vec<_>>(),
    )
}

/// Returns the part of `file` at `begin`, whose length is the number at `begin + length_at`.
fn part(file: &[u8], begin: usize, length_at: usize) -> Option<&[u8]> {
    let length = u32::from_le_bytes(*file.get(begin + length_at..)?.first_chunk()?);
    file.get(begin..begin + length as usize)
}

/// Returns the inputs of the target `table`. Each begins with the option byte that selects the
/// part.
fn parts_of_table(file: &[u8]) -> Vec<Vec<u8>> {
    let Some(footer) = file.last_chunk::<TABLE_FOOTER_BYTES>() else { return Vec::new() };
    let field = |at: usize| {
        let bytes = footer[at..].first_chunk().copied().unwrap_or_default();
        u64::from_le_bytes(bytes) as usize
    };
    let (filter, index, end) = (field(0), field(16), file.len() - TABLE_FOOTER_BYTES);
    vec![
        [b"\0", &file[filter..index]].concat(),
        [b"\x01", &(filter as u64).to_le_bytes()[..], &file[index..end]].concat(),
        [b"\x02", file].concat(),
        [b"\x03", file].concat(),
    ]
}

fn main() -> io::Result<()> {
    let Some(directory) = env::args_os().nth(1) else {
        return Err(io::Error::other("usage: seeds DIR"));
    };
    check_example();
    let directory = Path::new(&directory);
    write(directory, "aql", &with_switches(&[b""], AQL))?;
    write(directory, "batch", &with_switches(&[b""], BATCHES))?;
    let index_keys = behind(&[b"\x01"], INDEX_KEYS.iter().copied());
    let definitions = behind(&[b"\0"], DEFINITIONS.iter().copied());
    write(directory, "catalogue", &[definitions, index_keys].concat())?;
    write(directory, "peer", &peer_seeds())?;
    write(directory, "http_head", &with_switches(&[b"\x01", b"\x40"], REQUESTS))?;
    write(directory, "import", &with_switches(&[b""], IMPORTS))?;
    write(directory, "json", &with_switches(&[b""], JSON))?;
    let packed = |text: &&str| parse_packed(text.as_bytes(), DuplicateRule::Refuse).ok();
    write(directory, "packed", &JSON.iter().filter_map(packed).collect::<Vec<_>>())?;
    write(directory, "query", &with_switches(&[b"\0", b"\x01", b"\x05"], QUERIES))?;
    write(
        directory,
        "response",
        &with_switches(&[b"\x01\0", b"\x05\x01", b"\x40\x02"], RESPONSES),
    )?;
    write_files(directory)
}
