//! Fetches pieces of files into the page cache, in one pass over each disk.
//!
//! One thread for each disk requests its pieces, of at most 16 MiB each, in order (`WILLNEED`, in calls that the
//! kernel does not shorten). Files in a row on the disk go out [together](Requests). The call waits while the disk's
//! queue is full, which keeps the disk busy and the pass in order.
//! `WILLNEED` reports neither the arrival of data nor read errors. Every piece is therefore checked afterwards
//! (`mincore`). Of a page that is in the cache without its data a byte is read, which waits for the data or
//! returns the error.
//!
//! Descriptors: 64 for each disk's thread, less if that were more than a quarter of those that the process may have, and 16
//! for the check at the end, for any number of files.
//!
//! Limits: files that vanished, shrank or were replaced meanwhile are skipped silently. Of files whose
//! residency is not visible to this process the last few are read, which waits for the others.

use crate::addresses::Piece;
use crate::follow::Used;
use crate::tree::Tree;
use crate::trouble::{ReadErrors, is_gone};
use crate::{Work, parallel};
use foreseek_places::{DiskPosition, Requests, SharedDisk, Stop, Volumes, c_look, is_little, missing};
use foreseek_storage::{DeviceNumber, HostFd, Residency};
use foreseek_units::{ByteOffset, Bytes, PageIndex, PageSpan, Span};
use rustc_hash::FxHashSet;
use rustix::fs::Stat;
use rustix::io::Errno;
use rustix::process::{Resource, getrlimit};
use std::collections::VecDeque;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The most files that a disk's thread keeps open, for files whose pieces lie among those of others.
const OPEN_MOST: usize = 64;

/// The part of the descriptors that this process may have which all of these threads take: the rest is for the listing,
/// events, disks, and the check at the end.
const DESCRIPTORS_SHARE: u64 = 4;

/// How often a piece is waited for: once for each of its requests. A piece seldom has more of them in flight at
/// a time than the disk's queue holds.
const WAITS: usize = 128;

/// How often evicted pieces are requested again: what was evicted meanwhile is found the next time.
const AGAIN: usize = 4;

/// The pieces that are waited for at the end if residency is not visible: twice the requests that a disk's
/// queue holds.
const TAIL: usize = 256;

/// The result of a pass.
#[derive(Debug, Default)]
pub(crate) struct Fetched {
    /// Bytes requested.
    pub(crate) asked: Bytes,
    /// Bytes requested once more, since they were evicted.
    pub(crate) again: Bytes,
    /// Bytes requested, not used, and not in memory afterwards: evicted, or gone with their file.
    pub(crate) lost: Bytes,
    /// Read errors.
    pub(crate) errors: ReadErrors,
    /// Their files.
    failed: FxHashSet<u32>,
}

/// Sorts pieces into one pass over each disk.
#[must_use]
pub(crate) fn in_order(pieces: &[Piece], tree: &Tree) -> Vec<Piece> {
    let disks = disks_of(&tree.volumes);
    let mut stops: Vec<Stop> = (0u32..)
        .zip(pieces)
        .map(|(what, piece)| {
            let file = &tree.files()[piece.file as usize];
            let position =
                piece.lba.map_or(DiskPosition::Inode(file.inode), |lba| DiskPosition::Sector(lba.get()));
            Stop { device: disks[usize::from(file.volume)].0, position, what }
        })
        .collect();
    c_look(&mut stops, None);
    stops.into_iter().map(|stop| pieces[stop.what as usize]).collect()
}

/// The disk of each volume, numbered in the order of their first volumes.
pub(crate) fn disks_of(volumes: &Volumes) -> Vec<(u16, DeviceNumber)> {
    let mut disks: Vec<DeviceNumber> = Vec::new();
    volumes
        .iter()
        .map(|(_, volume)| {
            let disk = volume.backing.disk;
            let known = disks.iter().position(|known| *known == disk).unwrap_or_else(|| {
                disks.push(disk);
                disks.len() - 1
            });
            (u16::try_from(known).unwrap_or(u16::MAX), disk)
        })
        .collect()
}

/// Fetches pieces, which are [in order](in_order), and passes the number of requested bytes to `report`.
///
/// Pages that were evicted before the pass ended (kernels with DAMON page out what looks idle, a page here and there) are
/// requested again if they are few, but for those of `used` files. If they are many, memory is short, and more requests
/// would evict other pages.
pub(crate) fn fetch(
    tree: &Tree,
    pieces: &[Piece],
    used: &Used,
    work: &Work<'_>,
    report: &(dyn Fn(Bytes) + Sync),
) -> Fetched {
    let mut fetched = Fetched { asked: request(tree, pieces, work, report), ..Fetched::default() };
    let mut waiting = pieces.to_vec();
    let mut check_waiting = |fetched: &mut Fetched| {
        waiting.retain(|piece| !used.has(piece.file) && !fetched.failed.contains(&piece.file));
        let mut evicted = check(tree, &waiting, work, fetched);
        evicted.retain(|piece| !used.has(piece.file));
        evicted
    };
    let requested = bytes_in(pieces);
    let mut evicted = check_waiting(&mut fetched);
    for _ in 0..AGAIN {
        let before = bytes_in(&evicted);
        let is_little = evicted.len() == 1 || is_little(before, requested);
        if evicted.is_empty() || !is_little || work.is_stopped() {
            break;
        }
        fetched.again += request(tree, &evicted, work, &|_| ());
        evicted = check_waiting(&mut fetched);
        if bytes_in(&evicted) > before / 2 {
            // It evicts others, or they are evicted as fast.
            break;
        }
    }
    fetched.lost = bytes_in(&evicted);
    fetched
}

