//! The kernel's page cache as an engine's driver reaches it, through descriptors of the host.
//!
//! A file is an object, known by device and inode, whichever descriptors refer to it. Each use looks
//! for a descriptor that still does (`fstat`, a fifth of a microsecond); without one, fetches are
//! refused as [`Refusal::Gone`] until a read brings a new descriptor.
//!
//! Objects on different disks sort by disk first: the address of a page is given as its sector plus
//! a multiple of [`DISK_STRIDE`], so that one pass in ascending order is one pass over each disk in
//! turn.

use crate::advice::{DontNeed, Means, clip, dont_need, will_need};
use crate::detect::{Backing, DeviceNumber};
use crate::fd::{FileKind, HostFd, Identity};
use crate::layout::{EXTENTS_LIMIT, Layout};
use crate::memory::{self, Bound};
use crate::residency::Residency;
use foreseek_seam::{Extent, ObjectId, PageCache, Refusal};
use foreseek_units::{Bytes, Instant, Nanos, PageSpan, Pages, Sectors};
use rustix::io::Errno;
use std::collections::{BTreeMap, HashMap, HashSet};

/// Sectors between the addresses of one disk and the next: 8 PiB, more than any disk.
pub const DISK_STRIDE: Sectors = Sectors(1 << 44);

/// Descriptors remembered for one object. One is enough to work; a few more let it go on when the
/// host closes some of them.
const DESCRIPTORS_LIMIT: usize = 8;

/// Ranges to give back that are collected before they are handed over; a bound on memory, which a
/// round of prefetching seldom reaches.
const FORGET_LIMIT: usize = 64 * 1024;

/// What the cache of one client should do.
#[derive(Clone, Copy, Debug, Default)]
pub struct Options {
    /// Leave the layout of files unasked: they are fetched in file order.
    pub file_order: bool,
}

/// Something that can't be done here, with its remedy. To be said once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
pub enum Notice {
    /// `cachestat` is refused.
    #[error(
        "cannot see which pages of a file are in memory, since the file belongs to another user (cachestat: \
         EPERM); going by own account: run as the file's owner, or give write permission, for better results"
    )]
    ResidencyForbidden,
    /// No way to know.
    #[error(
        "cannot see which pages of a file are in memory (no cachestat); going by own account: Linux 6.5 or \
         later has it"
    )]
    ResidencyUnsupported,
    /// No FIEMAP.
    #[error(
        "cannot see where a file lies on its disk (FIEMAP: {0}); fetching in file order: ext4, xfs and btrfs \
         support it"
    )]
    NoLayout(Errno),
    /// More extents than are kept.
    #[error("a file has more than {EXTENTS_LIMIT} extents; fetching the rest in file order: defragment it")]
    LayoutCut,
    /// No advice.
    #[error("the kernel takes no prefetching advice for a file ({0}); it is read as without prefetching")]
    NoAdvice(Errno),
    /// No figures about memory.
    #[error(
        "cannot read how much memory there is (/proc/meminfo); assuming 64 MiB: mount /proc, or set \
         FORESEEK_MEMORY"
    )]
    NoMemoryFigures,
}

struct Object {
    identity: Identity,
    /// Where its partition starts.
    start: Sectors,
    /// Whose addresses it has: the index of its disk.
    disk: usize,
    /// Latest first.
    descriptors: Vec<HostFd>,
    length: Bytes,
    /// How long one call may be.
    call: Bytes,
    means: Means,
    residency: Option<Residency>,
    forget: DontNeed,
}

impl Object {
    fn new(identity: Identity, disks: &mut Vec<DeviceNumber>) -> Self {
        let backing = Backing::of(identity.device);
        let disk = disks.iter().position(|disk| *disk == backing.disk).unwrap_or_else(|| {
            disks.push(backing.disk);
            disks.len() - 1
        });
        Self {
            identity,
            start: backing.start,
            disk,
            descriptors: Vec::new(),
            length: match identity.kind {
                FileKind::BlockDevice => backing.length.unwrap_or_default(),
                FileKind::File => Bytes::ZERO,
            },
            call: backing.call_length(),
            means: Means::default(),
            residency: None,
            forget: DontNeed::default(),
        }
    }
}

