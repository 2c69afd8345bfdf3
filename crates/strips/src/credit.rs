//! A limit of what strips may cost the members beyond what they have saved. Not in the paper, which reads
//! strips on trial until the cache is full.
//!
//! All are times of the members by the [virtual costs](crate::costs).
//!
//! - *Paid.* A miss that reads its strip pays the transfer of the blocks that nobody has asked for. The
//!   positioning is that of the miss.
//! - *Saved.* The first request of such a block saves the cost of reading it by itself: the cost without
//!   prefetching, and no less than its transfer. If other blocks of the same access are missing it saves its
//!   transfer.
//! - *Put by.* A request of missing blocks puts by one part in [`PUT_BY`] of what it costs.
//! - *The credit* begins at its most, `K`. It falls by what is paid, and rises by what is saved or put by, up
//!   to `K`. A strip is read only if the credit pays for it.
//!
//! Hence, over any part of any run: paid <= saved + put by + `K`. Requests that no strip can help cost the
//! members at most one part in [`PUT_BY`] more than without strips, and once `K`. Where each strip saves more
//! than it costs, the credit is at `K`, or grows with each strip until the cache is full.
//!
//! `K` is the transfer of one part in [`SHARE`] of the cache. From there strips that save what they cost
//! fill the cache in three doublings. It is a strip for each member at least, so that no member waits for
//! another's savings.
//!
//! Blocks that MSP prefetched save nothing here. A strip to which MSP adds blocks saves nothing from then on.
//!
//! Limits: a fetch that fails is paid, and what is requested meanwhile has saved. A block that is read by
//! strips takes memory from blocks that are read again; only the [feedback](crate::feedback) weighs that.

use foreseek_units::Nanos;

/// The part of the cache whose transfer strips may cost on trial.
pub(crate) const SHARE: u64 = 8;
/// The part of the cost of misses that is put by for trials: they cost random reads that nothing can help at
/// most 0.8 %. The aim for these is to lose no more than 2 %.
pub(crate) const PUT_BY: u64 = 128;

/// The credit of one cache.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Credit {
    most: Nanos,
    left: Nanos,
}

impl Credit {
    /// A full credit.
    pub(crate) fn new(most: Nanos) -> Self {
        Self { most, left: most }
    }

    /// Whether it pays for this.
    pub(crate) fn pays(&self, price: Nanos) -> bool {
        price <= self.left
    }

    /// A strip is read whose other blocks take so long.
    pub(crate) fn paid(&mut self, price: Nanos) {
        self.left = Nanos(self.left.get().saturating_sub(price.get()));
    }

    /// Blocks are requested that were prefetched, and would have cost this.
    pub(crate) fn saved(&mut self, cost: Nanos) {
        self.left = (self.left + cost).min(self.most);
    }

    /// Blocks are requested that are missing, and cost this.
    pub(crate) fn missed(&mut self, cost: Nanos) {
        self.saved(cost / PUT_BY);
    }
}