/// The bytes of pieces.
pub(crate) fn bytes_in(pieces: &[Piece]) -> Bytes {
    pieces.iter().map(Piece::bytes).sum()
}

/// Requests pieces, by one thread for each disk; returns how many bytes were requested.
fn request(tree: &Tree, pieces: &[Piece], work: &Work<'_>, report: &(dyn Fn(Bytes) + Sync)) -> Bytes {
    let disks = disks_of(&tree.volumes);
    let disk_of = |piece: &Piece| disks[usize::from(tree.files()[piece.file as usize].volume)].0;
    let asked = AtomicU64::new(0);
    let parts: Vec<&[Piece]> = pieces.chunk_by(|a, b| disk_of(a) == disk_of(b)).collect();
    let open_most = open_most(getrlimit(Resource::Nofile).current, parts.len());
    std::thread::scope(|scope| {
        for part in parts {
            let (asked, report) = (&asked, &report);
            scope.spawn(move || {
                let volume = tree.files()[part[0].file as usize].volume;
                let mut files = Files::new(tree, Arc::clone(&tree.volumes.get(volume).disk), open_most);
                for piece in part {
                    if work.is_stopped() {
                        return;
                    }
                    let bytes = files.request(piece);
                    report(Bytes(asked.fetch_add(bytes.get(), Ordering::Relaxed)) + bytes);
                }
            });
        }
    });
    Bytes(asked.into_inner())
}

/// How many files the thread of each of so many disks keeps open, of the descriptors that are allowed.
fn open_most(allowed: Option<u64>, disks: usize) -> usize {
    let share = allowed.unwrap_or(u64::MAX) / DESCRIPTORS_SHARE / disks.max(1) as u64;
    usize::try_from(share).unwrap_or(OPEN_MOST).clamp(1, OPEN_MOST)
}

/// The files that a thread has open.
struct Files<'a> {
    tree: &'a Tree,
    open: VecDeque<(u32, OwnedFd)>,
    open_most: usize,
    requests: Requests,
}

impl<'a> Files<'a> {
    fn new(tree: &'a Tree, disk: Arc<SharedDisk>, open_most: usize) -> Self {
        Self { tree, open: VecDeque::with_capacity(open_most), open_most, requests: Requests::new(disk) }
    }

    /// Requests a piece; returns how many bytes were requested.
    fn request(&mut self, piece: &Piece) -> Bytes {
        let file = &self.tree.files()[piece.file as usize];
        let call = self.tree.volumes.get(file.volume).backing.call_length();
        let Some(fd) = self.fd(piece.file) else { return Bytes::ZERO };
        let asked = self.requests.will_need(fd, piece.pages.bytes(), call, piece.lba);
        // The program itself reads pages whose request was refused.
        asked.unwrap_or_default()
    }

    fn fd(&mut self, file: u32) -> Option<HostFd> {
        if let Some((_, fd)) = self.open.iter().rev().find(|(known, _)| *known == file) {
            return HostFd::new(fd.as_raw_fd());
        }
        // Why it cannot be opened is found at the end.
        let (fd, _) = self.tree.open(&self.tree.files()[file as usize]).ok()?;
        if self.open.len() >= self.open_most {
            self.open.pop_front();
        }
        let host = HostFd::new(fd.as_raw_fd());
        self.open.push_back((file, fd));
        host
    }
}

/// Waits for the requested pieces, and checks them. Returns their evicted parts.
fn check(tree: &Tree, pieces: &[Piece], work: &Work<'_>, fetched: &mut Fetched) -> Vec<Piece> {
    let mut pending: Vec<Piece> = Vec::new();
    let mut unknown: Vec<Piece> = Vec::new();
    let mut evicted: Vec<Piece> = Vec::new();
    let mut failed: Vec<(Piece, Errno)> = Vec::new();
    let states = parallel::map(pieces, work.stop, |piece| state_of(tree, piece));
    if work.is_stopped() {
        // Some were left out, anywhere.
        return evicted;
    }
    for (piece, state) in pieces.iter().zip(states) {
        match state {
            State::Unknown => unknown.push(*piece),
            State::InFlight(_) => pending.push(*piece),
            State::Evicted(pages) => evicted.extend(pages.into_iter().map(|pages| piece.part(pages))),
            // Once for all pieces of a file.
            State::Failed(cause) if fetched.failed.insert(piece.file) => failed.push((*piece, cause)),
            State::Failed(_) | State::Resident => {}
        }
    }
    failed.extend(pending.iter().filter_map(|piece| Some((*piece, wait_for(tree, piece).err()?))));
    let tail = unknown.iter().rev().take(TAIL);
    failed.extend(tail.filter_map(|piece| Some((*piece, read_last_byte(tree, piece).err()?))));
    for (piece, cause) in failed {
        let path = tree.path(&tree.files()[piece.file as usize]);
        fetched.errors.add("read", &path, cause);
        fetched.failed.insert(piece.file);
    }
    evicted
}

