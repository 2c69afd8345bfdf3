//! Builds a device from a profile.

use crate::array::{self, Array, Members, Plan};
use crate::disk::{self, Disk};
use crate::geometry::{Geometry, LayoutShape, SectionShape, TracksShape, ZoneDetail, ZoneShape};
use crate::io::Device;
use crate::mechanics::Mechanics;
use crate::profile::{Profile, Spec};
use crate::queue::Queue;
use crate::remote::{self, Remote};
use crate::segments::Buffer;
use crate::spec::{ArraySpec, DiskModel, DiskSpec};
use foreseek_units::{Bytes, Lba, Nanos, Rate, SECTOR_SIZE, SectorSpan, Sectors};

/// The largest queue of one disk: the tags of a Serial Attached SCSI disk are the most on the market, and
/// nearest-access choice examines all of them.
pub const QUEUE_DEPTH_LIMIT: usize = 256;
/// The most ranges of unreadable sectors: a list for tests, searched at each read.
pub const UNREADABLE_LIMIT: usize = 4096;
/// The least size of a device: less than a track of most disks.
pub const SIZE_LEAST: Bytes = Bytes::mib(1);

/// The fewest cylinders to which a full stroke can be fitted: with fewer there are hardly any different
/// distances.
pub const FIT_CYLINDERS_LEAST: u64 = 8;

/// The same in repetitions of the longest pattern of tracks, for a description by tracks.
const FIT_PATTERNS_LEAST: u64 = 4;

/// The options for building a device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Build {
    /// The size of the device; `None` for all. Without `fit` it is the outer part.
    pub size: Option<Bytes>,
    /// Fits the full stroke to `size`, so that a small disk seeks like the whole one.
    pub fit: bool,
    /// The order in which a disk serves its waiting requests.
    pub queue: Queue,
    /// The requests that a disk holds. An array holds as many for each of its members, a remote volume at
    /// least as many as it serves at a time.
    pub queue_depth: usize,
    /// Where random parts of the model start: the angles of platters, the latencies of a network.
    pub seed: u64,
    /// Sectors of the device that cannot be read. For an array they are on the members that hold them, so
    /// that RAID-5 reads around them if a row has lost at most one strip.
    pub unreadable: Vec<SectorSpan>,
    /// The member of an array that has failed, counted from zero.
    pub failed_member: Option<usize>,
}

impl Default for Build {
    fn default() -> Self {
        Self {
            size: None,
            fit: false,
            queue: Queue::Sptf,
            queue_depth: 32,
            seed: 0,
            unreadable: Vec::new(),
            failed_member: None,
        }
    }
}

/// Why no device can be built from a profile.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BuildError {
    /// Larger than the profile's device.
    #[error("device profile {profile}: the device holds {capacity}, {size} were asked for")]
    TooLarge {
        /// The profile.
        profile: String,
        /// The requested size.
        size: Bytes,
        /// The capacity.
        capacity: Bytes,
    },
    /// Smaller than the least.
    #[error("device profile {profile}: a size of {size} is too small, it must be at least {least}")]
    TooSmall {
        /// The profile.
        profile: String,
        /// The requested size.
        size: Bytes,
        /// The least size.
        least: Bytes,
    },
    /// Not a whole number of sectors.
    #[error("device profile {profile}: a size of {} bytes is no multiple of {SECTOR_SIZE}", size.get())]
    NotSectors {
        /// The profile.
        profile: String,
        /// The requested size.
        size: Bytes,
    },
    /// A queue of zero requests, or of too many.
    #[error("device profile {profile}: a queue depth of {depth} is not from 1 to {}", QUEUE_DEPTH_LIMIT)]
    QueueDepth {
        /// The profile.
        profile: String,
        /// The requested depth.
        depth: usize,
    },
    /// Unreadable sectors that the device does not have, or too many ranges of them.
    #[error("device profile {profile}: unreadable sectors {}..{}: {reason}", range.start.get(), range.end.get())]
    Unreadable {
        /// The profile.
        profile: String,
        /// The range.
        range: SectorSpan,
        /// What is wrong with it.
        reason: String,
    },
    /// A failed member that the device does not have.
    #[error("device profile {profile}: member {member} cannot have failed: {reason}")]
    Member {
        /// The profile.
        profile: String,
        /// The member.
        member: usize,
        /// The reason.
        reason: String,
    },
}

