//! The description of a disk: its profile, and the model that follows from it.
//!
//! [`super::layout`] reads the layout, [`super::controller`] the controller.

use super::controller::ControllerSpec;
use super::error::ProfileError;
use super::figures::Figures;
use super::keys::{Keys, bounds, short};
use super::layout::{self, LayoutSpec};
use super::limits::{
    BUFFER_SECTORS_LIMIT, CAPACITY_LIMIT, HEADS_LIMIT, LONGEST_MS, RATE_MB_PER_S, ROTATION_RPM,
    SEGMENTS_LIMIT,
};
use super::seek::SeekSpec;
use super::write::Writer;
use crate::controller::Controller;
use crate::geometry::{Geometry, LayoutShape, Mapping, Rules, Spares, SwitchTimes, TrackAddress};
use crate::seek::{DistanceMoments, SeekCurve};
use foreseek_units::{Bytes, Lba, Nanos, Rate, SECTOR_SIZE, Sectors};

/// Largest segment in KiB: 1 GiB.
const SEGMENT_KIB_LIMIT: u64 = 1 << 20;
/// The largest relative difference between a stated sequential rate and that of the layout and the bus.
const RATE_TOLERANCE: f64 = 0.02;
/// Positions over which random seeks are averaged: enough for 0.1 %, few enough for a millisecond.
const SAMPLES: usize = 512;

/// The description of a disk.
#[derive(Clone, Debug, PartialEq)]
pub struct DiskSpec {
    /// Its capacity for the host, a multiple of a sector.
    pub capacity_bytes: u64,
    /// Revolutions per minute.
    pub rotation_rpm: f64,
    /// The mean seek between random sectors.
    pub average_seek_ms: f64,
    /// The mean rate of sequential reading, if it is stated; otherwise it follows from the layout.
    pub sequential_rate_mb_per_s: Option<f64>,
    /// The largest gap that is cheaper to read than to skip, if it was measured.
    pub infill_kib: Option<u64>,
    /// The cost of a command before the access itself.
    pub command_overhead_ms: f64,
    /// The cost of a read that the stream answers across a gap.
    pub skip_overhead_ms: f64,
    /// The rate to the host.
    pub bus_rate_mb_per_s: f64,
    /// From one head to another on the same cylinder.
    pub head_switch_ms: f64,
    /// Surfaces with data.
    pub heads: u32,
    /// The layout of the sectors on tracks.
    pub layout: LayoutSpec,
    /// The seek curve.
    pub seek: SeekSpec,
    /// Segments of the buffer.
    pub segments: u64,
    /// The size of one, unless `segment_sectors` gives it.
    pub segment_kib: u64,
    /// The size of a segment if it is not a whole number of KiB.
    pub segment_sectors: Option<u64>,
    /// The additional wait of a write after a seek; negative if it is shorter.
    pub write_settle_ms: f64,
    /// The time until the head is on a track again without a seek.
    pub resettle_ms: f64,
    /// Whether a read may begin with any of its sectors.
    pub zero_latency: bool,
    /// The order of the tracks of a cylinder.
    pub mapping: Mapping,
    /// The position of spare sectors.
    pub spares: Spares,
    /// The details of its controller beside one overhead for each command.
    pub controller: Option<ControllerSpec>,
}

/// The model that follows from a description.
#[derive(Clone, Debug)]
pub(crate) struct DiskModel {
    pub(crate) rules: Rules,
    pub(crate) shapes: LayoutShape,
    pub(crate) geometry: Geometry,
    pub(crate) curve: SeekCurve,
    /// Mean sustained rate over all sectors, limited by the bus.
    pub(crate) sequential: Rate,
    /// Sustained rate at the outer edge, limited by the bus.
    pub(crate) outer: Rate,
    /// Mean seek between random sectors.
    pub(crate) mean_seek: Nanos,
}

