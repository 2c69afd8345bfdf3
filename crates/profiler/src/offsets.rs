//! Where to read: places that have not been read before.
//!
//! A drive keeps what it has read and what lies behind it. A place drawn at random from a large
//! device is in no cache; places near one another are read in *descending* order, against the
//! direction in which drives read ahead. The seed comes from outside: two runs on one device must
//! not read the same places, or the second would measure the cache of whatever lies below.

use foreseek_units::{ByteOffset, ByteSpan, Bytes, PAGE_SIZE};
use rand_core::{Rng, SeedableRng};
use rand_pcg::Pcg64Mcg;

/// What small reads read: a page, the smallest that programs ask for.
pub(super) const PAGE: Bytes = Bytes(PAGE_SIZE);

/// A source of places.
#[derive(Debug)]
pub(super) struct Places {
    random: Pcg64Mcg,
    /// How many places were asked for [evenly](Self::evenly).
    drawn: u64,
}

/// The golden ratio's fraction: its multiples modulo one spread more evenly than those of any other
/// number, however many are drawn (Kronecker sequence).
const GOLDEN: f64 = 0.618_033_988_749_894_9;

impl Places {
    pub(super) fn new(seed: u64) -> Self {
        Self { random: Pcg64Mcg::seed_from_u64(seed), drawn: seed % 10_000 }
    }

    /// An offset from `first` to `last`, a multiple of a page; `first` where there is no choice.
    pub(super) fn between(&mut self, first: Bytes, last: Bytes) -> ByteOffset {
        let (low, high) = (first.pages_ceil().get(), last.pages_floor().get());
        let choice = (high + 1).saturating_sub(low).max(1);
        ByteOffset((low + self.random.next_u64() % choice) * PAGE_SIZE)
    }

    /// A page anywhere on a device.
    pub(super) fn page(&mut self, capacity: Bytes) -> ByteSpan {
        page_at(self.between(Bytes::ZERO, capacity - PAGE))
    }

    /// An offset as of [`between`](Self::between), but the places of successive calls are spread evenly.
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

/// A number of bytes as a multiple of a page, at least one.
pub(super) fn whole_pages(bytes: f64) -> Bytes {
    Bytes((bytes / PAGE_SIZE as f64).round().max(1.0) as u64 * PAGE_SIZE)
}
