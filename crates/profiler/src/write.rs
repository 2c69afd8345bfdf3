//! Writes the measured profile as TOML that every command accepts.
//!
//! A disk is written with the zones that were found and a table of its seek curve. From outside, the number
//! of heads cannot be separated from the size of cylinders, and nothing depends on it. Tracks are written as
//! cylinders of one head (of more, where there would be more cylinders than a profile may have), and
//! distances are in these cylinders. An array is written as the single disk with the same costs.

use super::command::CommandCost;
use super::estimate::monotone;
use super::estimate::overlap::Limit;
use super::latency_bound::LatencyBound;
use super::rates::Zone;
use super::seeks::SeekPoint;
use crate::Error;
use foreseek_device::Profile;
use foreseek_units::{ByteOffset, Bytes, Nanos, Rate, SECTOR_SIZE};
use std::fmt::Write;

/// The most cylinders that are written; a profile may have eight times as many.
const CYLINDERS_MOST: u64 = 1 << 20;
/// Offsets over which the number of tracks in a distance is averaged, since outer tracks hold more.
const MAPPED_AT: u64 = 64;
/// The number of buffer segments that is written: it cannot be measured in short time, and drives of the last
/// twenty years have 8 to 32.
const SEGMENTS: u64 = 16;
/// The size of a segment that is written: half to a quarter of that of such drives.
const SEGMENT: Bytes = Bytes::kib(512);
/// The shortest average seek and the longest time that a profile may have.
const LEAST_MS: f64 = 0.001;
const LONGEST_MS: f64 = 250.0;

/// The latencies that a profile may have.
const LATENCY_MS: (f64, f64) = (0.001, 100_000.0);
/// The most parallel requests that a profile may have.
const PARALLEL_LIMIT: usize = 1024;

/// The name and origin of a profile.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Label {
    /// Its name: 1 to 64 letters, digits, '-', '_' or '.'.
    pub name: String,
    /// One line for people.
    pub description: String,
    /// How, when and on what it was measured.
    pub source: String,
}

/// The measurements of a disk.
#[derive(Clone, Debug)]
pub(super) struct Disk<'a> {
    pub(super) capacity: Bytes,
    pub(super) period: Nanos,
    pub(super) zones: &'a [Zone],
    pub(super) seeks: &'a [SeekPoint],
    /// The response time of a page without the seek: half a revolution, overhead, transfer.
    pub(super) besides: Nanos,
    pub(super) command: CommandCost,
    pub(super) infill: Bytes,
    /// Replaces the curve's own average.
    pub(super) average_seek: Option<Nanos>,
}

/// A zone in the terms of a profile.
#[derive(Clone, Copy, Debug)]
struct ProfileZone {
    start: ByteOffset,
    cylinders: u64,
    sectors_per_track: u64,
}

/// Writes the profile of a disk.
///
/// The average seek is the model's average over the measured curve and zones, so that a device built from the
/// profile has it. If the average was measured separately, the curve is scaled to it.
pub(super) fn disk(label: &Label, disk: &Disk<'_>) -> Result<(String, Profile), Error> {
    let curve = curve(disk);
    let text = disk_text(label, disk, &curve, LEAST_MS);
    let modelled = Profile::parse(&label.name, &text)?.modelled_seek().map_or(LEAST_MS, Nanos::as_millis_f64);
    let average = disk.average_seek.map_or(modelled, Nanos::as_millis_f64);
    let factor = if modelled > LEAST_MS { average / modelled } else { 1.0 };
    let scaled: Vec<(Bytes, f64)> =
        curve.into_iter().map(|(distance, ms)| (distance, (ms * factor).min(LONGEST_MS))).collect();
    let text = disk_text(label, disk, &scaled, average.clamp(LEAST_MS, LONGEST_MS));
    let profile = Profile::parse(&label.name, &text)?;
    Ok((text, profile))
}

