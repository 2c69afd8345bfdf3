//! A disk whose rate differs between zones and whose switches take longer the further they go.

use foreseek_units::{DeviceCosts, Lba, Nanos, Rate, Sectors};

/// The disk.
#[derive(Clone, Debug, PartialEq)]
pub struct Zoned {
    /// Where each zone begins and its rate, in order; the first begins at the first sector.
    pub zones: Vec<(Lba, Rate)>,
    /// A switch to the next sector.
    pub shortest: Nanos,
    /// A switch from end to end; between the two the time grows with the root of the distance.
    pub longest: Nanos,
    /// Its capacity.
    pub capacity: Sectors,
}

impl DeviceCosts for Zoned {
    fn seek_time(&self, distance: Sectors) -> Nanos {
        let share = distance.get() as f64 / self.capacity.get().max(1) as f64;
        self.shortest + (self.longest - self.shortest).scale(share.min(1.0).sqrt())
    }

    fn rate_at(&self, lba: Lba) -> Rate {
        let next = self.zones.partition_point(|(first, _)| *first <= lba);
        self.zones.get(next.saturating_sub(1)).map_or(Rate::mb_per_second(1.0), |(_, rate)| *rate)
    }

    /// The mean over the zones, unweighted.
    fn mean_rate(&self) -> Rate {
        let sum: f64 = self.zones.iter().map(|(_, rate)| rate.as_bytes_per_second()).sum();
        Rate::bytes_per_second(sum / self.zones.len().max(1) as f64)
    }

    /// The switch over a third of the disk, the mean distance of two random addresses.
    fn average_seek(&self) -> Nanos {
        self.seek_time(self.capacity / 3)
    }

    /// Part of the switch times.
    fn half_rotation(&self) -> Nanos {
        Nanos::ZERO
    }

    fn capacity(&self) -> Sectors {
        self.capacity
    }
}
