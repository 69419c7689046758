//! Insertion of members at the front of a packed object. The object's own members are copied
//! unchanged and their table is shifted, which is much faster than building the object again.

use super::node::{CONTAINER_HEADER_BYTES, FORMAT, PackedObject, extent, string_at, tag};
use crate::ObjectRef;

/// The most members that may be inserted, and the most that may be left out.
pub const FRONT_MAX: usize = 8;

/// A member to insert: its name, and a string value in two pieces.
pub type FrontMember<'a> = (&'a str, [&'a str; 2]);

/// Makes the packed document with the members of `front`, whose names are distinct, followed by the
/// members of `body` except those whose names `is_left_out` accepts. `None` if that cannot be done
/// by copying: `body` is not packed or is damaged, has a name of `front` that is not left out, or
/// there are more than [`FRONT_MAX`] members to insert or to leave out.
#[must_use]
pub fn with_front(
    front: &[FrontMember<'_>],
    body: ObjectRef<'_>,
    is_left_out: impl Fn(&[u8]) -> bool,
) -> Option<Vec<u8>> {
    let ObjectRef::Packed(body) = body else { return None };
    if front.len() > FRONT_MAX {
        return None;
    }
    let gaps = OmittedMembers::of(body, is_left_out)?;
    let length_of = |(name, [one, other]): &FrontMember<'_>| {
        string_bytes(name.len()) + string_bytes(one.len() + other.len())
    };
    let front_bytes: usize = front.iter().map(length_of).sum();
    let members = body.0.begin - CONTAINER_HEADER_BYTES - gaps.bytes;
    let table = CONTAINER_HEADER_BYTES + front_bytes + members;
    let width = match table {
        0..=0xff => 0_u8,
        0x100..=0xffff => 1,
        _ => 2,
    };
    let count = front.len() + body.0.count - gaps.count;
    let length = table + (count << width);
    let mut out = Vec::with_capacity(1 + length);
    out.extend_from_slice(&[FORMAT, tag::OBJECT + width]);
    out.extend_from_slice(&u32::try_from(length).ok()?.to_le_bytes());
    out.extend_from_slice(&u32::try_from(count).ok()?.to_le_bytes());
    let mut places = [(&[][..], 0); FRONT_MAX];
    for ((name, [one, other]), place) in front.iter().zip(&mut places) {
        *place = (name.as_bytes(), out.len() - 1);
        push_string(&mut out, [name, ""]);
        push_string(&mut out, [one, other]);
    }
    gaps.copy_others(body, &mut out);
    let places = &mut places[..front.len()];
    places.sort_unstable();
    write_table(&mut out, width, places, body, &gaps, front_bytes)?;
    (out.len() == 1 + length).then_some(out)
}

/// Writes the table: the offsets of the members, sorted by name.
fn write_table(
    out: &mut Vec<u8>,
    width: u8,
    mut front: &[(&[u8], usize)],
    body: PackedObject<'_>,
    gaps: &OmittedMembers,
    shift: usize,
) -> Option<()> {
    let mut push = |offset: usize| match width {
        0 => out.push(offset as u8),
        1 => out.extend_from_slice(&(offset as u16).to_le_bytes()),
        _ => out.extend_from_slice(&(offset as u32).to_le_bytes()),
    };
    for place in 0..body.0.count {
        let entry = body.0.entry(place)?;
        let offset = body.0.begin - entry.len();
        let Some(before) = gaps.bytes_before(offset) else { continue };
        let (name, _) = string_at(entry)?;
        while let [(first, at), rest @ ..] = front {
            match (*first).cmp(name) {
                std::cmp::Ordering::Less => push(*at),
                std::cmp::Ordering::Equal => return None,
                std::cmp::Ordering::Greater => break,
            }
            front = rest;
        }
        push(offset - before + shift);
    }
    front.iter().for_each(|(_, at)| push(*at));
    Some(())
}

/// The bytes of the node of a string with `length` bytes.
fn string_bytes(length: usize) -> usize {
    length + if length <= 127 { 1 } else { 5 }
}

fn push_string(out: &mut Vec<u8>, pieces: [&str; 2]) {
    let length = pieces[0].len() + pieces[1].len();
    if length <= 127 {
        out.push(tag::SHORT_STRING + length as u8);
    } else {
        out.push(tag::STRING);
        out.extend_from_slice(&(length as u32).to_le_bytes());
    }
    pieces.iter().for_each(|piece| out.extend_from_slice(piece.as_bytes()));
}

/// The members that are left out.
struct OmittedMembers {
    /// The beginning and the end of each, sorted.
    places: [(usize, usize); FRONT_MAX],
    count: usize,
    bytes: usize,
}

impl OmittedMembers {
    fn of(body: PackedObject<'_>, is_left_out: impl Fn(&[u8]) -> bool) -> Option<OmittedMembers> {
        let mut gaps = OmittedMembers { places: [(0, 0); FRONT_MAX], count: 0, bytes: 0 };
        for place in 0..body.0.count {
            let entry = body.0.entry(place)?;
            let (name, value) = string_at(entry)?;
            if !is_left_out(name) {
                continue;
            }
            let begin = body.0.begin - entry.len();
            let length = value + extent(&entry[value..])?;
            *gaps.places.get_mut(gaps.count)? = (begin, begin + length);
            gaps.count += 1;
            gaps.bytes += length;
        }
        gaps.places[..gaps.count].sort_unstable();
        Some(gaps)
    }

    /// The bytes that are left out before `offset`; `None` if the member at `offset` is left out.
    fn bytes_before(&self, offset: usize) -> Option<usize> {
        let mut bytes = 0;
        for (begin, end) in &self.places[..self.count] {
            if *begin == offset {
                return None;
            }
            if *begin < offset {
                bytes += end - begin;
            }
        }
        Some(bytes)
    }

    fn copy_others(&self, body: PackedObject<'_>, out: &mut Vec<u8>) {
        let mut from = CONTAINER_HEADER_BYTES;
        for (begin, end) in &self.places[..self.count] {
            out.extend_from_slice(&body.0.node[from..*begin]);
            from = *end;
        }
        out.extend_from_slice(&body.0.node[from..body.0.begin]);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::packed::{Builder, check, open};
    use crate::samples::values;
    use crate::{Ref, Value};

    /// The expected result, built member by member.
    fn built(front: &[FrontMember<'_>], body: ObjectRef<'_>) -> Vec<u8> {
        let mut builder = Builder::new();
        builder.begin_object();
        for (name, pieces) in front {
            builder.name(name);
            builder.string(&pieces.concat());
        }
        for (name, value) in body.iter().filter(|(name, _)| !name.starts_with('_')) {
            builder.name(name);
            builder.value(value);
        }
        builder.end();
        builder.finish().unwrap()
    }

    fn compare(members: &[(String, Value)], long: usize) {
        let mut builder = Builder::new();
        builder.begin_object();
        for (name, value) in members {
            builder.name(name);
            builder.value(value.view());
        }
        builder.end();
        let document = builder.finish().unwrap();
        let body = open(&document).ok().and_then(Ref::as_object).unwrap();
        let text = "x".repeat(long);
        let front = [("_key", ["a", ""]), ("_id", ["collection/", &text]), ("_rev", ["", "r"])];
        let copied = with_front(&front, body, |name| name.starts_with(b"_")).unwrap();
        assert!(check(&copied));
        assert_eq!(copied, built(&front, body));
    }

    #[test]
    fn a_name_that_exists_is_not_inserted() {
        let document = crate::json::parse_packed(b"{\"_key\":1}", crate::DuplicateRule::Refuse);
        let document = document.unwrap();
        let body = open(&document).ok().and_then(Ref::as_object).unwrap();
        assert_eq!(with_front(&[("_key", ["a", ""])], body, |_| false), None);
    }

    proptest! {
        #[test]
        fn copying_gives_what_building_gives(
            members in prop::collection::vec(("[_A-z]{0,3}", values()), 0..12),
            long in prop::sample::select(vec![0, 1, 100, 127, 200, 70_000]),
        ) {
            let left_out = members.iter().filter(|(name, _)| name.starts_with('_')).count();
            if left_out <= FRONT_MAX {
                compare(&members, long);
            }
        }
    }
}
