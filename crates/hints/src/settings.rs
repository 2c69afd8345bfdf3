//! What a client may choose about application-directed prefetching.

use foreseek_units::{Bytes, Pages};
use std::fmt;
use std::str::FromStr;

/// How much of the budget a round may take (ATC'09 section 4.6).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Share {
    /// The paper's 90 %. It holds where the kernel moves advised pages to the young end of its
    /// lists, as the authors' patched one did; the simulator's modelled kernel can.
    Paper,
    /// 60 %. A stock kernel's `WILLNEED` leaves resident pages where they are; a buffer above about
    /// 64 % of the memory was seen to collapse there, pages of the round dropping out before they
    /// were read.
    Stock,
    /// 60 % to begin with, the paper's 90 % once a round of that was read and next to nothing of it
    /// was lost, and from there up to 95 %. This engine gives back before it fetches, and did not meet
    /// that collapse: of 200 MB read at random under a limit of 100 MB or 40 MB on Linux 6.18, at
    /// most one page a run was evicted at shares from 60 to 90 %, one to three at 95 % and three to
    /// six at 100 %. Of SQLite's scan of 101 MiB under 50 MiB the kernel had to reclaim nothing at
    /// 95 %; at 100 % the process's own needs of the moment made it reclaim batch after batch, and
    /// the scan took a half longer. To begin with 90 % is too much as well: a process that has only
    /// begun goes on growing, and the first round was lost.
    Probing,
    /// Another part, in per cent; at most 100 counts.
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

    /// The fraction to which the first round that was consumed raises it; `None`: it grows step by
    /// step from the first.
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

/// What is no share.
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

/// In which order a round is fetched.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Order {
    /// By place on the device, across files, where the layout is known; the rest by file and offset.
    Disk,
    /// By file and offset (the paper's way).
    File,
}

/// Whether fetching goes on while the application reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Mode {
    /// The paper's way (ATC'09 section 4.5): a round fills the buffer while the application waits.
    Blocking,
    /// A list longer than a buffer is fetched in one endless pass, a little at each read. Shorter ones,
    /// and those that are not trusted with a whole buffer, in rounds.
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

/// How many entries an access list holds unless told otherwise. An entry takes 8 bytes, so a full
/// list takes 32 MiB; it covers a buffer of 2 GiB when each page of it is read eight times.
pub const LIST_LIMIT: usize = 4 << 20;

/// The smallest list that may be asked for: less than one floor-sized buffer could not feed a round.
pub const LIST_FLOOR: usize = 1024;

/// The largest list that may be asked for: 2 GiB of entries, for one pass over 1 TiB of pages.
pub const LIST_CEILING: usize = 1 << 28;

/// The growth of a ramp, per round that was used, unless told otherwise: from 64 pages to 1 GiB in
/// six rounds, while the first, doubtful rounds stay cheap.
pub const GROWTH: u32 = 4;

/// The gap that is read where no profile tells: what the firmware of today's disks may gain by. The
/// paper's 32 KB (ATC'09 section 3.3) helps an older firmware more, but its gaps took no memory of
/// the buffer.
pub const INFILL: Pages = Bytes::kib(8).pages_floor();

/// The longest run in one fetch. A stock kernel reads at most this much for one call of advice on
/// the usual block device (its `max_sectors_kb` of 1280) and drops the rest without a word.
pub(crate) const FETCH_LIMIT: Pages = Bytes::kib(1280).pages_floor();

/// The choices of one client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// How much of the budget a round may take.
    pub share: Share,
    /// At most this much budget, whatever the system has; `None`: what the system has.
    pub memory: Option<Pages>,
    /// The largest gap between two wanted pages that is cheaper read than skipped; zero: none.
    pub infill: Pages,
    /// In which order a round is fetched.
    pub order: Order,
    /// Whether fetching goes on while the application reads.
    pub mode: Mode,
    /// A client that is not sure of its list starts with a round this large, and multiplies it by
    /// [`growth`](Self::growth) with each round that was used. `None`: a full buffer at once, as
    /// the paper does.
    pub first_round: Option<Pages>,
    /// By what a ramp grows; at least 2.
    pub growth: u32,
    /// How many entries the access list holds; at least [`LIST_FLOOR`].
    pub list_limit: usize,
    /// Whether the pages of a round are advised once more after it was asked for, those needed last first (ATC'09 section
    /// 4.5). A kernel whose advice moves pages to the young end of its list then evicts those first; with a
    /// stock kernel it is a call for each page and nothing else.
    pub eviction_order: bool,
    /// Whether contention makes the buffer smaller. Without it only to show what it is good for (ATC'09 section 5.6).
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
    /// The paper's own way: 90 % of the memory, file order, the application waiting for each round, and an order in which
    /// its pages are to be evicted. Its infill is the kernel's, not the library's.
    #[must_use]
    pub fn paper() -> Self {
        let (share, order, mode) = (Share::Paper, Order::File, Mode::Blocking);
        Self { share, order, mode, infill: Pages::ZERO, eviction_order: true, ..Self::default() }
    }

    /// The same with every value within its bounds.
    #[must_use]
    pub(crate) fn bounded(mut self) -> Self {
        self.growth = self.growth.max(2);
        self.list_limit = self.list_limit.clamp(LIST_FLOOR, LIST_CEILING);
        self.first_round = self.first_round.map(|pages| pages.max(Pages(1)));
        // A gap longer than what is left of one fetch could not be read over.
        self.infill = self.infill.min(FETCH_LIMIT - Pages(2));
        self
    }
}
