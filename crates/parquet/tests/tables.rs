//! Tests of tables: round trips, files of other writers, and damaged files.
#![allow(clippy::unwrap_used, reason = "a test ends at the first surprise")]

use std::io::Write;
use std::sync::Arc;

use parquet::basic::{Compression, Encoding};
use parquet::data_type::{
    BoolType, ByteArray, ByteArrayType, DataType, FixedLenByteArrayType, FloatType, Int32Type,
    Int64Type,
};
use parquet::file::properties::{WriterProperties, WriterPropertiesBuilder, WriterVersion};
use parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
use parquet::schema::parser::parse_message_type;
use pellucid_parquet::{Cell, Column, Kind, Reader, Timestamp, Writer};

fn column(name: &str, kind: Kind, is_required: bool) -> Column {
    Column { name: name.to_owned(), kind, is_required }
}

fn open(bytes: &[u8]) -> Result<Reader, String> {
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(bytes).unwrap();
    Reader::open(file)
}

/// All rows of a file, each cell in its debug format.
fn rows(bytes: &[u8]) -> Result<Vec<Vec<String>>, String> {
    let mut reader = open(bytes)?;
    let mut rows = Vec::new();
    while reader.advance()? {
        let cells = (0..reader.names().len()).map(|place| Ok(format!("{:?}", reader.cell(place)?)));
        rows.push(cells.collect::<Result<_, String>>()?);
    }
    Ok(rows)
}

