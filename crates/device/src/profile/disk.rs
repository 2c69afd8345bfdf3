//! The description of a disk: what its profile says, and the model that follows from it.
//!
//! The layout is given either as zones, or as the sustained rates of the outer and inner edge, from
//! which equal zones are derived: the rate falls linearly over the cylinders, and there are as many
//! cylinders as the capacity needs.

use super::Figures;
use super::error::ProfileError;
use super::keys::{Keys, limits, short};
use super::seek::SeekSpec;
use super::write::Writer;
use crate::geometry::{Geometry, SwitchTimes, ZoneShape};
use crate::seek::{DistanceMoments, SeekCurve};
use foreseek_units::{Bytes, Lba, Nanos, Rate, SECTOR_SIZE, Sectors};

/// Most zones. Fitted drives have up to 55; modern ones some hundreds.
const ZONES_LIMIT: usize = 1024;
/// Most heads: twice the largest stack of platters sold.
const HEADS_LIMIT: u64 = 64;
/// Most cylinders: an order of magnitude above today's disks.
const CYLINDERS_LIMIT: u64 = 1 << 23;
/// Most tracks, so that a pass over the disk in nanoseconds stays far below 2^64.
const TRACKS_LIMIT: u64 = 1 << 28;
/// Most sectors a track: two orders of magnitude above today's disks.
const SECTORS_PER_TRACK_LIMIT: u64 = 1 << 19;
/// Slowest and fastest spindle: a tenth and ten times of what was ever sold.
const ROTATION_RPM: (f64, f64) = (360.0, 150_000.0);
/// Longest time that a profile may give for anything mechanical: ten times a slow full stroke.
pub(super) const LONGEST_MS: f64 = 250.0;
/// Largest disk: fifty times today's.
pub(super) const CAPACITY_LIMIT: u64 = 1 << 50;
/// Rates, from a floppy disk to a hundred times today's disks.
pub(super) const RATE_MB_PER_S: (f64, f64) = (0.01, 100_000.0);
/// Most segments of the buffer; looked through at each request.
const SEGMENTS_LIMIT: u64 = 256;
/// Largest segment in KiB: 1 GiB.
const SEGMENT_KIB_LIMIT: u64 = 1 << 20;
/// By how much a stated sequential rate may differ from what follows from the layout and the bus.
const RATE_TOLERANCE: f64 = 0.02;
/// Positions over which random seeks are averaged: enough for 0.1 %, few enough for a millisecond.
const SAMPLES: usize = 512;

/// What a profile says of a disk.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct DiskSpec {
    pub(crate) capacity_bytes: u64,
    pub(crate) rotation_rpm: f64,
    pub(crate) average_seek_ms: f64,
    pub(crate) sequential_rate_mb_per_s: Option<f64>,
    pub(crate) infill_kib: Option<u64>,
    pub(crate) command_overhead_ms: f64,
    pub(crate) skip_overhead_ms: f64,
    pub(crate) bus_rate_mb_per_s: f64,
    pub(crate) head_switch_ms: f64,
    pub(crate) heads: u32,
    pub(crate) layout: LayoutSpec,
    pub(crate) seek: SeekSpec,
    pub(crate) segments: u64,
    pub(crate) segment_kib: u64,
}

/// How the tracks hold the sectors.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum LayoutSpec {
    /// So many equal zones between two sustained rates.
    Rates { zones: u64, outer_rate_mb_per_s: f64, inner_rate_mb_per_s: f64 },
    /// Each zone as it is.
    Zones(Vec<ZoneShape>),
}

/// What follows from a description.
#[derive(Clone, Debug)]
pub(crate) struct DiskModel {
    pub(crate) turn: Nanos,
    pub(crate) switch: SwitchTimes,
    pub(crate) shapes: Vec<ZoneShape>,
    pub(crate) geometry: Geometry,
    pub(crate) curve: SeekCurve,
    /// Mean sustained rate over all sectors, the bus in between.
    pub(crate) sequential: Rate,
    /// Sustained rate at the outer edge, the bus in between.
    pub(crate) outer: Rate,
    /// Mean seek between random sectors.
    pub(crate) mean_seek: Nanos,
}

