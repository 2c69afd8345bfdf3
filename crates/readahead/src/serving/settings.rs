//! The settings of a serving engine.

use crate::stream;
use foreseek_units::{Bytes, Pages};

/// The longest read that is served out of frames: 1 MiB, the longest FUSE request (`max_pages` of 256). A
/// longer one is passed.
pub const READ_LIMIT: Pages = Bytes::mib(1).pages_floor();

/// The least memory of an engine: a read of the greatest length being answered while the next one is fetched,
/// and as much ahead for a few streams. A smaller budget is raised to this.
pub const MEMORY_LEAST: Pages = Bytes::mib(4).pages_floor();

/// The most memory: frame numbers have 32 bits, and 4 TiB exceed any machine's cache.
pub const MEMORY_LIMIT: Pages = Bytes::gib(4096).pages_floor();

/// The largest setting for fetches in flight: as many tags as a kernel's queue ever has.
pub const IN_FLIGHT_LIMIT: u32 = 10_240;

/// The most delivered pages that a mount remembers: 2 GiB of them, in some 20 MiB.
const HISTORY_MOST: Pages = Bytes::gib(2).pages_floor();

/// Settings of a serving engine; [`bounded`](Self::bounded) brings each within its bounds.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// The prefetcher of streams, by its name in the registry ([`stream::by_name`]).
    pub policy: String,
    /// The settings of that prefetcher.
    pub stream: stream::Settings,
    /// How many frames there are: all numbers are below this. [`Event::Budget`] sets how many of them may be
    /// in use; until the first one, all may.
    ///
    /// [`Event::Budget`]: foreseek_seam::Event::Budget
    pub memory: Pages,
    /// The memory that the cache in front and the frames share. The ceiling of the prefetch cache starts at a
    /// quarter of it (TR-840 section 4.1).
    pub machine: Pages,
    /// How many pages are remembered as delivered, or as evicted unused. TR-840 bounds its history to 20 % of
    /// the pages, since a kernel knows when it evicts. An engine that only delivers must also remember the
    /// pages that the cache in front may still hold. An entry takes some 40 bytes.
    pub history: Pages,
    /// The longest fetch. A longer range is requested in several adjacent fetches, so that a reader of its
    /// beginning need not wait for its end.
    pub fetch: Pages,
    /// The most fetches in flight. It is more than a device's queue holds (32 to 128): the kernel's scheduler
    /// must see adjacent requests. With fewer, demand would go before queued prefetches and split windows
    /// from the ones before them. 1,024 allow one fetch for each of as many readers.
    pub in_flight: u32,
    /// Whether the device serves several requests at once, as an array or a remote volume does. Its costs are
    /// then learnt only from requests that it served alone.
    pub overlapping: bool,
    /// Whether what is read ahead is bounded by the ceiling of the prefetch cache and by the share of each
    /// stream (TR-840 section 4). False only to measure what the bound gains: frames are the limit then.
    pub is_bounded: bool,
}

impl Default for Settings {
    /// 512 MiB of a machine of 2 GiB; the competitive depth.
    fn default() -> Self {
        Self {
            policy: "competitive".to_owned(),
            stream: stream::Settings {
                generation: stream::Generation::BEHIND,
                unseen_hits: true,
                ..stream::Settings::default()
            },
            memory: Bytes::mib(512).pages_floor(),
            machine: Bytes::gib(2).pages_floor(),
            history: Bytes::gib(2).pages_floor(),
            fetch: Bytes::kib(256).pages_floor(),
            in_flight: 1024,
            overlapping: false,
            is_bounded: true,
        }
    }
}

impl Settings {
    /// The defaults of a mount, shared with the simulator and its examples. `machine` is the memory that the
    /// page cache in front and the frames share; `overlapping` is true of arrays and remote volumes.
    #[must_use]
    pub fn of_mount(policy: &str, memory: Pages, machine: Pages, overlapping: bool) -> Self {
        let machine = machine.max(memory);
        let history = machine.min(HISTORY_MOST);
        Self { policy: policy.to_owned(), memory, machine, history, overlapping, ..Self::default() }
    }

    /// The same with every value within its bounds.
    #[must_use]
    pub fn bounded(mut self) -> Self {
        self.memory = self.memory.clamp(MEMORY_LEAST, MEMORY_LIMIT);
        self.machine = self.machine.clamp(self.memory, MEMORY_LIMIT);
        self.history = self.history.min(MEMORY_LIMIT);
        self.fetch = self.fetch.clamp(Pages(1), self.memory / 4);
        self.in_flight = self.in_flight.clamp(1, IN_FLIGHT_LIMIT);
        self
    }
}
