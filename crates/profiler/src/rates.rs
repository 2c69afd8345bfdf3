//! The sequential rate along the device, and its zones.
//!
//! At each of 32 locations, from the first byte to the last, a piece is read in large requests. A few are in
//! flight at a time, so that neither delays of the host nor an array's members leave the device idle. Only
//! the time between the first and the last completion counts, without the seek to the piece. The locations
//! are visited in a scattered order, so that no piece has been read ahead.
//!
//! Source: TR-840 section 3 (f_transfer by location); the zones are runs of equal rate
//! ([`change_points`]).

use super::estimate::change_points;
use super::estimate::statistics::{MAD_TO_SIGMA, median};
use super::plan::LOCATIONS;
use super::session::Session;
use crate::Error;
use foreseek_units::{ByteOffset, ByteSpan, Bytes, Instant, Rate};

/// Request size: large enough to hide the overhead of a request behind its transfer, small enough that a
/// piece has enough completions for a line.
const REQUEST: Bytes = Bytes::kib(256);
/// Concurrency: 2 MiB in all, some stripes of an array and some tracks of a disk. As many completions at the
/// start of a piece do not count: until then, members of an array whose arms were nearer have read ahead, and
/// more arrives than can be sustained.
const AT_A_TIME: usize = 8;
/// The least and the most requests in a piece: enough for a line without the first ones, and no more than 64
/// MiB.
const COUNTS: (u64, u64) = (3 * AT_A_TIME as u64, 256);
/// The rate where none can be found.
const SLOWEST: Rate = Rate::bytes_per_second(1.0);
/// The step from one visited location to the next. It has no divisor in common with their number, so that
/// neighbours are visited far apart in time.
const STRIDE: usize = 13;
/// The least noise assumed for rates: pieces of some tracks end within a track, at an offset that depends on
/// the layout.
const NOISE_FLOOR: f64 = 0.004;

/// The rate at one location.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RateAt {
    /// The offset.
    pub offset: ByteOffset,
    /// The rate.
    pub rate: Rate,
}

/// A part of the device with one rate.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Zone {
    /// Its first byte; it ends where the next begins.
    pub start: ByteOffset,
    /// The rate in it.
    pub rate: Rate,
}

/// The rates along the device, and its zones.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Rates {
    pub(super) along: Vec<RateAt>,
    pub(super) zones: Vec<Zone>,
}

impl Rates {
    /// The rate at an offset.
    pub(super) fn at(&self, offset: ByteOffset) -> Rate {
        let after = self.zones.partition_point(|zone| zone.start <= offset);
        self.zones.get(after.saturating_sub(1)).map_or(SLOWEST, |zone| zone.rate)
    }
}

/// The rate of a piece, and those of its halves.
#[derive(Clone, Copy, Debug)]
struct Piece {
    whole: Rate,
    halves: (Rate, Rate),
}

/// Measures the rate at each location.
pub(super) fn measure(session: &mut Session<'_>) -> Result<Rates, Error> {
    session.begin("sequential rate", 0.12);
    let capacity = session.capacity();
    let most = (capacity / LOCATIONS as u64 / REQUEST).clamp(COUNTS.0, COUNTS.1);
    let last = capacity.pages_floor().bytes() - REQUEST * most;
    let offset =
        |location: usize| ByteOffset(last.get() / (LOCATIONS as u64 - 1) * location as u64).page().offset();
    let mut pieces = [Piece { whole: SLOWEST, halves: (SLOWEST, SLOWEST) }; LOCATIONS];
    let mut count = COUNTS.0;
    for visit in 0..LOCATIONS {
        let location = visit * STRIDE % LOCATIONS;
        pieces[location] = read_piece(session, offset(location), count)?;
        count = (pieces[location].whole.in_time(session.plan.piece) / REQUEST).clamp(COUNTS.0, most);
        session.at((visit + 1) as f64 / LOCATIONS as f64);
    }
    let along = |(location, piece): (usize, &Piece)| RateAt { offset: offset(location), rate: piece.whole };
    let along: Vec<RateAt> = pieces.iter().enumerate().map(along).collect();
    let zones = zones(&along, noise(&pieces));
    Ok(Rates { along, zones })
}

/// Reads a piece in sequence.
fn read_piece(session: &mut Session<'_>, start: ByteOffset, count: u64) -> Result<Piece, Error> {
    let request = |index: u64| ByteSpan::at(ByteOffset(start.get() + index * REQUEST.get()), REQUEST);
    let requests: Vec<ByteSpan> = (0..count).map(request).collect();
    let times = session.probe.read_all(&requests, AT_A_TIME)?;
    let mut finished: Vec<_> = times.iter().map(|time| time.finished).collect();
    finished.sort_unstable();
    let finished = &finished[AT_A_TIME.min(finished.len() / 2)..];
    let (first, second) = finished.split_at(finished.len() / 2);
    Ok(Piece { whole: slope(finished), halves: (slope(first), slope(second)) })
}

/// The rate of completions of whole requests, from the least-squares line through all of them. One late
/// completion, or a piece that ends within a track, changes it little.
fn slope(finished: &[Instant]) -> Rate {
    let Some(&first) = finished.first() else { return SLOWEST };
    let count = finished.len() as f64;
    let times: Vec<f64> = finished.iter().map(|at| (*at - first).as_secs_f64()).collect();
    let (middle, mean) = ((count - 1.0) / 2.0, times.iter().sum::<f64>() / count);
    let (mut together, mut alone) = (0.0, 0.0);
    for (at, time) in times.iter().enumerate() {
        together += (at as f64 - middle) * (time - mean);
        alone += (at as f64 - middle).powi(2);
    }
    let each = (together / alone).max(1e-9);
    if each.is_finite() { Rate::bytes_per_second(REQUEST.get() as f64 / each) } else { SLOWEST }
}

/// The relative noise of a piece's rate, from the difference between its halves.
fn noise(pieces: &[Piece]) -> f64 {
    let log = |rate: Rate| rate.as_bytes_per_second().ln();
    let difference = |piece: &Piece| (log(piece.halves.0) - log(piece.halves.1)).abs();
    let differences: Vec<f64> = pieces.iter().map(difference).collect();
    // The variance of a slope falls with the third power of the number of points: for half of them it is
    // eight times as large, for a difference of two such slopes sixteen times.
    (median(&differences) * MAD_TO_SIGMA / 4.0).max(NOISE_FLOOR)
}

/// Runs of locations with one rate; a zone begins midway between two locations.
fn zones(along: &[RateAt], sigma: f64) -> Vec<Zone> {
    let logs: Vec<f64> = along.iter().map(|at| at.rate.as_bytes_per_second().ln()).collect();
    let zone = |run: std::ops::Range<usize>| {
        let rates: Vec<f64> = along[run.clone()].iter().map(|at| at.rate.as_bytes_per_second()).collect();
        let start = match run.start.checked_sub(1) {
            None => ByteOffset::ZERO,
            Some(before) => ByteOffset((along[before].offset.get() + along[run.start].offset.get()) / 2),
        };
        Zone { start, rate: Rate::bytes_per_second(median(&rates)) }
    };
    change_points::runs(&logs, sigma).into_iter().map(zone).collect()
}