impl DiskSpec {
    pub(super) fn read(keys: &mut Keys<'_>) -> Result<Self, ProfileError> {
        let rates = limits(RATE_MB_PER_S.0, RATE_MB_PER_S.1);
        let times = limits(0.0, LONGEST_MS);
        let spec = Self {
            capacity_bytes: keys.whole("capacity_bytes", limits(1 << 20, CAPACITY_LIMIT))?,
            rotation_rpm: keys.number("rotation_rpm", limits(ROTATION_RPM.0, ROTATION_RPM.1))?,
            average_seek_ms: keys.number("average_seek_ms", limits(0.001, LONGEST_MS))?,
            sequential_rate_mb_per_s: keys.number_if("sequential_rate_mb_per_s", rates)?,
            infill_kib: keys.whole_if("infill_kib", limits(0, SEGMENT_KIB_LIMIT))?,
            command_overhead_ms: keys.number("command_overhead_ms", times)?,
            skip_overhead_ms: keys.number_if("skip_overhead_ms", times)?.unwrap_or(0.0),
            bus_rate_mb_per_s: keys.number("bus_rate_mb_per_s", rates)?,
            head_switch_ms: keys.number("head_switch_ms", times)?,
            heads: keys.whole("heads", limits(1, HEADS_LIMIT))? as u32,
            layout: LayoutSpec::read(keys)?,
            seek: SeekSpec::read(keys.table("seek")?)?,
            segments: keys.whole("cache_segments", limits(0, SEGMENTS_LIMIT))?,
            segment_kib: keys.whole("cache_segment_kib", limits(0, SEGMENT_KIB_LIMIT))?,
        };
        if !spec.capacity_bytes.is_multiple_of(SECTOR_SIZE) {
            return Err(keys.wrong("capacity_bytes", format!("must be a multiple of {SECTOR_SIZE}")));
        }
        Ok(spec)
    }

    pub(super) fn write(&self, to: &mut Writer) {
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
        if let LayoutSpec::Rates { zones, outer_rate_mb_per_s, inner_rate_mb_per_s } = self.layout {
            to.whole("zones", zones);
            to.number("outer_rate_mb_per_s", outer_rate_mb_per_s);
            to.number("inner_rate_mb_per_s", inner_rate_mb_per_s);
        }
        to.whole("cache_segments", self.segments);
        to.whole("cache_segment_kib", self.segment_kib);
        self.seek.write(to);
        if let LayoutSpec::Zones(shapes) = &self.layout {
            for shape in shapes {
                to.list_item("zone");
                to.whole("cylinders", u64::from(shape.cylinders));
                to.whole("sectors_per_track", u64::from(shape.sectors_per_track));
                to.end_table();
            }
        }
    }

    pub(super) fn figures(&self, model: &DiskModel) -> Figures {
        let command = Nanos::from_millis_f64(self.command_overhead_ms.max(self.skip_overhead_ms));
        let infill = self.infill_kib.map_or_else(|| model.outer.in_time(command), Bytes::kib);
        Figures {
            capacity: self.capacity(),
            rotation_rpm: Some(self.rotation_rpm),
            average_seek: Some(Nanos::from_millis_f64(self.average_seek_ms)),
            modelled_seek: Some(model.mean_seek),
            switch_time: Nanos::from_millis_f64(self.average_seek_ms + 30_000.0 / self.rotation_rpm),
            sequential_rate: self.sequential_rate_mb_per_s.map_or(model.sequential, Rate::mb_per_second),
            command_overhead: Nanos::from_millis_f64(self.command_overhead_ms),
            infill,
        }
    }

    /// One revolution.
    pub(crate) fn turn(&self) -> Nanos {
        Nanos::from_secs_f64(60.0 / self.rotation_rpm)
    }

    /// The model of the disk; `keys` is where it was read from, for complaints.
    pub(super) fn model(&self, keys: &Keys<'_>) -> Result<DiskModel, ProfileError> {
        let turn = self.turn();
        let head = Nanos::from_millis_f64(self.head_switch_ms);
        let shortest = Nanos::from_millis_f64(self.seek.shortest_ms());
        let switch = SwitchTimes { head, cylinder: head.max(shortest) };
        let shapes = self.shapes(turn, switch, keys)?;
        let geometry = Geometry::new(self.heads, turn, switch, &shapes);
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
        let model = DiskModel { turn, switch, shapes, geometry, curve, sequential, outer, mean_seek };
        if let Some(stated) = self.sequential_rate_mb_per_s {
            check_rate(stated, model.sequential, keys)?;
        }
        Ok(model)
    }

    pub(crate) fn capacity(&self) -> Bytes {
        Bytes(self.capacity_bytes)
    }

    fn shapes(
        &self,
        turn: Nanos,
        switch: SwitchTimes,
        keys: &Keys<'_>,
    ) -> Result<Vec<ZoneShape>, ProfileError> {
        let shapes = match &self.layout {
            LayoutSpec::Zones(shapes) => shapes.clone(),
            LayoutSpec::Rates { zones, outer_rate_mb_per_s, inner_rate_mb_per_s } => {
                let (outer, inner) = (*outer_rate_mb_per_s, *inner_rate_mb_per_s);
                self.equal_zones(*zones, (outer, inner), turn, switch, keys)?
            }
        };
        let cylinders: u64 = shapes.iter().map(|shape| u64::from(shape.cylinders)).sum();
        let tracks = cylinders * u64::from(self.heads);
        if cylinders > CYLINDERS_LIMIT || tracks > TRACKS_LIMIT {
            let reason = format!(
                "need {cylinders} cylinders, {tracks} tracks; there may be {CYLINDERS_LIMIT} and {TRACKS_LIMIT}"
            );
            return Err(keys.wrong("heads", format!("with this capacity and layout the disk would {reason}")));
        }
        Ok(shapes)
    }

