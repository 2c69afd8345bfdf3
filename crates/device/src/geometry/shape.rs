//! How a disk's layout is described: zones, and what is common to them.

use foreseek_units::Nanos;

/// A zone as it is described: cylinders that hold the same number of sectors a track.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ZoneShape {
    pub(crate) cylinders: u32,
    pub(crate) sectors_per_track: u32,
    /// What is known of it beyond that; without it the skews follow from the switch times, the
    /// cylinders from the zone before, and every sector holds data.
    pub(crate) detail: Option<ZoneDetail>,
}

/// A zone as it was extracted from a drive. Places are physical sectors counted from the zone's
/// first in the order of its tracks.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct ZoneDetail {
    pub(crate) first_cylinder: u32,
    /// By how many sectors a track's first is turned against the end of the track before on the same
    /// cylinder.
    pub(crate) track_skew: f64,
    /// The same where the cylinder changes.
    pub(crate) cylinder_skew: f64,
    /// The angle of the zone's first sector, in sectors.
    pub(crate) offset: f64,
    /// Sectors at the zone's front that hold no data of the host.
    pub(crate) front: u64,
    /// Spare sectors (with [`Spares::Tracks`] spare tracks) in each unit of the sparing scheme.
    pub(crate) spares: u64,
    /// Defective places that were left out when addresses were given, ascending.
    pub(crate) slips: Vec<u64>,
    /// Defective places whose data lie elsewhere, ascending: from, to.
    pub(crate) remaps: Vec<(u64, u64)>,
}

/// In which order the tracks of a cylinder follow one another.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Mapping {
    /// Ascending on every cylinder.
    #[default]
    Conventional,
    /// Descending on every other cylinder, the first of each zone ascending.
    SerpentineByZone,
    /// Descending on every odd cylinder of the disk.
    Serpentine,
}

/// Where spare sectors lie, and what a slip displaces.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Spares {
    /// Nowhere.
    #[default]
    None,
    /// Whole tracks at the end of a zone; a slip skips a track.
    Tracks,
    /// At the end of each track.
    PerTrack,
    /// At the end of each cylinder.
    PerCylinder,
    /// The same, but slips displace all that follows in the zone.
    PerCylinderSlipToEnd,
    /// At the front of each cylinder.
    CylinderFront,
    /// The same, but slips displace all that follows in the zone.
    CylinderFrontSlipToEnd,
    /// At the end of the disk; slips displace all that follows in the zone.
    DiskEnd,
    /// At the end of each range of so many cylinders.
    PerRange(u32),
    /// At the end of each zone.
    PerZone,
    /// The same, but slips do not use them up.
    PerZoneSlipToEnd,
}

/// What the mechanics need between tracks and between cylinders.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SwitchTimes {
    pub(crate) head: Nanos,
    pub(crate) cylinder: Nanos,
    /// Over the widest gap of unused cylinders between two zones.
    pub(crate) gap: Nanos,
}

impl SwitchTimes {
    /// Those of a disk whose zones adjoin.
    pub(crate) fn new(head: Nanos, cylinder: Nanos) -> Self {
        Self { head, cylinder, gap: cylinder }
    }
}

/// What is common to all zones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Rules {
    pub(crate) heads: u32,
    /// One revolution.
    pub(crate) turn: Nanos,
    pub(crate) switch: SwitchTimes,
    pub(crate) mapping: Mapping,
    pub(crate) spares: Spares,
}

impl Rules {
    /// Of a disk of which no more is known.
    #[cfg(test)]
    pub(crate) fn plain(heads: u32, turn: Nanos, switch: SwitchTimes) -> Self {
        Self { heads, turn, switch, mapping: Mapping::default(), spares: Spares::default() }
    }
}

impl ZoneShape {
    /// A zone of which no more is known.
    pub(crate) fn plain(cylinders: u32, sectors_per_track: u32) -> Self {
        Self { cylinders, sectors_per_track, detail: None }
    }

    /// All its sectors, with data or without.
    pub(crate) fn physical(&self, heads: u32) -> u64 {
        u64::from(self.cylinders) * u64::from(heads) * u64::from(self.sectors_per_track)
    }

    /// The cylinder at which it begins, if the zone before ended at `next`.
    pub(crate) fn first_cylinder(&self, next: u32) -> u32 {
        self.detail.as_ref().map_or(next, |detail| detail.first_cylinder)
    }
}
