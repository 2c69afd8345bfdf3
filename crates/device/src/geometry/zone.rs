//! A zone with its computed layout.
//!
//! *Slots* divide the time of the sequential pass over a zone: a sector is `fine` of them, a track its
//! sectors, a skew some more. Skews of whole sectors need one slot per sector; skews that are fractions of a
//! revolution need finer ones.

use super::shape::{Mapping, Rules, TrackAddress, ZoneDetail, ZoneShape};
use super::spread::Spread;
use foreseek_units::{Lba, Nanos};

/// Slots per sector if skews are not whole sectors: a thousandth of a sector is some ten nanoseconds, finer
/// than any extraction resolves, and every product stays below 2^64.
const FINE: u64 = 1024;

/// A zone.
#[derive(Clone, Debug)]
pub(super) struct Zone {
    first_cylinder: u32,
    cylinders: u32,
    first_lba: u64,
    end_lba: u64,
    /// When its first physical sector passes in the sequential pass.
    base: u64,
    heads: u64,
    sectors_per_track: u64,
    /// Slots per sector.
    fine: u64,
    slots_per_track: u64,
    slots_per_cylinder: u64,
    mapping: Mapping,
    /// `None` if every sector has data.
    spread: Option<Box<Spread>>,
}

impl Zone {
    /// Lays a zone out behind another.
    pub(super) fn after(before: Option<&Self>, rules: &Rules, shape: &ZoneShape) -> Self {
        let rotation_period = rules.rotation_period.get();
        let sectors = u64::from(shape.sectors_per_track);
        let heads = u64::from(rules.heads);
        let fine = shape.detail.as_ref().map_or(1, fineness);
        let hides = |time: Nanos| (time.get() * sectors * fine).div_ceil(rotation_period);
        // A stated skew that is shorter than the movement costs one or several revolutions more.
        let skew = |stated: f64, movement: Nanos| {
            let slots = (stated * fine as f64).round() as u64;
            let round = sectors * fine;
            slots + hides(movement).saturating_sub(slots).div_ceil(round) * round
        };
        let (track, cylinder) = match &shape.detail {
            None => (hides(rules.switch.head), hides(rules.switch.cylinder)),
            Some(detail) => (
                skew(detail.track_skew, rules.switch.head),
                skew(detail.cylinder_skew, rules.switch.cylinder),
            ),
        };
        let slots_per_track = sectors * fine + track;
        let slots_per_cylinder = (heads - 1) * slots_per_track + sectors * fine + cylinder;
        let spread = Spread::new(rules, shape).map(Box::new);
        let held = spread.as_ref().map_or(shape.physical(rules.heads), |spread| spread.held());
        let first_lba = before.map_or(0, Self::end_lba);
        let next_cylinder = before.map_or(0, Self::end_cylinder);
        let first_cylinder = shape.first_cylinder(next_cylinder);
        let mut zone = Self {
            first_cylinder,
            cylinders: shape.cylinders,
            first_lba,
            end_lba: first_lba + held,
            base: 0,
            heads,
            sectors_per_track: sectors,
            fine,
            slots_per_track,
            slots_per_cylinder,
            mapping: rules.mapping,
            spread,
        };
        zone.base = match &shape.detail {
            None => before.map_or(0, |before| before.whole_pass(rotation_period)),
            Some(detail) => {
                let gap =
                    if first_cylinder > next_cylinder { rules.switch.gap } else { rules.switch.cylinder };
                let earliest = before.map_or(0, |before| before.last_pass(rotation_period) + gap.get());
                let angle = zone.time_of_slot(rotation_period, (detail.offset * fine as f64).round() as u64)
                    % rotation_period;
                earliest + (angle + rotation_period - earliest % rotation_period) % rotation_period
            }
        };
        zone
    }

    pub(super) fn first_lba(&self) -> u64 {
        self.first_lba
    }

    pub(super) fn end_lba(&self) -> u64 {
        self.end_lba
    }

    pub(super) fn end_cylinder(&self) -> u32 {
        self.first_cylinder + self.cylinders
    }

    pub(super) fn begins(&self) -> Nanos {
        Nanos(self.base)
    }

    pub(super) fn sectors_per_track(&self) -> u64 {
        self.sectors_per_track
    }

    pub(super) fn heads(&self) -> u64 {
        self.heads
    }

    /// The position of a sector.
    pub(super) fn track_address(&self, lba: Lba) -> TrackAddress {
        self.address_of(self.physical(lba) / self.sectors_per_track)
    }

    /// The position of a sector, and when it begins to pass.
    pub(super) fn locate(&self, rotation_period: u64, lba: Lba) -> (TrackAddress, Nanos) {
        let physical = self.physical(lba);
        let passes = self.base + self.time_of_slot(rotation_period, self.slot_of(physical));
        (self.address_of(physical / self.sectors_per_track), Nanos(passes))
    }

    /// When a sector has passed.
    pub(super) fn passed(&self, rotation_period: u64, lba: Lba) -> Nanos {
        Nanos(self.base + self.time_of_slot(rotation_period, self.slot_of(self.physical(lba)) + self.fine))
    }

