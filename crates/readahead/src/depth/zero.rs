//! Nothing ahead.

use super::rule::{Depth, DepthQuery};
use foreseek_units::Pages;

/// Only what is asked for is read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Zero;

impl Depth for Zero {
    fn most(&mut self, _asked: &DepthQuery) -> Pages {
        Pages::ZERO
    }
}
