//! The interface of a depth rule: its query, its answer, and the served requests that it learns from.

use foreseek_seam::Measured;
use foreseek_units::{Lba, PageIndex, Pages, SectorSpan};

/// The fetch that a depth is for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DepthQuery {
    /// The first page that it would read.
    pub page: PageIndex,
    /// Its address on the device, if known.
    pub lba: Option<Lba>,
    /// The number of pages from the stream's first page to it.
    pub consumed: Pages,
    /// The length announced to an oracle, from this page on.
    pub announced: Option<Pages>,
    /// The costs of the device as measured lately, if they were.
    pub measured: Option<Measured>,
}

/// A request that the device has served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Served {
    /// The end of the request before it.
    pub from: Lba,
    /// The sectors transferred.
    pub range: SectorSpan,
}

/// How much one fetch reads at most.
pub trait Depth: Send {
    /// The most for this fetch; zero reads nothing ahead.
    fn most(&mut self, asked: &DepthQuery) -> Pages;

    /// The device has served a request.
    fn served(&mut self, _served: Served) {}
}
