//! What the registry makes a policy of.

use super::settings::Settings;
use foreseek_units::DeviceCosts;
use std::sync::Arc;

/// What a policy is made of.
pub(super) struct Parts<'a> {
    pub(super) settings: &'a Settings,
    pub(super) costs: &'a Arc<dyn DeviceCosts>,
}
