//! What an engine knows about the objects it was told of: length, layout, watched ranges, epoch.
//!
//! Objects are numbered by small slots so that an access-list entry and a page's key fit into one
//! word each ([`PageKey`]).

use crate::engine::{Epoch, Extent, ObjectId, StreamId, lba_of};
use crate::regions::Regions;
use foreseek_units::{Bytes, Lba, PageIndex, Pages, SECTORS_PER_PAGE};
use rustc_hash::FxHashMap;

/// How many objects are known at once. A process has rarely more than some thousand files open;
/// what is neither open nor watched nor on the list makes room for others.
pub(crate) const OBJECTS_LIMIT: usize = 1 << 16;

/// How many extents of one object are kept: 6 MiB of them. Pages beyond them count as unplaced and
/// are fetched in file order.
pub(crate) const EXTENTS_LIMIT: usize = 1 << 18;

/// Bits of a [`PageKey`] that hold the page: objects of up to 4 PiB.
const PAGE_BITS: u32 = 40;

/// An object's number within one engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Slot(u32);

/// A page of an object in one word, ordered by object, then page.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct PageKey(u64);

impl PageKey {
    /// The page after the last one that any object has.
    pub(crate) const END: PageIndex = PageIndex(1 << PAGE_BITS);

    /// Of a page below [`END`](Self::END).
    pub(crate) fn within(slot: Slot, page: PageIndex) -> Self {
        debug_assert!(page < Self::END, "no object has {page:?}");
        Self(u64::from(slot.0) << PAGE_BITS | page.get())
    }

    /// `None` for a page that no real object has.
    pub(crate) fn new(slot: Slot, page: PageIndex) -> Option<Self> {
        (page < Self::END).then(|| Self::within(slot, page))
    }

    pub(crate) fn slot(self) -> Slot {
        Slot((self.0 >> PAGE_BITS) as u32)
    }

    pub(crate) fn page(self) -> PageIndex {
        PageIndex(self.0 & ((1 << PAGE_BITS) - 1))
    }

    /// As a plain number; the top bit is free, as there are fewer than 2^23 slots.
    pub(crate) fn raw(self) -> u64 {
        self.0
    }

    pub(crate) fn from_raw(raw: u64) -> Self {
        Self(raw)
    }
}

/// What is known of one object.
#[derive(Debug)]
pub(crate) struct Object {
    pub(crate) id: ObjectId,
    /// `None` until it was opened.
    pub(crate) length: Option<Bytes>,
    pub(crate) extents: Vec<Extent>,
    pub(crate) epoch: Epoch,
    pub(crate) regions: Regions,
    /// The page cache does not take fetches of it.
    pub(crate) unfetchable: bool,
    /// How many pages of it are kept or on their way under its slot.
    pub(crate) kept: u64,
    streams: u32,
}

impl Object {
    fn new(id: ObjectId) -> Self {
        Self {
            id,
            length: None,
            extents: Vec::new(),
            epoch: Epoch::default(),
            regions: Regions::default(),
            unfetchable: false,
            kept: 0,
            streams: 0,
        }
    }

    /// Whether a page of it can be fetched at all.
    pub(crate) fn can_fetch(&self, page: PageIndex) -> bool {
        !self.unfetchable && self.length.is_some_and(|length| Pages(page.get()) < length.pages_ceil())
    }

    /// Where a page lies.
    pub(crate) fn lba(&self, page: PageIndex) -> Option<Lba> {
        lba_of(&self.extents, page)
    }

    /// Takes over a layout: extents ascending by page; those that overlap an earlier one, that no
    /// device has, or that are too many are left out.
    pub(crate) fn place(&mut self, extents: &[Extent]) {
        self.extents.clear();
        let mut free_from = PageIndex::ZERO;
        let device_end = (1u64 << 63) / SECTORS_PER_PAGE;
        for extent in extents.iter().take(EXTENTS_LIMIT) {
            let fits = extent.page.get() >> PAGE_BITS == 0
                && extent.pages.get() >> PAGE_BITS == 0
                && extent.lba.get() < device_end;
            if fits && extent.page >= free_from && !extent.pages.is_zero() {
                self.extents.push(*extent);
                free_from = extent.page + extent.pages;
            }
        }
    }

    fn idle(&self) -> bool {
        self.streams == 0 && self.kept == 0 && self.regions.is_empty()
    }
}

/// All of them, and who has which open.
#[derive(Debug)]
pub(crate) struct Objects {
    slots: Vec<Object>,
    free: Vec<Slot>,
    by_id: FxHashMap<ObjectId, Slot>,
    streams: FxHashMap<StreamId, Slot>,
    sweep_at: usize,
}

impl Objects {
    pub(crate) fn new() -> Self {
        Self {
            slots: Vec::new(),
            free: Vec::new(),
            by_id: FxHashMap::default(),
            streams: FxHashMap::default(),
            sweep_at: 1024,
        }
    }

    pub(crate) fn find(&self, id: ObjectId) -> Option<Slot> {
        self.by_id.get(&id).copied()
    }

