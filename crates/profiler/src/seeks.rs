//! Seek time against distance, forward and backward.
//!
//! 64 distances, evenly apart on a logarithmic scale, up to the whole device. The answer to a read
//! at a distance from the read before is overhead, seek, wait for the platter and transfer; the
//! wait is anything up to a revolution. So the reads of one distance are spread evenly over the *phases*
//! of the platter: of two neighbourhoods that lie the distance apart, pages are read in turn, and in
//! one of them each page lies a share of a track further down than in the other. The waits of those
//! reads are then as many even parts of a revolution, and their median is half a revolution whatever the phase
//! was. Each read is one sample: there forward, back backward. Within both neighbourhoods places
//! descend, against the direction of read-ahead.
//!
//! Short distances (a few tracks) cannot be spread so: there single pairs at random places are read,
//! and their medians are shown but are no part of the seek curve. ATC'09 section 3.1 shows them too.
//!
//! Source: ATC'09 section 3.1 (direct I/O, repeated reads a distance apart, both directions); the
//! even spread over phases is ours, in place of hundreds of repetitions.

use super::estimate::statistics::median_time;
use super::places::{PAGE, whole_pages};
use super::plan::DISTANCES;
use super::session::Session;
use super::turns::Platter;
use crate::Error;
use foreseek_units::{ByteOffset, ByteSpan, Bytes, Nanos};

/// The shortest distance: a few pages, well within a track.
const SHORTEST: Bytes = Bytes::kib(16);
/// The longest, as a share of the device: what is left is room for different places.
const LONGEST: f64 = 0.985;
/// From this part of the device on, distances are long: of random pairs of places 94 % lie further
/// apart.
const LONG: u64 = 32;
/// Below so many tracks, distances are measured by single pairs.
const SPREAD_FROM_TRACKS: u64 = 4;
/// A read of this length has a part on every member of an array: rows of common arrays are shorter.
pub(super) const ALL_MEMBERS: Bytes = Bytes::mib(1);
/// Of arrays every so manyth distance is measured: each takes a large read more.
const ARRAY_STEP: usize = 3;
/// By how far the pages of the first neighbourhood descend: beyond the page itself, so that none
/// lies in what a drive reads ahead while the next command is on its way.
const DESCENT: Bytes = Bytes::kib(16);

/// What a distance costs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SeekPoint {
    /// From the end of the read before to the start of this one, in bytes of the address space.
    pub distance: Bytes,
    /// Median answer to a read that much further on.
    pub forward: Nanos,
    /// Median answer to a read that much further back.
    pub backward: Nanos,
    /// How many samples in both directions.
    pub samples: usize,
    /// Whether the waits of its reads are spread evenly over a revolution.
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

/// Measures all distances on an array: before each read, a large one on the other place brings the
/// arms of all members there. The waits are not spread; more reads take the place of that.
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

/// The distances, evenly apart on a logarithmic scale.
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

/// Reads in turn in two neighbourhoods, spread over the phases of the platter.
fn spread(session: &mut Session<'_>, platter: &Platter, samples: &mut Samples) -> Result<(), Error> {
    let phases = session.plan.phases as u64;
    let capacity = session.capacity();
    // The upper neighbourhood may lie where tracks hold less: its step is that of its own place.
    let room = (platter.track_at(ByteOffset::ZERO) + DESCENT * phases) * 2;
    let highest = capacity.saturating_sub(samples.distance + PAGE);
    let low = session.places.evenly(Bytes(room.get().min(highest.get())), highest);
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

/// Reads single pairs at random places: the first read of each, of `first` bytes, brings the arm
/// there, the second is the sample.
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