/// Builds a member of an array from its disk.
pub type Member<'a> = &'a mut dyn FnMut(Box<dyn Device>) -> Box<dyn Device>;

impl Profile {
    /// Builds the device.
    ///
    /// # Errors
    /// An impossible size or queue depth; unreadable sectors or a failed member that the device does not
    /// have.
    pub fn build(&self, options: &Build) -> Result<Box<dyn Device>, BuildError> {
        self.build_over(options, &mut |disk| disk)
    }

    /// Builds the device, with something in front of each member of an array, such as a scheduler.
    ///
    /// # Errors
    /// As [`build`](Self::build).
    pub fn build_over(&self, options: &Build, member: Member<'_>) -> Result<Box<dyn Device>, BuildError> {
        let capacity = self.size_of(options)?;
        if !(1..=QUEUE_DEPTH_LIMIT).contains(&options.queue_depth) {
            let depth = options.queue_depth;
            return Err(BuildError::QueueDepth { profile: self.name().to_owned(), depth });
        }
        let unreadable = self.unreadable_of(options, capacity)?;
        if let Some(member) = options.failed_member {
            self.check_member(member)?;
        }
        Ok(match self.spec() {
            Spec::Disk(spec, model) => {
                Box::new(Disk::new(disk_parts(spec, model, capacity, options, unreadable, 0)))
            }
            Spec::Array(spec) => {
                Box::new(Array::new(array_parts(spec, capacity, options, &unreadable, member)))
            }
            Spec::Remote(spec) => Box::new(Remote::new(remote::Parts {
                latency: spec.latency(),
                link: spec.link(),
                link_burst: spec.link_burst(),
                spacing: spec.spacing(),
                spacing_burst: spec.spacing_burst(),
                parallel: spec.parallel(),
                depth: options.queue_depth.max(spec.parallel()),
                capacity,
                seed: options.seed,
                unreadable,
            })),
        })
    }

    fn check_member(&self, member: usize) -> Result<(), BuildError> {
        let wrong =
            |reason: String| Err(BuildError::Member { profile: self.name().to_owned(), member, reason });
        match self.spec() {
            Spec::Array(spec) if (member as u64) < spec.stripes().members => Ok(()),
            Spec::Array(spec) => wrong(format!("the array has {}, counted from 0", spec.stripes().members)),
            _ => wrong(format!("a {} has no members", self.kind())),
        }
    }

    fn size_of(&self, options: &Build) -> Result<Sectors, BuildError> {
        let profile = || self.name().to_owned();
        let size = options.size.unwrap_or(self.capacity());
        let least = if options.fit { self.least_fit() } else { SIZE_LEAST };
        match () {
            () if size > self.capacity() => {
                Err(BuildError::TooLarge { profile: profile(), size, capacity: self.capacity() })
            }
            () if size < least => Err(BuildError::TooSmall { profile: profile(), size, least }),
            () if !size.get().is_multiple_of(SECTOR_SIZE) => {
                Err(BuildError::NotSectors { profile: profile(), size })
            }
            () => Ok(size.sectors_floor()),
        }
    }

    /// The least size to which a full stroke can be fitted.
    fn least_fit(&self) -> Bytes {
        let (model, spec, members) = match self.spec() {
            Spec::Disk(spec, model) => (&**model, &**spec, 1),
            Spec::Array(array) => (&array.model, &array.disk, array.stripes().data_strips()),
            Spec::Remote(_) => return SIZE_LEAST,
        };
        let cylinders = match &model.shapes {
            LayoutShape::Zones(zones) => {
                let track = zones.first().map_or(0, |zone| u64::from(zone.sectors_per_track));
                track * u64::from(spec.heads) * FIT_CYLINDERS_LEAST
            }
            // Patterns are not split.
            LayoutShape::Tracks(tracks) => {
                tracks.sections.iter().map(|section| section.sectors_each).max().unwrap_or(0)
                    * FIT_PATTERNS_LEAST
            }
        };
        Sectors(cylinders * members).bytes().max(SIZE_LEAST).min(self.capacity())
    }

