//! Finds strips by their stripes.
//!
//! The paper's *stripe cache* "contains sibling strip caches belonging to the stripe" (section 2.2): one
//! entry for each stripe, with a slot for each of its data strips. One look-up finds a strip and all of its
//! siblings. An entry lives while one of its strips is alive, and ghosts live in it as long.
//!
//! Memory: 4 bytes for each data strip of a stripe and 24 bytes for each stripe (hash table, count).

use crate::geometry::{Geometry, StripNo, StripeNo};
use rustc_hash::FxHashMap;

/// No slot.
const NONE: u32 = u32::MAX;

/// The stripes with a living strip.
#[derive(Clone, Debug)]
pub(crate) struct StripeTable {
    geometry: Geometry,
    entries: FxHashMap<StripeNo, u32>,
    /// For each entry as many slots as a stripe has data strips.
    slots: Vec<u32>,
    alive: Vec<u32>,
    free: Vec<u32>,
}

impl StripeTable {
    pub(crate) fn new(geometry: Geometry) -> Self {
        let (entries, slots) = (FxHashMap::default(), Vec::new());
        Self { geometry, entries, slots, alive: Vec::new(), free: Vec::new() }
    }

    /// The slot of a strip, alive or ghost.
    pub(crate) fn find(&self, strip: StripNo) -> Option<u32> {
        let slot = self.slots[self.place(strip)?];
        (slot != NONE).then_some(slot)
    }

    /// A strip is alive, in this slot.
    pub(crate) fn live(&mut self, strip: StripNo, slot: u32) {
        let stripe = self.geometry.stripe_of(strip);
        let entry = match self.entries.get(&stripe) {
            Some(entry) => *entry,
            None => self.add(stripe),
        };
        self.alive[entry as usize] += 1;
        let at = self.start(entry) + self.geometry.slot_of(strip) as usize;
        self.slots[at] = slot;
    }

    /// A living strip has died. Returns the number of its living siblings.
    pub(crate) fn die(&mut self, strip: StripNo) -> u32 {
        let Some(entry) = self.entries.get(&self.geometry.stripe_of(strip)) else { return 0 };
        let alive = &mut self.alive[*entry as usize];
        *alive -= 1;
        *alive
    }

    /// A strip that is not alive is not kept as a ghost.
    pub(crate) fn forget(&mut self, strip: StripNo) {
        if let Some(place) = self.place(strip) {
            self.slots[place] = NONE;
        }
    }

    /// The last strip of its stripe has died: removes the entry. Returns the slots that were in it.
    pub(crate) fn close(&mut self, stripe: StripeNo) -> impl Iterator<Item = u32> {
        let width = self.geometry.data_strips() as usize;
        let entry = self.entries.remove(&stripe);
        let range = entry.map_or(0..0, |entry| self.start(entry)..self.start(entry) + width);
        self.free.extend(entry);
        self.slots[range].iter_mut().map(|slot| std::mem::replace(slot, NONE)).filter(|slot| *slot != NONE)
    }

    fn add(&mut self, stripe: StripeNo) -> u32 {
        let width = self.geometry.data_strips() as usize;
        let entry = self.free.pop().unwrap_or_else(|| {
            self.alive.push(0);
            self.slots.resize(self.slots.len() + width, NONE);
            self.alive.len() as u32 - 1
        });
        self.entries.insert(stripe, entry);
        entry
    }

    fn start(&self, entry: u32) -> usize {
        entry as usize * self.geometry.data_strips() as usize
    }

    fn place(&self, strip: StripNo) -> Option<usize> {
        let entry = *self.entries.get(&self.geometry.stripe_of(strip))?;
        Some(self.start(entry) + self.geometry.slot_of(strip) as usize)
    }
}
