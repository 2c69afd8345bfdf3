//! Offsets to read that have not been read before.
//!
//! A drive caches what it has read and what follows it. A random offset of a large device is in no cache.
//! Neighbouring offsets are read in *descending* order, against the direction of read-ahead. The caller gives
//! the seed: two runs on one device must not read the same offsets, or the second would measure a cache
//! below.

use foreseek_units::{ByteOffset, ByteSpan, Bytes, PAGE_SIZE};
use rand_core::{Rng, SeedableRng};
use rand_pcg::Pcg64Mcg;

/// The size of small reads: a page, the smallest unit of programs' reads.
pub(super) const PAGE: Bytes = Bytes(PAGE_SIZE);

/// A source of offsets.
#[derive(Debug)]
pub(super) struct Offsets {
    random: Pcg64Mcg,
    /// How many offsets were drawn [evenly](Self::evenly).
    drawn: u64,
}

/// The fractional part of the golden ratio: its multiples modulo one are spread more evenly than those of any
/// other number, however many are drawn (Kronecker sequence).
const GOLDEN: f64 = 0.618_033_988_749_894_9;

impl Offsets {
    pub(super) fn new(seed: u64) -> Self {
        Self { random: Pcg64Mcg::seed_from_u64(seed), drawn: seed % 10_000 }
    }

    /// An offset from `first` to `last`, a multiple of a page; `first` where there is no choice.
    pub(super) fn between(&mut self, first: Bytes, last: Bytes) -> ByteOffset {
        let (low, high) = (first.pages_ceil().get(), last.pages_floor().get());
        let choice = (high + 1).saturating_sub(low).max(1);
        ByteOffset((low + self.random.next_u64() % choice) * PAGE_SIZE)
    }

    /// A page at a random offset.
    pub(super) fn page(&mut self, capacity: Bytes) -> ByteSpan {
        page_at(self.between(Bytes::ZERO, capacity - PAGE))
    }

    /// As [`between`](Self::between), but the offsets of successive calls are spread evenly.
    pub(super) fn evenly(&mut self, first: Bytes, last: Bytes) -> ByteOffset {
        self.drawn += 1;
        let share = (self.drawn as f64 * GOLDEN).fract();
        let room = (last - first).get() as f64;
        ByteOffset(first.get() + (room * share) as u64).page().offset()
    }
}

/// The page at an offset.
pub(super) fn page_at(offset: ByteOffset) -> ByteSpan {
    ByteSpan::at(offset, PAGE)
}

/// A number of bytes as whole pages, at least one.
pub(super) fn whole_pages(bytes: f64) -> Bytes {
    Bytes((bytes / PAGE_SIZE as f64).round().max(1.0) as u64 * PAGE_SIZE)
}
