//! The oracle's depth: all that the stream will read, and no more.

use super::rule::{Depth, DepthQuery};
use foreseek_units::Pages;

/// What the stream announces that it will read from here on (EuroSys'07 section 6.2: through an extended
/// `open`); nothing ahead without an announcement.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Announced;

impl Depth for Announced {
    fn most(&mut self, asked: &DepthQuery) -> Pages {
        asked.announced.unwrap_or(Pages::ZERO)
    }
}
