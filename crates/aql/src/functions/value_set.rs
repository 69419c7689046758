//! Sets of values, by AQL's rules of equality, and sorting. Both check in each step whether the
//! query has to end, also within long values.

use std::cmp::Ordering;
use std::collections::HashMap;
use std::hash::{BuildHasher, Hasher};

use pellucid_value::{Ref, Value, compare_with};

use super::makers::{STEP_BYTES, room_for};
use crate::Result;
use crate::query_run::QueryRun;

/// The bytes of an entry of a set besides the value, with the spare capacity of the tables.
const ENTRY_BYTES: usize = 136;
/// The number of elements that are sorted at once if they are cheap to compare.
const CHUNK: usize = 1024;
/// The size up to which values are cheap to compare.
const SMALL_BYTES: usize = 256;

/// The order of `left` and `right`.
pub(crate) fn compare(left: Ref<'_>, right: Ref<'_>, run: &mut QueryRun) -> Result<Ordering> {
    compare_with(left, right, &mut |steps| run.tick_by(steps))
}

/// True if the two are the same in the order of values.
pub(crate) fn equal(left: Ref<'_>, right: Ref<'_>, run: &mut QueryRun) -> Result<bool> {
    match (left, right) {
        (Ref::String(left), Ref::String(right)) if left.len() != right.len() => Ok(false),
        _ => compare(left, right, run).map(|order| order == Ordering::Equal),
    }
}

/// The end of a chain of members with the same hash.
const NO_OTHER: usize = usize::MAX;

#[derive(Debug)]
struct Member {
    value: Value,
    /// The index of the next member with the same hash.
    next: usize,
    mark: usize,
}

/// A set of distinct values, in the order of insertion.
#[derive(Debug, Default)]
pub(crate) struct Set {
    /// The newest member of each hash.
    heads: HashMap<u64, usize>,
    members: Vec<Member>,
}

impl Set {
    /// Makes a set of all elements of an array.
    pub(crate) fn of(list: &Value, run: &mut QueryRun) -> Result<Self> {
        Self::of_all([list], run)
    }

    /// Makes a set of all elements of these arrays.
    pub(crate) fn of_all<'a>(
        lists: impl IntoIterator<Item = &'a Value>,
        run: &mut QueryRun,
    ) -> Result<Self> {
        let mut set = Self::default();
        for element in lists.into_iter().flat_map(Value::each) {
            set.insert(element, run)?;
        }
        Ok(set)
    }

    pub(crate) fn len(&self) -> usize {
        self.members.len()
    }

    /// Adds a value unless there is an equal one. Returns its index, and true if it is new.
    pub(crate) fn insert(&mut self, value: Value, run: &mut QueryRun) -> Result<(usize, bool)> {
        let hash = self.hash(value.view(), run)?;
        if let Some(place) = self.find(hash, value.view(), run)? {
            return Ok((place, false));
        }
        run.memory.take(ENTRY_BYTES)?;
        let place = self.members.len();
        let next = self.heads.insert(hash, place).unwrap_or(NO_OTHER);
        self.members.push(Member { value, next, mark: 0 });
        Ok((place, true))
    }

    /// The index of the member that equals the value.
    pub(crate) fn place(&self, value: Ref<'_>, run: &mut QueryRun) -> Result<Option<usize>> {
        let hash = self.hash(value, run)?;
        self.find(hash, value, run)
    }

    fn find(&self, hash: u64, value: Ref<'_>, run: &mut QueryRun) -> Result<Option<usize>> {
        let mut place = self.heads.get(&hash).copied().unwrap_or(NO_OTHER);
        while let Some(member) = self.members.get(place) {
            if equal(member.value.view(), value, run)? {
                return Ok(Some(place));
            }
            place = member.next;
        }
        Ok(None)
    }

    /// The mark of the member with this index; 0 at first.
    pub(crate) fn mark(&mut self, place: usize) -> &mut usize {
        &mut self.members[place].mark
    }

    /// The members and their marks.
    pub(crate) fn into_marked(self) -> impl Iterator<Item = (Value, usize)> {
        self.members.into_iter().map(|member| (member.value, member.mark))
    }

    fn hash(&self, value: Ref<'_>, run: &mut QueryRun) -> Result<u64> {
        let mut hasher = self.heads.hasher().build_hasher();
        hash_into(value, &mut hasher, run)?;
        Ok(hasher.finish())
    }
}

