//! What is assumed of a controller of which nothing is known, from what was published of others.

use super::controller::Controller;
use super::drive::Drive;
use super::published::{Published, all};
use foreseek_device::spec::limits::BUFFER_SECTORS_LIMIT;
use foreseek_device::spec::{ControllerSpec, OverheadSpec, Until};

/// Drives of two generations are published, below and from 7,200 rpm: with overheads of some milliseconds, and
/// of some tenths of one.
const GENERATION_RPM: f64 = 6800.0;
/// From this many drives of a maker on they predict better than all others do.
const OF_MAKER_LEAST: usize = 2;
/// A drive whose tracks hold this many times more than those of any published one is of a later generation. Its
/// bus is then taken to be as fast as its media, and not as slow as the adapters with which the published ones
/// were measured.
const LATER: f64 = 1.5;

impl Controller {
    /// What is assumed of a drive's controller, from what was published of others: of its maker if there are
    /// two or more of its generation, else of all of its generation. What was published of the drive itself is
    /// left out, so that the assumption can be tested on known drives.
    ///
    /// Each time and count is the median. The segments of a buffer hold some tracks, so that the drive's own
    /// tracks give their size. The disk reads ahead until a segment is full, as most do.
    #[must_use]
    pub fn typical_of(drive: &Drive) -> Self {
        of(drive, &all().collect::<Vec<_>>())
    }
}

fn of(drive: &Drive, published: &[Published]) -> Controller {
    let name = drive.name();
    let slow = |rpm: f64| rpm < GENERATION_RPM;
    let own = |one: &&Published| !one.drive.eq_ignore_ascii_case(name);
    let alike = |one: &&Published| one.rotation_rpm.is_some_and(|rpm| slow(rpm) == slow(drive.mechanics.rpm));
    let others: Vec<&Published> = published.iter().filter(own).filter(alike).collect();
    let same: Vec<&Published> =
        others.iter().copied().filter(|one| maker(&one.drive) == maker(name)).collect();
    let by_maker = same.len() >= OF_MAKER_LEAST;
    let times = if by_maker { &same } else { &others };
    if times.is_empty() {
        return Controller::typical();
    }
    let track = drive.layout.outer_track();
    let tracks = median(&others, |one| {
        one.controller.segment_sectors as f64 / one.outer_track_sectors.unwrap_or(1) as f64
    });
    let segment = ((tracks * track as f64).round() as u64).clamp(1, BUFFER_SECTORS_LIMIT);
    let most = others.iter().filter_map(|one| one.outer_track_sectors).max().unwrap_or(0);
    let media = 60_000.0 / drive.mechanics.rpm / track.max(1) as f64;
    let bus = median(&others, |one| one.controller.bus_sector_ms);
    let later = track as f64 > LATER * most as f64;
    let ranges = median(&others, |one| one.controller.spec.write_cache_ranges as f64).round() as u64;
    let whose = if by_maker {
        format!("{} published drives of its maker", same.len())
    } else {
        format!("{} published drives of its generation", others.len())
    };
    Controller {
        source: format!("assumed: medians of {whose}"),
        bus_sector_ms: if later { bus.min(media) } else { bus },
        segments: median(&others, |one| one.controller.segments as f64).round().max(1.0) as u64,
        segment_sectors: segment,
        zero_latency: false,
        spec: ControllerSpec {
            overhead: overheads(times),
            read_ahead: Until::Segment,
            read_ahead_sectors: None,
            read_ahead_keeps_request: false,
            reads_on_arrival: false,
            write_cache_ranges: ranges,
            write_cache_sectors: (ranges * segment).min(BUFFER_SECTORS_LIMIT),
            reads_written_data: true,
        },
    }
}

fn overheads(of: &[&Published]) -> OverheadSpec {
    let mut medians = OverheadSpec::default();
    for (at, (_, time)) in medians.fields().into_iter().enumerate() {
        *time = median(of, |one| *one.controller.spec.overhead.clone().fields()[at].1);
    }
    medians
}

/// The maker of a drive: what comes before the first separator of its name.
fn maker(name: &str) -> String {
    name.split(['_', '-', ' ']).next().unwrap_or(name).to_ascii_lowercase()
}

fn median(of: &[&Published], value: impl Fn(&Published) -> f64) -> f64 {
    let mut values: Vec<f64> = of.iter().map(|one| value(one)).collect();
    values.sort_by(f64::total_cmp);
    let (low, high) = (values.len().saturating_sub(1) / 2, values.len() / 2);
    f64::midpoint(values.get(low).copied().unwrap_or(0.0), values.get(high).copied().unwrap_or(0.0))
}
