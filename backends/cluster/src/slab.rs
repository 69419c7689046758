//! A slab: values under numbers. An index is reused with a new generation, so a number is not.

/// Values under numbers. It allocates only when it grows beyond its largest size so far.
pub(crate) struct Slab<T> {
    places: Vec<SlabEntry<T>>,
    free: Vec<u32>,
}

struct SlabEntry<T> {
    generation: u32,
    value: Option<T>,
}

impl<T> Slab<T> {
    pub(crate) fn new() -> Slab<T> {
        Slab { places: Vec::new(), free: Vec::new() }
    }

    /// Inserts a value. Returns its number.
    pub(crate) fn insert(&mut self, value: T) -> u64 {
        let index = self.free.pop().unwrap_or_else(|| {
            self.places.push(SlabEntry { generation: 0, value: None });
            (self.places.len() - 1) as u32
        });
        let place = &mut self.places[index as usize];
        place.value = Some(value);
        u64::from(place.generation) << 32 | u64::from(index)
    }

    pub(crate) fn contains(&self, number: u64) -> bool {
        let place = self.places.get((number & 0xffff_ffff) as usize);
        place.is_some_and(|place| {
            u64::from(place.generation) == number >> 32 && place.value.is_some()
        })
    }

    pub(crate) fn get_mut(&mut self, number: u64) -> Option<&mut T> {
        let place = self.places.get_mut((number & 0xffff_ffff) as usize)?;
        if u64::from(place.generation) == number >> 32 { place.value.as_mut() } else { None }
    }

    pub(crate) fn remove(&mut self, number: u64) -> Option<T> {
        let index = number & 0xffff_ffff;
        let place = self.places.get_mut(index as usize)?;
        if u64::from(place.generation) != number >> 32 {
            return None;
        }
        let value = place.value.take()?;
        place.generation = place.generation.wrapping_add(1);
        self.free.push(index as u32);
        Some(value)
    }

    /// Removes all values for which `is_out` is true, and passes them to `taken`.
    pub(crate) fn remove_if(
        &mut self,
        mut is_out: impl FnMut(&T) -> bool,
        mut taken: impl FnMut(T),
    ) {
        for (index, place) in self.places.iter_mut().enumerate() {
            if let Some(value) = place.value.take_if(|value| is_out(value)) {
                place.generation = place.generation.wrapping_add(1);
                self.free.push(index as u32);
                taken(value);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_removed_number_does_not_find_a_later_value() {
        let mut slab = Slab::new();
        let first = slab.insert('a');
        assert_eq!(slab.remove(first), Some('a'));
        let second = slab.insert('b');
        assert_ne!(first, second);
        assert_eq!((slab.remove(first), slab.get_mut(first)), (None, None));
        assert!(slab.contains(second) && !slab.contains(first) && !slab.contains(u64::MAX));
        assert_eq!(slab.get_mut(second), Some(&mut 'b'));
        let mut taken = Vec::new();
        slab.insert('c');
        slab.remove_if(|value| *value == 'b', |value| taken.push(value));
        assert_eq!((taken, slab.remove(second)), (vec!['b'], None));
        assert_eq!(slab.remove(u64::MAX), None);
    }
}
