//! The oracle's depth: everything that the stream will read, and no more.

use super::rule::{Depth, DepthQuery};
use foreseek_units::Pages;

/// The length that the stream announces to read from here on (EuroSys'07 section 6.2: through an extended
/// `open`). Without an announcement it reads nothing ahead.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Announced;

impl Depth for Announced {
    fn most(&mut self, asked: &DepthQuery) -> Pages {
        asked.announced.unwrap_or(Pages::ZERO)
    }
}
