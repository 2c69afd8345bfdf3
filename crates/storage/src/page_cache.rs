//! The kernel's page cache, as the driver of an engine uses it, through descriptors of the host.
//!
//! A file is an object, identified by device and inode, whichever descriptors refer to it. Each use checks
//! that a descriptor still does (`fstat`, a fifth of a microsecond), but one: whether a read finds all of its
//! pages in memory may be asked by a descriptor that was checked earlier. Without a descriptor, fetches are
//! refused as [`Refusal::Gone`] until a read brings one.
//!
//! Objects on different disks sort by disk first. The address of a page is its sector plus a multiple of
//! [`DISK_STRIDE`], so that one sweep in ascending order sweeps one disk after the other.

use crate::advice::{DontNeed, Means, clip, dont_need, will_need};
use crate::detect::{BackingDevice, DeviceNumber};
use crate::fd::{FileKind, HostFd, Identity};
use crate::layout::{EXTENTS_LIMIT, Layout};
use crate::memory::{self, Bound};
use crate::residency::{Residency, cachestat};
use foreseek_seam::{Extent, ObjectId, PageCache, Refusal};
use foreseek_units::{ByteOffset, ByteSpan, Bytes, Instant, Nanos, PageSpan, Pages, Sectors};
use rustc_hash::FxHashMap;
use rustix::io::Errno;
use std::collections::{BTreeMap, HashSet};

/// Sectors between the addresses of one disk and the next: 8 PiB, more than any disk.
pub const DISK_STRIDE: Sectors = Sectors(1 << 44);

/// Descriptors kept for one object. One suffices; the others serve when the host closes some of them.
const DESCRIPTORS_LIMIT: usize = 8;

/// The most ranges to drop that are collected before they are passed to the kernel. It bounds memory; a round
/// of prefetching seldom reaches it.
const FORGET_LIMIT: usize = 64 * 1024;

/// Settings of the cache of one client.
#[derive(Clone, Copy, Debug, Default)]
pub struct Options {
    /// Do not read the layout of files: they are fetched in file order.
    pub file_order: bool,
}

/// Something that this system does not support, with its remedy; reported once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
pub enum Notice {
    /// `cachestat` is refused.
    #[error(
        "cannot see which pages of a file are in memory, since the file belongs to another user (cachestat: \
         EPERM); using the prefetcher's own record: run as the file's owner, or give write permission, for better results"
    )]
    ResidencyForbidden,
    /// No way to find out.
    #[error(
        "cannot see which pages of a file are in memory (no cachestat); using the prefetcher's own record: Linux 6.5 or \
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
    #[error("the kernel takes no prefetching advice for a file ({0}); it is read without prefetching")]
    NoAdvice(Errno),
    /// The size of memory cannot be read.
    #[error(
        "cannot read how much memory there is (/proc/meminfo); assuming 64 MiB: mount /proc, or set \
         FORESEEK_MEMORY"
    )]
    NoMemoryFigures,
}

struct Object {
    identity: Identity,
    /// The sector where its partition starts.
    start: Sectors,
    /// The index of the disk that holds it, of which its addresses are.
    disk: usize,
    /// Most recently used first.
    descriptors: Vec<HostFd>,
    length: Bytes,
    /// The longest call for a range.
    call: Bytes,
    means: Means,
    residency: Option<Residency>,
    to_drop: DontNeed,
}

impl Object {
    fn new(identity: Identity, disks: &mut Vec<DeviceNumber>) -> Self {
        let backing = BackingDevice::of(identity.device);
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
            to_drop: DontNeed::default(),
        }
    }
}