impl DiskSpec {
    pub(crate) fn read(keys: &mut Keys<'_>) -> Result<Self, ProfileError> {
        let rates = bounds(RATE_MB_PER_S.0, RATE_MB_PER_S.1);
        let times = bounds(0.0, LONGEST_MS);
        let mut spec = Self {
            capacity_bytes: keys.whole("capacity_bytes", bounds(1 << 20, CAPACITY_LIMIT))?,
            rotation_rpm: keys.number("rotation_rpm", bounds(ROTATION_RPM.0, ROTATION_RPM.1))?,
            average_seek_ms: keys.number("average_seek_ms", bounds(0.001, LONGEST_MS))?,
            sequential_rate_mb_per_s: keys.number_if("sequential_rate_mb_per_s", rates)?,
            infill_kib: keys.whole_if("infill_kib", bounds(0, SEGMENT_KIB_LIMIT))?,
            command_overhead_ms: keys.number("command_overhead_ms", times)?,
            skip_overhead_ms: keys.number_if("skip_overhead_ms", times)?.unwrap_or(0.0),
            bus_rate_mb_per_s: keys.number("bus_rate_mb_per_s", rates)?,
            head_switch_ms: keys.number("head_switch_ms", times)?,
            heads: keys.whole("heads", bounds(1, HEADS_LIMIT))? as u32,
            layout: LayoutSpec::read(keys)?,
            seek: SeekSpec::read(keys.table("seek")?)?,
            segments: keys.whole("cache_segments", bounds(0, SEGMENTS_LIMIT))?,
            segment_kib: 0,
            segment_sectors: keys.whole_if("cache_segment_sectors", bounds(0, BUFFER_SECTORS_LIMIT))?,
            write_settle_ms: keys
                .number_if("write_settle_ms", bounds(-LONGEST_MS, LONGEST_MS))?
                .unwrap_or(0.0),
            resettle_ms: keys.number_if("resettle_ms", times)?.unwrap_or(0.0),
            zero_latency: keys.truth_or("zero_latency", false)?,
            mapping: layout::read_mapping(keys)?,
            spares: layout::read_spares(keys)?,
            controller: None,
        };
        if spec.segment_sectors.is_none() {
            spec.segment_kib = keys.whole("cache_segment_kib", bounds(0, SEGMENT_KIB_LIMIT))?;
        }
        if keys.has("controller") {
            spec.controller =
                Some(ControllerSpec::read(keys.table("controller")?, spec.command_overhead_ms)?);
        }
        if !spec.capacity_bytes.is_multiple_of(SECTOR_SIZE) {
            return Err(keys.wrong("capacity_bytes", format!("must be a multiple of {SECTOR_SIZE}")));
        }
        Ok(spec)
    }

    pub(crate) fn write(&self, to: &mut Writer) {
        to.whole("capacity_bytes", self.capacity_bytes);
        to.number("rotation_rpm", self.rotation_rpm);
        to.number("average_seek_ms", self.average_seek_ms);
        if let Some(rate) = self.sequential_rate_mb_per_s {
            to.number("sequential_rate_mb_per_s", rate);
        }
        if let Some(infill) = self.infill_kib {
            to.whole("infill_kib", infill);
        }
        to.number("command_overhead_ms", self.command_overhead_ms);
        to.number("skip_overhead_ms", self.skip_overhead_ms);
        to.number("bus_rate_mb_per_s", self.bus_rate_mb_per_s);
        to.number("head_switch_ms", self.head_switch_ms);
        to.whole("heads", u64::from(self.heads));
        if self.write_settle_ms != 0.0 {
            to.number("write_settle_ms", self.write_settle_ms);
        }
        if self.resettle_ms != 0.0 {
            to.number("resettle_ms", self.resettle_ms);
        }
        if self.zero_latency {
            to.truth("zero_latency", true);
        }
        layout::write_rules(self.mapping, self.spares, to);
        self.layout.write_rates(to);
        to.whole("cache_segments", self.segments);
        match self.segment_sectors {
            Some(sectors) => to.whole("cache_segment_sectors", sectors),
            None => to.whole("cache_segment_kib", self.segment_kib),
        }
        if let Some(controller) = &self.controller {
            controller.write(to);
        }
        self.seek.write(to);
        self.layout.write_zones(to);
    }

