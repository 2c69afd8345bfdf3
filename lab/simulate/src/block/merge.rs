//! Finds waiting requests that are adjacent to a new one.

use super::{Request, RequestId};
use foreseek_device::Op;
use foreseek_units::Lba;
use rustc_hash::FxHashMap;

/// Waiting requests by their start and by their end. If several end (or begin) at one sector, which happens
/// only if the same sectors are requested twice, the last one is found.
#[derive(Clone, Debug, Default)]
pub(super) struct Neighbours {
    begin: FxHashMap<(Op, Lba), RequestId>,
    end: FxHashMap<(Op, Lba), RequestId>,
}

impl Neighbours {
    pub(super) fn insert(&mut self, request: &Request) {
        if request.op == Op::Flush || request.range.is_empty() {
            return;
        }
        self.begin.insert((request.op, request.range.start), request.id);
        self.end.insert((request.op, request.range.end), request.id);
    }

    pub(super) fn remove(&mut self, request: &Request) {
        for (map, at) in [(&mut self.begin, request.range.start), (&mut self.end, request.range.end)] {
            if map.get(&(request.op, at)) == Some(&request.id) {
                map.remove(&(request.op, at));
            }
        }
    }

    /// A waiting request that ends here: one that begins here can be merged into its end.
    pub(super) fn ending(&self, op: Op, at: Lba) -> Option<RequestId> {
        self.end.get(&(op, at)).copied()
    }

    /// A waiting request that begins here: one that ends here can be merged into its start.
    pub(super) fn beginning(&self, op: Op, at: Lba) -> Option<RequestId> {
        self.begin.get(&(op, at)).copied()
    }
}
