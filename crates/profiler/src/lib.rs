//! The profiler: the costs of a device, measured from outside.
//!
//! It only reads: past the page cache, a few thousand reads in less than two minutes. It finds whether the
//! device rotates and how fast, the rate at each offset, the cost of a distance, the overhead of a command,
//! and up to which gap reading is cheaper than skipping. The result is a
//! [`Profile`](foreseek_device::Profile), which every other part accepts, and with it the competitive
//! prefetch size.
//!
//! It measures a [`Probe`]: a real device or file, or a modelled device in virtual time. The code is the same
//! for both, so it is tested quickly in virtual time: the profile measured on a model must equal the model.
//! Each part is a file: [`rotation`], [`command`], [`rates`], [`seeks`], [`gaps`], [`effects`], and
//! [`latency_bound`] for a device that does not seek. Pure arithmetic is in [`estimate`].
//!
//! Sources: TR-840 section 3 (f_seek by distance, f_transfer by location, measured offline in less
//! than two minutes a drive), EuroSys'07 sections 3 and 5, ATC'09 section 3 (direct I/O, both
//! directions, infill).
//!
//! Limits: if other programs use the device, or if a cache larger than the amount read answers, the measured
//! costs are not the device's own.
#![forbid(unsafe_code)]

mod activity;
mod command;
mod distance;
mod effects;
mod error;
mod estimate;
mod findings;
mod gaps;
mod latency_bound;
mod model;
mod offsets;
mod plan;
mod plot;
mod probe;
mod rates;
mod rotation;
mod seeks;
mod session;
mod target;
mod write;

pub use effects::{DepthPoint, SizePoint};
pub use error::Error;
pub use estimate::credit::Credit;
pub use estimate::latency::LatencyFit;
pub use estimate::overlap::Limit;
pub use findings::{Findings, Verdict};
pub use gaps::GapPoint;
pub use latency_bound::LatencyBound;
pub use model::ModelProbe;
pub use plan::Plan;
pub use probe::{Probe, Timed};
pub use rates::{RateAt, Zone};
pub use seeks::SeekPoint;
pub use session::Progress;
pub use target::Target;
pub use write::Label;

use estimate::statistics;
use foreseek_units::{ByteOffset, Bytes, Nanos};
use rotation::Platter;
use session::Session;

/// The smallest device that is measured: a smaller one has too few offsets that no cache holds.
pub const CAPACITY_LEAST: Bytes = Bytes::mib(256);

/// How often rotation is looked for where something seeks: a busy host has quieter moments.
const ROTATION_TRIALS: usize = 3;
/// The share of reads in time on a quiet device and host: crossings of tracks cost some per cent.
const QUIET: f64 = 0.7;
/// By which factor sequential reads must be faster than a track passes the head to show several disks. A
/// single disk stays below one, two disks come near two, and track sizes are known to some per cent.
const ARRAY_EXCESS: f64 = 1.25;
/// Random reads that take this many times the median were delayed by the host: on any disk, the longest seek
/// and a whole revolution stay below three times it.
const OUTLIER: u64 = 4;
/// By how much random reads may differ from the profile's prediction without a warning: three standard
/// deviations of the mean of the fewest reads.
const SURPRISE: f64 = 0.2;

/// Refuses a device that is too small to be measured.
fn large_enough(capacity: Bytes) -> Result<(), Error> {
    if capacity < CAPACITY_LEAST {
        return Err(Error::TooSmallToProfile { capacity, least: CAPACITY_LEAST });
    }
    Ok(())
}

/// Measures a device. `seed` decides which offsets are read: give another one for each run.
///
/// # Errors
/// A read that failed, a device that is too small.
pub fn profile(
    probe: &mut dyn Probe,
    plan: Plan,
    label: &Label,
    seed: u64,
    progress: Progress<'_>,
) -> Result<Findings, Error> {
    large_enough(probe.capacity())?;
    let mut session = Session::new(probe, plan, seed, progress);
    let mut without_motion = 0;
    for _ in 0..ROTATION_TRIALS {
        if let Some(platter) = rotation::measure(&mut session)? {
            return measure_rotating(&mut session, label, &platter);
        }
        without_motion += usize::from(!distance::matters(&mut session)?);
        if without_motion >= session.plan.rotation_trials {
            return measure_latency_bound(&mut session, label);
        }
    }
    Err(Error::NoRotation)
}

/// Measures a rotating device: a disk, or several.
fn measure_rotating(session: &mut Session<'_>, label: &Label, platter: &Platter) -> Result<Findings, Error> {
    let command = command::measure(session, Some(platter.period))?;
    let rates = rates::measure(session)?;
    let is_array = platter.excess(|offset| rates.at(offset)) > ARRAY_EXCESS;
    let seeks =
        if is_array { seeks::measure_array(session, platter)? } else { seeks::measure(session, platter)? };
    let depths = effects::depths(session)?;
    let gaps = gaps::measure(session, rates.at(ByteOffset::ZERO))?;
    let sizes = effects::sizes(session)?;
    let besides = command.overhead + platter.media_rate().time_for(offsets::PAGE);
    let positioning = if is_array { Some(random_read(session)? - besides) } else { None };
    let disk = write::Disk {
        capacity: session.capacity(),
        period: platter.period,
        zones: &rates.zones,
        seeks: &seeks,
        besides: besides + platter.period / 2,
        command,
        infill: gaps::threshold(&gaps),
        average_seek: positioning.map(|positioning| positioning - platter.period / 2),
    };
    let (toml, profile) = write::disk(label, &disk)?;
    let mut findings = Findings::of(profile, toml, session.elapsed());
    findings.verdict = if is_array { Verdict::Array } else { Verdict::Disk };
    findings.rotation_period = Some(platter.period);
    findings.command_overhead = command.overhead;
    findings.bus = command.bus;
    findings.infill = disk.infill;
    findings.warnings.extend(noise_warning(platter.in_time));
    findings.warnings.extend(if is_array { None } else { time_warning(seeks.len()) });
    findings.warnings.extend(warnings(&findings, &depths));
    findings.warnings.extend(rise_warning(&rates.zones));
    Ok(Findings {
        rates: rates.along,
        zones: rates.zones.clone(),
        seeks: seeks.clone(),
        depths,
        gaps,
        sizes,
        ..findings
    })
}