    pub(crate) fn of_stream(&self, stream: StreamId) -> Option<Slot> {
        self.streams.get(&stream).copied()
    }

    pub(crate) fn get(&self, slot: Slot) -> &Object {
        &self.slots[slot.0 as usize]
    }

    pub(crate) fn get_mut(&mut self, slot: Slot) -> &mut Object {
        &mut self.slots[slot.0 as usize]
    }

    pub(crate) fn id(&self, slot: Slot) -> ObjectId {
        self.get(slot).id
    }

    /// The object's slot, made where there is none; `None` when there are too many objects.
    pub(crate) fn intern(&mut self, id: ObjectId) -> Option<Slot> {
        if let Some(slot) = self.find(id) {
            return Some(slot);
        }
        let slot = match self.free.pop() {
            Some(slot) => {
                *self.get_mut(slot) = Object::new(id);
                slot
            }
            None if self.slots.len() < OBJECTS_LIMIT => {
                self.slots.push(Object::new(id));
                Slot(self.slots.len() as u32 - 1)
            }
            None => return None,
        };
        self.by_id.insert(id, slot);
        Some(slot)
    }

    /// A stream was opened on the object. A stream that was open already moves over.
    pub(crate) fn open(&mut self, stream: StreamId, slot: Slot, length: Bytes) {
        self.close(stream);
        self.streams.insert(stream, slot);
        let object = self.get_mut(slot);
        object.streams += 1;
        object.length = Some(length);
        object.unfetchable = false;
    }

    pub(crate) fn close(&mut self, stream: StreamId) {
        if let Some(slot) = self.streams.remove(&stream) {
            self.get_mut(slot).streams -= 1;
        }
    }

    /// Whether it is time to look for objects that nobody uses.
    pub(crate) fn crowded(&self) -> bool {
        self.by_id.len() >= self.sweep_at
    }

    /// Forgets the idle objects of which `referenced` holds nothing. The next sweep comes when the
    /// number of objects has doubled, so that sweeping costs O(1) an object.
    pub(crate) fn sweep(&mut self, referenced: impl Iterator<Item = Slot>) {
        let mut keep = vec![false; self.slots.len()];
        for slot in referenced {
            keep[slot.0 as usize] = true;
        }
        for (index, kept) in keep.into_iter().enumerate() {
            let object = &mut self.slots[index];
            let slot = Slot(index as u32);
            if !kept && object.idle() && self.by_id.get(&object.id) == Some(&slot) {
                self.by_id.remove(&object.id);
                object.extents = Vec::new();
                self.free.push(slot);
            }
        }
        self.sweep_at = (2 * self.by_id.len()).clamp(1024, OBJECTS_LIMIT);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_holds_its_object_and_page_in_order() {
        let mut objects = Objects::new();
        let a = objects.intern(ObjectId(700)).expect("room");
        let b = objects.intern(ObjectId(3)).expect("room");
        let last = PageIndex((1 << PAGE_BITS) - 1);
        let key = PageKey::new(a, last).expect("fits");
        assert_eq!((key.slot(), key.page()), (a, last));
        assert!(key < PageKey::new(b, PageIndex(0)).expect("fits"));
        assert_eq!(PageKey::new(a, last.next()), None);
        assert_eq!(PageKey::from_raw(key.raw()), key);
    }

    #[test]
    fn idle_objects_make_room_and_used_ones_stay() {
        let mut objects = Objects::new();
        for id in 0..OBJECTS_LIMIT as u64 {
            assert!(objects.intern(ObjectId(id)).is_some());
        }
        assert!(objects.crowded());
        assert_eq!(objects.intern(ObjectId(u64::MAX)), None);
        let open = objects.find(ObjectId(5)).expect("known");
        objects.open(StreamId(1), open, Bytes(1));
        let listed = objects.find(ObjectId(6)).expect("known");
        objects.sweep([listed].into_iter());
        assert_eq!(objects.find(ObjectId(5)), Some(open));
        assert_eq!(objects.find(ObjectId(6)), Some(listed));
        assert_eq!(objects.find(ObjectId(7)), None);
        assert!(objects.intern(ObjectId(u64::MAX)).is_some());
        assert_ne!(objects.intern(ObjectId(u64::MAX - 1)), Some(open));
    }

    #[test]
    fn a_layout_that_overlaps_itself_or_no_device_is_left_out() {
        let mut object = Object::new(ObjectId(1));
        let extent = |page, pages, lba| Extent { page: PageIndex(page), pages: Pages(pages), lba: Lba(lba) };
        object.place(&[
            extent(0, 4, 800),
            extent(2, 4, 0),
            extent(4, 0, 0),
            extent(4, 2, u64::MAX),
            extent(8, 1, 8),
        ]);
        assert_eq!(object.extents, [extent(0, 4, 800), extent(8, 1, 8)]);
        assert_eq!(object.lba(PageIndex(3)), Some(Lba(824)));
        assert_eq!(object.lba(PageIndex(4)), None);
    }
}