fn disk_text(label: &Label, disk: &Disk<'_>, curve: &[(Bytes, f64)], average_ms: f64) -> String {
    let shortest = curve.first().map_or(0.0, |(_, ms)| *ms);
    let (heads, zones) = lay_out(disk, shortest);
    let mut distances: Vec<(u64, f64)> = Vec::with_capacity(curve.len());
    for &(distance, ms) in curve {
        let cylinders = (tracks_in(disk.capacity, &zones, distance) / heads as f64).round().max(1.0) as u64;
        match distances.last_mut().filter(|(before, _)| *before >= cylinders) {
            Some((_, longer)) => *longer = ms,
            None => distances.push((cylinders, ms)),
        }
    }
    let mut text = heading(label, "disk", disk.capacity);
    let mut line = |key: &str, value: String, source: &str| {
        // Writing to a string does not fail.
        let _ = writeln!(text, "{key} = {value} # {source}");
    };
    let overhead = disk.command.overhead.as_millis_f64();
    let outer = disk.zones.iter().fold(1e4, |most: f64, zone| most.max(zone.rate.as_bytes_per_second()));
    let bus = disk.command.bus.map_or(outer, |bus| bus.as_bytes_per_second().max(outer));
    line("rotation_rpm", rounded(60.0 / disk.period.as_secs_f64()), "measured");
    line("average_seek_ms", rounded(average_ms), "measured, over random pairs");
    line(
        "infill_kib",
        (disk.infill.get() >> 10).to_string(),
        "measured: the largest gap cheaper read than skipped",
    );
    line("command_overhead_ms", rounded(overhead), "measured, the host's part included");
    line(
        "bus_rate_mb_per_s",
        rounded((bus / 1e6).min(99_999.0)),
        "measured where the drive answers from its buffer",
    );
    line("head_switch_ms", rounded(shortest), "as the shortest seek: indistinguishable from it");
    line("heads", heads.to_string(), "chosen: tracks are written as cylinders");
    line("cache_segments", SEGMENTS.to_string(), "chosen, not measured");
    line("cache_segment_kib", (SEGMENT.get() >> 10).to_string(), "chosen, not measured");
    let list = |items: Vec<String>| format!("[{}]", items.join(", "));
    text.push_str("\n[seek]\nmodel = \"table\"\n");
    let _ = writeln!(
        text,
        "distance_cylinders = {}",
        list(distances.iter().map(|(d, _)| d.to_string()).collect())
    );
    let _ = writeln!(text, "time_ms = {}", list(distances.iter().map(|(_, ms)| rounded(*ms)).collect()));
    for zone in &zones {
        let (cylinders, sectors) = (zone.cylinders, zone.sectors_per_track);
        let _ = write!(text, "\n[[zone]]\ncylinders = {cylinders}\nsectors_per_track = {sectors}\n");
    }
    text
}

/// Writes the profile of a latency-bound device.
pub(super) fn remote(
    label: &Label,
    capacity: Bytes,
    found: &LatencyBound,
) -> Result<(String, Profile), Error> {
    let mut text = heading(label, "remote", capacity);
    let mut line = |key: &str, value: String, source: &str| {
        let _ = writeln!(text, "{key} = {value} # {source}");
    };
    let ms = |time: Nanos| time.as_millis_f64().clamp(LATENCY_MS.0, LATENCY_MS.1);
    let median = ms(found.latency.median);
    let spread = ms(found.latency.p99_for_mean).clamp(median, median * 1000.0);
    line("latency_median_ms", rounded(median), "measured");
    line(
        "latency_p99_ms",
        rounded(spread),
        "of the lognormal distribution with the measured median and mean",
    );
    let rate = found.rate.as_mb_per_second().clamp(1.0, 1e6);
    line("rate_mb_per_s", rounded(rate), "measured");
    if let Some((burst, credit)) = found.burst_rate() {
        line("burst_rate_mb_per_s", rounded(burst), "measured, until the credit was spent");
        line("burst_credit_mib", rounded(credit), "measured: at least this much");
    }
    match found.limit {
        Limit::Parallel(requests) => {
            let requests = (requests.round() as usize).clamp(1, PARALLEL_LIMIT);
            line("parallel_requests", requests.to_string(), "measured: pages a second times latency");
        }
        Limit::Operations(operations) => {
            line("operations_per_s", rounded(operations.clamp(0.1, 1e8)), "measured: the cap");
            if let Some((burst, credit)) = found.burst_operations(operations) {
                line("burst_operations_per_s", rounded(burst), "measured, until the credit was spent");
                line("burst_credit_operations", rounded(credit), "measured: at least this much");
            }
            line("parallel_requests", found.deepest.to_string(), "the largest depth tried: the cap is lower");
        }
    }
    let profile = Profile::parse(&label.name, &text)?;
    Ok((text, profile))
}