fn shown(rows: &[Vec<Cell<'_>>]) -> Vec<Vec<String>> {
    rows.iter().map(|row| row.iter().map(|cell| format!("{cell:?}")).collect()).collect()
}

fn written(columns: Vec<Column>, rows: &[Vec<Cell<'_>>]) -> Vec<u8> {
    let mut writer = Writer::new(columns).unwrap();
    let mut bytes = Vec::new();
    for row in rows {
        writer.add(row).unwrap();
        bytes.append(&mut writer.take().unwrap());
    }
    bytes.append(&mut writer.end().unwrap());
    bytes
}

fn columns() -> Vec<Column> {
    vec![
        column("bytes", Kind::Bytes, true),
        column("text", Kind::Text, false),
        column("json", Kind::Json, false),
        column("boolean", Kind::Boolean, false),
        column("integer", Kind::Integer, false),
        column("double", Kind::Double, true),
        column("a.b", Kind::Moment, false),
    ]
}

fn table() -> Vec<Vec<Cell<'static>>> {
    const LARGE: &[u8] = &[7; 3 << 20];
    let moment = |ms| Cell::Moment(Timestamp::of_unix_ms(ms));
    let bare = |bytes| {
        let missing = Cell::Missing;
        vec![Cell::Bytes(bytes), missing, missing, missing, missing, Cell::Double(-0.0), missing]
    };
    vec![
        vec![
            Cell::Bytes(b"\0\xff"),
            Cell::Text("ü\n\0"),
            Cell::Json(b"{\"a\": [1.50]}"),
            Cell::Boolean(true),
            Cell::Integer(i64::MIN),
            Cell::Double(f64::NAN),
            moment(i64::MAX),
        ],
        bare(b""),
        bare(LARGE),
        vec![
            Cell::Bytes(b"x"),
            Cell::Text(""),
            Cell::Json(b"null"),
            Cell::Boolean(false),
            Cell::Integer(9_007_199_254_740_993),
            Cell::Double(f64::MIN_POSITIVE),
            moment(-1),
        ],
    ]
}

#[test]
fn every_kind_of_cell_round_trips() {
    let bytes = written(columns(), &table());
    assert_eq!(rows(&bytes).unwrap(), shown(&table()));
    let reader = open(&bytes).unwrap();
    let names = ["bytes", "text", "json", "boolean", "integer", "double", "a.b"];
    assert_eq!(reader.names(), names);
    // A table without rows.
    let empty = written(columns(), &[]);
    assert_eq!(rows(&empty).unwrap(), Vec::<Vec<String>>::new());
    assert_eq!(open(&empty).unwrap().names(), names);
}

#[test]
fn several_row_groups_are_read_and_rows_can_be_skipped() {
    const ROWS: u64 = 250_000;
    let columns = || vec![column("n", Kind::Integer, true), column("even", Kind::Text, false)];
    let mut writer = Writer::new(columns()).unwrap();
    let (mut bytes, mut pieces) = (Vec::new(), 0);
    for number in 0..ROWS as i64 {
        let text = number.to_string();
        let even = if number % 2 == 0 { Cell::Text(&text) } else { Cell::Missing };
        writer.add(&[Cell::Integer(number), even]).unwrap();
        let mut piece = writer.take().unwrap();
        pieces += usize::from(!piece.is_empty());
        bytes.append(&mut piece);
    }
    assert!(pieces >= 2, "a row group is written once it is full");
    bytes.append(&mut writer.end().unwrap());
    for passed in [0, 1, 1_023, 1_024, 99_999, 100_000, 100_001, 249_999, ROWS, ROWS + 1] {
        let mut reader = open(&bytes).unwrap();
        reader.skip_to(passed).unwrap();
        for number in passed..ROWS {
            assert!(reader.advance().unwrap());
            assert_eq!(reader.number(), number + 1);
            assert_eq!(reader.cell(0).unwrap(), Cell::Integer(number as i64));
            let text = number.to_string();
            let even = if number % 2 == 0 { Cell::Text(&text) } else { Cell::Missing };
            assert_eq!(reader.cell(1).unwrap(), even);
        }
        assert!(!reader.advance().unwrap());
    }
    let mut reader = open(&bytes).unwrap();
    while reader.advance().unwrap() {}
    assert!(reader.bytes() > bytes.len() as u64 / 2 && reader.bytes() <= bytes.len() as u64);
}

#[test]
fn rows_that_do_not_fit_the_columns_are_refused() {
    let add = |row: usize, cells: &[Cell<'_>]| {
        let table = vec![column("a", Kind::Text, true), column("b", Kind::Moment, false)];
        let mut writer = Writer::new(table).unwrap();
        for _ in 1..row {
            writer.add(&[Cell::Text(""), Cell::Missing]).unwrap();
        }
        writer.add(cells).unwrap_err()
    };
    let text = Cell::Text("x");
    assert_eq!(add(1, &[Cell::Missing, Cell::Missing]), "row 1: column `a`: it is missing");
    let kind = "row 100001: column `b`: it is of another kind than the column";
    assert_eq!(add(100_001, &[text, Cell::Integer(1)]), kind);
    assert!(add(2, &[text]).contains("row 2: it has 1 cells"));
    let twice = vec![column("a", Kind::Text, true), column("a", Kind::Bytes, true)];
    assert!(Writer::new(twice).err().unwrap().contains("two columns are named `a`"));
}

type Group<'a> = SerializedRowGroupWriter<'a, Vec<u8>>;

/// A file with one row group and columns as other writers make them.
fn foreign(schema: &str, properties: WriterPropertiesBuilder, add: fn(&mut Group<'_>)) -> Vec<u8> {
    let schema = Arc::new(parse_message_type(&format!("message m {{ {schema} }}")).unwrap());
    let properties = Arc::new(properties.build());
    let mut writer = SerializedFileWriter::new(Vec::new(), schema, properties).unwrap();
    let mut group = writer.next_row_group().unwrap();
    add(&mut group);
    group.close().unwrap();
    writer.into_inner().unwrap()
}

fn put<T: DataType>(group: &mut Group<'_>, values: &[T::T], levels: &[i16]) {
    let mut column = group.next_column().unwrap().unwrap();
    // A required column has no levels.
    let levels = (!levels.is_empty()).then_some(levels);
    column.typed::<T>().write_batch(values, levels, None).unwrap();
    column.close().unwrap();
}

fn json(reader: &Reader, place: usize) -> String {
    let mut out = Vec::new();
    reader.cell(place).unwrap().write_json(&mut out).unwrap();
    String::from_utf8(out).unwrap()
}

#[test]
fn types_of_other_writers_become_json_values() {
    let schema = "
        OPTIONAL INT32 small (INTEGER(8, true));
        REQUIRED INT32 word (INTEGER(32, false));
        REQUIRED INT64 long (UINT_64);
        REQUIRED FLOAT float;
        REQUIRED INT32 day (DATE);
        REQUIRED INT64 micros (TIMESTAMP(MICROS, false));
        REQUIRED INT64 nanos (TIMESTAMP(NANOS, true));
        REQUIRED INT64 millis (TIMESTAMP_MILLIS);
        REQUIRED BYTE_ARRAY kind (ENUM);
        OPTIONAL FIXED_LEN_BYTE_ARRAY (3) fixed;
        REQUIRED BYTE_ARRAY json (JSON);
        REQUIRED BOOLEAN is;";
    let plain = WriterProperties::builder().set_dictionary_enabled(false);
    for properties in [
        WriterProperties::builder(),
        plain.clone(),
        WriterProperties::builder().set_compression(Compression::GZIP(Default::default())),
        plain.set_writer_version(WriterVersion::PARQUET_2_0).set_encoding(Encoding::PLAIN),
    ] {
        let bytes = foreign(schema, properties, |group| {
            put::<Int32Type>(group, &[-5], &[1, 0]);
            put::<Int32Type>(group, &[-1, 1], &[]);
            put::<Int64Type>(group, &[-1, 1], &[]);
            put::<FloatType>(group, &[0.1, 2.0], &[]);
            put::<Int32Type>(group, &[20_000, -1], &[]);
            put::<Int64Type>(group, &[1_500_000, -1], &[]);
            put::<Int64Type>(group, &[1_500_000_000, 0], &[]);
            put::<Int64Type>(group, &[1_500, 0], &[]);
            put::<ByteArrayType>(group, &["a".into(), "b".into()], &[]);
            put::<FixedLenByteArrayType>(group, &[ByteArray::from("xyz").into()], &[0, 1]);
            put::<ByteArrayType>(group, &["[1]".into(), "\"\"".into()], &[]);
            put::<BoolType>(group, &[true, false], &[]);
        });
        let mut reader = open(&bytes).unwrap();
        for expected in [
            [
                "-5",
                "4294967295",
                "18446744073709551615",
                "0.10000000149011612",
                "\"2024-10-04\"",
                "\"1970-01-01T00:00:01.500000\"",
                "\"1970-01-01T00:00:01.500000000Z\"",
                "\"1970-01-01T00:00:01.500Z\"",
                "\"a\"",
                "null",
                "[1]",
                "true",
            ],
            [
                "null",
                "1",
                "1",
                "2",
                "\"1969-12-31\"",
                "\"1969-12-31T23:59:59.999999\"",
                "\"1970-01-01T00:00:00.000000000Z\"",
                "\"1970-01-01T00:00:00.000Z\"",
                "\"b\"",
                "\"xyz\"",
                "\"\"",
                "false",
            ],
        ] {
            assert!(reader.advance().unwrap());
            let all: Vec<_> = (0..expected.len()).map(|place| json(&reader, place)).collect();
            assert_eq!(all, expected);
        }
        assert!(!reader.advance().unwrap());
    }
}

/// A file that pyarrow 26 wrote by `pq.write_table(table, file, row_group_size=2)`, without its
/// Arrow schema.
#[test]
fn a_file_of_another_program_is_read() {
    let bytes = include_bytes!("data/pyarrow.parquet");
    let mut reader = open(bytes).unwrap();
    assert_eq!(reader.names(), ["_key", "when", "n", "x", "raw", "is"]);
    for expected in [
        ["\"a\"", "\"2026-01-31T12:00:00.000000Z\"", "1", "0.5", "\"x\"", "true"],
        ["\"b\"", "null", "null", "1", "\"x\"", "null"],
        ["\"c\"", "\"1969-12-31T23:59:59.000000Z\"", "-3", "null", "null", "false"],
    ] {
        assert!(reader.advance().unwrap());
        let all: Vec<_> = (0..expected.len()).map(|place| json(&reader, place)).collect();
        assert_eq!(all, expected);
    }
    assert!(!reader.advance().unwrap());
}

#[test]
fn unsupported_columns_are_named() {
    for (schema, what) in [
        ("REQUIRED INT96 old;", "the column `old` has a type that is not taken (INT96"),
        ("REQUIRED INT32 d (DECIMAL(9, 2));", "the column `d` has a type that is not taken"),
        ("REQUIRED FIXED_LEN_BYTE_ARRAY (16) id (UUID);", "`id` has a type that is not taken"),
        ("REQUIRED INT32 t (TIME(MILLIS, true));", "`t` has a type that is not taken"),
        ("REQUIRED INT64 a; REPEATED INT64 list;", "the column `list` is nested"),
        ("REQUIRED GROUP pair { REQUIRED INT64 x; }", "the column `pair` is nested"),
        ("REQUIRED INT64 a; REQUIRED INT64 a;", "two columns are named `a`"),
    ] {
        let schema = Arc::new(parse_message_type(&format!("message m {{ {schema} }}")).unwrap());
        let properties = Arc::new(WriterProperties::builder().build());
        let writer = SerializedFileWriter::new(Vec::new(), schema, properties).unwrap();
        let error = rows(&writer.into_inner().unwrap()).unwrap_err();
        assert!(error.contains(what), "{error}");
    }
    // Encodings in which few bytes stand for many.
    let schema = "REQUIRED BYTE_ARRAY text (STRING);";
    let newer = WriterProperties::builder().set_dictionary_enabled(false);
    let newer = newer.set_writer_version(WriterVersion::PARQUET_2_0);
    let put_text = |group: &mut Group<'_>| put::<ByteArrayType>(group, &["a".into()], &[]);
    let error = rows(&foreign(schema, newer, put_text)).unwrap_err();
    assert!(error.contains("row 1: column `text`: its encoding DELTA_BYTE_ARRAY"), "{error}");
    let put_bytes = |group: &mut Group<'_>| {
        put::<ByteArrayType>(group, &["a".into(), ByteArray::from(vec![0xff])], &[]);
    };
    let mut reader = open(&foreign(schema, WriterProperties::builder(), put_bytes)).unwrap();
    assert!(reader.advance().unwrap() && reader.cell(0).is_ok() && reader.advance().unwrap());
    assert_eq!(reader.cell(0).unwrap_err(), "column `text`: it is no UTF-8");
}

/// The table without its large row.
fn small_table() -> Vec<Vec<Cell<'static>>> {
    let mut rows = table();
    rows.remove(2);
    rows
}

