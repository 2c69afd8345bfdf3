//! Seek time against distance, forward and backward.
//!
//! There are 64 distances, evenly spaced on a logarithmic scale, up to the whole device. The response time of
//! a read at a distance from the previous one is overhead, seek, rotational delay and transfer, and the
//! rotational delay is anything up to a revolution. The reads of one distance are therefore spread evenly
//! over the *phases* of the rotation. Pages are read alternately in two neighbourhoods that lie the distance
//! apart; in one of them, each page lies a fraction of a track further down than in the other. The rotational
//! delays are then evenly spaced over a revolution, and their median is half a revolution, whatever the first
//! phase. Each read is one sample: forward to the upper neighbourhood, backward to the lower one. In both,
//! offsets descend, against the direction of read-ahead.
//!
//! Short distances (a few tracks) cannot be spread in this way. For them, single pairs at random offsets are
//! read; their medians are shown but are not part of the seek curve. ATC'09 section 3.1 shows them too.
//!
//! Source: ATC'09 section 3.1 (direct I/O, repeated reads a distance apart, both directions). The even spread
//! over phases, in place of hundreds of repetitions, is this project's.

use super::estimate::statistics::median_time;
use super::offsets::{PAGE, whole_pages};
use super::plan::DISTANCES;
use super::rotation::Platter;
use super::session::Session;
use crate::Error;
use foreseek_units::{ByteOffset, ByteSpan, Bytes, Nanos};

/// The shortest distance: a few pages, well within a track.
const SHORTEST: Bytes = Bytes::kib(16);
/// The longest, as a share of the device: the rest is room for different offsets.
const LONGEST: f64 = 0.985;
/// From this part of the device on, distances are long: 94 % of random pairs of offsets lie further apart.
const LONG: u64 = 32;
/// Below this many tracks, distances are measured by single pairs.
const SPREAD_FROM_TRACKS: u64 = 4;
/// A read of this length reaches every member of an array: stripes of common arrays are shorter.
pub(super) const ALL_MEMBERS: Bytes = Bytes::mib(1);
/// Of an array, one in this many distances is measured: each takes an additional large read.
const ARRAY_STEP: usize = 3;
/// By how far the pages of the first neighbourhood descend: beyond the page itself, so that none has been
/// read ahead by the drive before the next command arrived.
const DESCENT: Bytes = Bytes::kib(16);

/// The cost of a distance.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SeekPoint {
    /// From the end of the previous read to the start of this one, in bytes of the address space.
    pub distance: Bytes,
    /// The median response time of a read at the higher offset.
    pub forward: Nanos,
    /// The median response time of a read at the lower offset.
    pub backward: Nanos,
    /// The number of samples in both directions.
    pub samples: usize,
    /// Whether the rotational delays of its reads are spread evenly over a revolution.
    pub even: bool,
}

/// The samples of one distance.
#[derive(Clone, Debug, Default)]
struct Samples {
    distance: Bytes,
    even: bool,
    forward: Vec<Nanos>,
    backward: Vec<Nanos>,
}

/// Measures distances on an array. Before each read, a large one at the other offset moves the arms of all
/// members there. The rotational delays are not spread; more reads make up for that.
pub(super) fn measure_array(session: &mut Session<'_>, platter: &Platter) -> Result<Vec<SeekPoint>, Error> {
    session.begin("seek time", 0.3);
    let mut all = distances(session.capacity(), platter);
    for samples in &mut all {
        samples.even = samples.distance >= ALL_MEMBERS * SPREAD_FROM_TRACKS;
    }
    let rounds = session.plan.rounds;
    for round in 0..rounds {
        if round > 0 && session.elapsed() >= session.plan.seeks_until {
            break;
        }
        for at in (0..DISTANCES).step_by(ARRAY_STEP) {
            pairs(session, &mut all[at], ALL_MEMBERS)?;
        }
        session.at((round + 1) as f64 / rounds as f64);
    }
    Ok(points(all))
}

