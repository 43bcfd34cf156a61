//! One bit for each of many places. Tables of a drive are larger than the processor's cache and their bits are not, so what most places
//! have in common is asked here first.

/// The bits, and how many are set.
#[derive(Clone, Debug)]
pub(super) struct Bits {
    words: Vec<u64>,
    set: usize,
}

impl Bits {
    /// `count` bits that are all `on` or all off.
    pub(super) fn new(count: usize, on: bool) -> Self {
        let words = vec![if on { u64::MAX } else { 0 }; count.div_ceil(64)];
        Self { words, set: if on { count } else { 0 } }
    }

    #[inline]
    pub(super) fn has(&self, index: usize) -> bool {
        self.set > 0 && self.words[index / 64] >> (index % 64) & 1 == 1
    }

    #[inline]
    pub(super) fn put(&mut self, index: usize, on: bool) {
        if self.has(index) != on {
            self.words[index / 64] ^= 1 << (index % 64);
            self.set = if on { self.set + 1 } else { self.set - 1 };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Bits;

    #[test]
    fn bits_are_as_they_were_put() {
        for on in [false, true] {
            let mut bits = Bits::new(70, on);
            assert!((0..70).all(|index| bits.has(index) == on));
            for index in [0, 63, 64, 69, 64] {
                bits.put(index, !on);
            }
            assert!((0..70).all(|index| bits.has(index) == on ^ [0, 63, 64, 69].contains(&index)));
            (0..70).for_each(|index| bits.put(index, false));
            assert_eq!(bits.set, 0);
        }
    }
}
