//! The access costs of a disk.

use foreseek_device::{Profile, ProfileError};
use foreseek_storage::read_text;
use foreseek_units::{Bytes, DeviceCosts};
use std::sync::Arc;

/// A disk without a profile gets that of a large disk from this capacity on.
const LARGE: Bytes = Bytes::gib(2048);
const SMALL_DISK: &str = "barracuda-500g";
const LARGE_DISK: &str = "exos-18t";

/// The access costs of a disk: by its profile, or by that of a similar disk.
///
/// # Errors
/// The profile cannot be loaded.
pub fn costs_of(
    profile: Option<&str>,
    capacity: Option<Bytes>,
) -> Result<Arc<dyn DeviceCosts>, ProfileError> {
    let like = if capacity.is_some_and(|capacity| capacity >= LARGE) { LARGE_DISK } else { SMALL_DISK };
    Ok(Arc::new(Profile::load(profile.unwrap_or(like), read_text)?))
}