fn points(all: Vec<Samples>) -> Vec<SeekPoint> {
    let measured = |samples: &Samples| !samples.forward.is_empty() && !samples.backward.is_empty();
    all.into_iter().filter(measured).map(Samples::point).collect()
}

/// Measures all distances.
pub(super) fn measure(session: &mut Session<'_>, platter: &Platter) -> Result<Vec<SeekPoint>, Error> {
    session.begin("seek time", 0.5);
    let mut all = distances(session.capacity(), platter);
    let long = session.capacity() / LONG;
    let (rounds, long_rounds) = (session.plan.rounds, session.plan.long_rounds);
    let reads = |round: usize, distance: Bytes| round < rounds || (round < long_rounds && distance >= long);
    for round in 0..rounds.max(long_rounds) {
        if round > 0 && session.elapsed() >= session.plan.seeks_until {
            break;
        }
        for samples in all.iter_mut().filter(|samples| reads(round, samples.distance)) {
            if session.is_late() {
                break;
            }
            if samples.even { spread(session, platter, samples)? } else { pairs(session, samples, PAGE)? }
        }
        session.at((round + 1) as f64 / rounds.max(long_rounds) as f64);
    }
    Ok(points(all))
}

impl Samples {
    fn point(self) -> SeekPoint {
        SeekPoint {
            distance: self.distance,
            forward: median_time(&self.forward),
            backward: median_time(&self.backward),
            samples: self.forward.len() + self.backward.len(),
            even: self.even,
        }
    }
}

/// The distances, evenly spaced on a logarithmic scale.
fn distances(capacity: Bytes, platter: &Platter) -> Vec<Samples> {
    let track = platter.track_at(ByteOffset(capacity.get() / 2));
    let longest = capacity.get() as f64 * LONGEST;
    let factor = (longest / SHORTEST.get() as f64).powf(1.0 / (DISTANCES - 1) as f64);
    let distance = |at: usize| whole_pages(SHORTEST.get() as f64 * factor.powi(at as i32));
    let even = |distance: Bytes| distance >= track * SPREAD_FROM_TRACKS;
    (0..DISTANCES)
        .map(distance)
        .map(|distance| Samples { distance, even: even(distance), ..Samples::default() })
        .collect()
}

/// Reads alternately in two neighbourhoods, spread over the phases of the rotation.
fn spread(session: &mut Session<'_>, platter: &Platter, samples: &mut Samples) -> Result<(), Error> {
    let phases = session.plan.phases as u64;
    let capacity = session.capacity();
    // Tracks may be smaller in the upper neighbourhood: it has a step of its own.
    let room = (platter.track_at(ByteOffset::ZERO) + DESCENT * phases) * 2;
    let highest = capacity.saturating_sub(samples.distance + PAGE);
    let low = session.offsets.evenly(Bytes(room.get().min(highest.get())), highest);
    let high = low + samples.distance;
    let step = whole_pages(platter.track_at(high).get() as f64 / phases as f64) + DESCENT;
    for phase in 0..=phases {
        let back = session.page(low - DESCENT * phase)?;
        if phase > 0 {
            samples.backward.push(back.response());
        }
        if phase < phases {
            samples.forward.push(session.page(high - step * phase)?.response());
        }
    }
    Ok(())
}

/// Reads single pairs at random offsets: the first read, of `first` bytes, moves the arm there, and the
/// second is the sample.
fn pairs(session: &mut Session<'_>, samples: &mut Samples, first: Bytes) -> Result<(), Error> {
    let between = samples.distance + first;
    for _ in 0..session.plan.phases.div_ceil(2) {
        let low = session.anywhere(between + first);
        session.probe.read(ByteSpan::at(low, first))?;
        samples.forward.push(session.page(low + between)?.response());
        let low = session.anywhere(between + first);
        session.probe.read(ByteSpan::at(low + between, first))?;
        samples.backward.push(session.page(low)?.response());
    }
    Ok(())
}
