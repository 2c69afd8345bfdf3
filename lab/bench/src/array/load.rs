//! The read patterns of a block device.

use crate::{Error, Result};
use foreseek_rig::Interrupt;
use foreseek_units::Bytes;
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::str::FromStr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// The block size of tiobench and IOzone in ATC'08.
const BLOCK: Bytes = Bytes::kib(4);
/// A stride reads each third block: the paper's smallest distance but one.
const DISTANCE: u64 = 3;
/// How often an interrupt is checked for.
const LOOK: Duration = Duration::from_millis(50);

/// A pattern and how many readers it has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct Load {
    pattern: Pattern,
    readers: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Pattern {
    Sequential,
    Reverse,
    Stride,
    Random,
}

impl Pattern {
    const ALL: [Self; 4] = [Self::Sequential, Self::Reverse, Self::Stride, Self::Random];

    const fn name(self) -> &'static str {
        match self {
            Self::Sequential => "sequential",
            Self::Reverse => "reverse",
            Self::Stride => "stride",
            Self::Random => "random",
        }
    }

    /// The `n`-th block of a reader that has this many; none where it has read all.
    fn block(self, n: u64, blocks: u64, random: &mut Pcg64) -> Option<u64> {
        if n >= blocks {
            return None;
        }
        Some(match self {
            Self::Sequential => n,
            Self::Reverse => blocks - 1 - n,
            Self::Stride => {
                // The blocks with the same remainder, from the lowest remainder on.
                let row = |remainder: u64| (blocks - remainder).div_ceil(DISTANCE);
                let (mut n, mut remainder) = (n, 0);
                while n >= row(remainder) {
                    n -= row(remainder);
                    remainder += 1;
                }
                n * DISTANCE + remainder
            }
            Self::Random => random.random_range(0..blocks),
        })
    }
}

impl Load {
    /// The loads that are measured by default.
    #[must_use]
    pub fn all() -> Vec<Self> {
        let load = |pattern, readers| Self { pattern, readers };
        let mut all: Vec<_> = [1, 4, 16].map(|readers| load(Pattern::Sequential, readers)).into();
        all.extend([1, 4, 16].map(|readers| load(Pattern::Reverse, readers)));
        all.extend([load(Pattern::Stride, 1), load(Pattern::Random, 1), load(Pattern::Random, 16)]);
        all
    }

    pub(super) const fn is_random(self) -> bool {
        matches!(self.pattern, Pattern::Random)
    }

    /// Reads a device of this size for `time`, or until each reader has read its part; returns the bytes
    /// read and the time that took.
    pub(super) fn read(
        self,
        device: &Path,
        size: Bytes,
        time: Duration,
        seed: u64,
        interrupt: &Interrupt,
    ) -> Result<(Bytes, Duration)> {
        let cannot = |error| Error::io("cannot read", device.display(), error);
        let blocks = size.get() / BLOCK.get() / u64::from(self.readers);
        let (over, read) = (AtomicBool::new(false), AtomicU64::new(0));
        let reader = |number: u32| {
            let file = File::open(device).map_err(cannot)?;
            let mut block = [0; BLOCK.get() as usize];
            let mut random = Pcg64::seed_from_u64(seed << 16 | u64::from(number));
            let mut n = 0;
            while !over.load(Ordering::Relaxed)
                && let Some(at) = self.pattern.block(n, blocks, &mut random)
            {
                let at = (u64::from(number) * blocks + at) * BLOCK.get();
                file.read_exact_at(&mut block, at).map_err(cannot)?;
                n += 1;
            }
            read.fetch_add(n * BLOCK.get(), Ordering::Relaxed);
            Ok(())
        };
        let start = Instant::now();
        std::thread::scope(|scope| {
            let readers: Vec<_> =
                (0..self.readers).map(|number| scope.spawn(move || reader(number))).collect();
            let mut told = Ok(());
            while told.is_ok() && start.elapsed() < time && !readers.iter().all(|reader| reader.is_finished())
            {
                told = interrupt.check();
                std::thread::sleep(LOOK.min(time.saturating_sub(start.elapsed())));
            }
            over.store(true, Ordering::Relaxed);
            let ended = readers.into_iter().map(|reader| reader.join().unwrap_or(Ok(())));
            ended.collect::<Result<Vec<()>>>()?;
            told?;
            Ok((Bytes(read.load(Ordering::Relaxed)), start.elapsed()))
        })
    }
}

impl fmt::Display for Load {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&format!("{}-{}", self.pattern.name(), self.readers))
    }
}

impl FromStr for Load {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self> {
        let parsed = name.rsplit_once('-').and_then(|(pattern, readers)| {
            let pattern = Pattern::ALL.into_iter().find(|known| known.name() == pattern)?;
            let readers = readers.parse().ok().filter(|readers| (1..=256).contains(readers))?;
            Some(Self { pattern, readers })
        });
        parsed.ok_or_else(|| Error::Option {
            what: format!(
                "'{name}' is not a load: give sequential, reverse, stride or random, '-', and 1 to 256 readers, such as reverse-16"
            ),
        })
    }
}

impl From<Load> for String {
    fn from(load: Load) -> Self {
        load.to_string()
    }
}

impl TryFrom<String> for Load {
    type Error = Error;

    fn try_from(name: String) -> Result<Self> {
        name.parse()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn a_pattern_reads_each_block_once() {
        let mut random = Pcg64::seed_from_u64(1);
        for pattern in [Pattern::Sequential, Pattern::Reverse, Pattern::Stride] {
            for blocks in [1, 2, 3, 100] {
                let read: Vec<u64> = (0..).map_while(|n| pattern.block(n, blocks, &mut random)).collect();
                assert_eq!(read.iter().collect::<BTreeSet<_>>().len() as u64, blocks, "{}", pattern.name());
                assert_eq!(read.len() as u64, blocks);
            }
        }
        let stride: Vec<_> = (0..5).filter_map(|n| Pattern::Stride.block(n, 7, &mut random)).collect();
        assert_eq!(stride, [0, 3, 6, 1, 4]);
    }

    #[test]
    fn a_load_is_read_as_written() {
        for load in Load::all() {
            assert_eq!(load.to_string().parse::<Load>().expect("its own name"), load);
        }
        for name in ["", "reverse", "reverse-0", "backwards-1", "random-1000"] {
            assert!(name.parse::<Load>().expect_err(name).to_string().contains("reverse-16"));
        }
    }
}
