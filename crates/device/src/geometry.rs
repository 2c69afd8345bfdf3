//! Where a sector lies: logical address -> zone, cylinder, head, sector, and the angle at which it
//! passes under the head.
//!
//! Tracks of a cylinder follow one another, then the next cylinder; every track of a zone holds the
//! same number of sectors. The first sector of a track is turned against the last of the track
//! before by the *track skew* (head switch) or, at a cylinder's end, by the *cylinder skew* (seek of
//! one cylinder), so that a sequential pass loses just these.
//!
//! One function carries all of it. [`Geometry::passes_at`] is the time at which a sector begins to
//! pass under its head in one sequential pass over the whole disk that starts at angle zero: the
//! angle of a sector is that time modulo a turn, and reading a range takes the difference of two
//! such times. Skews shorter than the movement that they hide are lengthened by whole turns, which
//! is what they cost. Everything is integer arithmetic in nanoseconds and exact, so that a range
//! read in pieces without a pause ends when it ends read at once, and no piece misses its sector by
//! a rounding error, which would cost a turn.
//!
//! Limits: no spare sectors or defects, no serpentine layout; both are later work.

use foreseek_units::{Lba, Nanos, Rate, SECTOR_SIZE, Sectors};

/// A zone as it is described: cylinders that hold the same number of sectors a track.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ZoneShape {
    pub(crate) cylinders: u32,
    pub(crate) sectors_per_track: u32,
}

/// What the mechanics need between tracks and between cylinders.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SwitchTimes {
    pub(crate) head: Nanos,
    pub(crate) cylinder: Nanos,
}

/// The physical place of a sector.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) cylinder: u32,
    pub(crate) head: u32,
}

/// A zone as it is used. "Slots" are sector times of this zone: a track is `sectors_per_track` of
/// them, a skew some more.
#[derive(Clone, Copy, Debug)]
struct Zone {
    first_cylinder: u32,
    first_lba: u64,
    /// When its first sector passes in the sequential pass.
    base: u64,
    sectors_per_track: u64,
    sectors_per_cylinder: u64,
    slots_per_track: u64,
    slots_per_cylinder: u64,
}

/// A disk's layout.
#[derive(Clone, Debug)]
pub(crate) struct Geometry {
    zones: Vec<Zone>,
    heads: u32,
    cylinders: u32,
    turn: u64,
    sectors: u64,
}

impl Geometry {
    /// Lays zones out from the outer edge inwards. The caller has checked that no count is zero and
    /// all are within the limits of a profile.
    pub(crate) fn new(heads: u32, turn: Nanos, switch: SwitchTimes, shapes: &[ZoneShape]) -> Self {
        let turn = turn.get();
        let mut zones = Vec::with_capacity(shapes.len());
        let (mut first_cylinder, mut first_lba, mut base) = (0u32, 0u64, 0u64);
        for shape in shapes {
            let sectors = u64::from(shape.sectors_per_track);
            let slots = |time: Nanos| (time.get() * sectors).div_ceil(turn);
            let heads = u64::from(heads);
            let slots_per_track = sectors + slots(switch.head);
            let zone = Zone {
                first_cylinder,
                first_lba,
                base,
                sectors_per_track: sectors,
                sectors_per_cylinder: heads * sectors,
                slots_per_track,
                slots_per_cylinder: (heads - 1) * slots_per_track + sectors + slots(switch.cylinder),
            };
            first_cylinder += shape.cylinders;
            first_lba += u64::from(shape.cylinders) * zone.sectors_per_cylinder;
            base += zone.time_of_slot(turn, u64::from(shape.cylinders) * zone.slots_per_cylinder);
            zones.push(zone);
        }
        Self { zones, heads, cylinders: first_cylinder, turn, sectors: first_lba }
    }

    /// All sectors of all zones.
    pub(crate) fn sectors(&self) -> Sectors {
        Sectors(self.sectors)
    }

    /// All cylinders.
    pub(crate) fn cylinders(&self) -> u32 {
        self.cylinders
    }

    /// One revolution.
    pub(crate) fn turn(&self) -> Nanos {
        Nanos(self.turn)
    }

