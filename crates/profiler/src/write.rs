//! The profile of what was measured, as TOML that every command accepts.
//!
//! A disk is written with the zones that were found and a table of its seek curve. From outside, the
//! number of heads cannot be told from the length of cylinders, and nothing depends on it: tracks
//! are written as cylinders of one head (more where there would be more cylinders than a profile may
//! have), and distances are in these. An array is written as the one disk that costs the same.

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

/// Most cylinders that are written; a profile may have eight times as many.
const CYLINDERS_MOST: u64 = 1 << 20;
/// Places over which the number of tracks in a distance is averaged, since outer tracks hold more.
const MAPPED_AT: u64 = 64;
/// Segments of the drive's buffer that are written: they cannot be measured in short time, and
/// drives of the last twenty years have 8 to 32.
const SEGMENTS: u64 = 16;
/// The size of a segment that is written: half to a quarter of what such drives have.
const SEGMENT: Bytes = Bytes::kib(512);
/// Shortest average seek and longest time that a profile may give.
const LEAST_MS: f64 = 0.001;
const LONGEST_MS: f64 = 250.0;

/// Latencies that a profile may give.
const LATENCY_MS: (f64, f64) = (0.001, 100_000.0);
/// Most parallel requests that a profile may give.
const PARALLEL_LIMIT: usize = 1024;

/// What a profile says of where it came from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Label {
    /// Its name: 1 to 64 letters, digits, '-', '_' or '.'.
    pub name: String,
    /// One line for people.
    pub description: String,
    /// How, when and on what it was measured.
    pub source: String,
}

/// What was measured of a disk.
#[derive(Clone, Debug)]
pub(super) struct Disk<'a> {
    pub(super) capacity: Bytes,
    pub(super) turn: Nanos,
    pub(super) zones: &'a [Zone],
    pub(super) seeks: &'a [SeekPoint],
    /// What an answer to a page holds beside the seek: half a revolution, overhead, transfer.
    pub(super) besides: Nanos,
    pub(super) command: CommandCost,
    pub(super) infill: Bytes,
    /// Instead of the curve's own average.
    pub(super) average_seek: Option<Nanos>,
}

/// A zone as a profile has it.
#[derive(Clone, Copy, Debug)]
struct Laid {
    start: ByteOffset,
    cylinders: u64,
    sectors_per_track: u64,
}

/// Writes the profile of a disk.
///
/// The average of random seeks is what the model gets from the measured curve over the measured
/// zones, so that a device made of the profile has it. Where the average was measured by itself the
/// curve is scaled to it.
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
    line("rotation_rpm", rounded(60.0 / disk.turn.as_secs_f64()), "measured");
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
        line("burst_credit_mib", rounded(credit), "measured: what there was, at least");
    }
    match found.limit {
        Limit::Parallel(places) => {
            let places = (places.round() as usize).clamp(1, PARALLEL_LIMIT);
            line("parallel_requests", places.to_string(), "measured: pages a second times latency");
        }
        Limit::Operations(operations) => {
            line("operations_per_s", rounded(operations.clamp(0.1, 1e8)), "measured: the cap");
            if let Some((burst, credit)) = found.burst_operations(operations) {
                line("burst_operations_per_s", rounded(burst), "measured, until the credit was spent");
                line("burst_credit_operations", rounded(credit), "measured: what there was, at least");
            }
            line(
                "parallel_requests",
                found.deepest.to_string(),
                "the most that were tried: the cap comes first",
            );
        }
    }
    let profile = Profile::parse(&label.name, &text)?;
    Ok((text, profile))
}

/// The lines that all kinds have.
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

/// Four decimals, and a point, so that it reads as a number of that kind.
fn rounded(number: f64) -> String {
    format!("{number:.4}")
}

/// The seek curve: distance in bytes, milliseconds. What is not the arm's is taken off: half a revolution,
/// overhead, the transfer of a page; and it rises.
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

/// The zones as a profile has them, and how many heads that takes.
fn lay_out(disk: &Disk<'_>, shortest_ms: f64) -> (u64, Vec<Laid>) {
    let pass = disk.turn.as_secs_f64() + shortest_ms / 1e3;
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
    let zone = |(start, bytes, sectors_per_track): (ByteOffset, Bytes, u64)| Laid {
        start,
        cylinders: tracks(bytes, sectors_per_track).div_ceil(heads).max(1),
        sectors_per_track,
    };
    (heads, held.into_iter().map(zone).collect())
}

/// How many tracks lie in a distance, on average over the device.
fn tracks_in(capacity: Bytes, zones: &[Laid], distance: Bytes) -> f64 {
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
    let places = (0..MAPPED_AT).map(|at| room * (at as f64 + 0.5) / MAPPED_AT as f64);
    places.map(|place| track(place + distance.get() as f64) - track(place)).sum::<f64>() / MAPPED_AT as f64
}
