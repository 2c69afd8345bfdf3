//! The parts from which the registry builds a policy.

use super::settings::Settings;
use foreseek_units::DeviceCosts;
use std::sync::Arc;

/// The parts of a policy.
pub(super) struct Parts<'a> {
    pub(super) settings: &'a Settings,
    pub(super) costs: &'a Arc<dyn DeviceCosts>,
}
