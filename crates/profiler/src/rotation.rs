//! Whether the device rotates, how fast, and how much a track holds: see [`estimate::rotation`].
//!
//! [`estimate::rotation`]: super::estimate::rotation

use super::estimate::rotation::{Descent, Rotation, in_time, is_steady, rotation_of};
use super::estimate::statistics::{median, median_time, quantile};
use super::offsets::{PAGE, whole_pages};
use super::session::Session;
use crate::Error;
use foreseek_units::{ByteOffset, Bytes, Nanos, Rate};

/// The steps that decide whether the device rotates. The first two are small enough to stay on one member of
/// an array for most reads (strips have 64 KiB or more). The third is large enough to differ from them on a
/// disk with tracks of two megabytes.
const STEPS: [Bytes; 3] = [PAGE, Bytes::kib(16), Bytes::kib(64)];
/// The size of a track is then measured with steps of this share of it: most do not cross its end.
const SHARE_OF_TRACK: f64 = 1.0 / 6.0;
/// By how much the finer measurement of a track may differ from the coarse one. If it differs by more, large
/// steps do not stay on one track: an array.
const AGREEMENT: f64 = 0.3;
/// By how much the period may differ between offsets: one platter has one period, known to some per mille.
const SAME_PERIOD: f64 = 0.02;
/// Random reads for the check whether they spread over a revolution.
const RANDOM_READS: usize = 24;
/// The least difference between their 10th and 90th percentile, in revolutions. The rotational delay alone
/// makes four fifths, and seeks add to it; one disk in a thousand stays below half.
const SPREAD: f64 = 0.5;
/// The share of the offsets that must show it.
const MAJORITY: f64 = 0.6;

/// A rotating platter.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Platter {
    pub(super) period: Nanos,
    /// The share of pages that arrived in time: one on a quiet device and host.
    pub(super) in_time: f64,
    /// The size of a track, at offsets in ascending order.
    tracks: Vec<(ByteOffset, Bytes)>,
}

impl Platter {
    /// The ratio of the sequential rate to the rate at which one track passes the head, as the median over
    /// the offsets. It is less than one on a disk, which loses the switches between tracks, and more where
    /// several disks are read at once.
    pub(super) fn excess(&self, rate_at: impl Fn(ByteOffset) -> Rate) -> f64 {
        let ratio = |(offset, track): &(ByteOffset, Bytes)| {
            rate_at(*offset).as_bytes_per_second() * self.period.as_secs_f64() / track.get() as f64
        };
        median(&self.tracks.iter().map(ratio).collect::<Vec<_>>())
    }

    /// The rate at which data pass the head, as the median over the offsets.
    pub(super) fn media_rate(&self) -> Rate {
        let tracks: Vec<f64> = self.tracks.iter().map(|(_, track)| track.get() as f64).collect();
        Rate::bytes_per_second(median(&tracks).max(1.0) / self.period.as_secs_f64())
    }

    /// The size of a track near an offset, interpolated linearly.
    pub(super) fn track_at(&self, offset: ByteOffset) -> Bytes {
        let after = self.tracks.partition_point(|(at, _)| *at <= offset);
        let (Some(&(high, more)), Some(&(low, less))) =
            (self.tracks.get(after), after.checked_sub(1).and_then(|before| self.tracks.get(before)))
        else {
            return self.tracks.get(after).or(self.tracks.last()).map_or(Bytes::mib(1), |(_, track)| *track);
        };
        let share = offset.distance(low).get() as f64 / high.distance(low).get().max(1) as f64;
        whole_pages(less.get() as f64 + (more.get() as f64 - less.get() as f64) * share)
    }
}

/// Measures the rotation; `None` where there is none.
pub(super) fn measure(session: &mut Session<'_>) -> Result<Option<Platter>, Error> {
    session.begin("rotation", 0.06);
    let parts = session.plan.rotation_offsets;
    let room = session.capacity().get() / parts as u64;
    let mut found: Vec<(ByteOffset, Rotation)> = Vec::with_capacity(parts);
    let mut quiet = Vec::with_capacity(parts);
    for part in 0..parts as u64 {
        let offset = session.offsets.between(Bytes(room * part + room / 4), Bytes(room * part + room / 2));
        if let Some((rotation, in_time)) = at_offset(session, offset)? {
            found.push((offset, rotation));
            quiet.push(in_time);
        }
        session.at((part + 1) as f64 / parts as f64);
        let possible = found.len() + parts - 1 - part as usize;
        if (possible as f64) < MAJORITY * parts as f64 {
            return Ok(None);
        }
    }
    let period = median_time(&found.iter().map(|(_, rotation)| rotation.period).collect::<Vec<_>>());
    found.retain(|(_, found)| (found.period.get() as f64 / period.get() as f64 - 1.0).abs() <= SAME_PERIOD);
    if (found.len() as f64) < MAJORITY * parts as f64 {
        return Ok(None);
    }
    if !random_reads_spread(session, period)? {
        return Ok(None);
    }
    Ok(Some(Platter {
        period,
        in_time: median(&quiet),
        tracks: found.iter().map(|(offset, rotation)| (*offset, rotation.track)).collect(),
    }))
}

/// Whether the rotational delays of random reads spread over a revolution. Descending reads may take equal
/// times because the device is steady and not because a platter rotates; random reads then do too.
fn random_reads_spread(session: &mut Session<'_>, period: Nanos) -> Result<bool, Error> {
    let mut responses = Vec::with_capacity(RANDOM_READS);
    for _ in 0..RANDOM_READS {
        let offset = session.anywhere(PAGE);
        responses.push(session.page(offset)?.response().get() as f64);
    }
    let spread = quantile(&responses, 0.9) - quantile(&responses, 0.1);
    Ok(spread >= SPREAD * period.get() as f64)
}

fn at_offset(session: &mut Session<'_>, offset: ByteOffset) -> Result<Option<(Rotation, f64)>, Error> {
    // Each descent begins below the previous one.
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
    let Some(coarse) = rotation_of(&near, &middle, &far) else { return Ok(None) };
    let step = whole_pages(coarse.track.get() as f64 * SHARE_OF_TRACK).max(STEPS[2] * 2);
    let fine = rotation_of(&near, &far, &descend(session, step)?);
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
