//! Page faults in mappings: kernels read *around* the page, not ahead of it, while that pays.
//!
//! Each stream counts faults that find their page and faults that do not. Where the misses exceed the hits by
//! [`LOTS_OF_MISSES`], reading around has not paid, and a fault reads its page alone. The generations read
//! around differently:
//!
//! - 2.6.3: an aligned block of 16 pages;
//! - 2.6.10 and 2.6.18: a window with the page in its middle, as long as the stream's depth;
//! - 6.x: the same with a marker at three quarters, where a later fault reads on.
//!
//! Source: the fault paths of those kernels (`filemap_nopage`, `filemap_fault`); the papers do not change
//! them. Limit: no advice (`madvise`), and therefore never the sequential rule.

use foreseek_units::{PageIndex, PageSpan, Pages, Span};

/// By how many the misses may exceed the hits (`MMAP_LOTSAMISS` of all these kernels).
const LOTS_OF_MISSES: u32 = 100;

/// The count of Linux 2.6: two sums.
#[derive(Clone, Copy, Debug, Default)]
pub struct Classic {
    hits: u32,
    misses: u32,
}

impl Classic {
    /// A fault; returns whether to read around it.
    pub fn around(&mut self, missing: bool) -> bool {
        if !missing {
            self.hits = self.hits.saturating_add(1);
            return false;
        }
        self.misses = self.misses.saturating_add(1);
        self.misses <= self.hits.saturating_add(LOTS_OF_MISSES)
    }
}

/// The count of 6.x: one number, raised by a miss, lowered by a hit, at most ten times the limit. A stream
/// that begins to hit therefore soon reads around again.
#[derive(Clone, Copy, Debug, Default)]
pub struct Modern {
    misses: u32,
}

impl Modern {
    /// A fault; returns whether to read around it.
    pub fn around(&mut self, missing: bool) -> bool {
        if !missing {
            self.misses = self.misses.saturating_sub(1);
            return false;
        }
        self.misses = (self.misses + 1).min(LOTS_OF_MISSES * 10);
        self.misses <= LOTS_OF_MISSES
    }
}

/// The window of this size with the page in its middle, moved to the object's start where it would begin
/// before it.
#[must_use]
pub fn centred(page: PageIndex, size: Pages) -> PageSpan {
    Span::at(page - size / 2, size)
}
