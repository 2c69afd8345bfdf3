//! The cost of a request's path through the kernel, in each direction.
//!
//! Between the caller and the server a request spends time (block layer, loop driver, FUSE, thread wake-ups,
//! copying) that is not part of a disk's own time. It is measured at attach and subtracted: a request counts
//! as having arrived when the caller issued it, and its answer is sent early enough to reach the caller when
//! the modelled device would have finished.
//!
//! Half of the base cost is assumed before the server and half after it. Copying is counted where the data
//! move: before the server for a write, after it for a read.

use crate::stats::PathCost;
use foreseek_device::Op;
use foreseek_units::{Bytes, Nanos, PAGE_SIZE};

/// The cost, both directions together.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct PathModel {
    base: Nanos,
    /// Nanoseconds a byte beyond the first page.
    per_byte: f64,
}

impl PathModel {
    /// From measured times of a small and a large request.
    pub(crate) fn from_measured(small: (Bytes, Nanos), large: (Bytes, Nanos)) -> Self {
        let bytes = (large.0 - small.0).get();
        let per_byte = if bytes == 0 { 0.0 } else { (large.1 - small.1).get() as f64 / bytes as f64 };
        Self { base: small.1, per_byte }
    }

    /// From the caller to the server.
    pub(crate) fn before(&self, op: Op, size: Bytes) -> Nanos {
        self.base / 2 + if op == Op::Write { self.copying(size) } else { Nanos::ZERO }
    }

    /// From the server to the caller.
    pub(crate) fn after(&self, op: Op, size: Bytes) -> Nanos {
        self.base / 2 + if op == Op::Read { self.copying(size) } else { Nanos::ZERO }
    }

    /// Both directions together.
    pub(crate) fn whole(&self, op: Op, size: Bytes) -> Nanos {
        self.before(op, size) + self.after(op, size)
    }

    fn copying(&self, size: Bytes) -> Nanos {
        Nanos((size - Bytes(PAGE_SIZE)).get()).scale(self.per_byte)
    }
}

impl From<PathModel> for PathCost {
    fn from(path: PathModel) -> Self {
        Self {
            base_us: path.base.as_micros_f64(),
            per_mib_us: path.per_byte * Bytes::mib(1).get() as f64 / 1e3,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_two_measured_sizes_cost_what_was_measured() {
        let small = (Bytes::kib(4), Nanos::from_micros(100));
        let large = (Bytes::mib(1), Nanos::from_micros(500));
        let path = PathModel::from_measured(small, large);
        for op in [Op::Read, Op::Write] {
            assert_eq!(path.whole(op, small.0), small.1);
            assert!(path.whole(op, large.0).get().abs_diff(large.1.get()) <= 1);
        }
        assert_eq!(path.before(Op::Read, large.0), Nanos::from_micros(50));
        assert_eq!(path.after(Op::Write, large.0), Nanos::from_micros(50));
    }

    #[test]
    fn a_large_request_that_measured_faster_costs_no_less_than_nothing() {
        let path = PathModel::from_measured((Bytes::kib(4), Nanos(1000)), (Bytes::mib(1), Nanos(900)));
        assert_eq!(path.whole(Op::Read, Bytes::mib(1)), Nanos(1000));
    }
}