/// The kernel's page cache for the files of one client.
pub struct KernelPageCache {
    options: Options,
    origin: std::time::Instant,
    /// Those that are watched; a number is never used again.
    objects: BTreeMap<ObjectId, Object>,
    next_object: u64,
    by_identity: HashMap<Identity, ObjectId>,
    disks: Vec<DeviceNumber>,
    /// How many ranges wait to be given back.
    forgetting: usize,
    /// An object and a descriptor of it that was looked at within this call.
    confirmed: Option<(ObjectId, HostFd)>,
    /// The last budget that was read.
    budget: Option<Pages>,
    said: HashSet<std::mem::Discriminant<Notice>>,
    notices: Vec<Notice>,
}

impl KernelPageCache {
    /// A cache without files.
    #[must_use]
    pub fn new(options: Options) -> Self {
        Self {
            options,
            origin: std::time::Instant::now(),
            objects: BTreeMap::new(),
            next_object: 0,
            by_identity: HashMap::new(),
            disks: Vec::new(),
            forgetting: 0,
            confirmed: None,
            budget: None,
            said: HashSet::new(),
            notices: Vec::new(),
        }
    }

    /// The object behind a descriptor that was just identified, made where it is new, with the
    /// descriptor as its first choice. `length` as [`HostFd::identify`] tells it.
    pub fn learn(&mut self, fd: HostFd, identity: Identity, length: Option<Bytes>) -> ObjectId {
        let object = match self.by_identity.get(&identity) {
            Some(object) => *object,
            None => self.number(identity),
        };
        let disks = &mut self.disks;
        let entry = self.objects.entry(object).or_insert_with(|| Object::new(identity, disks));
        if let Some(length) = length {
            entry.length = length;
        }
        if entry.descriptors.first() != Some(&fd) {
            entry.descriptors.retain(|known| *known != fd);
            entry.descriptors.insert(0, fd);
            entry.descriptors.truncate(DESCRIPTORS_LIMIT);
        }
        self.confirmed = Some((object, fd));
        object
    }

    fn number(&mut self, identity: Identity) -> ObjectId {
        let object = ObjectId(self.next_object);
        self.next_object += 1;
        self.by_identity.insert(identity, object);
        object
    }

    /// Forgets an object: nothing of it is wanted any more. What was to be given back of it is.
    pub fn remove(&mut self, object: ObjectId) {
        self.hand_over();
        if let Some(gone) = self.objects.remove(&object) {
            self.by_identity.remove(&gone.identity);
        }
        self.confirmed = self.confirmed.filter(|(known, _)| *known != object);
    }

    /// The object with this identity, if it is known.
    #[must_use]
    pub fn object(&self, identity: &Identity) -> Option<ObjectId> {
        self.by_identity.get(identity).copied()
    }

    /// The length of an object when it was last looked at.
    #[must_use]
    pub fn length(&self, object: ObjectId) -> Bytes {
        self.objects.get(&object).map_or(Bytes::ZERO, |object| object.length)
    }

    /// Whether no descriptor of an object is known any more.
    #[must_use]
    pub fn is_gone(&self, object: ObjectId) -> bool {
        self.objects.get(&object).is_none_or(|object| object.descriptors.is_empty())
    }

    /// How many objects are known.
    #[must_use]
    pub fn objects(&self) -> usize {
        self.objects.len()
    }

    /// The host is about to close this descriptor.
    pub fn closed(&mut self, fd: HostFd) {
        for object in self.objects.values_mut() {
            object.descriptors.retain(|known| *known != fd);
        }
        self.confirmed = self.confirmed.filter(|(_, known)| *known != fd);
    }

    /// A descriptor that refers to the object now, and brings its length up to date.
    pub fn descriptor(&mut self, object: ObjectId) -> Option<HostFd> {
        if let Some((known, fd)) = self.confirmed
            && known == object
        {
            return Some(fd);
        }
        let entry = self.objects.get_mut(&object)?;
        while let Some(fd) = entry.descriptors.first().copied() {
            match fd.identify() {
                Some((identity, length)) if identity == entry.identity => {
                    entry.length = length.unwrap_or(entry.length);
                    return Some(fd);
                }
                _ => {
                    entry.descriptors.remove(0);
                }
            }
        }
        None
    }

    /// Hands over what is to be given back and forgets which descriptors were looked at: to be
    /// called when a call into the driver is over.
    pub fn finish(&mut self) {
        self.hand_over();
        self.confirmed = None;
    }

    /// Takes out what should be said; each kind comes once.
    pub fn notices(&mut self) -> Vec<Notice> {
        std::mem::take(&mut self.notices)
    }

    fn notice(&mut self, notice: Notice) {
        if self.said.insert(std::mem::discriminant(&notice)) {
            self.notices.push(notice);
        }
    }

