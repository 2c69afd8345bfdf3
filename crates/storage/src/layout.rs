//! The physical layout of a file (FIEMAP), for fetching in disk order.
//!
//! The file is not synced first (no `FIEMAP_FLAG_SYNC`): that would write the host's dirty data at a time
//! that the host did not choose. Only dirty pages would gain an address by it, and these are in memory
//! already. Pages without an address (delayed allocation, holes, unknown) are left out, as are pages that are
//! read without I/O (preallocated, unwritten). A compressed extent counts as if it were as long on the device
//! as in the file. Data in an inode or a shared block have the address of that block: accurate enough for an
//! order.
#![allow(unsafe_code)]

use crate::fd::{FileKind, HostFd, Identity};
pub use foreseek_seam::Extent;
use foreseek_units::{Lba, PAGE_SIZE, PageIndex, Pages, SECTOR_SIZE, Sectors};
use rustix::io::Errno;
use rustix::ioctl::Updater;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// How many extents of one file are kept: at 24 bytes each, 6 MiB. With extents of 4 MiB, as files get that
/// are written alternately with many others, that covers 1 TiB. Pages beyond have no address.
pub const EXTENTS_LIMIT: usize = 256 * 1024;

/// How many extents of one file are looked at, with an address or without: 1,024 calls. A compressed
/// file of 100 GB has millions without one.
const LOOKED_AT: usize = 256 * 1024;

/// The pages of a block device, where only addresses matter: 8 PiB, more than any has.
const WHOLE_DEVICE: Pages = Pages(1 << 41);
/// Extents in a call: 14 KiB, on the heap.
const BATCH: usize = 256;
/// FIEMAP calls of this process.
static CALLS: AtomicU64 = AtomicU64::new(0);
/// `_IOWR('f', 11, struct fiemap)`.
const FS_IOC_FIEMAP: rustix::ioctl::Opcode = 0xC020_660B;

const LAST: u32 = 0x1;
const UNKNOWN: u32 = 0x2;
const DELAYED: u32 = 0x4;
const ENCODED: u32 = 0x8;
const INLINE: u32 = 0x200;
const UNWRITTEN: u32 = 0x800;

/// How many FIEMAP calls this process has made.
pub(crate) fn calls() -> u64 {
    CALLS.load(Relaxed)
}

#[repr(C)]
#[derive(Clone, Copy, Default)]
struct FiemapExtent {
    logical: u64,
    physical: u64,
    length: u64,
    reserved64: [u64; 2],
    flags: u32,
    reserved: [u32; 3],
}

#[repr(C)]
struct Fiemap {
    start: u64,
    length: u64,
    flags: u32,
    mapped_extents: u32,
    extent_count: u32,
    reserved: u32,
    extents: [FiemapExtent; BATCH],
}

/// The physical layout of a file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Layout {
    /// Extents with an address, ascending and disjoint; those that are adjacent both in the file and on the
    /// device are merged.
    pub extents: Vec<Extent>,
    /// Whether the file has more extents than the limit, or than were looked at; the pages beyond have no address.
    pub cut_short: bool,
}

/// Which extents of a file count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Rules {
    /// The most extents.
    limit: usize,
    /// Extents with one of these flags have no address.
    without_address: u32,
}

impl Rules {
    /// Accurate enough for an order: a compressed extent or inline data have an address.
    const FOR_ORDER: Self = Self { limit: EXTENTS_LIMIT, without_address: UNKNOWN | DELAYED | UNWRITTEN };

    /// Addresses at which a read of exactly these pages reads exactly these sectors.
    const fn exact(limit: usize) -> Self {
        Self { limit, without_address: UNKNOWN | DELAYED | UNWRITTEN | INLINE | ENCODED }
    }
}

impl Layout {
    /// The layout of an open file whose partition begins at sector `start` of its disk.
    ///
    /// # Errors
    /// EOPNOTSUPP where the file system has no FIEMAP, or another error of the kernel.
    pub fn of(fd: HostFd, identity: &Identity, start: Sectors) -> Result<Self, Errno> {
        if identity.kind == FileKind::BlockDevice {
            let whole = Extent { page: PageIndex::ZERO, pages: WHOLE_DEVICE, lba: Lba::ZERO + start };
            return Ok(Self { extents: vec![whole], cut_short: false });
        }
        Self::read(fd, start, Rules::FOR_ORDER, u64::MAX)
    }

    /// The exact layout of an open file or directory: at most `limit` extents, and none that is inline or
    /// encoded (compressed, encrypted), since the device then reads other sectors than FIEMAP reports.
    ///
    /// # Errors
    /// As [`Layout::of`].
    pub fn exactly(fd: HostFd, start: Sectors, limit: usize) -> Result<Self, Errno> {
        Self::read(fd, start, Rules::exact(limit), u64::MAX)
    }

