//! The description of a network volume or object store.

use super::error::ProfileError;
use super::figures::Figures;
use super::keys::{Bounds, Keys, bounds};
use super::limits::CAPACITY_LIMIT;
use super::write::Writer;
use crate::remote::{Burst, Latency};
use foreseek_units::{Bytes, Nanos, Rate, SECTOR_SIZE};

/// Latencies, from a memory across the rack to a tape robot.
const LATENCY_MS: (f64, f64) = (0.001, 100_000.0);
/// Rates, from a slow home line to a hundred times current links: with the shortest latency there is still a
/// byte in flight.
const LINK_MB_PER_S: (f64, f64) = (1.0, 1e6);
/// Operations a second, from a few to more than any volume sells.
const OPERATIONS_PER_S: (f64, f64) = (0.1, 1e8);
/// Credit in MiB: up to a petabyte.
const CREDIT_MIB: (f64, f64) = (0.001, 1e9);
/// Credit in operations.
const CREDIT_OPERATIONS: (f64, f64) = (1.0, 1e12);
/// Longest that credit may last: thirty years.
const CREDIT_MOST_S: f64 = 1e9;
const MIB: f64 = (1 << 20) as f64;
/// Most concurrent requests.
const PARALLEL_LIMIT: u64 = 1024;

/// The description of a remote volume.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct RemoteSpec {
    capacity_bytes: u64,
    latency_median_ms: f64,
    latency_p99_ms: f64,
    rate_mb_per_s: f64,
    parallel_requests: u64,
    operations_per_s: Option<f64>,
    /// A rate above the other, and the credit for it.
    burst_rate: Option<(f64, f64)>,
    /// The same of operations.
    burst_operations: Option<(f64, f64)>,
}

impl RemoteSpec {
    pub(crate) fn read(keys: &mut Keys<'_>) -> Result<Self, ProfileError> {
        let latencies = bounds(LATENCY_MS.0, LATENCY_MS.1);
        let spec = Self {
            capacity_bytes: keys.whole("capacity_bytes", bounds(1 << 20, CAPACITY_LIMIT))?,
            latency_median_ms: keys.number("latency_median_ms", latencies)?,
            latency_p99_ms: keys.number("latency_p99_ms", latencies)?,
            rate_mb_per_s: keys.number("rate_mb_per_s", bounds(LINK_MB_PER_S.0, LINK_MB_PER_S.1))?,
            parallel_requests: keys.whole("parallel_requests", bounds(1, PARALLEL_LIMIT))?,
            operations_per_s: keys
                .number_if("operations_per_s", bounds(OPERATIONS_PER_S.0, OPERATIONS_PER_S.1))?,
            burst_rate: burst(
                keys,
                ("burst_rate_mb_per_s", bounds(LINK_MB_PER_S.0, LINK_MB_PER_S.1)),
                ("burst_credit_mib", bounds(CREDIT_MIB.0, CREDIT_MIB.1)),
            )?,
            burst_operations: burst(
                keys,
                ("burst_operations_per_s", bounds(OPERATIONS_PER_S.0, OPERATIONS_PER_S.1)),
                ("burst_credit_operations", bounds(CREDIT_OPERATIONS.0, CREDIT_OPERATIONS.1)),
            )?,
        };
        if spec.burst_rate.is_some_and(|(rate, _)| rate <= spec.rate_mb_per_s) {
            return Err(keys.wrong("burst_rate_mb_per_s", "must be above rate_mb_per_s"));
        }
        if spec
            .burst_operations
            .is_some_and(|(burst, _)| spec.operations_per_s.is_none_or(|base| burst <= base))
        {
            let reason = "must be above operations_per_s, which must be there";
            return Err(keys.wrong("burst_operations_per_s", reason));
        }
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

    pub(crate) fn write(&self, to: &mut Writer) {
        to.whole("capacity_bytes", self.capacity_bytes);
        to.number("latency_median_ms", self.latency_median_ms);
        to.number("latency_p99_ms", self.latency_p99_ms);
        to.number("rate_mb_per_s", self.rate_mb_per_s);
        to.whole("parallel_requests", self.parallel_requests);
        if let Some(operations) = self.operations_per_s {
            to.number("operations_per_s", operations);
        }
        if let Some((rate, credit)) = self.burst_rate {
            to.number("burst_rate_mb_per_s", rate);
            to.number("burst_credit_mib", credit);
        }
        if let Some((operations, credit)) = self.burst_operations {
            to.number("burst_operations_per_s", operations);
            to.number("burst_credit_operations", credit);
        }
    }

    /// Credit runs out, so that the figures are those without it. A positioning costs the mean latency. A gap
    /// is read if that takes no longer than one more request, of which `parallel` run at a time.
    pub(crate) fn figures(&self) -> Figures {
        let positioning = self.latency().mean();
        let request = Nanos(positioning.get() / self.parallel_requests).max(self.spacing());
        Figures {
            capacity: Bytes(self.capacity_bytes),
            rotation_rpm: None,
            average_seek: None,
            modelled_seek: None,
            positioning_time: positioning,
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

    /// The least time between the starts of two requests.
    pub(crate) fn spacing(&self) -> Nanos {
        self.operations_per_s.map_or(Nanos::ZERO, |operations| Nanos::from_secs_f64(1.0 / operations))
    }

    /// A faster link while there is credit, which is counted in the time that it takes at the base rate.
    pub(crate) fn link_burst(&self) -> Option<Burst<Rate>> {
        self.burst_rate.map(|(rate, credit)| Burst {
            allows: Rate::mb_per_second(rate),
            credit: self.link().time_for(Bytes((credit * MIB) as u64)),
        })
    }

    /// The same of the starts of requests.
    pub(crate) fn spacing_burst(&self) -> Option<Burst<Nanos>> {
        let (burst, credit) = self.burst_operations?;
        let base = self.operations_per_s?;
        Some(Burst {
            allows: Nanos::from_secs_f64(1.0 / burst),
            credit: Nanos::from_secs_f64((credit / base).min(CREDIT_MOST_S)),
        })
    }

    pub(crate) fn parallel(&self) -> usize {
        self.parallel_requests as usize
    }
}

/// A rate while there is credit, and the credit: both or neither.
fn burst(
    keys: &mut Keys<'_>,
    (rate, rates): (&'static str, Bounds<f64>),
    (credit, credits): (&'static str, Bounds<f64>),
) -> Result<Option<(f64, f64)>, ProfileError> {
    match (keys.number_if(rate, rates)?, keys.number_if(credit, credits)?) {
        (Some(rate), Some(credit)) => Ok(Some((rate, credit))),
        (None, None) => Ok(None),
        (None, Some(_)) => Err(keys.wrong(credit, format!("is there without {rate}"))),
        (Some(_), None) => Err(keys.wrong(rate, format!("is there without {credit}"))),
    }
}
