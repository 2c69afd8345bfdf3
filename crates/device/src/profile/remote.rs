//! The description of a network volume or object store.

use super::Figures;
use super::disk::CAPACITY_LIMIT;
use super::error::ProfileError;
use super::keys::{Keys, limits};
use super::write::Writer;
use crate::remote::Latency;
use foreseek_units::{Bytes, Nanos, Rate, SECTOR_SIZE};

/// Latencies, from a memory across the rack to a tape robot.
const LATENCY_MS: (f64, f64) = (0.001, 100_000.0);
/// Rates, from a slow home line to a hundred times today's links: with the shortest latency
/// there is still a byte on its way.
const LINK_MB_PER_S: (f64, f64) = (1.0, 1e6);
/// Operations a second, from a few to more than any volume sells.
const OPERATIONS_PER_S: (f64, f64) = (0.1, 1e8);
/// Most requests at a time.
const PARALLEL_LIMIT: u64 = 1024;

/// What a profile says of a remote volume.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct RemoteSpec {
    capacity_bytes: u64,
    latency_median_ms: f64,
    latency_p99_ms: f64,
    rate_mb_per_s: f64,
    parallel_requests: u64,
    operations_per_s: Option<f64>,
}

impl RemoteSpec {
    pub(super) fn read(keys: &mut Keys<'_>) -> Result<Self, ProfileError> {
        let latencies = limits(LATENCY_MS.0, LATENCY_MS.1);
        let spec = Self {
            capacity_bytes: keys.whole("capacity_bytes", limits(1 << 20, CAPACITY_LIMIT))?,
            latency_median_ms: keys.number("latency_median_ms", latencies)?,
            latency_p99_ms: keys.number("latency_p99_ms", latencies)?,
            rate_mb_per_s: keys.number("rate_mb_per_s", limits(LINK_MB_PER_S.0, LINK_MB_PER_S.1))?,
            parallel_requests: keys.whole("parallel_requests", limits(1, PARALLEL_LIMIT))?,
            operations_per_s: keys
                .number_if("operations_per_s", limits(OPERATIONS_PER_S.0, OPERATIONS_PER_S.1))?,
        };
        if spec.latency_p99_ms < spec.latency_median_ms {
            return Err(keys.wrong("latency_p99_ms", "must not be below latency_median_ms"));
        }
        if spec.latency_p99_ms > 1000.0 * spec.latency_median_ms {
            return Err(keys.wrong("latency_p99_ms", "must be at most 1000 times latency_median_ms"));
        }
        if !spec.capacity_bytes.is_multiple_of(SECTOR_SIZE) {
            return Err(keys.wrong("capacity_bytes", format!("must be a multiple of {SECTOR_SIZE}")));
        }
        Ok(spec)
    }

    pub(super) fn write(&self, to: &mut Writer) {
        to.whole("capacity_bytes", self.capacity_bytes);
        to.number("latency_median_ms", self.latency_median_ms);
        to.number("latency_p99_ms", self.latency_p99_ms);
        to.number("rate_mb_per_s", self.rate_mb_per_s);
        to.whole("parallel_requests", self.parallel_requests);
        if let Some(operations) = self.operations_per_s {
            to.number("operations_per_s", operations);
        }
    }

    /// A switch costs the mean latency; a gap is read where that takes no longer than one more
    /// request, of which so many run at a time.
    pub(super) fn figures(&self) -> Figures {
        let switch = self.latency().mean();
        let request = Nanos(switch.get() / self.parallel_requests).max(self.spacing());
        Figures {
            capacity: Bytes(self.capacity_bytes),
            rotation_rpm: None,
            average_seek: None,
            modelled_seek: None,
            switch_time: switch,
            sequential_rate: self.link(),
            command_overhead: self.spacing(),
            infill: self.link().in_time(request),
        }
    }

    pub(crate) fn latency(&self) -> Latency {
        let ms = Nanos::from_millis_f64;
        Latency::new(ms(self.latency_median_ms), ms(self.latency_p99_ms))
    }

    pub(crate) fn link(&self) -> Rate {
        Rate::mb_per_second(self.rate_mb_per_s)
    }

    /// Least time between the starts of two requests.
    pub(crate) fn spacing(&self) -> Nanos {
        self.operations_per_s.map_or(Nanos::ZERO, |operations| Nanos::from_secs_f64(1.0 / operations))
    }

    pub(crate) fn parallel(&self) -> usize {
        self.parallel_requests as usize
    }
}
