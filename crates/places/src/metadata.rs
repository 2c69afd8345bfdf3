//! Inodes and directories of ext4, read into memory in order, many at a time.
//!
//! ext4 keeps the blocks of inode tables and directories in the page cache of its block device, the same that
//! a program reading `/dev/sda1` fills. The blocks of a listing can therefore be requested there, sorted by
//! address (`WILLNEED`), before a program requests one after the other. A listing of 30,000 files took 3.8 s
//! instead of 27.8. On other file systems, and if the device may not be opened, `stat` and `open` in the
//! order of inodes have to do.
//!
//! Only the device of the file system itself is opened (`st_dev`), never one below it. Only blocks of inodes
//! and directories from a listing are requested. Of the device's contents only the superblock and group
//! descriptors are parsed ([`crate::ext4`]); the kernel has those in memory while the file system is mounted.
//!
//! Limits: no more is requested than a limit, if one is set; the file system reads the rest when it needs it. Where all is
//! to be checked at the end, what was requested is kept, 16 bytes a piece.
//! Blocks of extended attributes and of the extent trees of fragmented files are not predicted. It
//! needs the permission to read the block device: root, or the group `disk`.

use crate::ext4::{Geometry, SUPERBLOCK};
use crate::volume::Volume;
use crate::{SharedDisk, is_little, missing};
use foreseek_storage::{HostFd, Residency, cachestat};
use foreseek_units::{ByteOffset, ByteSpan, Bytes, PageSpan, Pages, Sectors, Span};
use rustc_hash::FxHashMap;
use rustix::io::Errno;
use std::fs::File;
use std::hash::Hash;
use std::os::fd::AsRawFd;
use std::path::PathBuf;
use std::sync::Arc;

/// How many of the last pieces of a batch are awaited: the kernel's queue has at most 128 requests before an
/// awaited one; twice that is safe.
const TAIL: usize = 256;

/// See the module's documentation. Each volume has a key.
#[derive(Debug)]
pub struct Metadata<K = u16> {
    readers: FxHashMap<K, Option<Reader>>,
    /// Failures, to be reported once each.
    notes: Vec<String>,
    /// The most bytes to request.
    limit: Option<Bytes>,
    /// Whether all of it is to be checked.
    is_checked: bool,
    /// The bytes requested.
    pub bytes: Bytes,
    /// The bytes beyond the limit.
    pub skipped: Bytes,
    /// The number of pieces requested.
    pub pieces: u64,
}

/// A page that could not be read: the device, the place, and the cause.
type Unread = (PathBuf, ByteOffset, Errno);

/// What was requested of devices and is not in memory.
#[derive(Debug, Default)]
pub struct Missing {
    /// Evicted, or gone with the device.
    pub evicted: Bytes,
    /// What could not be read: the device, the place, and the cause.
    pub unread: Vec<Unread>,
}

#[derive(Debug)]
struct Reader {
    node: PathBuf,
    device: File,
    geometry: Geometry,
    call: Bytes,
    disk: Arc<SharedDisk>,
    /// Where the device starts on its disk.
    start: Sectors,
    /// The start of the inode tables of groups, as far as they were needed.
    tables: FxHashMap<u64, Option<u64>>,
    /// The last pieces requested.
    tail: Vec<PageSpan>,
    /// All pieces requested, if they are to be checked.
    requested: Option<Vec<PageSpan>>,
}

impl<K> Default for Metadata<K> {
    fn default() -> Self {
        Self {
            readers: FxHashMap::default(),
            notes: Vec::new(),
            limit: None,
            is_checked: false,
            bytes: Bytes::ZERO,
            skipped: Bytes::ZERO,
            pieces: 0,
        }
    }
}

impl<K: Copy + Eq + Hash> Metadata<K> {
    /// Requests at most so many bytes.
    #[must_use]
    pub fn within(limit: Bytes) -> Self {
        Self { limit: Some(limit), ..Self::default() }
    }

    /// The same; all of it can be [checked](Self::check).
    #[must_use]
    pub fn checked_within(limit: Bytes) -> Self {
        Self { is_checked: true, ..Self::within(limit) }
    }

    /// What limits it, one line each.
    #[must_use]
    pub fn notes(&self) -> Vec<String> {
        let beyond = (!self.skipped.is_zero()).then(|| {
            format!(
                "{} of inodes and directories are beyond the memory limit: the file system reads them when it needs \
                 them",
                self.skipped
            )
        });
        self.notes.iter().cloned().chain(beyond).collect()
    }