fn small() -> Vec<u8> {
    written(columns(), &small_table())
}

#[test]
fn a_truncated_file_is_an_error() {
    let bytes = small();
    for length in 0..bytes.len() {
        let error = rows(&bytes[..length]).unwrap_err();
        assert!(error.contains("no Parquet") || error.contains("cut"), "{length}: {error}");
    }
    // A file whose middle is missing still has its footer.
    for cut in [1, 10, 100] {
        let error = rows(&[&bytes[..20], &bytes[20 + cut..]].concat()).unwrap_err();
        assert!(!error.is_empty());
    }
}

#[test]
fn a_flipped_bit_is_an_error_or_makes_no_difference() {
    // Many panics are caught here, and their backtraces would take long.
    std::panic::set_hook(Box::new(|panic| eprintln!("{panic}")));
    let (bytes, expected) = (small(), Ok(shown(&small_table())));
    let footer = bytes.len() - 8 - footer_bytes(&bytes);
    for place in 0..bytes.len() * 8 {
        let mut flipped = bytes.clone();
        flipped[place / 8] ^= 1 << (place % 8);
        let read = rows(&flipped);
        // The footer has no checksum, so a flipped bit there can give other valid contents.
        if place / 8 < footer {
            assert!(read.is_err() || read == expected, "bit {place}: {read:?}");
        }
    }
}

