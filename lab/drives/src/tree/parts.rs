//! What a tree consists of, as it is read.

/// A kind of track.
#[derive(Clone, Copy, Debug)]
pub(super) struct Kind {
    pub(super) low: u64,
    pub(super) sectors: u64,
    pub(super) per_track: u64,
}

/// What an entry consists of.
#[derive(Clone, Copy, Debug)]
pub(super) enum Content {
    Tracks { kind: usize, head: u32 },
    Node(usize),
}

/// An entry of a node; addresses, cylinders and angles count from those of the node.
#[derive(Clone, Copy, Debug)]
pub(super) struct NodeEntry {
    pub(super) line: usize,
    pub(super) first: u64,
    pub(super) cylinder: i64,
    pub(super) angle: f64,
    pub(super) each: u64,
    pub(super) cylinder_step: i64,
    pub(super) angle_step: f64,
    pub(super) sectors: u64,
    pub(super) of: Content,
}

/// Addresses that lie elsewhere: the first, how many, cylinder, head and sector there.
pub(super) struct Remap {
    pub(super) lba: u64,
    pub(super) count: u64,
    pub(super) cylinder: i64,
    pub(super) head: u32,
    pub(super) sector: u64,
}