    fn equal_zones(
        &self,
        zones: u64,
        (outer, inner): (f64, f64),
        turn: Nanos,
        switch: SwitchTimes,
        keys: &Keys<'_>,
    ) -> Result<Vec<ZoneShape>, ProfileError> {
        let heads = f64::from(self.heads);
        let between_tracks =
            (switch.head.as_secs_f64() * (heads - 1.0) + switch.cylinder.as_secs_f64()) / heads;
        let per_track = |rate: f64| rate * 1e6 * (turn.as_secs_f64() + between_tracks) / SECTOR_SIZE as f64;
        let mut sectors_per_track = Vec::with_capacity(zones as usize);
        for zone in 0..zones {
            let share = if zones > 1 { zone as f64 / (zones - 1) as f64 } else { 0.5 };
            let sectors = per_track(outer + (inner - outer) * share).round();
            if !(4.0..=SECTORS_PER_TRACK_LIMIT as f64).contains(&sectors) {
                let reason = format!(
                    "a track would hold {} sectors, must be from 4 to {SECTORS_PER_TRACK_LIMIT}",
                    short(sectors)
                );
                let key = if zone == 0 { "outer_rate_mb_per_s" } else { "inner_rate_mb_per_s" };
                return Err(keys.wrong(key, reason));
            }
            sectors_per_track.push(sectors as u64);
        }
        let sectors = self.capacity().sectors_ceil().get();
        let row: u64 = sectors_per_track.iter().sum::<u64>() * u64::from(self.heads);
        let each = sectors / row;
        let mut rest = sectors % row;
        let shape = |sectors_per_track: u64| {
            // What whole zones leave over is spread from the outside in, a cylinder each.
            let one_more = rest > 0;
            rest = rest.saturating_sub(sectors_per_track * u64::from(self.heads));
            let cylinders = u32::try_from(each + u64::from(one_more)).unwrap_or(u32::MAX);
            ZoneShape { cylinders, sectors_per_track: sectors_per_track as u32 }
        };
        let shapes = sectors_per_track.into_iter().map(shape);
        Ok(shapes.filter(|shape| shape.cylinders > 0).collect())
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
        let cylinders: Vec<u32> = (0..SAMPLES).map(|sample| geometry.place(at(sample)).cylinder).collect();
        let mut sum = 0.0;
        for (i, one) in cylinders.iter().enumerate() {
            for other in &cylinders[..i] {
                sum += 2.0 * of(f64::from(one.abs_diff(*other)));
            }
            // Two sectors of one sample's share of the disk lie a third of it apart on average.
            let next = cylinders.get(i + 1).copied().unwrap_or(geometry.cylinders() - 1);
            sum += of((f64::from(next.abs_diff(*one)) / 3.0).floor());
        }
        sum / (SAMPLES * SAMPLES) as f64
    }

    /// The model's sectors.
    pub(crate) fn sectors(&self) -> Sectors {
        self.capacity().sectors_floor()
    }
}

/// Complains about a stated rate that the model contradicts.
pub(super) fn check_rate(stated: f64, modelled: Rate, keys: &Keys<'_>) -> Result<(), ProfileError> {
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

impl LayoutSpec {
    fn read(keys: &mut Keys<'_>) -> Result<Self, ProfileError> {
        let rates = limits(RATE_MB_PER_S.0, RATE_MB_PER_S.1);
        if !keys.has("zone") {
            let zones = keys.whole("zones", limits(1, ZONES_LIMIT as u64))?;
            let outer_rate_mb_per_s = keys.number("outer_rate_mb_per_s", rates)?;
            let inner_rate_mb_per_s = keys.number("inner_rate_mb_per_s", rates)?;
            if inner_rate_mb_per_s > outer_rate_mb_per_s {
                let (inner, outer) = (short(inner_rate_mb_per_s), short(outer_rate_mb_per_s));
                let reason = format!("is {inner}, must not be above outer_rate_mb_per_s, which is {outer}");
                return Err(keys.wrong("inner_rate_mb_per_s", reason));
            }
            return Ok(Self::Rates { zones, outer_rate_mb_per_s, inner_rate_mb_per_s });
        }
        let mut shapes = Vec::new();
        for mut zone in keys.tables("zone", limits(1, ZONES_LIMIT))? {
            shapes.push(ZoneShape {
                cylinders: zone.whole("cylinders", limits(1, CYLINDERS_LIMIT))? as u32,
                sectors_per_track: zone.whole("sectors_per_track", limits(4, SECTORS_PER_TRACK_LIMIT))?
                    as u32,
            });
            zone.finish()?;
        }
        Ok(Self::Zones(shapes))
    }
}
