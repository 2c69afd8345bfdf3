//! What is measured over every policy: a benchmark at a concurrency under an I/O scheduler, or an overhead.

use foreseek_rig::queue::Scheduler;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// A microbenchmark of TR-840 section 5.1, by the simulator's name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Benchmark {
    /// One file, all of it.
    OneWhole0,
    /// One file, a random part from its start, with pauses.
    OneRand10,
    /// Two files in turn, a random part of each.
    TwoRand0,
    /// A random block of 64 KiB of each of four files: nothing to prefetch.
    Four64Kb0,
}

/// A point of the sweep.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Point {
    /// The benchmark.
    pub benchmark: Benchmark,
    /// The I/O scheduler of the disk.
    pub scheduler: Scheduler,
    /// Concurrent requests.
    pub concurrency: u32,
}

/// See the module's documentation. Written `two-rand-0@16/mq-deadline`, `hot`, `cold`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub enum Cell {
    /// A microbenchmark.
    Micro(Point),
    /// Sequential reads of what is in memory, 64 KiB at a time by one reader.
    Hot,
    /// Random reads of 4 KiB that are not in memory, by one reader, from a disk without delays.
    Cold,
}

/// Concurrent requests: each level four times the one before.
pub const CONCURRENCY: [u32; 5] = [1, 4, 16, 64, 256];

/// From here on there are many streams: a quarter of the papers' gain appears at about ten (TR-840 figure 5).
pub const MANY: u32 = 16;

/// The most concurrent readers: each is a thread.
pub const CONCURRENCY_LIMIT: u32 = 1024;

/// The level at which bfq is measured in the core: with many streams, none of which waits for its time slice.
const CORE_BFQ: u32 = 16;

impl Benchmark {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::OneWhole0, Self::OneRand10, Self::TwoRand0, Self::Four64Kb0];

    /// The simulator's name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::OneWhole0 => "one-whole-0",
            Self::OneRand10 => "one-rand-10",
            Self::TwoRand0 => "two-rand-0",
            Self::Four64Kb0 => "four-64kb-0",
        }
    }

    /// Whether there is nothing to prefetch.
    #[must_use]
    pub const fn is_random(self) -> bool {
        matches!(self, Self::Four64Kb0)
    }
}

impl Cell {
    /// The default set: every benchmark and level under mq-deadline and one level under bfq, 24 in all, and
    /// both overheads.
    #[must_use]
    pub fn core() -> Vec<Self> {
        Self::of(|scheduler, concurrency| scheduler == Scheduler::MqDeadline || concurrency == CORE_BFQ)
    }

    /// The whole matrix.
    #[must_use]
    pub fn full() -> Vec<Self> {
        Self::of(|_, _| true)
    }

    fn of(wanted: impl Fn(Scheduler, u32) -> bool) -> Vec<Self> {
        let mut cells = Vec::new();
        for scheduler in Scheduler::ALL {
            for benchmark in Benchmark::ALL {
                let levels = CONCURRENCY.into_iter().filter(|level| wanted(scheduler, *level));
                cells.extend(
                    levels.map(|concurrency| Self::Micro(Point { benchmark, scheduler, concurrency })),
                );
            }
        }
        cells.extend([Self::Hot, Self::Cold]);
        cells
    }

    /// The point of the sweep, if it is one.
    #[must_use]
    pub const fn point(self) -> Option<Point> {
        match self {
            Self::Micro(point) => Some(point),
            Self::Hot | Self::Cold => None,
        }
    }

    /// The I/O scheduler of the disk.
    #[must_use]
    pub const fn scheduler(self) -> Scheduler {
        match self {
            Self::Micro(point) => point.scheduler,
            Self::Hot | Self::Cold => Scheduler::MqDeadline,
        }
    }

    /// By how much the measurement is longer than with one reader: once more for every 256 times as many. Many
    /// streams take longer to get past their beginnings and to fill the memory.
    #[must_use]
    pub fn weight(self) -> f64 {
        self.point().map_or(1.0, |point| 1.0 + f64::from(point.concurrency).log(256.0))
    }
}

impl fmt::Display for Cell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Micro(Point { benchmark, scheduler, concurrency }) => {
                write!(f, "{}@{concurrency}/{}", benchmark.name(), scheduler.name())
            }
            Self::Hot => f.write_str("hot"),
            Self::Cold => f.write_str("cold"),
        }
    }
}

impl FromStr for Cell {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let micro = || {
            let (benchmark, place) = text.split_once('@')?;
            let (concurrency, scheduler) = place.split_once('/').unwrap_or((place, "mq-deadline"));
            let benchmark = Benchmark::ALL.into_iter().find(|known| known.name() == benchmark)?;
            let scheduler = scheduler.parse().ok()?;
            let concurrency: u32 = concurrency.parse().ok()?;
            (1..=CONCURRENCY_LIMIT).contains(&concurrency).then_some(Self::Micro(Point {
                benchmark,
                scheduler,
                concurrency,
            }))
        };
        match text {
            "hot" => Ok(Self::Hot),
            "cold" => Ok(Self::Cold),
            _ => micro().ok_or_else(|| {
                let benchmarks = Benchmark::ALL.map(Benchmark::name).join(", ");
                format!(
                    "'{text}' is no cell: give hot, cold or BENCHMARK@CONCURRENCY[/SCHEDULER] with one of \
                     {benchmarks}, 1 to {CONCURRENCY_LIMIT}, mq-deadline or bfq"
                )
            }),
        }
    }
}

impl From<Cell> for String {
    fn from(cell: Cell) -> Self {
        cell.to_string()
    }
}

impl TryFrom<String> for Cell {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_are_written_and_read() {
        let cells = Cell::full();
        assert_eq!((Cell::core().len(), cells.len()), (26, 42));
        for cell in cells {
            assert_eq!(cell.to_string().parse(), Ok(cell));
        }
        assert_eq!("two-rand-0@4".parse::<Cell>().map(Cell::scheduler), Ok(Scheduler::MqDeadline));
    }

    #[test]
    fn what_is_no_cell_is_refused_with_what_is() {
        for text in ["", "two-rand-0", "two-rand-0@0", "two-rand-0@9999", "a@1", "two-rand-0@1/cfq", "@"] {
            let error = text.parse::<Cell>().expect_err(text);
            assert!(error.contains(&format!("'{text}'")) && error.contains("bfq"), "{error}");
        }
    }

    #[test]
    fn many_streams_are_measured_for_longer() {
        let weight = |text: &str| text.parse::<Cell>().expect("a cell").weight();
        assert_eq!((weight("hot"), weight("one-whole-0@1")), (1.0, 1.0));
        assert!(
            (weight("one-whole-0@16") - 1.5).abs() < 1e-9 && (weight("one-whole-0@256") - 2.0).abs() < 1e-9
        );
    }
}