    /// The same of the first pages of a file. The last extent may go beyond them.
    ///
    /// # Errors
    /// As [`Layout::of`].
    pub fn exactly_of_first(fd: HostFd, start: Sectors, limit: usize, first: Pages) -> Result<Self, Errno> {
        Self::read(fd, start, Rules::exact(limit), first.bytes().get())
    }

    /// What is known of the bytes before `end`.
    fn read(fd: HostFd, start: Sectors, rules: Rules, end: u64) -> Result<Self, Errno> {
        Self::by_calls(start, rules, end, |map| {
            CALLS.fetch_add(1, Relaxed);
            // SAFETY: the opcode is that of FIEMAP, and `Fiemap` is laid out as `struct fiemap` with
            // room for the `extent_count` extents that it announces.
            let request = unsafe { Updater::<FS_IOC_FIEMAP, Fiemap>::new(map) };
            // SAFETY: FIEMAP writes into the structure that is passed and nowhere else.
            unsafe { rustix::ioctl::ioctl(fd.borrow(), request) }
        })
    }

    /// The layout that these calls of FIEMAP report.
    fn by_calls(
        start: Sectors,
        rules: Rules,
        end: u64,
        mut call: impl FnMut(&mut Fiemap) -> Result<(), Errno>,
    ) -> Result<Self, Errno> {
        let mut layout = Self::default();
        let mut map = Box::new(Fiemap {
            start: 0,
            length: end,
            flags: 0,
            mapped_extents: 0,
            extent_count: BATCH as u32,
            reserved: 0,
            extents: [FiemapExtent::default(); BATCH],
        });
        let mut looked_at = 0;
        loop {
            map.mapped_extents = 0;
            map.length = end - map.start;
            call(&mut map)?;
            let found = &map.extents[..(map.mapped_extents as usize).min(BATCH)];
            let Some(last) = found.last() else { break };
            layout.add(found, start, rules);
            let next = last.logical.saturating_add(last.length);
            if last.flags & LAST != 0 || next <= map.start || next >= end || layout.cut_short {
                break;
            }
            looked_at += found.len();
            if looked_at >= LOOKED_AT {
                layout.cut_short = true;
                break;
            }
            map.start = next;
        }
        Ok(layout)
    }

    fn add(&mut self, found: &[FiemapExtent], start: Sectors, rules: Rules) {
        for extent in found.iter().filter_map(|found| placed(found, start, rules)) {
            self.push(extent);
            if self.extents.len() > rules.limit {
                self.extents.pop();
                self.cut_short = true;
                return;
            }
        }
    }

    /// Adds an extent, less a first page that the last extent already covers (where blocks are smaller than
    /// pages, two extents may share a page).
    fn push(&mut self, mut extent: Extent) {
        if let Some(last) = self.extents.last_mut() {
            let last_end = last.page + last.pages;
            let shared = last_end - extent.page;
            if shared >= extent.pages {
                return;
            }
            extent.page += shared;
            extent.lba += shared.sectors();
            extent.pages -= shared;
            if extent.page == last_end && extent.lba == last.lba + last.pages.sectors() {
                last.pages += extent.pages;
                return;
            }
        }
        self.extents.push(extent);
    }
}