    /// The first sector that has not wholly passed at a time of the sequential pass.
    pub(super) fn reached(&self, rotation_period: u64, time: Nanos) -> Lba {
        let since = time.get().saturating_sub(self.base);
        let round = self.sectors_per_track * self.fine;
        // The largest slot that begins not later than `since`.
        let slots =
            since / rotation_period * round + ((since % rotation_period + 1) * round - 1) / rotation_period;
        let cylinder = slots / self.slots_per_cylinder;
        let rest = slots % self.slots_per_cylinder;
        let head = (rest / self.slots_per_track).min(self.heads - 1);
        let sector = ((rest - head * self.slots_per_track) / self.fine).min(self.sectors_per_track);
        let physical = (cylinder * self.heads + head) * self.sectors_per_track + sector;
        let within = self.spread.as_ref().map_or(physical, |spread| spread.logical(physical));
        Lba((self.first_lba + within).min(self.end_lba))
    }

    /// The end of the group of this many tracks that contains a sector.
    pub(super) fn track_end(&self, lba: Lba, tracks: u64) -> Lba {
        let group = tracks * self.sectors_per_track;
        let end = (self.physical(lba) / group + 1) * group;
        let within = self.spread.as_ref().map_or(end, |spread| spread.logical(end));
        Lba((self.first_lba + within).min(self.end_lba))
    }

    /// The start of the track of a sector.
    pub(super) fn track_start(&self, lba: Lba) -> Lba {
        let start = self.physical(lba) / self.sectors_per_track * self.sectors_per_track;
        Lba(self.first_lba + self.spread.as_ref().map_or(start, |spread| spread.logical(start)))
    }

    /// The mean number of data sectors of a cylinder, and the time of a pass over it.
    pub(super) fn cylinder(&self, rotation_period: u64) -> (f64, Nanos) {
        let physical = self.sectors_per_track * self.heads;
        let all = physical * u64::from(self.cylinders);
        let share =
            if self.spread.is_some() { (self.end_lba - self.first_lba) as f64 / all as f64 } else { 1.0 };
        (physical as f64 * share, Nanos(self.time_of_slot(rotation_period, self.slots_per_cylinder)))
    }

    /// A remapped sector: its address, and the position and time of its replacement. `None` if no data are
    /// concerned.
    pub(super) fn remapped(
        &self,
        rules: &Rules,
        (from, to): (u64, u64),
    ) -> Option<(u64, TrackAddress, Nanos)> {
        let within = self.spread.as_ref().map_or(from, |spread| spread.logical(from));
        let lba = self.first_lba + within;
        if from == to || lba >= self.end_lba || self.physical(Lba(lba)) != from {
            return None;
        }
        let passes = self.base + self.time_of_slot(rules.rotation_period.get(), self.slot_of(to));
        Some((lba, self.address_of(to / self.sectors_per_track), Nanos(passes)))
    }

    fn physical(&self, lba: Lba) -> u64 {
        let within = lba.get() - self.first_lba;
        self.spread.as_ref().map_or(within, |spread| spread.physical(within))
    }

    fn address_of(&self, track: u64) -> TrackAddress {
        let (cylinder, head) = ((track / self.heads) as u32, (track % self.heads) as u32);
        let down = match self.mapping {
            Mapping::Conventional => false,
            Mapping::SerpentineByZone => cylinder % 2 == 1,
            Mapping::Serpentine => (self.first_cylinder + cylinder) % 2 == 1,
        };
        let head = if down { self.heads as u32 - 1 - head } else { head };
        TrackAddress { cylinder: self.first_cylinder + cylinder, head }
    }

    /// The slot at which a physical sector begins.
    fn slot_of(&self, physical: u64) -> u64 {
        let (track, sector) = (physical / self.sectors_per_track, physical % self.sectors_per_track);
        let (cylinder, head) = (track / self.heads, track % self.heads);
        cylinder * self.slots_per_cylinder + head * self.slots_per_track + sector * self.fine
    }

    /// When a slot begins, from the zone's start: `floor(slot x rotation_period / slots per rotation_period)`, without the
    /// overflow.
    fn time_of_slot(&self, rotation_period: u64, slot: u64) -> u64 {
        let round = self.sectors_per_track * self.fine;
        slot / round * rotation_period + slot % round * rotation_period / round
    }

    /// When the pass over the zone is over, including the last cylinder's skew.
    fn whole_pass(&self, rotation_period: u64) -> u64 {
        self.base + self.time_of_slot(rotation_period, u64::from(self.cylinders) * self.slots_per_cylinder)
    }

    /// When its last physical sector has passed.
    fn last_pass(&self, rotation_period: u64) -> u64 {
        let last = u64::from(self.cylinders) * self.heads * self.sectors_per_track - 1;
        self.base + self.time_of_slot(rotation_period, self.slot_of(last) + self.fine)
    }
}

/// The slots per sector that a zone's skews and offset need.
fn fineness(detail: &ZoneDetail) -> u64 {
    let stated = [detail.track_skew, detail.cylinder_skew, detail.offset];
    if stated.iter().all(|skew| skew.fract() == 0.0) { 1 } else { FINE }
}