    /// Where a sector lies.
    pub(crate) fn place(&self, lba: Lba) -> Place {
        let zone = self.zone_of(lba);
        let within = lba.get() - zone.first_lba;
        let cylinder = within / zone.sectors_per_cylinder;
        let head = within % zone.sectors_per_cylinder / zone.sectors_per_track;
        Place { cylinder: zone.first_cylinder + cylinder as u32, head: head as u32 }
    }

    /// When a sector begins to pass under its head, in the sequential pass.
    pub(crate) fn passes_at(&self, lba: Lba) -> Nanos {
        let zone = self.zone_of(lba);
        Nanos(zone.base + zone.time_of_slot(self.turn, zone.slot_of(lba)))
    }

    /// When the last sector before `end` has passed under its head, in the sequential pass.
    pub(crate) fn passed_at(&self, end: Lba) -> Nanos {
        let last = Lba(end.get().saturating_sub(1));
        let zone = self.zone_of(last);
        Nanos(zone.base + zone.time_of_slot(self.turn, zone.slot_of(last) + 1))
    }

    /// The first sector that has not wholly passed at `time` of the sequential pass.
    pub(crate) fn reached_at(&self, time: Nanos) -> Lba {
        let at = self.zones.partition_point(|zone| zone.base <= time.get());
        let zone = &self.zones[at.saturating_sub(1)];
        let since = time.get().saturating_sub(zone.base);
        // The largest slot that begins not later than `since`.
        let slots = since / self.turn * zone.sectors_per_track
            + ((since % self.turn + 1) * zone.sectors_per_track - 1) / self.turn;
        let cylinder = slots / zone.slots_per_cylinder;
        let rest = slots % zone.slots_per_cylinder;
        let head = (rest / zone.slots_per_track).min(u64::from(self.heads) - 1);
        let sector = (rest - head * zone.slots_per_track).min(zone.sectors_per_track);
        let within = cylinder * zone.sectors_per_cylinder + head * zone.sectors_per_track + sector;
        let end = self.zones.get(at).map_or(self.sectors, |next| next.first_lba);
        Lba((zone.first_lba + within).min(end))
    }

    /// The sustained rate of a sequential pass at a sector: that of its cylinder.
    pub(crate) fn rate_at(&self, lba: Lba) -> Rate {
        let zone = self.zone_of(lba);
        let cylinder = zone.time_of_slot(self.turn, zone.slots_per_cylinder);
        let bytes = zone.sectors_per_cylinder * SECTOR_SIZE;
        Rate::bytes_per_second(bytes as f64 / Nanos(cylinder).as_secs_f64())
    }

    /// The mean over the first `sectors` of the sustained rate, where it is at most `ceiling`.
    pub(crate) fn mean_rate(&self, sectors: Sectors, ceiling: Rate) -> Rate {
        let mut sum = 0.0;
        for (at, zone) in self.zones.iter().enumerate() {
            let end = self.zones.get(at + 1).map_or(self.sectors, |next| next.first_lba);
            let within = end.min(sectors.get()).saturating_sub(zone.first_lba);
            let rate = self.rate_at(Lba(zone.first_lba)).as_bytes_per_second();
            sum += within as f64 * rate.min(ceiling.as_bytes_per_second());
        }
        Rate::bytes_per_second(sum / sectors.get() as f64)
    }

    fn zone_of(&self, lba: Lba) -> &Zone {
        let after = self.zones.partition_point(|zone| zone.first_lba <= lba.get());
        &self.zones[after.saturating_sub(1)]
    }
}

impl Zone {
    /// The slot of a sector, counted from the zone's start.
    fn slot_of(&self, lba: Lba) -> u64 {
        let within = lba.get() - self.first_lba;
        let cylinder = within / self.sectors_per_cylinder;
        let rest = within % self.sectors_per_cylinder;
        let head = rest / self.sectors_per_track;
        let sector = rest % self.sectors_per_track;
        cylinder * self.slots_per_cylinder + head * self.slots_per_track + sector
    }

    /// When a slot begins, from the zone's start: `floor(slot x turn / sectors a track)`, without
    /// the overflow.
    fn time_of_slot(&self, turn: u64, slot: u64) -> u64 {
        slot / self.sectors_per_track * turn + slot % self.sectors_per_track * turn / self.sectors_per_track
    }
}
