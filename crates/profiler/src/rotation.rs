//! Does something turn, how fast, and how much does a track hold: see [`estimate::turn`].
//!
//! [`estimate::turn`]: super::estimate::turn

use super::estimate::statistics::{median, median_time, quantile};
use super::estimate::turn::{Descent, Rotation, in_time, is_steady, turn_of};
use super::places::{PAGE, whole_pages};
use super::session::Session;
use crate::Error;
use foreseek_units::{ByteOffset, Bytes, Nanos, Rate};

/// The steps at which it is decided whether something turns: the first two are small enough to stay on
/// one member of an array for most reads (strips have 64 KiB or more), the third large enough to be
/// told from them on a disk whose tracks hold two megabytes.
const STEPS: [Bytes; 3] = [PAGE, Bytes::kib(16), Bytes::kib(64)];
/// What a track holds is then measured with steps of this share of it: most do not cross its end.
const SHARE_OF_TRACK: f64 = 1.0 / 6.0;
/// By how much the finer measurement of a track may differ from the coarse one. Where it differs by
/// more, large steps do not stay on one track: an array.
const AGREEMENT: f64 = 0.3;
/// By how much turns may differ from place to place: one platter has one, known to some per mille.
const SAME_TURN: f64 = 0.02;
/// Random reads that tell whether they spread over a revolution.
const RANDOM_READS: usize = 24;
/// From their 10th to their 90th percentile: four fifths of a revolution by the wait alone, seeks make it
/// more; below the half with one in a thousand.
const SPREAD: f64 = 0.5;
/// At which share of the places it must be seen.
const MAJORITY: f64 = 0.6;

/// What turns.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Platter {
    pub(super) turn: Nanos,
    /// The share of pages that came in time: one on a quiet device and host.
    pub(super) in_time: f64,
    /// What a track holds, at places in ascending order.
    tracks: Vec<(ByteOffset, Bytes)>,
}

impl Platter {
    /// By how much reading in sequence is faster than one track passes, at the median of the places:
    /// less than one on a disk, which loses the switches between tracks; more where several disks
    /// are read at once.
    pub(super) fn excess(&self, rate_at: impl Fn(ByteOffset) -> Rate) -> f64 {
        let ratio = |(place, track): &(ByteOffset, Bytes)| {
            rate_at(*place).as_bytes_per_second() * self.turn.as_secs_f64() / track.get() as f64
        };
        median(&self.tracks.iter().map(ratio).collect::<Vec<_>>())
    }

    /// What passes the head in a second, at the middle of the places.
    pub(super) fn media_rate(&self) -> Rate {
        let tracks: Vec<f64> = self.tracks.iter().map(|(_, track)| track.get() as f64).collect();
        Rate::bytes_per_second(median(&tracks).max(1.0) / self.turn.as_secs_f64())
    }

    /// What a track holds near an offset: linear between the places.
    pub(super) fn track_at(&self, offset: ByteOffset) -> Bytes {
        let after = self.tracks.partition_point(|(place, _)| *place <= offset);
        let (Some(&(high, more)), Some(&(low, less))) =
            (self.tracks.get(after), after.checked_sub(1).and_then(|before| self.tracks.get(before)))
        else {
            return self.tracks.get(after).or(self.tracks.last()).map_or(Bytes::mib(1), |(_, track)| *track);
        };
        let share = offset.distance(low).get() as f64 / high.distance(low).get().max(1) as f64;
        whole_pages(less.get() as f64 + (more.get() as f64 - less.get() as f64) * share)
    }
}

/// Measures the turn; `None` where nothing turns.
pub(super) fn measure(session: &mut Session<'_>) -> Result<Option<Platter>, Error> {
    session.begin("rotation", 0.06);
    let places = session.plan.turn_places;
    let room = session.capacity().get() / places as u64;
    let mut found: Vec<(ByteOffset, Rotation)> = Vec::with_capacity(places);
    let mut quiet = Vec::with_capacity(places);
    for place in 0..places as u64 {
        let offset = session.places.between(Bytes(room * place + room / 4), Bytes(room * place + room / 2));
        if let Some((turn, in_time)) = at_place(session, offset)? {
            found.push((offset, turn));
            quiet.push(in_time);
        }
        session.at((place + 1) as f64 / places as f64);
        let possible = found.len() + places - 1 - place as usize;
        if (possible as f64) < MAJORITY * places as f64 {
            return Ok(None);
        }
    }
    let turn = median_time(&found.iter().map(|(_, turn)| turn.turn).collect::<Vec<_>>());
    found.retain(|(_, found)| (found.turn.get() as f64 / turn.get() as f64 - 1.0).abs() <= SAME_TURN);
    if (found.len() as f64) < MAJORITY * places as f64 {
        return Ok(None);
    }
    if !random_reads_spread(session, turn)? {
        return Ok(None);
    }
    Ok(Some(Platter {
        turn,
        in_time: median(&quiet),
        tracks: found.iter().map(|(offset, turn)| (*offset, turn.track)).collect(),
    }))
}

/// Whether random reads wait for anything up to a revolution. Where descending reads take nearly the same
/// each because the device is steady, and not because a platter turns, random ones do too.
fn random_reads_spread(session: &mut Session<'_>, turn: Nanos) -> Result<bool, Error> {
    let mut responses = Vec::with_capacity(RANDOM_READS);
    for _ in 0..RANDOM_READS {
        let place = session.anywhere(PAGE);
        responses.push(session.page(place)?.response().get() as f64);
    }
    let spread = quantile(&responses, 0.9) - quantile(&responses, 0.1);
    Ok(spread >= SPREAD * turn.get() as f64)
}

fn at_place(session: &mut Session<'_>, offset: ByteOffset) -> Result<Option<(Rotation, f64)>, Error> {
    // Each descent begins below the one before.
    let mut from = offset;
    let mut descend = |session: &mut Session<'_>, step: Bytes| {
        let descent = descend(session, from, step);
        from = from - step * (session.plan.intervals as u64 + 2);
        descent
    };
    let near = descend(session, STEPS[0])?;
    if !is_steady(&near) {
        return Ok(None);
    }
    let (middle, far) = (descend(session, STEPS[1])?, descend(session, STEPS[2])?);
    let Some(coarse) = turn_of(&near, &middle, &far) else { return Ok(None) };
    let step = whole_pages(coarse.track.get() as f64 * SHARE_OF_TRACK).max(STEPS[2] * 2);
    let fine = turn_of(&near, &far, &descend(session, step)?);
    let agrees = |fine: &Rotation| {
        let ratio = fine.track.get() as f64 / coarse.track.get() as f64;
        (1.0 - AGREEMENT..=1.0 / (1.0 - AGREEMENT)).contains(&ratio)
    };
    Ok(Some((fine.filter(agrees).unwrap_or(coarse), in_time(&near))))
}

/// Reads pages downwards from an offset, one every `step`.
fn descend(session: &mut Session<'_>, from: ByteOffset, step: Bytes) -> Result<Descent, Error> {
    let mut offset = from.page().offset();
    let mut completions = vec![session.page(offset)?.finished];
    for _ in 0..session.plan.intervals {
        if offset.get() < step.get() {
            break;
        }
        offset = offset - step;
        completions.push(session.page(offset)?.finished);
    }
    Ok(Descent { step, completions })
}