    /// Whether the metadata of a volume can be read ahead. The first call opens its device, and adds a note
    /// if it cannot be opened.
    pub fn reads(&mut self, key: K, volume: &Volume) -> bool {
        let (notes, is_checked) = (&mut self.notes, self.is_checked);
        let open = || match Reader::open(volume, is_checked) {
            Ok(reader) => reader,
            Err(note) => {
                notes.push(note);
                None
            }
        };
        self.readers.entry(key).or_insert_with(open).is_some()
    }

    /// Closes the devices of all volumes but those to keep.
    pub fn retain(&mut self, keep: impl Fn(K) -> bool) {
        self.readers.retain(|key, _| keep(*key));
    }

    /// Requests the blocks with these inodes, in order.
    pub fn prefetch_inodes(&mut self, key: K, inodes: impl IntoIterator<Item = u64>) {
        if let Some(Some(reader)) = self.readers.get_mut(&key) {
            let blocks = inodes.into_iter().filter_map(|inode| reader.block_of(inode)).collect();
            self.prefetch(key, blocks);
        }
    }

    /// The block of the device that contains an inode, if the metadata of its volume can be read.
    pub fn address_of(&mut self, key: K, inode: u64) -> Option<ByteSpan> {
        self.readers.get_mut(&key)?.as_mut()?.block_of(inode)
    }

    /// Whether a block of the device is in memory, as far as known.
    #[must_use]
    pub fn holds(&self, key: K, block: ByteSpan) -> bool {
        let reader = self.readers.get(&key).and_then(Option::as_ref);
        reader.is_some_and(|reader| reader.holds(block.pages()))
    }

    /// Requests blocks of the device, in order; those in memory are left out.
    pub fn prefetch(&mut self, key: K, blocks: Vec<ByteSpan>) {
        if let Some(Some(reader)) = self.readers.get_mut(&key) {
            let mut pieces = merged(blocks);
            pieces.retain(|piece| !reader.holds(*piece));
            for piece in pieces {
                let left = self.limit.map_or(piece.len(), |limit| (limit - self.bytes).pages_floor());
                let (piece, beyond) = piece.split(piece.start + left);
                self.skipped += beyond.bytes().len();
                if piece.is_empty() {
                    continue;
                }
                self.bytes += piece.bytes().len();
                self.pieces += 1;
                reader.ask(piece);
            }
        }
    }

    /// Waits until the requested blocks have arrived.
    pub fn wait(&mut self) {
        for reader in self.readers.values_mut().flatten() {
            reader.wait();
        }
    }

    /// Waits until all blocks have arrived, and returns what is not in memory. What was evicted is requested once more
    /// before, if it is little: otherwise memory is short. Where residency is not visible, nothing is known to be missing.
    pub fn check(&mut self, is_stopped: &dyn Fn() -> bool) -> Missing {
        self.wait();
        let bytes_in = |pieces: &[PageSpan]| pieces.iter().map(|piece| piece.bytes().len()).sum::<Bytes>();
        let mut missing = Missing::default();
        for reader in self.readers.values_mut().flatten() {
            let requested = reader.requested.take().unwrap_or_default();
            let (mut evicted, mut unread) = reader.missing_of(&requested, is_stopped);
            if !evicted.is_empty() && is_little(bytes_in(&evicted), bytes_in(&requested)) {
                evicted.iter().for_each(|piece| reader.ask(*piece));
                reader.wait();
                (evicted, unread) = reader.missing_of(&requested, is_stopped);
            }
            missing.evicted += bytes_in(&evicted);
            missing.unread.extend(unread);
        }
        missing
    }
}

impl Reader {
    /// `None` for another file system; an error if its device cannot be read.
    fn open(volume: &Volume, is_checked: bool) -> Result<Option<Self>, String> {
        if !volume.is_ext4() {
            return Ok(None);
        }
        let slower = "its inodes are read through the file system, in order";
        let node = volume.device.node();
        let node = node.ok_or_else(|| format!("no node in /dev for device {}: {slower}", volume.device))?;
        let device = File::open(&node).map_err(|error| {
            let remedy = if rustix::process::geteuid().is_root() { "" } else { "; root can open it" };
            format!("cannot open {}: {error}; {slower}{remedy}", node.display())
        })?;
        let mut superblock = [0; 1024];
        let fd = HostFd::new(device.as_raw_fd()).ok_or_else(|| slower.to_owned())?;
        let read = fd.read_at(&mut superblock, SUPERBLOCK.start);
        let read = read
            .map_err(|error| format!("cannot read {} at offset 1024: {error}; {slower}", node.display()))?;
        let geometry = Geometry::parse(&superblock[..read])
            .map_err(|error| format!("{}: {error}; {slower}", node.display()))?;
        let call = volume.backing.call_length();
        let disk = Arc::clone(&volume.disk);
        let start = volume.backing.start;
        let (tables, tail, requested) = (FxHashMap::default(), Vec::new(), is_checked.then(Vec::new));
        Ok(Some(Self { node, device, geometry, call, disk, start, tables, tail, requested }))
    }