/// The state of a requested piece.
enum State {
    /// In memory, or gone with its file.
    Resident,
    /// A page of it is in flight, or its read failed.
    InFlight(PageIndex),
    /// These pages are not in memory.
    Evicted(Vec<PageSpan>),
    /// Not visible to this process.
    Unknown,
    /// Its file cannot be opened any more.
    Failed(Errno),
}

/// The file of a piece; none if it is gone.
fn opened(tree: &Tree, piece: &Piece) -> Result<Option<(OwnedFd, Stat)>, Errno> {
    match tree.open(&tree.files()[piece.file as usize]) {
        Ok(opened) => Ok(Some(opened)),
        Err(cause) if is_gone(cause) => Ok(None),
        Err(cause) => Err(cause),
    }
}

/// `cachestat` counts a page when its read begins, `mincore` when its data has arrived. Neither marks it as
/// used.
fn state_of(tree: &Tree, piece: &Piece) -> State {
    let (fd, stat) = match opened(tree, piece) {
        Ok(Some(opened)) => opened,
        Ok(None) => return State::Resident,
        Err(cause) => return State::Failed(cause),
    };
    let Some(fd) = HostFd::new(fd.as_raw_fd()) else { return State::Resident };
    let size = Bytes(u64::try_from(stat.st_size).unwrap_or(0));
    let end = PageIndex(size.pages_ceil().get()).min(piece.pages.end);
    let pages = Span::new(piece.pages.start, end.max(piece.pages.start));
    let (mut begun, mut arrived) = (Vec::new(), Vec::new());
    // In this order: a page that arrives in between does not look like a failed one.
    if !Residency::of(fd).runs(fd, pages, &mut begun) || !Residency::Mincore.runs(fd, pages, &mut arrived) {
        return State::Unknown;
    }
    let has_arrived = |page: PageIndex| arrived.iter().any(|run| run.contains(page));
    let in_flight = begun.iter().flat_map(|run| run.iter()).find(|page| !has_arrived(*page));
    match in_flight {
        Some(page) => State::InFlight(page),
        None => {
            let evicted = missing(pages, &begun);
            if evicted.is_empty() { State::Resident } else { State::Evicted(evicted) }
        }
    }
}

/// Waits for a piece in flight: reads a byte of a page that has not arrived, which waits for it or, if its read
/// failed, returns the error.
fn wait_for(tree: &Tree, piece: &Piece) -> Result<(), Errno> {
    for _ in 0..WAITS {
        let State::InFlight(page) = state_of(tree, piece) else { break };
        let Some((fd, _)) = opened(tree, piece)? else { break };
        let Some(fd) = HostFd::new(fd.as_raw_fd()) else { break };
        fd.read_at(&mut [0], page.offset())?;
    }
    Ok(())
}

fn read_last_byte(tree: &Tree, piece: &Piece) -> Result<(), Errno> {
    let Some((fd, stat)) = opened(tree, piece)? else { return Ok(()) };
    let Some(fd) = HostFd::new(fd.as_raw_fd()) else { return Ok(()) };
    let end = ByteOffset(u64::try_from(stat.st_size).unwrap_or(0)).min(piece.pages.end.offset());
    fd.read_at(&mut [0], end - Bytes(1)).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;
    use foreseek_places::Volume;
    use std::fs::File;
    use std::os::fd::AsFd;

    #[test]
    fn threads_share_the_descriptors_that_are_allowed() {
        let open = [(None, 1), (Some(1024), 1), (Some(1024), 4), (Some(1024), 16), (Some(64), 40)]
            .map(|(allowed, disks)| open_most(allowed, disks));
        assert_eq!(open, [64, 64, 64, 16, 1]);
    }

    #[test]
    fn volumes_of_one_disk_are_read_in_one_pass() {
        let folder = File::open("/").unwrap();
        let number = |minor| DeviceNumber { major: 8, minor };
        let mut volumes = Volumes::default();
        for (partition, disk) in [(1, 0), (17, 16), (2, 0), (33, 32), (18, 16)] {
            let mut volume = Volume::of(folder.as_fd(), number(partition));
            volume.backing.disk = number(disk);
            volumes.index_as(volume);
        }
        let expected = [(0, 0), (1, 16), (0, 0), (2, 32), (1, 16)];
        assert_eq!(disks_of(&volumes), expected.map(|(index, disk)| (index, number(disk))));
    }
}
