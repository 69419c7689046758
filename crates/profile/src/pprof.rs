//! Profiles in the format of `pprof`: a protocol buffer within gzip.
//!
//! This module encodes the few kinds of protobuf fields that it needs itself. The message is
//! `perftools.profiles.Profile`, and the numbers of fields are those of its definition
//! (github.com/google/pprof, `proto/profile.proto`).

use std::collections::HashMap;
use std::io::{self, Write};

use flate2::Compression;
use flate2::write::GzEncoder;

use crate::resolved_profile::{Frame, IndexedSet, NamedSample, ResolvedProfile};

/// The label by which `pprof` recognises samples of the base profile, as its option `-diff_base`
/// sets it. Their values are negative, and shares are relative to the base profile.
const BASE_LABEL: &str = "pprof::base";

/// Encodes a profile as a compressed file; with `base`, its difference to `base`. The two must
/// share their list of functions. `unix_ns` is the time of the profile.
///
/// # Errors
/// None in practice: the file is written to memory.
pub fn pprof(
    profile: &ResolvedProfile,
    base: Option<&ResolvedProfile>,
    unix_ns: u64,
) -> io::Result<Vec<u8>> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(&message(profile, base, unix_ns))?;
    encoder.finish()
}

/// The string table of a file; its first entry is empty.
type StringTable = IndexedSet<String>;

fn message(profile: &ResolvedProfile, base: Option<&ResolvedProfile>, unix_ns: u64) -> Vec<u8> {
    let mut out = Vec::new();
    let mut texts = StringTable::default();
    texts.place("");
    for (kind, unit) in profile.kind.values() {
        let (kind, unit) = (texts.place(kind), texts.place(unit));
        field_message(&mut out, 1, |value| value_type(value, kind, unit));
    }
    let mut locations: HashMap<Frame, u64> = HashMap::new();
    let mut tables = (&mut locations, &mut texts);
    for sample in &profile.samples {
        field_message(&mut out, 2, |out| write_sample(out, sample, false, &mut tables));
    }
    for sample in base.iter().flat_map(|base| &base.samples) {
        field_message(&mut out, 2, |out| write_sample(out, sample, true, &mut tables));
    }
    // One mapping that declares names and lines as resolved, so that no tool looks for the binary.
    let program = texts.place("pellucid");
    field_message(&mut out, 3, |mapping| {
        field_number(mapping, 1, 1);
        field_number(mapping, 3, u64::MAX >> 1);
        field_number(mapping, 5, program);
        (7..=10).for_each(|known| field_number(mapping, known, 1));
    });
    let mut locations: Vec<(Frame, u64)> = locations.into_iter().collect();
    locations.sort_by_key(|(_, id)| *id);
    for (frame, id) in &locations {
        field_message(&mut out, 4, |location| {
            field_number(location, 1, *id);
            field_number(location, 2, 1);
            field_message(location, 4, |line| {
                field_number(line, 1, u64::from(frame.function) + 1);
                field_number(line, 2, u64::from(frame.line));
            });
        });
    }
    for (index, function) in profile.functions.iter().enumerate() {
        let (name, file) = (texts.place(&function.name), texts.place(&function.file));
        field_message(&mut out, 5, |out| {
            field_number(out, 1, index as u64 + 1);
            // The system name (field 3) is left out: where it is set, `pprof` removes the text in
            // angle brackets from the name, and `<Entity as Handler>::handle` would lose its type.
            field_number(out, 2, name);
            field_number(out, 4, file);
        });
    }
    let comments: Vec<u64> = profile.gaps().iter().map(|gap| texts.place(gap)).collect();
    let [_, (kind, unit)] =
        profile.kind.values().map(|(kind, unit)| (texts.place(kind), texts.place(unit)));
    for text in &texts.list {
        field_bytes(&mut out, 6, text.as_bytes());
    }
    field_number(&mut out, 9, unix_ns);
    field_number(&mut out, 10, profile.duration_ns);
    field_message(&mut out, 11, |period| value_type(period, kind, unit));
    field_number(&mut out, 12, 1);
    // `pprof -comments` shows these.
    comments.iter().for_each(|comment| field_number(&mut out, 13, *comment));
    out
}