    pub(crate) fn figures(&self, model: &DiskModel) -> Figures {
        let command = Nanos::from_millis_f64(self.command_overhead_ms.max(self.skip_overhead_ms));
        let infill = self.infill_kib.map_or_else(|| model.outer.in_time(command), Bytes::kib);
        Figures {
            capacity: self.capacity(),
            rotation_rpm: Some(self.rotation_rpm),
            average_seek: Some(Nanos::from_millis_f64(self.average_seek_ms)),
            modelled_seek: Some(model.mean_seek),
            positioning_time: Nanos::from_millis_f64(self.average_seek_ms + 30_000.0 / self.rotation_rpm),
            sequential_rate: self.sequential_rate_mb_per_s.map_or(model.sequential, Rate::mb_per_second),
            command_overhead: Nanos::from_millis_f64(self.command_overhead_ms),
            infill,
        }
    }

    /// One revolution.
    pub(crate) fn rotation_period(&self) -> Nanos {
        Nanos::from_secs_f64(60.0 / self.rotation_rpm)
    }

    /// The model of the disk; `keys` is its source, for errors.
    pub(crate) fn model(&self, keys: &Keys<'_>) -> Result<DiskModel, ProfileError> {
        let rotation_period = self.rotation_period();
        let head = Nanos::from_millis_f64(self.head_switch_ms);
        let shortest = Nanos::from_millis_f64(self.seek.shortest_ms());
        let cylinder = head.max(shortest);
        let switch = SwitchTimes::new(head, cylinder);
        let mut rules =
            Rules { heads: self.heads, rotation_period, switch, mapping: self.mapping, spares: self.spares };
        let shapes = self.layout.shapes(&rules, self.capacity(), keys)?;
        rules.switch.gap = cylinder.max(Nanos::from_millis_f64(self.seek.at_most_ms(widest_gap(&shapes))));
        let geometry = self.geometry(&rules, &shapes);
        let held = geometry.sectors().bytes();
        if held < self.capacity() {
            let reason = format!("is {}, but the zones hold only {held}", self.capacity());
            return Err(keys.wrong("capacity_bytes", reason));
        }
        let moments = self.moments(&geometry);
        let curve = self.seek.curve(self.average_seek_ms, geometry.cylinders(), &moments, keys)?;
        let mean_seek = self.mean_over_pairs(&geometry, |distance| curve.time(distance).get() as f64);
        let bus = Rate::mb_per_second(self.bus_rate_mb_per_s);
        let sequential = geometry.mean_rate(self.capacity().sectors_floor(), bus);
        let slower = |rate: Rate| if rate < bus { rate } else { bus };
        let outer = slower(geometry.rate_at(Lba::ZERO));
        let mean_seek = Nanos(mean_seek as u64);
        let model = DiskModel { rules, shapes, geometry, curve, sequential, outer, mean_seek };
        if let Some(stated) = self.sequential_rate_mb_per_s {
            check_rate(stated, model.sequential, keys)?;
        }
        Ok(model)
    }

    /// A layout with this disk's movements between tracks.
    pub(crate) fn geometry(&self, rules: &Rules, shapes: &LayoutShape) -> Geometry {
        let seek = |distance: u32| Nanos::from_millis_f64(self.seek.at_most_ms(distance));
        let moves = |from: TrackAddress, to: TrackAddress| match from.cylinder.abs_diff(to.cylinder) {
            0 if from.head == to.head => Nanos::ZERO,
            0 => rules.switch.head,
            distance => seek(distance).max(rules.switch.head),
        };
        Geometry::of(rules, shapes, &moves)
    }

    /// The model of a disk without a profile; `file` names it in errors.
    fn modelled(&self, file: &str) -> Result<DiskModel, ProfileError> {
        self.model(&Keys::new(file, &toml::Table::new()))
    }

