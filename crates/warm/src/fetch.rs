//! Brings pieces of files into the page cache, one pass over each disk.
//!
//! One thread for each disk asks for its pieces in order (`WILLNEED`, in calls that the kernel takes
//! whole). The call waits while the disk's queue is full. That keeps the disk busy and the pass in order. `WILLNEED` reports neither when data comes nor that it cannot be read, so every piece
//! is looked at afterwards (`mincore`); of a page that is there without its data a byte is read, which
//! waits for it or learns why its read failed.
//!
//! Descriptors: 64 for each disk's thread and 16 for the look at the end, whatever the number of
//! files.
//!
//! Limits: what vanished, shrank or was replaced meanwhile is passed over in silence. Of files whose
//! residency this process may not know the last few are read, which waits for the rest.

use crate::place::Piece;
use crate::tree::Tree;
use crate::trouble::ReadErrors;
use crate::{Work, parallel};
use foreseek_places::{DiskPosition, Stop, Volumes, c_look};
use foreseek_storage::{DeviceNumber, HostFd, Means, Residency, will_need};
use foreseek_units::{ByteOffset, Bytes, PageIndex, Pages, Span};
use rustix::io::Errno;
use std::collections::VecDeque;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::atomic::{AtomicU64, Ordering};

/// Files that a disk's thread keeps open, for files whose pieces lie among those of others.
const OPEN: usize = 64;

/// How often a piece is waited for: once for each request that it was asked for in, and a piece has
/// seldom more under way at a time than the disk's queue holds.
const WAITS: usize = 128;

/// The part of the pieces that counts as little.
const LITTLE: usize = 16;

/// The pieces that are waited for at the end where residency is not known: twice the requests that a
/// disk's queue holds.
const TAIL: usize = 256;

/// What a pass brought.
#[derive(Debug, Default)]
pub(crate) struct Fetched {
    /// Asked for.
    pub(crate) asked: Bytes,
    /// Asked for, and not in memory afterwards: evicted, or gone with its file.
    pub(crate) lost: Bytes,
    /// What could not be read.
    pub(crate) errors: ReadErrors,
}

/// Sorts pieces into one pass over each disk.
#[must_use]
pub(crate) fn in_order(pieces: &[Piece], tree: &Tree) -> Vec<Piece> {
    let disks = disks_of(&tree.volumes);
    let mut stops: Vec<Stop> = (0u32..)
        .zip(pieces)
        .map(|(what, piece)| {
            let file = &tree.files()[piece.file as usize];
            let place =
                piece.lba.map_or(DiskPosition::Inode(file.inode), |lba| DiskPosition::Sector(lba.get()));
            Stop { device: disks[usize::from(file.volume)].0, place, what }
        })
        .collect();
    c_look(&mut stops, None);
    stops.into_iter().map(|stop| pieces[stop.what as usize]).collect()
}

/// The disk of each volume, numbered as they are met.
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

/// Brings pieces, which are [in order](in_order), and tells `told` how much was asked for so far.
///
/// What was evicted before the pass ended (kernels with DAMON page out what looks idle) is asked for
/// once more, if it is little: more of it means that memory is short, and asking would push out others.
pub(crate) fn bring(
    tree: &Tree,
    pieces: &[Piece],
    work: &Work<'_>,
    told: &(dyn Fn(Bytes) + Sync),
) -> Fetched {
    let mut fetched = Fetched { asked: ask(tree, pieces, work, told), ..Fetched::default() };
    let mut evicted = look(tree, pieces, work, &mut fetched);
    if !evicted.is_empty() && evicted.len() <= (pieces.len() / LITTLE).max(1) {
        ask(tree, &evicted, work, &|_| ());
        evicted = look(tree, &evicted, work, &mut fetched);
    }
    fetched.lost = evicted.iter().map(|piece| piece.pages.len().bytes()).sum();
    fetched
}

/// Asks for pieces, by one thread for each disk; answers how much was asked for.
fn ask(tree: &Tree, pieces: &[Piece], work: &Work<'_>, told: &(dyn Fn(Bytes) + Sync)) -> Bytes {
    let disks = disks_of(&tree.volumes);
    let disk_of = |piece: &Piece| disks[usize::from(tree.files()[piece.file as usize].volume)].0;
    let asked = AtomicU64::new(0);
    std::thread::scope(|scope| {
        for part in pieces.chunk_by(|a, b| disk_of(a) == disk_of(b)) {
            let (asked, told) = (&asked, &told);
            scope.spawn(move || {
                let mut files = Files::new(tree);
                for piece in part {
                    if work.is_stopped() {
                        break;
                    }
                    let bytes = files.ask(piece);
                    told(Bytes(asked.fetch_add(bytes.get(), Ordering::Relaxed)) + bytes);
                }
            });
        }
    });
    Bytes(asked.into_inner())
}

/// The files that a thread has open.
struct Files<'a> {
    tree: &'a Tree,
    open: VecDeque<(u32, OwnedFd)>,
}

impl<'a> Files<'a> {
    fn new(tree: &'a Tree) -> Self {
        Self { tree, open: VecDeque::with_capacity(OPEN) }
    }

