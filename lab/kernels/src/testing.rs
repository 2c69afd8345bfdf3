//! A reader of one file under the policies of this crate.

use crate::{Settings, by_name};
use foreseek_readahead::stream::testing::costs;
pub(crate) use foreseek_readahead::stream::testing::{Window, World};

/// The policy of this name reading a file of `length` pages, on the 393 KB drive.
pub(crate) fn reading(policy: &str, settings: &Settings, length: u64) -> World {
    announced(policy, settings, length, None)
}

/// The same with the stream's length announced.
pub(crate) fn announced(policy: &str, settings: &Settings, length: u64, announced: Option<u64>) -> World {
    World::with(by_name(policy, settings, &costs("ibm-36g-37")).expect("a policy"), length, announced)
}