    /// Gives all collected ranges back.
    fn hand_over(&mut self) {
        if self.forgetting == 0 {
            return;
        }
        self.forgetting = 0;
        let waiting: Vec<(ObjectId, Vec<PageSpan>)> = self
            .objects
            .iter_mut()
            .filter(|(_, object)| !object.forget.is_empty())
            .map(|(id, object)| (*id, object.forget.take()))
            .collect();
        for (object, ranges) in waiting {
            let Some(fd) = self.descriptor(object) else { continue };
            for range in ranges {
                // Best effort: what the kernel keeps, it will reclaim by itself.
                let _ = dont_need(fd, range);
            }
        }
    }

    fn ask_for(&mut self, object: ObjectId, fd: HostFd, range: PageSpan) -> Result<Pages, Refusal> {
        let entry = self.objects.get_mut(&object).ok_or(Refusal::Gone)?;
        let bytes = range.bytes();
        let (call, means) = (entry.call, entry.means);
        let outcome = match will_need(fd, bytes, call, means) {
            Err(Errno::NOSYS) if means == Means::Fadvise => {
                entry.means = Means::Readahead;
                will_need(fd, bytes, call, Means::Readahead)
            }
            other => other,
        };
        match outcome {
            Ok(asked) => Ok(asked.pages_floor()),
            Err(Errno::BADF) => Err(Refusal::Gone),
            Err(Errno::AGAIN | Errno::INTR | Errno::NOMEM) => Err(Refusal::Busy),
            Err(error) => {
                self.notice(Notice::NoAdvice(error));
                Err(Refusal::Unsupported)
            }
        }
    }
}

impl PageCache for KernelPageCache {
    fn now(&mut self) -> Instant {
        Instant(Nanos::from(self.origin.elapsed()).get())
    }

    fn fetch(&mut self, object: ObjectId, range: PageSpan) -> Result<Pages, Refusal> {
        // What is given back makes room for what is brought in.
        self.hand_over();
        let fd = self.descriptor(object).ok_or(Refusal::Gone)?;
        let within = clip(range, self.length(object));
        if within.is_empty() {
            // The file has shrunk: these pages are not there, others may be.
            return Ok(Pages::ZERO);
        }
        self.ask_for(object, fd, within)
    }

    fn forget(&mut self, object: ObjectId, range: PageSpan) {
        let Some(entry) = self.objects.get_mut(&object).filter(|_| !range.is_empty()) else { return };
        entry.forget.push(range);
        self.forgetting += 1;
        if self.forgetting >= FORGET_LIMIT {
            self.hand_over();
        }
    }

    fn resident(&mut self, object: ObjectId, range: PageSpan, runs: &mut Vec<PageSpan>) -> bool {
        let Some(fd) = self.descriptor(object) else { return false };
        let Some(entry) = self.objects.get_mut(&object) else { return false };
        let stale = entry.forget.overlaps(range);
        let within = clip(range, entry.length);
        let residency = *entry.residency.get_or_insert_with(|| Residency::of(fd));
        if stale {
            self.hand_over();
        }
        match residency {
            Residency::Forbidden => self.notice(Notice::ResidencyForbidden),
            Residency::Unsupported => self.notice(Notice::ResidencyUnsupported),
            Residency::Cachestat | Residency::Mincore => {}
        }
        residency.runs(fd, within, runs)
    }

    fn extents(&mut self, object: ObjectId) -> Vec<Extent> {
        if self.options.file_order {
            return Vec::new();
        }
        let Some(fd) = self.descriptor(object) else { return Vec::new() };
        let Some(entry) = self.objects.get(&object) else { return Vec::new() };
        let disk = DISK_STRIDE * entry.disk as u64;
        match Layout::of(fd, &entry.identity, entry.start) {
            Ok(mut layout) => {
                if layout.cut_short {
                    self.notice(Notice::LayoutCut);
                }
                for extent in &mut layout.extents {
                    extent.lba += disk;
                }
                layout.extents
            }
            Err(error) => {
                self.notice(Notice::NoLayout(error));
                Vec::new()
            }
        }
    }

    fn budget(&mut self) -> Pages {
        let available = memory::available();
        if available.bound == Bound::Unknown {
            // Out of descriptors, say: what was known last is better than a guess.
            if let Some(last) = self.budget {
                return last;
            }
            self.notice(Notice::NoMemoryFigures);
        } else {
            self.budget = Some(available.bytes.pages_floor());
        }
        available.bytes.pages_floor()
    }
}

impl std::fmt::Debug for KernelPageCache {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("KernelPageCache").field("objects", &self.objects.len()).finish_non_exhaustive()
    }
}