    /// The unreadable sectors, sorted and joined.
    fn unreadable_of(&self, options: &Build, capacity: Sectors) -> Result<Vec<SectorSpan>, BuildError> {
        let wrong = |range: SectorSpan, reason: String| BuildError::Unreadable {
            profile: self.name().to_owned(),
            range,
            reason,
        };
        let mut spans = options.unreadable.clone();
        if let Some(&range) = spans.get(UNREADABLE_LIMIT) {
            return Err(wrong(range, format!("there may be {UNREADABLE_LIMIT} ranges")));
        }
        if let Some(&range) = spans.iter().find(|span| span.is_empty()) {
            return Err(wrong(range, "holds no sector: give first..past the last".to_owned()));
        }
        if let Some(&range) = spans.iter().find(|span| span.end > Lba(capacity.get())) {
            return Err(wrong(range, format!("the device has {} sectors", capacity.get())));
        }
        spans.sort_unstable();
        let mut joined: Vec<SectorSpan> = Vec::with_capacity(spans.len());
        for span in spans {
            match joined.last_mut().filter(|last| last.end >= span.start) {
                Some(last) => last.end = last.end.max(span.end),
                None => joined.push(span),
            }
        }
        Ok(joined)
    }
}

/// The parts of one disk of `capacity`; `member` is the number of the disk in its device, so that platters do
/// not rotate in step.
fn disk_parts(
    spec: &DiskSpec,
    model: &DiskModel,
    capacity: Sectors,
    options: &Build,
    unreadable: Vec<SectorSpan>,
    member: u64,
) -> disk::Parts {
    let (geometry, stretch) =
        if options.fit { fitted(spec, model, capacity) } else { (model.geometry.clone(), 1.0) };
    let angle = Nanos(crate::random::mix(options.seed, member) % model.rules.rotation_period.get());
    disk::Parts {
        mechanics: Mechanics {
            geometry,
            seek: model.curve.clone(),
            head_switch: model.rules.switch.head,
            resettle: Nanos::from_millis_f64(spec.resettle_ms),
            write_settle: (spec.write_settle_ms * 1e6).round() as i64,
            zero_latency: spec.zero_latency,
            stretch,
            angle,
        },
        buffer: Buffer::new(spec.segments as usize, spec.segment()),
        controller: spec.controller(),
        skip: Nanos::from_millis_f64(spec.skip_overhead_ms),
        bus: Rate::mb_per_second(spec.bus_rate_mb_per_s),
        queue: options.queue,
        depth: options.queue_depth,
        capacity,
        unreadable,
    }
}

/// The layout of a smaller disk whose outermost and innermost cylinders are as far apart as the whole disk's,
/// and the factor by which each cylinder counts for more.
fn fitted(spec: &DiskSpec, model: &DiskModel, capacity: Sectors) -> (Geometry, f64) {
    let share = capacity.get() as f64 / spec.sectors().get() as f64;
    let shapes = match &model.shapes {
        LayoutShape::Zones(zones) => LayoutShape::Zones(fewer_cylinders(zones, spec, capacity, share)),
        LayoutShape::Tracks(tracks) => LayoutShape::Tracks(fewer_repetitions(tracks, capacity, share)),
    };
    let geometry = spec.geometry(&model.rules, &shapes);
    let steps = |cylinders: u32| f64::from(cylinders.saturating_sub(2).max(1));
    let stretch = steps(model.geometry.cylinders()) / steps(geometry.cylinders());
    (geometry, stretch)
}

