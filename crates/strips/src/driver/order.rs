//! Which requests wait for which changes.
//!
//! A request waits for every earlier change that it overlaps, in progress or itself waiting. Overlapping
//! changes thus reach the device in their order of arrival, and no read sees a change half done. A request
//! waits only for earlier ones: there is no deadlock.
//!
//! Memory: bounded by the requests of the driver. A request is compared with all changes in progress; a loop
//! device has at most 128.

use foreseek_seam::RequestId;
use foreseek_units::ByteSpan;
use rustc_hash::FxHashMap;

/// A change that has not ended.
#[derive(Clone, Debug)]
struct Change {
    request: RequestId,
    range: ByteSpan,
    /// Later requests that overlap it.
    later: Vec<RequestId>,
}

/// See the module's documentation.
#[derive(Clone, Debug, Default)]
pub(super) struct Order {
    /// In the order of arrival.
    changes: Vec<Change>,
    /// The number of changes for which a request waits.
    waiting: FxHashMap<RequestId, usize>,
}

impl Order {
    /// Adds a read; returns whether it may proceed at once.
    pub(super) fn read(&mut self, request: RequestId, range: ByteSpan) -> bool {
        let mut waits = 0;
        for change in self.changes.iter_mut().filter(|change| change.range.overlaps(range)) {
            change.later.push(request);
            waits += 1;
        }
        if waits > 0 {
            self.waiting.insert(request, waits);
        }
        waits == 0
    }

    /// Adds a change; returns whether it may proceed at once.
    pub(super) fn change(&mut self, request: RequestId, range: ByteSpan) -> bool {
        let may = self.read(request, range);
        self.changes.push(Change { request, range, later: Vec::new() });
        may
    }

    /// A change has ended: returns its range, and the requests that wait for nothing more. `None` if there is
    /// no such change.
    pub(super) fn end(&mut self, request: RequestId) -> Option<(ByteSpan, Vec<RequestId>)> {
        let at = self.changes.iter().position(|change| change.request == request)?;
        let Change { range, mut later, .. } = self.changes.remove(at);
        later.retain(|later| {
            let Some(waits) = self.waiting.get_mut(later) else { return false };
            *waits -= 1;
            let free = *waits == 0;
            if free {
                self.waiting.remove(later);
            }
            free
        });
        Some((range, later))
    }

    /// The range of a change that has not ended.
    pub(super) fn range(&self, request: RequestId) -> Option<ByteSpan> {
        self.changes.iter().find(|change| change.request == request).map(|change| change.range)
    }
}