/// Hashes a value such that equal values have equal hashes: whole numbers by their values, arrays
/// without trailing nulls, objects sorted by name and without null members.
fn hash_into(value: Ref<'_>, hasher: &mut impl Hasher, run: &mut QueryRun) -> Result<()> {
    run.tick()?;
    hasher.write_u8(value.kind() as u8);
    match value {
        Ref::Null => {}
        Ref::Bool(value) => hasher.write_u8(value.into()),
        Ref::Number(number) => match number.exact_whole() {
            Some(whole) => hasher.write_i128(whole),
            None => hasher.write_u64(number.to_double().to_bits()),
        },
        Ref::String(text) => hash_text(text, hasher, run)?,
        Ref::Array(array) => {
            let mut nulls = 0;
            for element in array.iter() {
                if matches!(element, Ref::Null) {
                    run.tick()?;
                    nulls += 1;
                    continue;
                }
                hasher.write_usize(nulls);
                nulls = 0;
                hash_into(element, hasher, run)?;
            }
            hasher.write_u8(u8::MAX);
        }
        Ref::Object(object) => {
            for (name, member) in object.sorted().filter(|(_, member)| !matches!(member, Ref::Null))
            {
                hash_text(name, hasher, run)?;
                hash_into(member, hasher, run)?;
            }
            hasher.write_u8(u8::MAX);
        }
    }
    Ok(())
}

fn hash_text(text: &str, hasher: &mut impl Hasher, run: &mut QueryRun) -> Result<()> {
    for piece in text.as_bytes().chunks(STEP_BYTES * 16) {
        run.tick_by(1 + piece.len() / STEP_BYTES)?;
        hasher.write(piece);
    }
    hasher.write_usize(text.len());
    Ok(())
}

/// Sorts elements, stably.
pub(super) fn sorted(elements: Vec<Value>, run: &mut QueryRun) -> Result<Vec<Value>> {
    let mut elements = elements;
    let mut places: Vec<u32> = room_for(run, elements.len())?;
    places.extend(0..u32::try_from(elements.len()).unwrap_or(u32::MAX));
    let view = |place: u32| elements[place as usize].view();
    let is_small = |value: &Value| match value {
        Value::String(text) => text.len() <= SMALL_BYTES,
        Value::Array(_) | Value::Object(_) | Value::Packed(_) => false,
        _ => true,
    };
    let chunk = if elements.iter().all(is_small) { CHUNK } else { 1 };
    for places in places.chunks_mut(chunk) {
        run.tick_by(places.len())?;
        places.sort_by(|left, right| pellucid_value::compare(view(*left), view(*right)));
    }
    merge(&mut places, chunk, run, |left, right, run| compare(view(*left), view(*right), run))?;
    let mut sorted = room_for(run, elements.len())?;
    sorted.extend(places.into_iter().map(|place| std::mem::take(&mut elements[place as usize])));
    Ok(sorted)
}

/// Sorts numbers, none of which is NaN.
pub(super) fn sort_numbers(numbers: &mut Vec<f64>, run: &mut QueryRun) -> Result<()> {
    for chunk in numbers.chunks_mut(CHUNK) {
        run.tick_by(chunk.len())?;
        chunk.sort_by(f64::total_cmp);
    }
    merge(numbers, CHUNK, run, |left, right, _| Ok(left.total_cmp(right)))
}

/// Merges adjacent sorted chunks until only one is left.
fn merge<T: Copy>(
    items: &mut Vec<T>,
    chunk: usize,
    run: &mut QueryRun,
    mut compare: impl FnMut(&T, &T, &mut QueryRun) -> Result<Ordering>,
) -> Result<()> {
    let mut merged: Vec<T> = room_for(run, items.len())?;
    let mut chunk = chunk;
    while chunk < items.len() {
        merged.clear();
        for pair in items.chunks(chunk.saturating_mul(2)) {
            let (mut left, mut right) = pair.split_at(chunk.min(pair.len()));
            while let ([first, lefts @ ..], [second, rights @ ..]) = (left, right) {
                run.tick()?;
                if compare(first, second, run)? == Ordering::Greater {
                    merged.push(*second);
                    right = rights;
                } else {
                    merged.push(*first);
                    left = lefts;
                }
            }
            merged.extend_from_slice(left);
            merged.extend_from_slice(right);
        }
        std::mem::swap(items, &mut merged);
        chunk = chunk.saturating_mul(2);
    }
    Ok(())
}
