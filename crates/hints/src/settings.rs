//! The settings of a client of application-directed prefetching.

use foreseek_units::{Bytes, Pages};
use std::fmt;
use std::str::FromStr;

/// How much of the budget a round may take (ATC'09 section 4.6).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Share {
    /// The paper's 90 %. It works if the kernel moves advised pages to the young end of its lists, as the
    /// authors' patched kernel did and the simulator's model can.
    Paper,
    /// 60 %. A stock kernel's `WILLNEED` leaves resident pages where they are. There a buffer above about 64 %
    /// of the memory was seen to collapse: pages of the round were evicted before they were read.
    Stock,
    /// 60 % at first, the paper's 90 % after one round of that was read with almost no eviction, and from there
    /// up to 95 %. This engine releases pages before it fetches, and that collapse was not observed:
    ///
    /// - 200 MB read at random, with 100 or 40 MB of memory, on Linux 6.18. At shares up to 90 % at most one
    ///   page a run was evicted. At 95 % it was up to three, and at 100 % up to six.
    /// - SQLite's scan of 101 MiB under 50 MiB: the kernel reclaimed nothing at 95 %. At 100 % the process's
    ///   own allocations made it reclaim batch after batch, and the scan took 1.5 times as long.
    ///
    /// To begin with 90 % is too much: the memory of a new process still grows, and the first round was
    /// evicted.
    Probing,
    /// Another part, in per cent; values above 100 count as 100.
    Percent(u8),
}

impl Share {
    /// The fraction that a client begins with.
    #[must_use]
    pub fn start(self) -> f64 {
        match self {
            Self::Paper => 0.9,
            Self::Stock | Self::Probing => 0.6,
            Self::Percent(part) => f64::from(part.min(100)) / 100.0,
        }
    }

    /// The fraction to which the first consumed round raises it; `None`: it grows in steps from the start.
    #[must_use]
    pub(crate) fn proven(self) -> Option<f64> {
        matches!(self, Self::Probing).then_some(0.9)
    }

    /// The fraction that it never exceeds.
    #[must_use]
    pub fn ceiling(self) -> f64 {
        match self {
            Self::Probing => 0.95,
            other => other.start(),
        }
    }
}

/// The word is no share.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("give stock, probing, paper, or 1% to 100%")]
pub struct ParseShareError;

impl FromStr for Share {
    type Err = ParseShareError;

    fn from_str(word: &str) -> Result<Self, ParseShareError> {
        match word {
            "paper" => Ok(Self::Paper),
            "stock" => Ok(Self::Stock),
            "probing" => Ok(Self::Probing),
            other => {
                let part = other.strip_suffix('%').and_then(|part| part.parse().ok());
                part.filter(|part| (1..=100).contains(part)).map(Self::Percent).ok_or(ParseShareError)
            }
        }
    }
}

impl fmt::Display for Share {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Paper => f.pad("paper"),
            Self::Stock => f.pad("stock"),
            Self::Probing => f.pad("probing"),
            Self::Percent(part) => f.pad(&format!("{part}%")),
        }
    }
}

/// The order in which a round is fetched.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Order {
    /// By address on the device, across files, where the layout is known; the rest by file and offset.
    Disk,
    /// By file and offset, as in the paper.
    File,
}

/// Whether fetching goes on while the application reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Mode {
    /// As in the paper (ATC'09 section 4.5): a round fills the buffer while the application waits.
    Blocking,
    /// A list longer than a buffer is fetched in one endless pass, a little at each read. Shorter lists, and
    /// those that are not trusted with a whole buffer, are fetched in rounds.
    Pipelined,
}

/// The word is no mode.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("give blocking or pipelined")]
pub struct ParseModeError;

impl FromStr for Mode {
    type Err = ParseModeError;

    fn from_str(word: &str) -> Result<Self, ParseModeError> {
        match word {
            "blocking" => Ok(Self::Blocking),
            "pipelined" => Ok(Self::Pipelined),
            _ => Err(ParseModeError),
        }
    }
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Blocking => "blocking",
            Self::Pipelined => "pipelined",
        })
    }
}

/// How many entries an access list holds by default. An entry takes 8 bytes, so a full list takes 32 MiB. It
/// covers a buffer of 2 GiB of which each page is read eight times.
pub const LIST_LIMIT: usize = 4 << 20;

/// The smallest list that can be set: less than one floor-sized buffer could not fill a round.
pub const LIST_FLOOR: usize = 1024;

/// The largest list that can be set: 2 GiB of entries, for one pass over 1 TiB of pages.
pub const LIST_CEILING: usize = 1 << 28;

/// The default growth of a ramp for each used round: from 64 pages to 1 GiB in six rounds, while the first,
/// uncertain rounds are small.
pub const GROWTH: u32 = 4;

/// The gap that is read without a profile: one for which the firmware of today's disks may be faster. The
/// paper's 32 KB (ATC'09 section 3.3) helps older firmware more, but there gaps took no memory of the buffer.
pub const INFILL: Pages = Bytes::kib(8).pages_floor();

/// The longest run in one fetch. A stock kernel reads at most this much for one call of advice on the usual
/// block device (its `max_sectors_kb` of 1280) and drops the rest silently.
pub(crate) const FETCH_LIMIT: Pages = Bytes::kib(1280).pages_floor();

/// The settings of one client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// How much of the budget a round may take.
    pub share: Share,
    /// The largest budget; `None`: the system's.
    pub memory: Option<Pages>,
    /// The largest gap between two wanted pages that is cheaper to read than to skip; zero: none.
    pub infill: Pages,
    /// In which order a round is fetched.
    pub order: Order,
    /// Whether fetching goes on while the application reads.
    pub mode: Mode,
    /// The size of the first round of a client that is not sure of its list; each used round multiplies it by
    /// [`growth`](Self::growth). `None`: a full buffer at once, as in the paper.
    pub first_round: Option<Pages>,
    /// The growth of a ramp; at least 2.
    pub growth: u32,
    /// How many entries the access list holds; at least [`LIST_FLOOR`].
    pub list_limit: usize,
    /// Whether the pages of a round are advised a second time after they were requested, in the reverse order
    /// of their use (ATC'09 section 4.5). A kernel whose advice moves pages to the young end of its list then
    /// evicts those needed last first. On a stock kernel it only costs a call for each page.
    pub eviction_order: bool,
    /// Whether contention shrinks the buffer. Set to `false` only to show the effect (ATC'09 section 5.6).
    pub controlled: bool,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            share: Share::Stock,
            memory: None,
            infill: INFILL,
            order: Order::Disk,
            mode: Mode::Pipelined,
            first_round: None,
            growth: GROWTH,
            list_limit: LIST_LIMIT,
            eviction_order: false,
            controlled: true,
        }
    }
}

impl Settings {
    /// The paper's settings: 90 % of the memory, file order, blocking rounds, and an eviction order. Its infill
    /// is the kernel's, not the library's.
    #[must_use]
    pub fn paper() -> Self {
        let (share, order, mode) = (Share::Paper, Order::File, Mode::Blocking);
        Self { share, order, mode, infill: Pages::ZERO, eviction_order: true, ..Self::default() }
    }

    /// The same settings with every value within its bounds.
    #[must_use]
    pub(crate) fn bounded(mut self) -> Self {
        self.growth = self.growth.max(2);
        self.list_limit = self.list_limit.clamp(LIST_FLOOR, LIST_CEILING);
        self.first_round = self.first_round.map(|pages| pages.max(Pages(1)));
        // A longer gap could not be read within one fetch.
        self.infill = self.infill.min(FETCH_LIMIT - Pages(2));
        self
    }
}
