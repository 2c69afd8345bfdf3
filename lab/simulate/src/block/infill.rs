//! Infill: gaps between two reads that are read with them and discarded (ATC'09 section 4.7).
//!
//! A new read that touches no waiting request joins the nearest one, if the gap between the two is short enough.
//! A *dummy* fills the gap: it is part of the request and belongs to nobody. A later read that overlaps a
//! waiting dummy is served from it.
//!
//! Waiting reads are kept in order of their beginnings and of their ends, and dummies in order of their beginnings.
//! A look-up takes O(log n) and as many steps as requests of others, or dummies, lie within the longest gap.

use super::{Request, RequestId};
use foreseek_device::Op;
use foreseek_units::{Lba, SectorSpan, Sectors};
use std::collections::{BTreeMap, BTreeSet};

/// Waiting reads and their dummies.
#[derive(Clone, Debug, Default)]
pub(super) struct Infill {
    /// The longest gap that is filled. With none nothing is kept here.
    longest: Sectors,
    begin: BTreeSet<(Lba, RequestId)>,
    end: BTreeSet<(Lba, RequestId)>,
    dummies: BTreeMap<(Lba, RequestId), Lba>,
}

impl Infill {
    pub(super) fn new(longest: Sectors) -> Self {
        Self { longest, ..Self::default() }
    }

    /// Whether gaps in front of and behind such a request are filled at all.
    fn of(&self, op: Op, range: SectorSpan) -> bool {
        self.longest > Sectors::ZERO && op == Op::Read && !range.is_empty()
    }

    /// A request waits, or waits with this range.
    pub(super) fn insert(&mut self, request: &Request) {
        if self.of(request.op, request.range) {
            self.begin.insert((request.range.start, request.id));
            self.end.insert((request.range.end, request.id));
        }
    }

    /// A request with this range waits no more. Its dummies stay.
    pub(super) fn remove(&mut self, request: &Request) {
        if self.of(request.op, request.range) {
            self.begin.remove(&(request.range.start, request.id));
            self.end.remove(&(request.range.end, request.id));
        }
    }

    /// The waiting read that is nearest to a new one, of those that `may` be merged with it: neither touches the
    /// other, and the gap between them is short enough. Of two that are equally near the one below is taken.
    pub(super) fn nearest(&self, piece: &Request, may: impl Fn(RequestId) -> bool) -> Option<RequestId> {
        if !self.of(piece.op, piece.range) {
            return None;
        }
        let (start, end) = (piece.range.start, piece.range.end);
        let first = Lba(start.get().saturating_sub(self.longest.get()));
        let below = self.end.range((first, RequestId(0))..(start, RequestId(0)));
        let below = below.rev().find(|(_, id)| may(*id)).map(|(at, id)| (start - *at, *id));
        let above = self.begin.range((end, RequestId(u32::MAX))..=(end + self.longest, RequestId(u32::MAX)));
        let above = above.into_iter().find(|(_, id)| may(*id)).map(|(at, id)| (*at - end, *id));
        match (below, above) {
            (Some(below), Some(above)) if above.0 < below.0 => Some(above.1),
            (below, above) => below.or(above).map(|(_, id)| id),
        }
    }

    /// A dummy fills the gap between a request and its new part; returns its length.
    pub(super) fn fill(&mut self, id: RequestId, range: SectorSpan, part: SectorSpan) -> Sectors {
        let gap = if part.start > range.end {
            SectorSpan::new(range.end, part.start)
        } else {
            SectorSpan::new(part.end, range.start)
        };
        self.dummies.insert((gap.start, id), gap.end);
        gap.len()
    }

    /// The first dummy that overlaps a read.
    pub(super) fn overlapped(&self, op: Op, range: SectorSpan) -> Option<(SectorSpan, RequestId)> {
        if !self.of(op, range) {
            return None;
        }
        let first = Lba(range.start.get().saturating_sub(self.longest.get()));
        let near = self.dummies.range((first, RequestId(0))..(range.end, RequestId(0)));
        let mut dummies = near.map(|((start, id), end)| (SectorSpan::new(*start, *end), *id));
        dummies.find(|(dummy, _)| dummy.overlaps(range))
    }

    /// One request has become part of another, and its dummies with it.
    pub(super) fn absorbed(&mut self, kept: RequestId, gone: &Request) {
        for (start, end) in self.take(gone) {
            self.dummies.insert((start, kept), end);
        }
    }

    /// A request goes to the device: its dummies can serve nobody who comes later.
    pub(super) fn leave(&mut self, request: &Request) {
        self.take(request);
    }

    /// Removes a request's dummies.
    fn take(&mut self, request: &Request) -> Vec<(Lba, Lba)> {
        if self.dummies.is_empty() || !self.of(request.op, request.range) {
            return Vec::new();
        }
        let inside = (request.range.start, RequestId(0))..(request.range.end, RequestId(0));
        let own = self.dummies.range(inside).filter(|((_, id), _)| *id == request.id);
        let own: Vec<(Lba, Lba)> = own.map(|((start, _), end)| (*start, *end)).collect();
        for (start, _) in &own {
            self.dummies.remove(&(*start, request.id));
        }
        own
    }
}
