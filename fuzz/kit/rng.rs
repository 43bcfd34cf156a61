//! Decisions from one seed: `SplitMix64` (G. Steele, D. Lea, C. Flood, "Fast splittable pseudorandom number
//! generators", OOPSLA 2014); or from an input, byte by byte, as long as it lasts.

pub(crate) struct Rng<'a> {
    state: u64,
    input: &'a [u8],
}

impl<'a> Rng<'a> {
    pub(crate) const fn new(seed: u64) -> Self {
        Self { state: seed, input: &[] }
    }

    pub(crate) const fn from_input(input: &'a [u8]) -> Self {
        Self { state: 0, input }
    }

    pub(crate) const fn next(&mut self) -> u64 {
        self.bytes(8)
    }

    /// A number of `length` bytes from the input, or a random one of 8 once the input is used up.
    const fn bytes(&mut self, length: usize) -> u64 {
        if self.input.is_empty() {
            return self.random();
        }
        let (mut value, mut taken) = (0, 0);
        while let (Some((first, rest)), true) = (self.input.split_first(), taken < length) {
            value = value << 8 | *first as u64;
            self.input = rest;
            taken += 1;
        }
        value
    }

    const fn random(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below `end`, which is above 0.
    pub(crate) const fn below(&mut self, end: u64) -> u64 {
        let length = if end <= 256 { 1 } else { 8 };
        self.bytes(length) % end
    }

    /// An index of something with `length` items, one or more.
    pub(crate) const fn index(&mut self, length: usize) -> usize {
        self.below(length as u64) as usize
    }

    /// True once in `times`.
    pub(crate) const fn one_in(&mut self, times: u64) -> bool {
        self.below(times) == 0
    }

    /// One of `items`, which are not empty.
    pub(crate) fn pick<T: Copy>(&mut self, items: &[T]) -> T {
        items[self.index(items.len())]
    }
}
