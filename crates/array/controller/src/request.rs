//! Fragments: the parts of a host request that lie in one strip, and the walk that cuts a request into them.

use crate::api::{BufferRef, BufferSpace, HostTag};
use raidlab_raid::Layout;
use raidlab_units::{BlockCount, Lba, StripeIndex};

/// A run of rows within one strip.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Rows {
    pub(crate) first: u32,
    pub(crate) count: u32,
}

impl Rows {
    pub(crate) const NONE: Self = Self { first: 0, count: 0 };

    pub(crate) const fn end(self) -> u32 {
        self.first + self.count
    }

    pub(crate) const fn is_empty(self) -> bool {
        self.count == 0
    }

    pub(crate) const fn between(first: u32, end: u32) -> Self {
        Self { first, count: end - first }
    }

    pub(crate) const fn overlaps(self, other: Self) -> bool {
        self.first < other.end() && other.first < self.end()
    }

    /// The smallest run that holds both; an empty run holds nothing.
    pub(crate) fn hull(self, other: Self) -> Self {
        if self.is_empty() {
            return other;
        }
        if other.is_empty() {
            return self;
        }
        Self::between(self.first.min(other.first), self.end().max(other.end()))
    }
}

/// The part of a host request that lies in one strip.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Fragment {
    /// Tag of the request.
    pub(crate) request: HostTag,
    pub(crate) stripe: StripeIndex,
    pub(crate) strip: u16,
    pub(crate) rows: Rows,
    /// Where the fragment begins in the host's buffer.
    pub(crate) host_byte: u64,
}

impl Fragment {
    pub(crate) const fn host_buffer(&self) -> BufferRef {
        BufferRef { space: BufferSpace::Host(self.request), offset: self.host_byte }
    }

    /// The part of this fragment that covers `rows`, which lie within it.
    pub(crate) fn part(&self, rows: Rows, block_bytes: u64) -> Self {
        let skipped = u64::from(rows.first - self.rows.first) * block_bytes;
        Self { rows, host_byte: self.host_byte + skipped, ..*self }
    }

    /// Its rows, one by one.
    pub(crate) fn single_rows(self, block_bytes: u64) -> impl ExactSizeIterator<Item = Self> {
        let rows = self.rows.first..self.rows.end();
        rows.map(move |row| self.part(Rows::between(row, row + 1), block_bytes))
    }

    /// The parts in each strip of one that goes on in other strips.
    pub(crate) fn strips(self, strip_rows: u32, block_bytes: u64) -> impl ExactSizeIterator<Item = Self> {
        let (first, end) = (self.rows.first, self.rows.end());
        (first / strip_rows..end.div_ceil(strip_rows)).map(move |strip| {
            let before = strip * strip_rows;
            let part = Rows::between(first.max(before), end.min(before + strip_rows));
            let rows = Rows::between(part.first - before, part.end() - before);
            let stripe = StripeIndex(self.stripe.0 + u64::from(strip));
            Self { stripe, rows, ..self.part(part, block_bytes) }
        })
    }
}

/// Copies of a strip that were tried, as a set: a bit each, one for all from the 63rd on, and one that says that all were
/// tried before and are now tried for the last time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct CopySet(u64);

impl CopySet {
    pub(crate) const NONE: Self = Self(0);

    /// None of the last round.
    pub(crate) const LAST_ROUND: Self = Self(1 << 63);

    const fn bit(copy: u16) -> u64 {
        1 << if copy < 62 { copy } else { 62 }
    }

    pub(crate) const fn is_last_round(self) -> bool {
        self.0 & Self::LAST_ROUND.0 != 0
    }

    #[must_use]
    pub(crate) const fn with(self, copy: u16) -> Self {
        Self(self.0 | Self::bit(copy))
    }

    pub(crate) const fn contains(self, copy: u16) -> bool {
        self.0 & Self::bit(copy) != 0
    }
}

/// Cuts a range of the volume into fragments, in order.
///
/// A fragment lies in one strip. One of [`FragmentWalk::in_runs`] goes on in the strips behind it on the member, as far as the
/// volume does: only what is read in place may be as long.
pub(crate) struct FragmentWalk {
    request: HostTag,
    at: Lba,
    left: u64,
    host_byte: u64,
    block_bytes: u64,
    strip_rows: u64,
    in_runs: bool,
}

impl FragmentWalk {
    pub(crate) fn new(
        request: HostTag,
        lba: Lba,
        blocks: BlockCount,
        block_bytes: u64,
        strip_rows: u32,
    ) -> Self {
        Self {
            request,
            at: lba,
            left: blocks.0,
            host_byte: 0,
            block_bytes,
            strip_rows: u64::from(strip_rows),
            in_runs: false,
        }
    }

    /// The walk in pieces as long as the volume stays on a member.
    pub(crate) fn in_runs(mut self) -> Self {
        self.in_runs = true;
        self
    }

    /// The walk from `done` blocks further on.
    pub(crate) fn skip(mut self, done: BlockCount, lba: Lba) -> Self {
        self.at = lba + done;
        self.left -= done.0;
        self.host_byte = done.0 * self.block_bytes;
        self
    }

    pub(crate) fn next(&mut self, layout: &dyn Layout) -> Option<Fragment> {
        if self.left == 0 {
            return None;
        }
        let (stripe, strip, block) = layout.locate(self.at);
        let run = if self.in_runs { layout.run_blocks(self.at).0 } else { self.strip_rows - block.0 };
        let count = self.left.min(run);
        let fragment = Fragment {
            request: self.request,
            stripe,
            strip,
            rows: Rows { first: block.0 as u32, count: count as u32 },
            host_byte: self.host_byte,
        };
        self.at += BlockCount(count);
        self.left -= count;
        self.host_byte += count * self.block_bytes;
        Some(fragment)
    }
}