/// The pages of an extent, rounded outward to whole pages; `None` where they have no address.
fn placed(found: &FiemapExtent, start: Sectors, rules: Rules) -> Option<Extent> {
    if found.flags & rules.without_address != 0
        || found.length == 0
        || (found.flags & INLINE != 0 && found.physical == 0)
    {
        return None;
    }
    let page = found.logical / PAGE_SIZE;
    let end = found.logical.saturating_add(found.length).div_ceil(PAGE_SIZE);
    let lead_bytes = found.logical % PAGE_SIZE;
    let lba = Lba(found.physical.saturating_sub(lead_bytes) / SECTOR_SIZE);
    Some(Extent { page: PageIndex(page), pages: Pages(end - page), lba: lba + start })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(logical: u64, physical: u64, length: u64, flags: u32) -> FiemapExtent {
        FiemapExtent { logical, physical, length, flags, ..FiemapExtent::default() }
    }

    fn extent(page: u64, pages: u64, lba: u64) -> Extent {
        Extent { page: PageIndex(page), pages: Pages(pages), lba: Lba(lba) }
    }

    fn layout(found: &[FiemapExtent]) -> Vec<Extent> {
        let mut layout = Layout::default();
        layout.add(found, Sectors::ZERO, Rules::FOR_ORDER);
        layout.extents
    }

    #[test]
    fn the_structures_are_as_long_as_the_kernels() {
        assert_eq!(size_of::<FiemapExtent>(), 56);
        assert_eq!(size_of::<Fiemap>(), 32 + 56 * BATCH);
    }

    #[test]
    fn extents_that_continue_each_other_are_one() {
        let parts =
            [found(0, 409_600, 8192, 0), found(8192, 417_792, 4096, 0), found(12288, 0x10_0000, 4096, 0)];
        assert_eq!(layout(&parts), [extent(0, 3, 800), extent(3, 1, 2048)]);
    }

    #[test]
    fn what_has_no_place_is_left_out() {
        let parts = [
            found(0, 0, 4096, UNKNOWN),
            found(4096, 0, 4096, DELAYED | UNKNOWN),
            found(8192, 81920, 4096, UNWRITTEN),
            found(12288, 0, 100, INLINE),
            found(16384, 4096, 4096, 0),
            found(20480, 8192, 0, 0),
        ];
        assert_eq!(layout(&parts), [extent(4, 1, 8)]);
    }

    #[test]
    fn a_page_of_small_blocks_lies_where_its_first_extent_lies() {
        // 1 KiB blocks: the page 1 is shared by both extents.
        let parts = [found(0, 10_240, 5120, 0), found(5120, 102_400, 7168, 0)];
        assert_eq!(layout(&parts), [extent(0, 2, 20), extent(2, 1, (102_400 - 1024) / 512 + 8)]);
        // An extent wholly within a page that has an address already adds nothing.
        assert_eq!(layout(&[found(0, 10_240, 1024, 0), found(1024, 90_000, 1024, 0)]), [extent(0, 1, 20)]);
    }

    #[test]
    fn a_partition_moves_everything_by_its_start() {
        let mut layout = Layout::default();
        layout.add(&[found(0, 4096, 4096, 0)], Sectors(2048), Rules::FOR_ORDER);
        assert_eq!(layout.extents, [extent(0, 1, 2056)]);
    }

    #[test]
    fn too_many_extents_are_cut_and_reported() {
        let parts: Vec<_> =
            (0..EXTENTS_LIMIT as u64 + 5).map(|n| found(n * 4096, (n + 1) * 8192, 4096, 0)).collect();
        let mut layout = Layout::default();
        layout.add(&parts, Sectors::ZERO, Rules::FOR_ORDER);
        assert!(layout.cut_short);
        assert_eq!(layout.extents.len(), EXTENTS_LIMIT);
    }

    #[test]
    fn extents_without_an_address_are_not_looked_at_without_end() {
        let mut calls = 0;
        let layout = Layout::by_calls(Sectors::ZERO, Rules::exact(8), u64::MAX, |map| {
            calls += 1;
            assert_eq!(map.flags, 0, "nothing is written back");
            for (n, extent) in (0..).zip(&mut map.extents) {
                *extent = found(map.start + n * 4096, 4096, 4096, ENCODED);
            }
            map.mapped_extents = BATCH as u32;
            Ok(())
        });
        assert_eq!(layout, Ok(Layout { extents: Vec::new(), cut_short: true }));
        assert_eq!(calls, LOOKED_AT / BATCH);
    }

    #[test]
    fn an_exact_layout_leaves_out_what_moves_other_sectors() {
        let parts = [
            found(0, 4096, 100, INLINE),
            found(4096, 40_960, 4096, ENCODED),
            found(8192, 81_920, 4096, 0),
            found(12_288, 0, 4096, UNKNOWN),
            found(16_384, 0, 4096, DELAYED | UNKNOWN),
            found(20_480, 122_880, 4096, UNWRITTEN),
            found(24_576, 4096, 4096, DELAYED),
        ];
        let mut layout = Layout::default();
        layout.add(&parts, Sectors::ZERO, Rules::exact(8));
        assert_eq!((layout.extents, layout.cut_short), (vec![extent(2, 1, 160)], false));
        let mut layout = Layout::default();
        let scattered: Vec<_> = (0..9).map(|n| found(n * 4096, (n + 1) * 8192, 4096, 0)).collect();
        layout.add(&scattered, Sectors::ZERO, Rules::exact(8));
        assert!(layout.cut_short && layout.extents.len() == 8);
    }

    #[test]
    fn nonsense_from_a_file_system_is_survived() {
        layout(&[found(u64::MAX, u64::MAX, u64::MAX, 0), found(0, u64::MAX, u64::MAX, 0), found(5, 3, 1, 0)]);
    }
}
