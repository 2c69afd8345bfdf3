//! Replays a measured trace on a device: a closed loop, each request arriving its gap after the
//! completion of the one before.

use super::trace::Measured;
use foreseek_device::{Device, Io, IoId, Outcome};
use foreseek_units::{Instant, Nanos, Sectors};

/// The response times of a trace on a device.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Replay {
    /// The response time of each request, in order of the trace.
    pub responses: Vec<Nanos>,
}

/// Why a trace cannot be replayed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ReplayError {
    /// A request outside the device.
    #[error(
        "request {number} asks for blocks {start}..{end}, the device has {capacity}: is the trace of another drive?"
    )]
    Beyond {
        /// Which request, counted from one.
        number: usize,
        /// The block after its last.
        start: u64,
        /// Past its last.
        end: u64,
        /// The device's capacity in blocks.
        capacity: u64,
    },
    /// A request that the device did not finish.
    #[error("request {number} was not finished by the device: it failed, or its queue holds nothing")]
    Unfinished {
        /// Which request, counted from one.
        number: usize,
    },
}

/// Replays `trace` on `device`, which should be a new one.
///
/// # Errors
/// A request that is outside the device, or that the device does not finish.
pub fn replay(device: &mut dyn Device, trace: &[Measured]) -> Result<Replay, ReplayError> {
    let Sectors(capacity) = device.capacity();
    let mut responses = Vec::with_capacity(trace.len());
    let mut done = Vec::with_capacity(1);
    let mut now = Instant::ZERO;
    for (at, request) in trace.iter().enumerate() {
        let number = at + 1;
        let range = request.range;
        if range.end.get() > capacity {
            let (start, end) = (range.start.get(), range.end.get());
            return Err(ReplayError::Beyond { number, start, end, capacity });
        }
        let arrival = now + request.gap;
        device.advance(arrival, &mut done);
        let io = Io { id: IoId(number as u64), op: request.op, range };
        device.submit(arrival, io).map_err(|_| ReplayError::Unfinished { number })?;
        let finished = loop {
            if let Some(finished) = done.pop() {
                break finished;
            }
            let next = device.next().ok_or(ReplayError::Unfinished { number })?;
            device.advance(next, &mut done);
        };
        if finished.outcome == Outcome::Failed {
            return Err(ReplayError::Unfinished { number });
        }
        now = finished.at;
        responses.push(now - arrival);
    }
    Ok(Replay { responses })
}
