//! What an owner of a serving engine may choose.

use crate::stream;
use foreseek_units::{Bytes, Pages};

/// The longest read that is served out of frames: 1 MiB, what FUSE sends in one request at most
/// (`max_pages` of 256). A longer one is passed.
pub const READ_LIMIT: Pages = Bytes::mib(1).pages_floor();

/// The least memory an engine works with: a read of the greatest length being answered while the next
/// one is fetched, and as much ahead of a few streams. A smaller budget counts as this.
pub const MEMORY_LEAST: Pages = Bytes::mib(4).pages_floor();

/// The most memory: frames are numbered in 32 bits, and 4 TiB are beyond any machine's cache.
pub const MEMORY_LIMIT: Pages = Bytes::gib(4096).pages_floor();

/// The most fetches under way that may be chosen: as many tags as a kernel's queue ever has.
pub const IN_FLIGHT_LIMIT: u32 = 10_240;

/// Of how many pages at most a mount remembers that they were delivered: 2 GiB of them, in some 20 MiB.
const HISTORY_MOST: Pages = Bytes::gib(2).pages_floor();

/// Settings of a serving engine; [`bounded`](Self::bounded) brings each within its bounds.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// The prefetcher of streams, by its name in the registry ([`stream::by_name`]).
    pub policy: String,
    /// What that is given.
    pub stream: stream::Settings,
    /// How many frames there are: all numbers are below this. [`Event::Budget`] says how many of them
    /// may be in use; before the first one, all.
    ///
    /// [`Event::Budget`]: foreseek_seam::Event::Budget
    pub memory: Pages,
    /// All the memory in which the cache in front and the frames share, of which the ceiling of the
    /// prefetch cache takes a quarter at first (TR-840 section 4.1).
    pub machine: Pages,
    /// Of how many pages it is remembered that they were delivered, or dropped unused. TR-840 bounds
    /// its history to 20 % of the pages, as a kernel knows when it evicts; who only delivers has to
    /// remember what the cache in front may still hold as well. An entry takes some 40 bytes.
    pub history: Pages,
    /// The longest fetch. A longer range is asked for in several, one right after the other, so that
    /// who waits for its beginning need not wait for its end.
    pub fetch: Pages,
    /// How many fetches may be under way. More than a device's queue holds (32 to 128): the kernel's
    /// scheduler has to see what lies together, and deferred here, where demand goes before
    /// prefetching, a window would be torn from the one before it. 1,024 are a fetch for each of as many
    /// readers.
    pub in_flight: u32,
    /// Whether the device serves several requests at once, as an array or a remote volume does: then its
    /// costs are learnt only of what it served alone.
    pub overlapping: bool,
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
        }
    }
}

impl Settings {
    /// What a mount ships with: the mount itself, the simulator and its examples take them from here. `machine` is
    /// the memory in which the page cache in front and the frames share; `overlapping` holds of arrays and remote
    /// volumes.
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