    /// The layout of its sectors, including those beyond its capacity. `file` names it in errors.
    ///
    /// # Errors
    /// Numbers that do not fit together.
    pub fn laid_out(&self, file: &str) -> Result<Geometry, ProfileError> {
        Ok(self.modelled(file)?.geometry)
    }

    /// The mean seek between random sectors of its capacity. `file` names it in errors.
    ///
    /// # Errors
    /// Numbers that do not fit together.
    pub fn mean_seek(&self, file: &str) -> Result<Nanos, ProfileError> {
        Ok(self.modelled(file)?.mean_seek)
    }

    pub(crate) fn capacity(&self) -> Bytes {
        Bytes(self.capacity_bytes)
    }

    fn moments(&self, geometry: &Geometry) -> DistanceMoments {
        let mean = |of: fn(f64) -> f64| self.mean_over_pairs(geometry, of);
        DistanceMoments {
            longest: f64::from(geometry.cylinders() - 1),
            at_zero: mean(|distance| f64::from(u8::from(distance < 1.0))),
            root: mean(|distance| (distance - 1.0).max(0.0).sqrt()),
            linear: mean(|distance| (distance - 1.0).max(0.0)),
        }
    }

    /// The mean of a function of the distance in cylinders between two random sectors.
    fn mean_over_pairs(&self, geometry: &Geometry, of: impl Fn(f64) -> f64) -> f64 {
        let sectors = self.capacity().sectors_floor().get();
        let at = |sample: usize| Lba((sectors as f64 * (sample as f64 + 0.5) / SAMPLES as f64) as u64);
        let cylinders: Vec<u32> =
            (0..SAMPLES).map(|sample| geometry.track_address(at(sample)).cylinder).collect();
        let mut sum = 0.0;
        for (i, one) in cylinders.iter().enumerate() {
            for other in &cylinders[..i] {
                sum += 2.0 * of(f64::from(one.abs_diff(*other)));
            }
            // Two sectors of one sample's share of the disk are a third of it apart on average.
            let next = cylinders.get(i + 1).copied().unwrap_or(geometry.cylinders() - 1);
            sum += of((f64::from(next.abs_diff(*one)) / 3.0).floor());
        }
        sum / (SAMPLES * SAMPLES) as f64
    }

    /// The size of a segment of the buffer.
    pub(crate) fn segment(&self) -> Sectors {
        self.segment_sectors.map_or(Bytes::kib(self.segment_kib).sectors_floor(), Sectors)
    }

    /// Its controller.
    pub(crate) fn controller(&self) -> Controller {
        match &self.controller {
            Some(spec) => spec.controller(),
            None => Controller::plain(Nanos::from_millis_f64(self.command_overhead_ms)),
        }
    }

    /// The model's sectors.
    pub(crate) fn sectors(&self) -> Sectors {
        self.capacity().sectors_floor()
    }
}

/// The widest gap between two zones, in cylinders from the last of one to the first of the next.
fn widest_gap(shapes: &LayoutShape) -> u32 {
    let (mut widest, mut next) = (1, 0);
    let LayoutShape::Zones(zones) = shapes else { return widest };
    for shape in zones {
        let first = shape.first_cylinder(next);
        widest = widest.max((first - next).saturating_add(1));
        next = first + shape.cylinders;
    }
    widest
}

/// Refuses a stated rate that the model contradicts.
pub(crate) fn check_rate(stated: f64, modelled: Rate, keys: &Keys<'_>) -> Result<(), ProfileError> {
    let modelled = modelled.as_mb_per_second();
    if (modelled / stated - 1.0).abs() <= RATE_TOLERANCE {
        return Ok(());
    }
    let reason = format!(
        "is {}, but the rest of the profile gives {modelled:.1} on average: change one of them, or leave this out",
        short(stated)
    );
    Err(keys.wrong("sequential_rate_mb_per_s", reason))
}
