//! How the driver of an array is set.

use crate::block;
use foreseek_strips::Following;
use foreseek_units::{Bytes, Nanos, Pages};

/// The driver, its cache and what is below it.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// The policy of machines whose own policy names none; `None`: there is no driver then, and no cache.
    pub policy: Option<String>,
    /// What the cache holds (ATC'08 section 3.1: 500 MiB).
    pub size: Bytes,
    /// The share of it that holds what was written: writes are acknowledged from there and go to the members later. `None`: they
    /// go through.
    pub write_share: Option<f64>,
    /// Processor time for a request that the cache answers, beside copying. Chosen as twice a look-up of the page cache and the
    /// call of the driver.
    pub request: Nanos,
    /// Processor time to copy a page: that of the machine.
    pub copy: Nanos,
    /// What the engine takes a block to cost that lies directly behind the last one; `None`: as the members do.
    pub following: Option<Following>,
    /// The built-in profile whose costs the engine takes its members to have; `None`: what they are.
    pub assumed: Option<String>,
    /// The scheduler of each member.
    pub scheduler: String,
    /// The block layer of each member.
    pub members: block::Settings,
    /// The member that has failed, counted from zero.
    pub failed_member: Option<usize>,
    /// By how much each request of member 0 takes longer than it would.
    pub slow: Nanos,
}

/// A driver that submits with a thread of its own, as md's does: the elevators below see one process.
const BLIND: &str = "anticipatory-blind-2.6.18";

impl Settings {
    /// How many blocks what is written may have, where writes do not go through.
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
            members: block::Settings::LINUX_2_6_18,
            failed_member: None,
            slow: Nanos::ZERO,
        }
    }
}
