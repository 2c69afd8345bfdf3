//! What a modelled kernel is given, and what it tells.

use foreseek_seam::ObjectId;
use foreseek_units::{Bytes, Instant, Lba, Nanos, PageIndex, Pages, Sectors};

/// The longest request: `max_sectors_kb` of a loop device, and the clamp of one call of advice.
pub const REQUEST_LIMIT: Pages = Bytes::kib(1280).pages_floor();

/// Requests outstanding before a caller waits: `nr_requests` of a loop device.
pub const REQUESTS_LIMIT: usize = 128;

/// Requests that the log keeps: 24 MiB of them; later ones are only counted.
pub const LOG_LIMIT: usize = 1 << 20;

/// What calls cost the processor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Costs {
    /// A call to read.
    pub read: Nanos,
    /// Copying one page out.
    pub page: Nanos,
    /// A call of advice.
    pub advice: Nanos,
    /// A question about residency.
    pub query: Nanos,
}

impl Default for Costs {
    /// Measured on a stock kernel on one core: 0.6 us for `cachestat`; reads of resident data run at
    /// about 4 GB/s.
    fn default() -> Self {
        Self { read: Nanos(500), page: Nanos(1000), advice: Nanos::from_micros(2), query: Nanos(600) }
    }
}

/// How large the modelled kernel's memory is and how it behaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KernelOptions {
    /// Memory for cached pages.
    pub memory: Pages,
    /// The largest window that it reads ahead (`read_ahead_kb`).
    pub read_ahead: Bytes,
    /// What calls cost.
    pub costs: Costs,
}

impl KernelOptions {
    /// A stock kernel with this much memory for cached pages: a window of 128 KiB.
    #[must_use]
    pub fn stock(memory: Pages) -> Self {
        Self { memory, read_ahead: Bytes::kib(128), costs: Costs::default() }
    }
}

/// A request that the device has finished.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Logged {
    /// When it was made.
    pub made: Instant,
    /// When it was finished.
    pub finished: Instant,
    /// Where it begins.
    pub lba: Lba,
    /// How much.
    pub sectors: Sectors,
    /// It came from advice.
    pub advised: bool,
}

/// What the kernel has done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KernelCounters {
    /// Pages that reads found in memory.
    pub hits: Pages,
    /// Pages that reads found on their way.
    pub late: Pages,
    /// Pages that reads had to fetch.
    pub misses: Pages,
    /// Pages that advice brought in.
    pub advised: Pages,
    /// Pages reclaimed.
    pub reclaimed: Pages,
    /// Requests made.
    pub requests: u64,
}

/// A read cannot be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReadError {
    /// The object has no such place.
    #[error("read of object {}: page {} is not placed on the device", .0.0, .1.get())]
    Unplaced(ObjectId, PageIndex),
    /// The device failed.
    #[error("read of object {}: the device cannot read page {}", .0.0, .1.get())]
    Failed(ObjectId, PageIndex),
}