fn value_type(out: &mut Vec<u8>, kind: u64, unit: u64) {
    field_number(out, 1, kind);
    field_number(out, 2, unit);
}

fn write_sample(
    out: &mut Vec<u8>,
    sample: &NamedSample,
    is_base: bool,
    (locations, texts): &mut (&mut HashMap<Frame, u64>, &mut StringTable),
) {
    let ids = sample.stack.iter().map(|frame| {
        let next = locations.len() as u64 + 1;
        *locations.entry(*frame).or_insert(next)
    });
    let ids: Vec<u64> = ids.collect();
    field_packed(out, 1, &ids);
    let values = [sample.events, sample.amount].map(|value| {
        let value = value.round() as i64;
        // Negative numbers are encoded as two's complement in 64 bits.
        (if is_base { -value } else { value }) as u64
    });
    field_packed(out, 2, &values);
    let labels = [
        ("operation", sample.operation.as_str()),
        ("phase", &sample.phase),
        ("job", &sample.job),
        ("thread", &sample.thread),
        ("component", sample.component),
        (BASE_LABEL, if is_base { "true" } else { "" }),
    ];
    for (key, text) in labels.into_iter().filter(|(_, text)| !text.is_empty()) {
        let (key, text) = (texts.place(key), texts.place(text));
        field_message(out, 3, |label| value_type(label, key, text));
    }
}

/// Appends a number as a base-128 varint of protocol buffers.
fn varint(out: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

fn field_number(out: &mut Vec<u8>, field: u64, number: u64) {
    if number != 0 {
        varint(out, field << 3);
        varint(out, number);
    }
}

fn field_bytes(out: &mut Vec<u8>, field: u64, bytes: &[u8]) {
    varint(out, field << 3 | 2);
    varint(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

fn field_packed(out: &mut Vec<u8>, field: u64, numbers: &[u64]) {
    let mut packed = Vec::new();
    numbers.iter().for_each(|number| varint(&mut packed, *number));
    field_bytes(out, field, &packed);
}

fn field_message(out: &mut Vec<u8>, field: u64, write: impl FnOnce(&mut Vec<u8>)) {
    let mut inner = Vec::new();
    write(&mut inner);
    field_bytes(out, field, &inner);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::{Kind, Profile};

    #[test]
    fn lost_samples_become_a_comment_of_the_file() {
        let whole = Profile::counted(Kind::Cpu);
        let cut = Profile { lost: 7, ..whole.clone() };
        let [whole, cut] = ResolvedProfile::of([whole, cut], &[]).map(|of| message(&of, None, 0));
        let has = |file: &[u8]| file.windows(14).any(|bytes| bytes == b"7 samples were");
        // The second last byte is the tag of the field: its number and its wire type, a varint.
        assert!(has(&cut) && cut[cut.len() - 2] == 13 << 3);
        assert!(!has(&whole) && whole[whole.len() - 2] != 13 << 3);
    }

    #[test]
    fn numbers_and_fields_have_their_wire_form() {
        let mut out = Vec::new();
        field_number(&mut out, 1, 150);
        assert_eq!(out, [0x08, 0x96, 0x01], "the example of the encoding's documentation");
        out.clear();
        field_message(&mut out, 3, |inner| field_number(inner, 1, 150));
        assert_eq!(out, [0x1a, 0x03, 0x08, 0x96, 0x01]);
        out.clear();
        field_packed(&mut out, 4, &[3, 270, 86_942]);
        assert_eq!(out, [0x22, 0x06, 0x03, 0x8e, 0x02, 0x9e, 0xa7, 0x05]);
    }
}
