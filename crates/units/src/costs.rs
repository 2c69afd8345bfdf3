//! The costs of a device for a policy: the papers' `f_seek` and `f_transfer`.

use crate::{Lba, Nanos, Rate, Sectors};

/// The costs of seeking and reading, as measured once (TR-840 section 3).
pub trait DeviceCosts: Send + Sync {
    /// `f_seek`: the time of a seek over this distance.
    fn seek_time(&self, distance: Sectors) -> Nanos;
    /// `f_transfer`: the rate of sequential reading at an address.
    fn rate_at(&self, lba: Lba) -> Rate;
    /// That rate, averaged over the device.
    fn mean_rate(&self) -> Rate;
    /// The mean time of a seek between two random places.
    fn average_seek(&self) -> Nanos;
    /// Half a rotation: the mean wait of a random access after its seek.
    fn half_rotation(&self) -> Nanos;
    /// The time of a command beside seeking and reading.
    fn command_overhead(&self) -> Nanos {
        Nanos::ZERO
    }
    /// The capacity.
    fn capacity(&self) -> Sectors;
}
