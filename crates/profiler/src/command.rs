//! The overhead of a command, and the rate between drive and host.
//!
//! A drive answers from its own buffer what it has read ahead. A page is read, then the drive gets no request
//! for some revolutions, then the smallest possible reads follow in sequence. Their response time is overhead
//! of drive, bus and host alone. A larger read from the buffer takes longer by its transfer over the bus.
//!
//! Limits: for a drive that does not read ahead, neither the overhead (it is part of each seek then) nor the
//! rate of the bus is found.

use super::estimate::statistics::median_time;
use super::session::Session;
use crate::Error;
use foreseek_units::{ByteOffset, ByteSpan, Bytes, Nanos, Rate};

/// How often the measurement is repeated.
const TRIALS: usize = 7;
/// Small reads in each repetition.
const SMALL_READS: u64 = 12;
/// The size of the large read: a fraction of the smallest buffer segments sold (256 KiB).
const LARGE: Bytes = Bytes::kib(128);
/// How long the drive may read ahead: long enough to fill 256 KiB at 20 MB/s.
const READ_AHEAD_TIME: Nanos = Nanos::from_millis(25);
/// A small read that takes a larger share of a revolution was not answered from the buffer.
const BUFFERED: f64 = 0.2;
/// The same where no rotation period is known: a millisecond is more than any command's overhead.
const BUFFERED_AT_MOST: Nanos = Nanos::from_millis(1);

/// The cost of commands.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct CommandCost {
    /// The overhead of each; zero where it cannot be separated from the access.
    pub(super) overhead: Nanos,
    /// The rate from drive to host, where it could be measured.
    pub(super) bus: Option<Rate>,
}

/// Measures both.
pub(super) fn measure(session: &mut Session<'_>, period: Option<Nanos>) -> Result<CommandCost, Error> {
    session.begin("command overhead", 0.02);
    let block = session.probe.block();
    let mut small = Vec::new();
    let mut large = Vec::new();
    for trial in 0..TRIALS {
        let start = session.anywhere(Bytes::mib(1));
        session.page(start)?;
        session.probe.pause(READ_AHEAD_TIME);
        let mut offset = start + super::offsets::PAGE;
        for _ in 0..SMALL_READS {
            small.push(session.probe.read(ByteSpan::at(offset, block))?.response());
            offset += block;
        }
        session.probe.pause(READ_AHEAD_TIME);
        let offset = ByteOffset(offset.get().next_multiple_of(super::offsets::PAGE.get()));
        large.push(session.probe.read(ByteSpan::at(offset, LARGE))?.response());
        session.at((trial + 1) as f64 / TRIALS as f64);
    }
    let limit = period.map_or(BUFFERED_AT_MOST, |period| period.scale(BUFFERED));
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
