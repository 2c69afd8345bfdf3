//! The settings of an array's driver.

use crate::block;
use foreseek_strips::Following;
use foreseek_units::{Bytes, Nanos, Pages};

/// The driver, its cache and what is below it.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// The policy of machines that name none themselves; `None`: there is no driver and no cache.
    pub policy: Option<String>,
    /// The size of the cache (ATC'08 section 3.1: 500 MiB).
    pub size: Bytes,
    /// The share of it for written data: writes are acknowledged from there and go to the members later.
    /// `None`: write-through.
    pub write_share: Option<f64>,
    /// Processor time for a request that the cache answers, beside copying. Chosen as twice a look-up of the
    /// page cache and the call of the driver.
    pub request: Nanos,
    /// Processor time to copy a page: that of the machine.
    pub copy: Nanos,
    /// What the engine assumes a block right after the last one to cost; `None`: what it costs the members.
    pub following: Option<Following>,
    /// The built-in profile whose costs the engine assumes for its members; `None`: their own.
    pub assumed: Option<String>,
    /// The scheduler of each member.
    pub scheduler: String,
    /// The block layer of each member.
    pub members: block::Settings,
    /// The member that has failed, counted from zero.
    pub failed_member: Option<usize>,
    /// The delay of each request of member 0.
    pub slow: Nanos,
}

/// A driver that submits from a thread of its own, as md's does: the schedulers below see one process.
const BLIND: &str = "anticipatory-blind-2.6.18";

impl Settings {
    /// The blocks for written data, unless writes go through.
    #[must_use]
    pub fn written(&self) -> Option<Pages> {
        self.write_share.map(|share| self.size.pages_floor().scale(share))
    }
}

impl Default for Settings {
    /// As in ATC'08 section 3.1.
    fn default() -> Self {
        Self {
            policy: None,
            size: Bytes::mib(500),
            write_share: None,
            request: Nanos(2_000),
            copy: Nanos(2_700),
            following: None,
            assumed: None,
            scheduler: BLIND.to_owned(),
            members: block::Settings { in_device: block::TAGS, ..block::Settings::LINUX_2_6_18 },
            failed_member: None,
            slow: Nanos::ZERO,
        }
    }
}
