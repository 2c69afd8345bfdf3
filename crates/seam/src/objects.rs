//! An engine's table of objects: length, layout, epoch, and the engine's own state ([`Own`]).
//!
//! Objects are numbered by small slots, so that an access-list entry and a page's key fit into one word each
//! ([`PageKey`]).

use crate::{Epoch, Extent, ObjectId, StreamId, lba_of};
use foreseek_units::{Bytes, Lba, PageIndex, Pages, SECTORS_PER_PAGE};
use rustc_hash::FxHashMap;

/// The most objects at once. A process rarely has more than some thousand files open; an object that is not
/// open, watched or on the list makes room for others.
pub const OBJECTS_LIMIT: usize = 1 << 16;

/// The most extents of one object: 6 MiB of them. Pages beyond them have no known address and are fetched in
/// file order.
pub const EXTENTS_LIMIT: usize = 1 << 18;

/// Bits of a [`PageKey`] that hold the page: objects of up to 4 PiB.
const PAGE_BITS: u32 = 40;

/// An object's number within one engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Slot(u32);

/// A page of an object in one word, ordered by object, then page.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PageKey(u64);

impl PageKey {
    /// The page after the last one that any object has.
    pub const END: PageIndex = PageIndex(1 << PAGE_BITS);

    /// The key of a page below [`END`](Self::END).
    ///
    /// # Panics
    /// For any other page: its key would be that of another object's page, and its reader would get other
    /// bytes. All ranges are cut to that when they arrive, so that this is a bug.
    #[must_use]
    pub fn within(slot: Slot, page: PageIndex) -> Self {
        assert!(page < Self::END, "no object has {page:?}");
        Self(u64::from(slot.0) << PAGE_BITS | page.get())
    }

    /// The key; `None` for a page that no real object has.
    #[must_use]
    pub fn new(slot: Slot, page: PageIndex) -> Option<Self> {
        (page < Self::END).then(|| Self::within(slot, page))
    }

    /// Its object.
    #[must_use]
    pub fn slot(self) -> Slot {
        Slot((self.0 >> PAGE_BITS) as u32)
    }

    /// Its page.
    #[must_use]
    pub fn page(self) -> PageIndex {
        PageIndex(self.0 & ((1 << PAGE_BITS) - 1))
    }

    /// As a plain number; the top bit is free, as there are fewer than 2^23 slots.
    #[must_use]
    pub fn raw(self) -> u64 {
        self.0
    }

    /// The key of [`PageKey::raw`].
    #[must_use]
    pub fn from_raw(raw: u64) -> Self {
        Self(raw)
    }
}

/// The additional state of one engine for each object.
pub trait Own: Default {
    /// Whether it is empty, so that the object may be forgotten.
    fn is_idle(&self) -> bool;
}

/// An engine without additional state.
impl Own for () {
    fn is_idle(&self) -> bool {
        true
    }
}

/// What is known about one object.
#[derive(Debug)]
pub struct Object<O = ()> {
    /// Its name.
    pub id: ObjectId,
    /// `None` until it was opened.
    pub length: Option<Bytes>,
    /// Its location, ascending by page.
    pub extents: Vec<Extent>,
    /// The version of its contents.
    pub epoch: Epoch,
    /// The engine's own state.
    pub own: O,
    /// Whether the page cache does not take fetches of it.
    pub unfetchable: bool,
    /// How many pages of it are kept or in flight under its slot.
    pub kept: u64,
    streams: u32,
}

impl<O: Own> Object<O> {
    fn new(id: ObjectId) -> Self {
        Self {
            id,
            length: None,
            extents: Vec::new(),
            epoch: Epoch::default(),
            own: O::default(),
            unfetchable: false,
            kept: 0,
            streams: 0,
        }
    }

    /// Whether a page of it can be fetched at all.
    #[must_use]
    pub fn can_fetch(&self, page: PageIndex) -> bool {
        !self.unfetchable && self.length.is_some_and(|length| Pages(page.get()) < length.pages_ceil())
    }

    /// The address of a page.
    #[must_use]
    pub fn lba(&self, page: PageIndex) -> Option<Lba> {
        lba_of(&self.extents, page)
    }

    /// Replaces the layout: extents ascending by page. Extents that overlap an earlier one, that no device
    /// has, or that are too many are left out.
    pub fn set_extents(&mut self, extents: &[Extent]) {
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
        self.streams == 0 && self.kept == 0 && self.own.is_idle()
    }
}

/// All objects, and the streams that have them open.
#[derive(Debug)]
pub struct Objects<O = ()> {
    slots: Vec<Object<O>>,
    free: Vec<Slot>,
    by_id: FxHashMap<ObjectId, Slot>,
    streams: FxHashMap<StreamId, Slot>,
    sweep_at: usize,
}

impl<O: Own> Default for Objects<O> {
    fn default() -> Self {
        Self::new()
    }
}

impl<O: Own> Objects<O> {
    /// Without objects.
    #[must_use]
    pub fn new() -> Self {
        Self {
            slots: Vec::new(),
            free: Vec::new(),
            by_id: FxHashMap::default(),
            streams: FxHashMap::default(),
            sweep_at: 1024,
        }
    }

    /// The slot of an object.
    #[must_use]
    pub fn find(&self, id: ObjectId) -> Option<Slot> {
        self.by_id.get(&id).copied()
    }

    /// The slot of a stream's object.
    #[must_use]
    pub fn of_stream(&self, stream: StreamId) -> Option<Slot> {
        self.streams.get(&stream).copied()
    }

    /// The object of a slot.
    ///
    /// # Panics
    /// For a slot of another table.
    #[must_use]
    pub fn get(&self, slot: Slot) -> &Object<O> {
        &self.slots[slot.0 as usize]
    }

    /// The same, mutable.
    ///
    /// # Panics
    /// For a slot of another table.
    pub fn get_mut(&mut self, slot: Slot) -> &mut Object<O> {
        &mut self.slots[slot.0 as usize]
    }

    /// The name of the object of a slot.
    #[must_use]
    pub fn id(&self, slot: Slot) -> ObjectId {
        self.get(slot).id
    }

    /// The object's slot, which is added if it is missing; `None` if there are too many objects.
    pub fn intern(&mut self, id: ObjectId) -> Option<Slot> {
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

    /// A stream was opened on the object. If it was open on another object, it moves.
    pub fn open(&mut self, stream: StreamId, slot: Slot, length: Bytes) {
        self.close(stream);
        self.streams.insert(stream, slot);
        let object = self.get_mut(slot);
        object.streams += 1;
        object.length = Some(length);
        object.unfetchable = false;
    }

    /// A stream was closed.
    pub fn close(&mut self, stream: StreamId) {
        if let Some(slot) = self.streams.remove(&stream) {
            self.get_mut(slot).streams -= 1;
        }
    }

    /// Whether unused objects should be removed.
    #[must_use]
    pub fn crowded(&self) -> bool {
        self.by_id.len() >= self.sweep_at
    }

    /// Removes the idle objects that are not in `referenced`. The next sweep follows when the number of
    /// objects has doubled, so that sweeping costs O(1) for each object.
    pub fn sweep(&mut self, referenced: impl Iterator<Item = Slot>) {
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
        let mut objects = Objects::<()>::new();
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
        let mut objects = Objects::<()>::new();
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
        let mut object = Object::<()>::new(ObjectId(1));
        let extent = |page, pages, lba| Extent { page: PageIndex(page), pages: Pages(pages), lba: Lba(lba) };
        object.set_extents(&[
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
