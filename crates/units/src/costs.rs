//! What a policy has to know of a device: the papers' `f_seek` and `f_transfer`.

use crate::{Lba, Nanos, Rate, Sectors};

/// What going elsewhere and reading there costs, as it was measured once (TR-840 section 3).
pub trait DeviceCosts: Send + Sync {
    /// `f_seek`: how long a seek over this distance takes.
    fn seek_time(&self, distance: Sectors) -> Nanos;
    /// `f_transfer`: the rate of sequential reading at a place.
    fn rate_at(&self, place: Lba) -> Rate;
    /// That rate, averaged over the device.
    fn mean_rate(&self) -> Rate;
    /// The mean time of a seek between two random places.
    fn average_seek(&self) -> Nanos;
    /// Half a revolution: what a random access waits on average after its seek.
    fn half_turn(&self) -> Nanos;
    /// What a command costs beside moving the head and reading.
    fn command_overhead(&self) -> Nanos {
        Nanos::ZERO
    }
    /// What the device holds.
    fn capacity(&self) -> Sectors;
}
