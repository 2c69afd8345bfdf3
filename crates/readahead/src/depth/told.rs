//! The oracle's depth: all that the stream will read, and no more.

use super::rule::{Depth, DepthQuery};
use foreseek_units::Pages;

/// What the stream was told to read from here on (EuroSys'07 section 6.2: through an extended
/// `open`); nothing ahead where it was not told.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Told;

impl Depth for Told {
    fn most(&mut self, asked: &DepthQuery) -> Pages {
        asked.told.unwrap_or(Pages::ZERO)
    }
}
