//! The addresses of a trace's requests on the device.

use crate::trace::{Record, Summary, TraceError, TraceTarget};
use foreseek_units::{Bytes, Lba, PAGE_SIZE, SectorSpan, Sectors};
use std::collections::BTreeMap;

/// The alignment of the targets of a trace: whole mebibytes, as for partitions.
const ALIGNMENT: u64 = 1 << 20;

/// The targets of a trace on one device.
#[derive(Clone, Debug)]
pub struct Addresses {
    bases: BTreeMap<TraceTarget, u64>,
    capacity: Sectors,
}

impl Addresses {
    /// Lays the targets of a trace one behind the other on a device of this capacity.
    ///
    /// # Errors
    /// They exceed the device and may not be wrapped around its end.
    pub fn new(summary: &Summary, capacity: Sectors, wrap: bool) -> Result<Self, TraceError> {
        let mut needed = 0u64;
        let mut bases = BTreeMap::new();
        for target in &summary.targets {
            bases.insert(target.target, needed);
            // Whole pages: a file is cached by them.
            let end = target.end.get().div_ceil(PAGE_SIZE).saturating_mul(PAGE_SIZE);
            needed = needed.saturating_add(end).checked_next_multiple_of(ALIGNMENT).unwrap_or(u64::MAX);
        }
        let last = summary.targets.last();
        let reach = last.and_then(|target| Some(bases.get(&target.target)?.saturating_add(target.end.get())));
        let reach = Bytes(reach.unwrap_or_default());
        if !wrap && reach > capacity.bytes() {
            let capacity = capacity.bytes();
            return Err(TraceError::Beyond { file: summary.file.clone(), needed: reach, capacity });
        }
        Ok(Self { bases, capacity })
    }

    /// The beginning of a target, before wrapping.
    #[must_use]
    pub fn base(&self, target: TraceTarget) -> Bytes {
        Bytes(self.bases.get(&target).copied().unwrap_or_default())
    }

    /// The sectors of a request: whole ones, wrapped if they exceed the device, cut if the request is longer
    /// than that.
    #[must_use]
    pub fn sectors(&self, record: &Record) -> SectorSpan {
        let within = record.range.sectors();
        let base = self.base(record.target).sectors_floor();
        let length = within.len().min(self.capacity);
        let start = base.get().saturating_add(within.start.get());
        let room = self.capacity - length;
        let start = if start <= room.get() { start } else { start % (room.get() + 1) };
        SectorSpan::at(Lba(start), length)
    }
}
