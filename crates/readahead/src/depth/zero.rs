//! Nothing ahead.

use super::rule::{Depth, DepthQuery};
use foreseek_units::Pages;

/// Reads only the requested pages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Zero;

impl Depth for Zero {
    fn most(&mut self, _asked: &DepthQuery) -> Pages {
        Pages::ZERO
    }
}