/// The lines that profiles of all kinds have.
fn heading(label: &Label, kind: &str, capacity: Bytes) -> String {
    let quoted = |text: &str| toml_text(text);
    let mut text = String::new();
    let _ = writeln!(text, "name = {}\nkind = {}", quoted(&label.name), quoted(kind));
    let _ = writeln!(text, "description = {}", quoted(&label.description));
    let _ = writeln!(text, "source = {}\n", quoted(&label.source));
    let _ = writeln!(text, "capacity_bytes = {} # measured", capacity.sectors_floor().bytes().get());
    text
}

/// A basic string of TOML.
fn toml_text(text: &str) -> String {
    let mut quoted = String::from("\"");
    for c in text.chars() {
        match c {
            '"' | '\\' => quoted.extend(['\\', c]),
            c if c.is_control() => quoted.push(' '),
            c => quoted.push(c),
        }
    }
    quoted + "\""
}

/// Four decimals, so that it reads as a floating-point number.
fn rounded(number: f64) -> String {
    format!("{number:.4}")
}

/// The seek curve: distance in bytes, milliseconds. Half a revolution, overhead and the transfer of a page
/// are subtracted, and the curve is made to rise.
fn curve(disk: &Disk<'_>) -> Vec<(Bytes, f64)> {
    let even: Vec<&SeekPoint> = disk.seeks.iter().filter(|point| point.even).collect();
    let seek = |point: &&SeekPoint| {
        let mean = (point.forward + point.backward).as_millis_f64() / 2.0;
        (mean - disk.besides.as_millis_f64(), point.samples as f64)
    };
    let fitted = monotone::rising(&even.iter().map(seek).collect::<Vec<_>>());
    let held = fitted.iter().map(|ms| ms.clamp(0.0, LONGEST_MS));
    even.iter().map(|point| point.distance).zip(held).collect()
}

/// The zones in the terms of a profile, and the number of heads.
fn lay_out(disk: &Disk<'_>, shortest_ms: f64) -> (u64, Vec<ProfileZone>) {
    let pass = disk.period.as_secs_f64() + shortest_ms / 1e3;
    let sectors =
        |rate: Rate| ((rate.as_bytes_per_second() * pass / SECTOR_SIZE as f64).round() as u64).max(4);
    let ends = disk.zones.iter().skip(1).map(|zone| zone.start).chain([ByteOffset(disk.capacity.get())]);
    let held: Vec<(ByteOffset, Bytes, u64)> = disk
        .zones
        .iter()
        .zip(ends)
        .map(|(zone, end)| (zone.start, end - zone.start, sectors(zone.rate)))
        .collect();
    let tracks = |bytes: Bytes, sectors: u64| bytes.get().div_ceil(sectors * SECTOR_SIZE);
    let all: u64 = held.iter().map(|(_, bytes, sectors)| tracks(*bytes, *sectors)).sum();
    let heads = all.div_ceil(CYLINDERS_MOST).max(1);
    let zone = |(start, bytes, sectors_per_track): (ByteOffset, Bytes, u64)| ProfileZone {
        start,
        cylinders: tracks(bytes, sectors_per_track).div_ceil(heads).max(1),
        sectors_per_track,
    };
    (heads, held.into_iter().map(zone).collect())
}

/// How many tracks lie in a distance, on average over the device.
fn tracks_in(capacity: Bytes, zones: &[ProfileZone], distance: Bytes) -> f64 {
    let track = |offset: f64| {
        let mut tracks = 0.0;
        for (at, zone) in zones.iter().enumerate() {
            let start = zone.start.get() as f64;
            let end = zones.get(at + 1).map_or(f64::INFINITY, |next| next.start.get() as f64);
            let within = offset.min(end) - start;
            if within > 0.0 {
                tracks += within / (zone.sectors_per_track * SECTOR_SIZE) as f64;
            }
        }
        tracks
    };
    let room = capacity.saturating_sub(distance).get() as f64;
    let offsets = (0..MAPPED_AT).map(|at| room * (at as f64 + 0.5) / MAPPED_AT as f64);
    offsets.map(|offset| track(offset + distance.get() as f64) - track(offset)).sum::<f64>()
        / MAPPED_AT as f64
}
