//! A constant depth, as in kernels (`read_ahead_kb`).

use super::rule::{Depth, DepthQuery};
use foreseek_units::Pages;

/// The same depth everywhere and always: 32 pages in stock Linux, 256 pages (TR-840 section 5.2) or
/// 800 KB (EuroSys'07 section 6.2) in the papers' aggressive prefetching.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fixed(
    /// The depth.
    pub Pages,
);

impl Depth for Fixed {
    fn most(&mut self, _asked: &DepthQuery) -> Pages {
        self.0
    }
}
