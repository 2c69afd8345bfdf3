//! The costs of a device for a rule, by its profile: the time of a seek over a distance and the rate at an
//! address (TR-840 section 3: `f_seek` and `f_transfer`).

use crate::profile::{Profile, Spec};
use crate::spec::{DiskModel, DiskSpec};
use foreseek_units::{DeviceCosts, Lba, Nanos, Rate, Sectors};

impl Profile {
    /// The time of a seek over a distance in sectors of the device, wherever it begins: the distance counts
    /// as its share of the cylinders. For an array it is the seek of one member over its share; for a remote
    /// volume, which has no arm, the mean latency at any distance.
    #[must_use]
    pub fn seek_time(&self, distance: Sectors) -> Nanos {
        if distance.is_zero() && self.figures().average_seek.is_some() {
            return Nanos::ZERO;
        }
        let share = distance.get() as f64 / self.capacity().sectors_floor().get().max(1) as f64;
        match self.spec() {
            Spec::Disk(_, model) => disk_seek(model, share),
            Spec::Array(array) => disk_seek(&array.model, share),
            Spec::Remote(_) => self.figures().positioning_time,
        }
    }

    /// The rate of sequential reading at an address. For an array it is the sum of its members' rates,
    /// limited by the link; for a remote volume it is that of the link.
    #[must_use]
    pub fn rate_at(&self, lba: Lba) -> Rate {
        match self.spec() {
            Spec::Disk(disk, model) => disk_rate(disk, model, lba),
            Spec::Array(array) => {
                let sectors = self.capacity().sectors_floor().get().max(1);
                let share = lba.get().min(sectors) as f64 / sectors as f64;
                let within = Lba((array.disk.sectors().get() as f64 * share) as u64);
                let member = disk_rate(&array.disk, &array.model, within).as_bytes_per_second();
                let together = member * array.stripes().data_strips() as f64;
                Rate::bytes_per_second(together.min(array.link_rate_mb_per_s * 1e6))
            }
            Spec::Remote(remote) => remote.link(),
        }
    }

    /// Half a rotation, the mean wait of a random access; zero without rotation.
    #[must_use]
    pub fn half_rotation(&self) -> Nanos {
        self.rotation_rpm().map_or(Nanos::ZERO, |rpm| Nanos::from_secs_f64(30.0 / rpm))
    }
}

fn disk_seek(model: &DiskModel, share: f64) -> Nanos {
    // Any other sector is at least a cylinder's share away, on average.
    let distance = share * f64::from(model.geometry.cylinders());
    model.curve.time(distance.max(1.0))
}

fn disk_rate(disk: &DiskSpec, model: &DiskModel, lba: Lba) -> Rate {
    let last = Lba(disk.sectors().get().saturating_sub(1));
    let rate = model.geometry.rate_at(lba.min(last)).as_bytes_per_second();
    Rate::bytes_per_second(rate.min(disk.bus_rate_mb_per_s * 1e6))
}

impl DeviceCosts for Profile {
    fn seek_time(&self, distance: Sectors) -> Nanos {
        Profile::seek_time(self, distance)
    }

    fn rate_at(&self, lba: Lba) -> Rate {
        Profile::rate_at(self, lba)
    }

    fn mean_rate(&self) -> Rate {
        self.sequential_rate()
    }

    /// For a remote volume, which has no arm, its mean latency.
    fn average_seek(&self) -> Nanos {
        Profile::average_seek(self).unwrap_or(self.positioning_time())
    }

    fn half_rotation(&self) -> Nanos {
        Profile::half_rotation(self)
    }

    fn command_overhead(&self) -> Nanos {
        match self.spec() {
            Spec::Disk(disk, _) => Nanos::from_millis_f64(disk.command_overhead_ms),
            Spec::Array(array) => array.overhead(),
            Spec::Remote(_) => Nanos::ZERO,
        }
    }

    fn capacity(&self) -> Sectors {
        Profile::capacity(self).sectors_floor()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn profile(name: &str) -> Profile {
        Profile::builtin(name).expect("a built-in profile")
    }

    #[test]
    fn seeks_grow_with_distance_from_none_to_the_full_stroke() {
        let disk = profile("ibm-36g-51");
        let all = disk.capacity().sectors_floor();
        assert_eq!(disk.seek_time(Sectors::ZERO), Nanos::ZERO);
        let times: Vec<Nanos> = (1..=64).map(|part| disk.seek_time(all * part / 64)).collect();
        assert!(times.windows(2).all(|pair| pair[0] < pair[1]), "{times:?}");
        // The profile's full stroke is 15.5 ms; its average of 7.53 ms is below the time for a third.
        assert!((times[63].as_millis_f64() - 15.5).abs() < 0.1, "{}", times[63]);
        assert!(times[15] < Nanos::from_millis_f64(7.53) && times[31] > Nanos::from_millis_f64(7.53));
    }

    #[test]
    fn the_rate_falls_inwards_and_its_mean_is_the_profiles() {
        for name in ["ibm-36g-37", "seagate-146g", "raid0-2x-seagate", "exos-18t"] {
            let device = profile(name);
            let all = device.capacity().sectors_floor().get();
            let rates: Vec<f64> =
                (0..200).map(|part| device.rate_at(Lba(all / 200 * part)).as_mb_per_second()).collect();
            assert!(rates.windows(2).all(|pair| pair[0] >= pair[1]), "{name}: {rates:?}");
            let mean = rates.iter().sum::<f64>() / 200.0;
            let stated = device.sequential_rate().as_mb_per_second();
            assert!((mean / stated - 1.0).abs() < 0.02, "{name}: {mean} of {stated}");
        }
    }

    #[test]
    fn a_remote_volume_costs_its_latency_at_any_distance() {
        let volume = profile("network-volume");
        assert_eq!(volume.seek_time(Sectors::ZERO), volume.positioning_time());
        assert_eq!(volume.seek_time(Sectors(1 << 20)), volume.positioning_time());
        assert_eq!(volume.half_rotation(), Nanos::ZERO);
        assert_eq!(volume.rate_at(Lba(7)), volume.sequential_rate());
    }
}
