//! Finds waiting requests that a new one touches.

use super::{Request, RequestId};
use foreseek_device::Op;
use foreseek_units::Lba;
use rustc_hash::FxHashMap;

/// Waiting requests by where they begin and by where they end. Of several that end (or begin) at
/// one place, which happens only where the same sectors are asked for twice, the last is found.
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

    /// A waiting request that ends here: what begins here can be put behind it.
    pub(super) fn ending(&self, op: Op, at: Lba) -> Option<RequestId> {
        self.end.get(&(op, at)).copied()
    }

    /// A waiting request that begins here: what ends here can be put before it.
    pub(super) fn beginning(&self, op: Op, at: Lba) -> Option<RequestId> {
        self.begin.get(&(op, at)).copied()
    }
}