    fn fd(&self) -> Option<HostFd> {
        HostFd::new(self.device.as_raw_fd())
    }

    fn block_of(&mut self, inode: u64) -> Option<ByteSpan> {
        let group = self.geometry.group_of(inode)?;
        let table = match self.tables.get(&group) {
            Some(known) => *known,
            None => {
                let table = self.table_of(group);
                self.tables.insert(group, table);
                table
            }
        };
        self.geometry.inode_block(inode, table?)
    }

    fn table_of(&self, group: u64) -> Option<u64> {
        let (place, within) = self.geometry.descriptor_of(group)?;
        let mut block = vec![0; usize::try_from(place.len().get()).ok()?];
        let read = self.fd()?.read_at(&mut block, place.start).ok()?;
        self.geometry.table_in(&block[..read], within)
    }

    /// Whether a whole piece is in memory, as far as known.
    fn holds(&self, piece: PageSpan) -> bool {
        self.fd().is_some_and(|fd| cachestat(fd, piece).is_ok_and(|cached| cached >= piece.len()))
    }

    fn ask(&mut self, piece: PageSpan) {
        if let Some(requested) = &mut self.requested {
            requested.push(piece);
        }
        // After a refusal the block is read when it is needed.
        let place = piece.bytes().start.lba() + self.start;
        let asked = self.fd().map(|fd| self.disk.will_need(fd, piece.bytes(), self.call, Some(place)));
        if matches!(asked, Some(Ok(_))) {
            if self.tail.len() >= TAIL {
                self.tail.drain(..TAIL / 2);
            }
            self.tail.push(piece);
        }
    }

    fn wait(&mut self) {
        let Some(fd) = self.fd() else { return };
        for piece in self.tail.drain(..) {
            // It is in memory or in flight; the program that needs it meets a bad sector again.
            let _ = fd.read_at(&mut [0], (piece.end.offset()) - Bytes(1));
        }
    }

    /// The evicted parts of requested pieces, and the pages that cannot be read.
    fn missing_of(&self, pieces: &[PageSpan], is_stopped: &dyn Fn() -> bool) -> (Vec<PageSpan>, Vec<Unread>) {
        let (mut evicted, mut unread, mut arrived) = (Vec::new(), Vec::new(), Vec::new());
        let Some(fd) = self.fd() else { return (Vec::new(), unread) };
        for piece in pieces {
            arrived.clear();
            if !Residency::Mincore.runs(fd, *piece, &mut arrived) {
                continue;
            }
            for page in missing(*piece, &arrived).into_iter().flat_map(PageSpan::iter) {
                if is_stopped() {
                    return (merged(evicted), unread);
                }
                let page_alone = PageSpan::at(page, Pages(1));
                if cachestat(fd, page_alone) == Ok(Pages::ZERO) {
                    evicted.push(page_alone.bytes());
                } else if let Err(cause) = fd.read_at(&mut [0], page.offset()) {
                    // Its read had failed, maybe with a neighbour's; now it alone was read.
                    unread.push((self.node.clone(), page.offset(), cause));
                }
            }
        }
        (merged(evicted), unread)
    }
}

/// Blocks as runs of pages: ascending, disjoint, with neighbours merged.
fn merged(mut blocks: Vec<ByteSpan>) -> Vec<PageSpan> {
    blocks.sort_unstable_by_key(|block| block.start);
    let mut runs: Vec<PageSpan> = Vec::new();
    for pages in blocks.into_iter().map(ByteSpan::pages).filter(|pages| !pages.is_empty()) {
        match runs.last_mut() {
            Some(last) if pages.start <= last.end => *last = Span::new(last.start, last.end.max(pages.end)),
            _ => runs.push(pages),
        }
    }
    runs
}

#[cfg(test)]
mod tests {
    use super::*;
    use foreseek_units::PageIndex;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    proptest! {
        #[test]
        fn runs_hold_the_pages_of_all_blocks_once_and_ascend(
            blocks in prop::collection::vec((0..400_000u64, 1..9000u64), 0..50),
        ) {
            let spans: Vec<_> =
                blocks.iter().map(|(start, length)| ByteSpan::at(ByteOffset(*start), Bytes(*length))).collect();
            let pages: BTreeSet<PageIndex> = spans.iter().flat_map(|span| span.pages().iter()).collect();
            let runs = merged(spans);
            prop_assert!(runs.windows(2).all(|two| two[0].end < two[1].start));
            prop_assert_eq!(runs.iter().map(|run| run.len()).sum::<Pages>(), Pages(pages.len() as u64));
            prop_assert!(pages.iter().all(|page| runs.iter().any(|run| run.contains(*page))));
        }
    }
}