    /// Asks for a piece; answers how much was asked for.
    fn ask(&mut self, piece: &Piece) -> Bytes {
        let file = &self.tree.files()[piece.file as usize];
        let call = self.tree.volumes.get(file.volume).backing.call_length();
        let Some(fd) = self.fd(piece.file) else { return Bytes::ZERO };
        let range = piece.pages.bytes();
        let asked = match will_need(fd, range, call, Means::Fadvise) {
            Err(Errno::NOSYS) => will_need(fd, range, call, Means::Readahead),
            other => other,
        };
        // What is refused is read when the program comes to it.
        asked.unwrap_or_default()
    }

    fn fd(&mut self, file: u32) -> Option<HostFd> {
        if let Some((_, fd)) = self.open.iter().rev().find(|(known, _)| *known == file) {
            return HostFd::new(fd.as_raw_fd());
        }
        // Gone or replaced since it was listed: nothing to bring.
        let (fd, _) = self.tree.open(&self.tree.files()[file as usize]).ok()?;
        if self.open.len() >= OPEN {
            self.open.pop_front();
        }
        let host = HostFd::new(fd.as_raw_fd());
        self.open.push_back((file, fd));
        host
    }
}

/// Waits for what was asked for, and finds what did not come. Answers the pieces that were evicted.
fn look(tree: &Tree, pieces: &[Piece], work: &Work<'_>, fetched: &mut Fetched) -> Vec<Piece> {
    let mut pending: Vec<Piece> = Vec::new();
    let mut unknown: Vec<Piece> = Vec::new();
    let mut evicted: Vec<Piece> = Vec::new();
    let looks = parallel::map(pieces, work.stop, |piece| state_of(tree, piece));
    for (piece, state) in pieces.iter().zip(looks) {
        match state {
            State::Unknown => unknown.push(*piece),
            State::Coming(_) => pending.push(*piece),
            State::Evicted => evicted.push(*piece),
            State::There => {}
        }
    }
    let failed = pending.iter().filter_map(|piece| Some((piece, wait_for(tree, piece).err()?)));
    let unread =
        unknown.iter().rev().take(TAIL).filter_map(|piece| Some((piece, read_last_byte(tree, piece).err()?)));
    for (piece, cause) in failed.chain(unread) {
        let path = tree.path(&tree.files()[piece.file as usize]);
        fetched.errors.add("read", &path, cause);
    }
    evicted
}

/// What became of a piece that was asked for.
enum State {
    /// In memory, or gone with its file.
    There,
    /// A page of it is on its way, or its read failed.
    Coming(PageIndex),
    /// A page of it is not in memory.
    Evicted,
    /// This process may not know.
    Unknown,
}

/// `cachestat` counts a page when its read begins, `mincore` when its data has come. Neither marks it
/// as used.
fn state_of(tree: &Tree, piece: &Piece) -> State {
    let Ok((fd, stat)) = tree.open(&tree.files()[piece.file as usize]) else { return State::There };
    let Some(fd) = HostFd::new(fd.as_raw_fd()) else { return State::There };
    let size = Bytes(u64::try_from(stat.st_size).unwrap_or(0));
    let end = PageIndex(size.pages_ceil().get()).min(piece.pages.end);
    let pages = Span::new(piece.pages.start, end.max(piece.pages.start));
    let (mut begun, mut come) = (Vec::new(), Vec::new());
    // Asked in this order: a page that comes in between is no page that failed.
    if !Residency::of(fd).runs(fd, pages, &mut begun) || !Residency::Mincore.runs(fd, pages, &mut come) {
        return State::Unknown;
    }
    let has_come = |page: PageIndex| come.iter().any(|run| run.contains(page));
    let coming = begun.iter().flat_map(|run| run.iter()).find(|page| !has_come(*page));
    match coming {
        Some(page) => State::Coming(page),
        None if begun.iter().map(|run| run.len()).sum::<Pages>() < pages.len() => State::Evicted,
        None => State::There,
    }
}

/// Waits for a piece that is on its way: reads a byte of a page that has not come, which waits for it
/// or, where its read failed, learns why.
fn wait_for(tree: &Tree, piece: &Piece) -> Result<(), Errno> {
    for _ in 0..WAITS {
        let State::Coming(page) = state_of(tree, piece) else { break };
        let Ok((fd, _)) = tree.open(&tree.files()[piece.file as usize]) else { break };
        let Some(fd) = HostFd::new(fd.as_raw_fd()) else { break };
        fd.read_at(&mut [0], page.offset())?;
    }
    Ok(())
}

fn read_last_byte(tree: &Tree, piece: &Piece) -> Result<(), Errno> {
    let Ok((fd, stat)) = tree.open(&tree.files()[piece.file as usize]) else { return Ok(()) };
    let Some(fd) = HostFd::new(fd.as_raw_fd()) else { return Ok(()) };
    let end = ByteOffset(u64::try_from(stat.st_size).unwrap_or(0)).min(piece.pages.end.offset());
    fd.read_at(&mut [0], end - Bytes(1)).map(drop)
}
