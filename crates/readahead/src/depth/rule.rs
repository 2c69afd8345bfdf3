//! What a depth rule is asked, what it answers, and what it hears of the device.

use foreseek_seam::Measured;
use foreseek_units::{Lba, PageIndex, Pages, SectorSpan};

/// What a fetch is about.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DepthQuery {
    /// The first page that it would read.
    pub page: PageIndex,
    /// Where that lies on the device, if that is known.
    pub place: Option<Lba>,
    /// How far the stream's first page lies before it.
    pub consumed: Pages,
    /// How much an oracle was told that the stream will read from this page on.
    pub announced: Option<Pages>,
    /// What the device was measured to cost lately, if it was.
    pub measured: Option<Measured>,
}

/// A request that the device has served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Served {
    /// Where the request before it ended.
    pub from: Lba,
    /// What was transferred.
    pub range: SectorSpan,
}

/// How much one fetch reads at most.
pub trait Depth: Send {
    /// For this fetch; none: nothing is read ahead.
    fn most(&mut self, asked: &DepthQuery) -> Pages;

    /// The device has served a request.
    fn served(&mut self, _served: Served) {}
}