/// Zones with a share of their cylinders that hold `capacity` in sum.
fn fewer_cylinders(zones: &[ZoneShape], spec: &DiskSpec, capacity: Sectors, share: f64) -> Vec<ZoneShape> {
    // Rounding the ends of zones, not their lengths, keeps their shares with any number of cylinders.
    let mut whole = 0u64;
    let mut before = 0u32;
    let scaled = |shape: &ZoneShape| {
        whole += u64::from(shape.cylinders);
        let until = (whole as f64 * share).round() as u32;
        let first = std::mem::replace(&mut before, until);
        shortened(shape, first, until - first)
    };
    let mut shapes: Vec<ZoneShape> = zones.iter().map(scaled).filter(|shape| shape.cylinders > 0).collect();
    if shapes.is_empty() {
        // Less than half a cylinder in all: the outermost zone is used.
        shapes.extend(zones.first().map(|shape| shortened(shape, 0, 1)));
    }
    let held = |shape: &ZoneShape| shape.physical(spec.heads);
    let missing = capacity.get().saturating_sub(shapes.iter().map(held).sum());
    if let Some(last) = shapes.last_mut() {
        let cylinder = u64::from(last.sectors_per_track) * u64::from(spec.heads);
        last.cylinders += missing.div_ceil(cylinder) as u32;
    }
    shapes
}

/// Sections with a share of their repetitions that hold `capacity` in sum, without slips and remaps. A
/// pattern begins where the one before ended, a pattern's cylinders apart.
fn fewer_repetitions(tracks: &TracksShape, capacity: Sectors, share: f64) -> TracksShape {
    let spans: Vec<i64> = tracks.patterns.iter().map(|pattern| TracksShape::cylinders_of(pattern)).collect();
    let (mut whole, mut before, mut cylinder, mut held) = (0, 0, 0, 0);
    let mut sections = Vec::new();
    for section in &tracks.sections {
        whole += section.times();
        let until = (whole as f64 * share).round() as u64;
        let times = until - std::mem::replace(&mut before, until);
        if times > 0 {
            let (sectors, span) = (times * section.sectors_each, spans[section.pattern]);
            sections.push(SectionShape { sectors, cylinder, cylinder_step: span, ..*section });
            cylinder += times as i64 * span;
            held += sectors;
        }
    }
    if let Some(first) = tracks.sections.first().filter(|_| sections.is_empty()) {
        let (sectors, cylinder_step) = (first.sectors_each, spans[first.pattern]);
        sections.push(SectionShape { sectors, cylinder: 0, cylinder_step, ..*first });
        held += sectors;
    }
    if let Some(last) = sections.last_mut() {
        last.sectors += capacity.get().saturating_sub(held).div_ceil(last.sectors_each) * last.sectors_each;
    }
    TracksShape { patterns: tracks.patterns.clone(), sections, ..TracksShape::default() }
}

/// A zone with other cylinders and without its own defects and spares.
fn shortened(shape: &ZoneShape, first_cylinder: u32, cylinders: u32) -> ZoneShape {
    let whole = |detail: &ZoneDetail| ZoneDetail {
        first_cylinder,
        track_skew: detail.track_skew,
        cylinder_skew: detail.cylinder_skew,
        offset: detail.offset,
        ..ZoneDetail::default()
    };
    ZoneShape { cylinders, detail: shape.detail.as_ref().map(whole), ..*shape }
}

/// An array of `capacity` whose every sector is readable, for tests of its internals.
#[cfg(test)]
pub(crate) fn array_of(spec: &ArraySpec, capacity: Sectors, options: &Build) -> Array {
    Array::new(array_parts(spec, capacity, options, &[], &mut |disk| disk))
}

/// The parts of an array of `capacity`.
fn array_parts(
    spec: &ArraySpec,
    capacity: Sectors,
    options: &Build,
    unreadable: &[SectorSpan],
    member: Member<'_>,
) -> array::Parts {
    let stripes = spec.stripes();
    let each = stripes.strip * stripes.rows_for(capacity);
    let disk = |number: u64| {
        let unreadable = stripes.unreadable_on(unreadable, number);
        let disk = Disk::new(disk_parts(&spec.disk, &spec.model, each, options, unreadable, number));
        member(Box::new(disk))
    };
    let failed = options.failed_member.map_or(Members::default(), |member| Members::one(member as u64));
    array::Parts {
        stripes,
        disks: (0..stripes.members).map(disk).collect(),
        failed,
        link: Rate::mb_per_second(spec.link_rate_mb_per_s),
        overhead: spec.overhead(),
        depth: options.queue_depth * stripes.members as usize,
        capacity,
    }
}