/// The kernel's page cache for the files of one client.
pub struct KernelPageCache {
    options: Options,
    origin: std::time::Instant,
    /// The watched objects. Numbers are not reused.
    objects: BTreeMap<ObjectId, Object>,
    next_object: u64,
    by_identity: FxHashMap<Identity, ObjectId>,
    disks: Vec<DeviceNumber>,
    /// How many ranges are collected to be dropped.
    ranges_to_drop: usize,
    /// An object and its descriptor that was checked within the current call.
    confirmed: Option<(ObjectId, HostFd)>,
    /// Pages of an object that were found in memory within the current call.
    seen: Option<(ObjectId, PageSpan)>,
    /// The last budget that was read.
    budget: Option<Pages>,
    reported: HashSet<std::mem::Discriminant<Notice>>,
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
            by_identity: FxHashMap::default(),
            disks: Vec::new(),
            ranges_to_drop: 0,
            confirmed: None,
            seen: None,
            budget: None,
            reported: HashSet::new(),
            notices: Vec::new(),
        }
    }

    /// The object behind a descriptor that was just identified; a new one where it is unknown. The descriptor
    /// becomes its first choice. `length` is that of [`HostFd::identify`].
    pub fn register(&mut self, fd: HostFd, identity: Identity, length: Option<Bytes>) -> ObjectId {
        let object = match self.by_identity.get(&identity) {
            Some(object) => *object,
            None => self.create(identity),
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

    fn create(&mut self, identity: Identity) -> ObjectId {
        let object = ObjectId(self.next_object);
        self.next_object += 1;
        self.by_identity.insert(identity, object);
        object
    }

    /// Removes an object that is no longer used. Its ranges to drop are dropped first.
    pub fn remove(&mut self, object: ObjectId) {
        self.drop_ranges();
        if let Some(gone) = self.objects.remove(&object) {
            self.by_identity.remove(&gone.identity);
        }
        self.confirmed = self.confirmed.filter(|(known, _)| *known != object);
        self.seen = None;
    }

    /// The object with this identity, if it is known.
    #[must_use]
    pub fn object(&self, identity: &Identity) -> Option<ObjectId> {
        self.by_identity.get(identity).copied()
    }

    /// The length of an object when it was last checked.
    #[must_use]
    pub fn length(&self, object: ObjectId) -> Bytes {
        self.objects.get(&object).map_or(Bytes::ZERO, |object| object.length)
    }

    /// Whether no open descriptor of an object is known.
    #[must_use]
    pub fn is_gone(&self, object: ObjectId) -> bool {
        self.objects.get(&object).is_none_or(|object| object.descriptors.is_empty())
    }

    /// The number of known objects.
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

    /// A descriptor that refers to the object now. Updates the length of the object.
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
                    self.confirmed = Some((object, fd));
                    return Some(fd);
                }
                _ => {
                    entry.descriptors.remove(0);
                }
            }
        }
        None
    }

    /// Ends a call into the driver: drops the collected ranges and forgets which descriptor was checked.
    pub fn finish(&mut self) {
        self.drop_ranges();
        self.confirmed = None;
        self.seen = None;
    }

    /// Whether all pages of a range of the object are in memory, by a descriptor that belonged to it when it was
    /// last checked. One system call; false where more would be needed to know. A driver that asks for these pages
    /// within the same call has the answer without another.
    pub fn has_all(&mut self, object: ObjectId, fd: HostFd, range: ByteSpan) -> bool {
        let Some(entry) = self.objects.get(&object) else { return false };
        let pages = range.pages();
        let has_all = entry.residency == Some(Residency::Cachestat)
            && !entry.descriptors.is_empty()
            && range.end <= ByteOffset::ZERO + entry.length
            && !entry.to_drop.overlaps(pages)
            && cachestat(fd, pages) == Ok(pages.len());
        self.seen = has_all.then_some((object, pages));
        has_all
    }

    /// Takes out the notices that are to be shown; each kind comes once.
    pub fn notices(&mut self) -> Vec<Notice> {
        std::mem::take(&mut self.notices)
    }

    fn notice(&mut self, notice: Notice) {
        if self.reported.insert(std::mem::discriminant(&notice)) {
            self.notices.push(notice);
        }
    }

    /// Drops all collected ranges.
    fn drop_ranges(&mut self) {
        if self.ranges_to_drop == 0 {
            return;
        }
        self.ranges_to_drop = 0;
        let waiting: Vec<(ObjectId, Vec<PageSpan>)> = self
            .objects
            .iter_mut()
            .filter(|(_, object)| !object.to_drop.is_empty())
            .map(|(id, object)| (*id, object.to_drop.take()))
            .collect();
        for (object, ranges) in waiting {
            let Some(fd) = self.descriptor(object) else { continue };
            for range in ranges {
                // Best effort: the kernel will reclaim by itself what it keeps now.
                let _ = dont_need(fd, range);
            }
        }
    }

    fn request(&mut self, object: ObjectId, fd: HostFd, range: PageSpan) -> Result<Pages, Refusal> {
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
            Ok(requested) => Ok(requested.pages_floor()),
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
        // Dropped pages make room for fetched ones.
        self.drop_ranges();
        let fd = self.descriptor(object).ok_or(Refusal::Gone)?;
        let within = clip(range, self.length(object));
        if within.is_empty() {
            // The file has shrunk: these pages do not exist, others may.
            return Ok(Pages::ZERO);
        }
        self.request(object, fd, within)
    }

    fn forget(&mut self, object: ObjectId, range: PageSpan) {
        let Some(entry) = self.objects.get_mut(&object).filter(|_| !range.is_empty()) else { return };
        entry.to_drop.push(range);
        self.ranges_to_drop += 1;
        if self.ranges_to_drop >= FORGET_LIMIT {
            self.drop_ranges();
        }
    }

    fn resident(&mut self, object: ObjectId, range: PageSpan, runs: &mut Vec<PageSpan>) -> bool {
        if let Some((known, seen)) = self.seen
            && known == object
            && seen.covers(range)
            && self.objects.get(&object).is_some_and(|entry| !entry.to_drop.overlaps(range))
        {
            runs.push(range);
            return true;
        }
        let Some(fd) = self.descriptor(object) else { return false };
        let Some(entry) = self.objects.get_mut(&object) else { return false };
        let stale = entry.to_drop.overlaps(range);
        let within = clip(range, entry.length);
        let residency = *entry.residency.get_or_insert_with(|| Residency::of(fd));
        if stale {
            self.drop_ranges();
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
            // No free descriptor, for instance: the last value is better than a guess.
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