fn footer_bytes(bytes: &[u8]) -> usize {
    let end = bytes.len() - 8;
    u32::from_le_bytes(bytes[end..end + 4].try_into().unwrap()) as usize
}

/// A file with one column of strings, whose page has this header, and a footer that fits it.
fn with_page(header: &[u8], body: &[u8]) -> Vec<u8> {
    let schema = "REQUIRED BYTE_ARRAY text (STRING);";
    let plain = WriterProperties::builder().set_dictionary_enabled(false);
    let long = |group: &mut Group<'_>| {
        put::<ByteArrayType>(group, &[ByteArray::from(vec![b'x'; 1_000])], &[]);
    };
    let mut bytes = foreign(schema, plain, long);
    bytes[4..4 + header.len()].copy_from_slice(header);
    bytes[4 + header.len()..4 + header.len() + body.len()].copy_from_slice(body);
    bytes
}

#[test]
fn a_page_that_claims_too_much_is_refused_before_memory_is_allocated() {
    // Sizes of 2 GiB less one byte and more; a dictionary of two thousand million values.
    let huge = [0xfe, 0xff, 0xff, 0xff, 0x0f];
    let rest = [0x2c, 0x15, 2, 0x15, 0, 0x15, 6, 0x15, 6, 0, 0];
    let unpacked = [&[0x15, 0, 0x15][..], &huge, &[0x15, 20], &rest].concat();
    let packed = [&[0x15, 0, 0x15, 20, 0x15][..], &huge, &rest].concat();
    let dictionary = [&[0x15, 4, 0x15, 20, 0x15, 20, 0x4c, 0x15][..], &huge, &[0x15, 0, 0, 0]];
    for (header, what) in [
        (unpacked, "a page has 2147483647 bytes, more than"),
        (packed, "a page has 2147483647 bytes, more than"),
        (dictionary.concat(), "a dictionary is damaged or too large: it has 2147483647 values"),
        (vec![0xff; 40], "the header of a page is damaged"),
    ] {
        let error = rows(&with_page(&header, &[0; 10])).unwrap_err();
        assert!(error.starts_with("row 1: column `text`: ") && error.contains(what), "{error}");
    }
}
