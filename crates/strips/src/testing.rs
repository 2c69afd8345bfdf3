//! The shared parts of this crate's tests: a small array, and a disk with round numbers.

use crate::geometry::Geometry;
use foreseek_units::{
    DeviceCosts, Lba, Level, Nanos, PAGE_SIZE, Pages, Rate, SECTORS_PER_PAGE, Sectors, Stripes,
};

/// RAID-5 of five disks, as in figure 1, with strips of this many blocks.
pub(crate) fn array(strip: u64, pages: u64) -> Geometry {
    let stripes = Stripes { level: Level::Raid5, members: 5, strip: Sectors(strip * SECTORS_PER_PAGE) };
    Geometry::new(stripes, Lba(0), Pages(pages)).expect("valid")
}

/// A seek takes 5 ms, half a revolution 2 ms, a block 1 ms.
#[derive(Debug)]
pub(crate) struct Simple;

impl DeviceCosts for Simple {
    fn seek_time(&self, distance: Sectors) -> Nanos {
        if distance.is_zero() { Nanos::ZERO } else { Nanos::from_millis(5) }
    }
    fn rate_at(&self, _place: Lba) -> Rate {
        self.mean_rate()
    }
    fn mean_rate(&self) -> Rate {
        Rate::bytes_per_second(PAGE_SIZE as f64 * 1000.0)
    }
    fn average_seek(&self) -> Nanos {
        Nanos::from_millis(5)
    }
    fn half_rotation(&self) -> Nanos {
        Nanos::from_millis(2)
    }
    fn capacity(&self) -> Sectors {
        Sectors(1 << 30)
    }
}
