//! Randomness: the machine's, and one that repeats itself for a seed.

/// A source of random numbers.
pub trait Random: Send {
    /// The next number, uniform over all of them.
    fn next_u64(&mut self) -> u64;
}

/// The randomness of the operating system.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemRandom;

impl Random for SystemRandom {
    fn next_u64(&mut self) -> u64 {
        let mut bytes = [0_u8; 8];
        loop {
            // SAFETY: the buffer is valid for the 8 bytes that the call may write.
            let got = unsafe { libc::getrandom(bytes.as_mut_ptr().cast(), bytes.len(), 0) };
            if got == 8 {
                return u64::from_le_bytes(bytes);
            }
            let error = std::io::Error::last_os_error();
            assert!(
                got >= 0 || error.kind() == std::io::ErrorKind::Interrupted,
                "the operating system gives no randomness: {error}"
            );
        }
    }
}

/// Randomness from a seed, the same on every machine (SplitMix64, Steele et al. 2014). Not secret.
#[derive(Clone, Debug)]
pub struct SeededRandom {
    state: u64,
}

impl SeededRandom {
    /// The sequence of `seed`.
    #[must_use]
    pub fn new(seed: u64) -> SeededRandom {
        SeededRandom { state: seed }
    }

    /// A number below `limit`, which must not be zero; uniform but for a bias below limit ÷ 2⁶⁴.
    pub fn below(&mut self, limit: u64) -> u64 {
        assert!(limit > 0, "there is no number below zero");
        ((u128::from(self.next_u64()) * u128::from(limit)) >> 64) as u64
    }
}

impl Random for SeededRandom {
    fn next_u64(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_repeats_itself_and_another_differs() {
        let draw = |seed| {
            let mut random = SeededRandom::new(seed);
            (0..4).map(|_| random.next_u64()).collect::<Vec<_>>()
        };
        assert_eq!(draw(1), draw(1));
        assert_ne!(draw(1), draw(2));
    }

    #[test]
    fn the_system_does_not_repeat_itself() {
        assert_ne!(SystemRandom.next_u64(), SystemRandom.next_u64());
    }
}