/// Measures a latency-bound device.
fn measure_latency_bound(session: &mut Session<'_>, label: &Label) -> Result<Findings, Error> {
    let (found, depths) = latency_bound::measure(session)?;
    let sizes = effects::sizes(session)?;
    let (toml, profile) = write::remote(label, session.capacity(), &found)?;
    let infill = profile.infill();
    let mut findings = Findings::of(profile, toml, session.elapsed());
    findings.warnings.extend(credit_warning("bytes", found.byte_credit));
    findings.warnings.extend(credit_warning("reads", found.operation_credit));
    Ok(Findings { depths, sizes, infill, latency_bound: Some(found), ..findings })
}

/// The mean response time of random reads, one at a time. Long delays of the host are left out.
fn random_read(session: &mut Session<'_>) -> Result<Nanos, Error> {
    session.begin("random reads", 0.2);
    let count = session.plan.random_reads;
    let mut responses = Vec::with_capacity(count);
    while responses.len() < count && (responses.is_empty() || !session.is_late()) {
        let offset = session.anywhere(offsets::PAGE);
        responses.push(session.page(offset)?.response());
        session.at(responses.len() as f64 / count as f64);
    }
    let limit = statistics::median_time(&responses) * OUTLIER;
    let kept: Vec<Nanos> = responses.into_iter().filter(|response| *response <= limit).collect();
    let sum: Nanos = kept.iter().copied().sum();
    Ok(sum / kept.len().max(1) as u64)
}

/// A warning where random reads of a disk contradict its profile.
fn warnings(findings: &Findings, depths: &[DepthPoint]) -> Option<String> {
    let alone = depths.first().filter(|point| point.depth == 1)?;
    let measured = Nanos::from_secs_f64(1.0 / alone.reads_per_second);
    let predicted = findings.positioning_time + findings.command_overhead;
    let ratio = measured.get() as f64 / predicted.get().max(1) as f64;
    if (1.0 - SURPRISE..1.0 + SURPRISE).contains(&ratio) {
        return None;
    }
    let why = if ratio < 1.0 { "a cache may answer some" } else { "other programs may use the device" };
    Some(format!("random reads take {measured} on average, the profile predicts {predicted}: {why}"))
}

fn noise_warning(in_time: f64) -> Option<String> {
    let late = (1.0 - in_time) * 100.0;
    (in_time < QUIET).then(|| {
        format!(
            "{late:.0} % of the reads that should follow at one pace did not: the machine or the device is busy, and \
             the figures are rough; measure again when they are idle"
        )
    })
}

/// A warning where the time was over before each distance of the seek curve was measured.
fn time_warning(distances: usize) -> Option<String> {
    (distances < plan::DISTANCES).then(|| {
        format!(
            "the time was used up after {distances} of {} distances of the seek curve: the machine or the device is \
             busy, and the figures are rough; measure again when they are idle",
            plan::DISTANCES
        )
    })
}

/// A disk rotates at one speed, and its outer tracks hold no less than its inner ones. If inner offsets are
/// faster, the measurement was disturbed, or the device is no single disk.
fn rise_warning(zones: &[Zone]) -> Option<String> {
    let pair = zones.windows(2).find(|pair| pair[1].rate > pair[0].rate)?;
    Some(format!(
        "reading is faster from byte {} on ({}) than before it ({}), which is impossible on a single disk: other programs used the device, the \
         machine was busy, or the device is made of several; measure again when it is idle",
        pair[1].start.get(),
        pair[1].rate,
        pair[0].rate
    ))
}

fn credit_warning(of: &str, credit: Option<Credit>) -> Option<String> {
    let Credit { burst_per_second, base_per_second, amount, lasted } = credit?;
    Some(format!(
        "credit for {of} ran out after {lasted}: {burst_per_second:.0} a second before, {base_per_second:.0} \
         after, {amount:.0} in all"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use foreseek_units::Rate;

    #[test]
    fn a_curve_that_lacks_distances_is_named() {
        assert_eq!(time_warning(plan::DISTANCES), None);
        let warning = time_warning(plan::DISTANCES - 1).expect("one is missing");
        assert!(warning.contains("63 of 64 distances") && warning.contains("measure again"), "{warning}");
    }

    #[test]
    fn reading_that_gets_faster_further_in_is_named_as_impossible() {
        let zone =
            |start: u64, rate: f64| Zone { start: ByteOffset(start), rate: Rate::bytes_per_second(rate) };
        assert_eq!(rise_warning(&[zone(0, 180e6)]), None);
        assert_eq!(rise_warning(&[zone(0, 180e6), zone(1 << 30, 164.8e6)]), None);
        let warning = rise_warning(&[zone(0, 164.8e6), zone(1 << 30, 180e6)]).expect("a rise");
        let parts = ["1073741824", "180.0 MB/s", "164.8 MB/s", "impossible", "measure again"];
        assert!(parts.iter().all(|word| warning.contains(word)), "{warning}");
    }
}
