//! What a command costs beside the access: its overhead, and the rate between drive and host.
//!
//! The drive answers from its own buffer where it has read ahead: a page is read, the drive is left
//! alone for some turns, then the smallest reads that it takes follow in sequence. What they take is
//! overhead of drive, bus and host alone. A larger read of what was read ahead takes longer by its
//! time on the bus.
//!
//! Limits: a drive that does not read ahead shows no overhead here (it is part of each seek then)
//! and no rate of the bus.

use super::estimate::statistics::median_time;
use super::session::Session;
use crate::Error;
use foreseek_units::{ByteOffset, ByteSpan, Bytes, Nanos, Rate};

/// How often the experiment is made.
const TRIALS: usize = 7;
/// Small reads in each.
const SMALL_READS: u64 = 12;
/// The large read: a fraction of the smallest segments sold (256 KiB).
const LARGE: Bytes = Bytes::kib(128);
/// For how long the drive may read ahead: long enough to fill 256 KiB at 20 MB/s.
const LEISURE: Nanos = Nanos::from_millis(25);
/// A small read that takes more than this share of a revolution was not answered from the buffer.
const BUFFERED: f64 = 0.2;
/// Where no turn is known to compare with: a millisecond is more than any command's overhead.
const BUFFERED_AT_MOST: Nanos = Nanos::from_millis(1);

/// What commands cost.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct CommandCost {
    /// Each; zero where it could not be told from the access.
    pub(super) overhead: Nanos,
    /// From drive to host, where it could be measured.
    pub(super) bus: Option<Rate>,
}

/// Measures both.
pub(super) fn measure(session: &mut Session<'_>, turn: Option<Nanos>) -> Result<CommandCost, Error> {
    session.begin("command overhead", 0.02);
    let block = session.probe.block();
    let mut small = Vec::new();
    let mut large = Vec::new();
    for trial in 0..TRIALS {
        let start = session.anywhere(Bytes::mib(1));
        session.page(start)?;
        session.probe.pause(LEISURE);
        let mut offset = start + super::places::PAGE;
        for _ in 0..SMALL_READS {
            small.push(session.probe.read(ByteSpan::at(offset, block))?.response());
            offset += block;
        }
        session.probe.pause(LEISURE);
        let offset = ByteOffset(offset.get().next_multiple_of(super::places::PAGE.get()));
        large.push(session.probe.read(ByteSpan::at(offset, LARGE))?.response());
        session.at((trial + 1) as f64 / TRIALS as f64);
    }
    let limit = turn.map_or(BUFFERED_AT_MOST, |turn| turn.scale(BUFFERED));
    let (small, large) = (median_time(&small), median_time(&large));
    if small > limit {
        return Ok(CommandCost { overhead: Nanos::ZERO, bus: None });
    }
    let on_the_bus = (large - small).max(Nanos(1));
    let rate = Rate::bytes_per_second((LARGE - block).get() as f64 / on_the_bus.as_secs_f64());
    let buffered = large <= limit * 2 && on_the_bus > small / 20;
    let bus = buffered.then_some(rate);
    let overhead = small - bus.map_or(Nanos::ZERO, |bus| bus.time_for(block));
    Ok(CommandCost { overhead, bus })
}
