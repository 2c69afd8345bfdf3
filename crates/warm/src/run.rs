//! The two jobs: print files in physical order, and fetch them into memory ahead of a program.
//!
//! *Fetching* has six steps:
//! 1. List the trees; read directories and their inodes beforehand, level by level.
//! 2. Fetch the inodes of all files.
//! 3. Find the addresses of all pages that are not in memory.
//! 4. Cut these into batches by the order in which they will be read ([`crate::window`]).
//! 5. Fetch the first batch in disk order, and each further one when there is room for it, ahead of the program
//!    ([`crate::ahead`]).
//!
//! If all pages fit into the share of memory, they are one batch.
//!
//! Limits: without a program, files beyond the share of memory are skipped, with a message. If not everything
//! fits, at most a quarter of the window is fetched of each file. The rest of such a long file is read in
//! sequence, where the kernel's own read-ahead is good.

use crate::addresses::{Piece, TreeAddresses, cut};
use crate::command::LOOK;
use crate::error::Result;
use crate::fetch::{self, Fetched, bytes_in};
use crate::follow::Used;
use crate::halt::Halt;
use crate::tree::{Limits, Reading, Tree};
use crate::trouble::{ReadErrors, is_gone};
use crate::window::{Window, batches};
use crate::{Progress, Step, Work, parallel};
use foreseek_places::{Cached, DiskPosition, Metadata, OrderBy, Stop, c_look};
use foreseek_storage::{LowIoPriority, SideCosts, SignalQueue, available};
use foreseek_units::Bytes;
use serde::Serialize;
use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

/// The divisor for the part of the window that one file may take if not everything fits.
const ONE_FILE: u64 = 4;

/// The part of the memory limit that inodes and directories may take beside the contents. They have been used when the
/// contents are read: directories were listed, and each file was opened. For an order it is that of the memory for cached
/// pages.
const METADATA_SHARE: f64 = 0.5;

/// The least that a user may allow for fetched and unused data. A batch is half of it, some hundred small files,
/// and a quarter is the most of one file. A pass over fewer files costs nearly what they cost one by one.
pub const MEMORY_LEAST: Bytes = Bytes::mib(4);

/// The files to read.
pub enum Source<'a> {
    /// Trees and files.
    Trees(&'a [PathBuf]),
    /// A list of paths, in the order in which they will be read, and what separates them.
    List(&'a [u8], u8),
}

impl std::fmt::Debug for Source<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Trees(paths) => f.debug_tuple("Trees").field(paths).finish(),
            Self::List(..) => f.write_str("List"),
        }
    }
}

/// The options of [`warm`].
#[derive(Clone, Debug)]
pub struct Options {
    /// The limits of the listing.
    pub limits: Limits,
    /// Whether to fetch only directories and inodes.
    pub metadata_only: bool,
    /// The part of the memory for cached pages that may hold fetched and unused ones.
    pub share: f64,
    /// The most bytes for these, whatever the share is.
    pub memory: Option<Bytes>,
    /// The order in which the program reads.
    pub reading: Reading,
    /// The program that reads, by its name and its arguments.
    pub command: Option<Vec<OsString>>,
}

/// The end of the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Ended {
    /// Its exit status, or 128 and the signal that ended it.
    pub status: u8,
}

/// The results.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Report {
    /// Regular files found.
    pub files: u64,
    /// Directories listed.
    pub directories: u64,
    /// The sizes of all files.
    pub size_bytes: u64,
    /// Bytes in memory already.
    pub resident_bytes: u64,
    /// Bytes without an address on the device: holes, delayed, inline and encoded extents.
    pub unmapped_bytes: u64,
    /// Pieces that had to be read.
    pub extents: u64,
    /// Their bytes.
    pub wanted_bytes: u64,
    /// Bytes fetched: advice was given for them.
    pub fetched_bytes: u64,
    /// Bytes fetched once more, since they were evicted before use.
    pub fetched_again_bytes: u64,
    /// Bytes fetched and evicted before use, or gone.
    pub evicted_bytes: u64,
    /// Bytes skipped: beyond a file's part of memory, or not needed in time. Without a program: beyond the share of memory.
    pub skipped_bytes: u64,
    /// Bytes of inodes and directories read from the block device.
    pub metadata_bytes: u64,
    /// The extents in which they lie.
    pub metadata_extents: u64,
    /// The most bytes of fetched and unused data.
    pub window_bytes: u64,
    /// Batches into which the contents were cut. Those that the program had passed over, or did not need, were not
    /// fetched.
    pub batches: u64,
    /// Files and directories that could not be read, and pages of inodes and directories on the block device.
    pub unreadable: u64,
    /// Seconds for listing, with the fetches of inodes.
    pub list_seconds: f64,
    /// Seconds for finding addresses.
    pub map_seconds: f64,
    /// Seconds for reading the first batch.
    pub read_seconds: f64,
    /// Run time of the program in seconds.
    pub command_seconds: Option<f64>,
    /// Files that the program used, if not everything fitted into memory.
    pub used_files: Option<u64>,
    /// Processor time of this process, in seconds, without the program's.
    pub processor_seconds: f64,
    /// Requests to file systems for the addresses of a file.
    pub fiemap_calls: u64,
    /// Bytes that the kernel reclaimed on the whole machine meanwhile, at most as many as were fetched: the
    /// most that other programs may have lost. What DAMON pages out is not counted.
    pub reclaimed_bytes: u64,
    /// How long less was read at a time because other programs read from the disk, in seconds.
    pub held_back_seconds: f64,
    /// The end of the program.
    pub command: Option<Ended>,
    /// Warnings: limitations of this run.
    pub notes: Vec<String>,
    /// The first errors of files that could not be read.
    pub errors: Vec<String>,
}

impl Report {
    /// Whether everything was fetched.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        self.unreadable == 0 && self.skipped_bytes == 0 && self.evicted_bytes == 0
    }
}

fn list(source: Source<'_>, limits: Limits, metadata: &mut Metadata, work: &Work<'_>) -> Result<Tree> {
    match source {
        Source::Trees(paths) => Tree::list(paths, limits, metadata, work),
        Source::List(list, separator) => Tree::of_list(list, separator, work),
    }
}

/// The files of a source in physical order, by their numbers in the tree. Files without an address stay at the
/// end of their device. Also returns notes on limitations, and read errors.
///
/// # Errors
/// As [`Tree::list`] and [`Tree::of_list`].
pub fn in_physical_order(
    source: Source<'_>,
    limits: Limits,
    work: &Work<'_>,
) -> Result<(Tree, Vec<u32>, Vec<String>, ReadErrors)> {
    // It may take what is evicted first.
    let mut metadata = Metadata::within(available().bytes.scale(METADATA_SHARE));
    let mut tree = list(source, limits, &mut metadata, work)?;
    prefetch_inodes(&tree, &mut metadata);
    let all: Vec<u32> = (0..tree.files().len() as u32).collect();
    let mut places = TreeAddresses::of(&mut tree, &all, Cached::Kept, work);
    work.check()?;
    // The first piece of each file is its beginning: pieces are grouped by file.
    places.pieces.dedup_by_key(|piece| piece.file);
    let disks = fetch::disks_of(&tree.volumes);
    let mut stops: Vec<Stop> = (0u32..)
        .zip(tree.files())
        .map(|(what, file)| Stop {
            device: disks[usize::from(file.volume)].0,
            position: DiskPosition::Inode(file.inode),
            what,
        })
        .collect();
    for piece in &places.pieces {
        if let Some(lba) = piece.lba {
            stops[piece.file as usize].position = DiskPosition::Sector(lba.get());
        }
    }
    c_look(&mut stops, None);
    let mut notes = metadata.notes();
    notes.extend(notes_about(&tree, false));
    let mut errors = std::mem::take(&mut tree.errors);
    errors.absorb(places.errors);
    Ok((tree, stops.into_iter().map(|stop| stop.what).collect(), notes, errors))
}

/// Notes for the user about what was given and about the file systems, one line each.
fn notes_about(tree: &Tree, reading: bool) -> Vec<String> {
    let mut notes = tree.notes();
    for (_, volume) in tree.volumes.iter() {
        let (name, device) = (volume.name, volume.device);
        match volume.by {
            OrderBy::Inode => notes.push(format!(
                "{name} (device {device}) does not report disk addresses of files: they are taken in the order of their \
                 inode numbers"
            )),
            OrderBy::InMemory if reading => {
                notes.push(format!("{name} (device {device}) is in memory: nothing is read of it"));
            }
            OrderBy::None => notes.push(format!("{name} (device {device}) is made up by the kernel: skipped")),
            _ => {}
        }
        if reading && volume.backing.rotational == Some(true) && !volume.disk.is_observed() {
            notes.push(format!(
                "whether others read from device {device} is not visible (several disks, or one that does not count \
                 reads): what is read ahead does not hold back"
            ));
        }
        if volume.backing.rotational == Some(false) {
            notes.push(format!("device {device} does not seek: the gain is small"));
        }
    }
    notes
}

/// Requests the inodes of all files where possible; returns whether it was possible on every volume.
fn prefetch_inodes(tree: &Tree, metadata: &mut Metadata) -> bool {
    let mut all = true;
    for (index, volume) in tree.volumes.iter() {
        if metadata.reads(index, volume) {
            let files = tree.files().iter().filter(|file| file.volume == index);
            metadata.prefetch_inodes(index, files.map(|file| file.inode));
        } else {
            all = false;
        }
    }
    all
}

/// Fetches a source into memory; see the module's documentation. `signals` must include [`crate::SIGNALS`].
///
/// # Errors
/// A given path cannot be opened, the program cannot be started, or a signal came before that.
pub fn warm(
    source: Source<'_>,
    options: &Options,
    signals: &SignalQueue,
    progress: &(dyn Fn(Progress<'_>) + Sync),
) -> Result<Report> {
    let stop = Halt::default();
    let work = Work { stop: &stop, progress };
    let mut report = Report::default();
    let before = SideCosts::now();
    // The pass keeps the disk's queue full, while a program beside it waits for one read at a time: as with `watch`,
    // that one comes first where the scheduler can see to it (BFQ). The user waits for the pass as well. Alone it
    // takes as long as ever, and beside others `ionice -n 3 foreseek warm` keeps its share.
    let prepared = until_done(signals, &stop, || {
        let _low = LowIoPriority::begin();
        prepare(source, options, &work, &mut report)
    });
    let prepared = prepared?;
    if let Some(command) = &options.command {
        crate::ahead::run(prepared, command, signals, &work, &mut report)?;
    }
    let costs = SideCosts::now().since(before);
    report.processor_seconds = costs.processor.as_secs_f64();
    report.fiemap_calls = costs.fiemap_calls;
    let fetched = report.fetched_bytes + report.fetched_again_bytes + report.metadata_bytes;
    report.reclaimed_bytes = costs.reclaimed.get().min(fetched);
    Ok(report)
}

/// Runs `job` while a thread sets `stop` at a signal.
fn until_done<T>(signals: &SignalQueue, stop: &Halt, job: impl FnOnce() -> T) -> T {
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(Ordering::Acquire) {
                if let Some(signal) = signals.next() {
                    stop.by(signal.number);
                }
                std::thread::park_timeout(LOOK);
            }
        });
        // It is dropped on a panic as well: the thread ends in any case.
        let _end = SetWhenDropped(&done);
        job()
    })
}

struct SetWhenDropped<'a>(&'a AtomicBool);

impl Drop for SetWhenDropped<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Release);
    }
}

/// A listed and placed source.
pub(crate) struct Prepared {
    pub(crate) tree: Tree,
    pub(crate) order: Vec<u32>,
    pub(crate) sizes: Vec<Bytes>,
    pub(crate) bytes_of: Vec<Bytes>,
    pub(crate) batch_of: Vec<u32>,
    /// The pieces of each batch, in order.
    pub(crate) pieces: Vec<Vec<Piece>>,
    pub(crate) window: Window,
    /// The files that programs were seen to close.
    pub(crate) used: Used,
}

fn prepare(
    source: Source<'_>,
    options: &Options,
    work: &Work<'_>,
    report: &mut Report,
) -> Result<Option<Prepared>> {
    let begun = Instant::now();
    let budget = budget_of(options);
    report.window_bytes = budget.get();
    let mut metadata = if options.metadata_only {
        Metadata::checked_within(budget)
    } else {
        Metadata::within(budget.scale(METADATA_SHARE))
    };
    let mut tree = list(source, options.limits, &mut metadata, work)?;
    let prefetched = prefetch_inodes(&tree, &mut metadata);
    if options.metadata_only {
        report.evicted_bytes = fetch_metadata(&mut tree, &mut metadata, prefetched, work)?.get();
    }
    report.files = tree.files().len() as u64;
    report.directories = tree.directories() as u64;
    report.metadata_bytes = metadata.bytes.get();
    report.metadata_extents = metadata.pieces;
    report.notes = metadata.notes();
    report.list_seconds = begun.elapsed().as_secs_f64();
    if options.metadata_only {
        report.skipped_bytes = metadata.skipped.get();
        report.notes.extend(notes_about(&tree, true));
        report_errors(std::mem::take(&mut tree.errors), report);
        report.held_back_seconds = tree.volumes.held_back().as_secs_f64();
        return Ok(None);
    }
    let begun = Instant::now();
    let order = tree.in_order_of(options.reading);
    let mut places = TreeAddresses::of(&mut tree, &order, Cached::LeftOut, work);
    work.check()?;
    report.map_seconds = begun.elapsed().as_secs_f64();
    report.notes.extend(notes_about(&tree, true));
    let mut errors = std::mem::take(&mut tree.errors);
    errors.absorb(std::mem::take(&mut places.errors));
    report_errors(errors, report);
    report_places(&places, report);
    // The listing has taken memory.
    let budget = budget.min(budget_of(options));
    report.window_bytes = budget.get();
    let mut prepared = plan(tree, order, places, budget, options, report);
    if options.command.is_none()
        && let Some(all) = prepared.window.next()
    {
        let begun = Instant::now();
        let fetched = prepared.fetch(all, work, report.wanted_bytes - report.skipped_bytes);
        work.check()?;
        prepared.window.fetched(all, fetched.asked);
        report_fetched(fetched, report);
        report.read_seconds = begun.elapsed().as_secs_f64();
    }
    report.held_back_seconds = prepared.tree.volumes.held_back().as_secs_f64();
    Ok(Some(prepared))
}

/// Waits for requested inodes, or looks every file up, in the order of inodes. Returns how much was evicted meanwhile.
fn fetch_metadata(
    tree: &mut Tree,
    metadata: &mut Metadata,
    prefetched: bool,
    work: &Work<'_>,
) -> Result<Bytes> {
    let missing = metadata.check(&|| work.is_stopped());
    for (device, place, cause) in missing.unread {
        let place = format!("{} at offset {}", device.display(), place.get());
        tree.errors.add("read", place.as_bytes(), cause);
    }
    if !prefetched {
        let mut order: Vec<u32> = (0..tree.files().len() as u32).collect();
        order.sort_unstable_by_key(|index| {
            let file = &tree.files()[*index as usize];
            (file.volume, file.inode)
        });
        let looks = parallel::map(&order, work.stop, |index| tree.look(&tree.files()[*index as usize]));
        for (index, look) in order.iter().zip(looks) {
            if let Err(cause) = look
                && !is_gone(cause)
            {
                let path = tree.path(&tree.files()[*index as usize]);
                tree.errors.add("look at", &path, cause);
            }
        }
    }
    work.check()?;
    Ok(missing.evicted)
}

fn report_errors(errors: ReadErrors, report: &mut Report) {
    report.unreadable += errors.count;
    let mut all = ReadErrors { count: 0, first: std::mem::take(&mut report.errors) };
    all.absorb(errors);
    report.errors = all.first;
}

fn report_places(places: &TreeAddresses, report: &mut Report) {
    report.size_bytes = places.sizes.iter().copied().sum::<Bytes>().get();
    report.resident_bytes = places.resident.get();
    report.unmapped_bytes = places.unmapped.get();
    report.extents = places.pieces.len() as u64;
    report.wanted_bytes = bytes_in(&places.pieces).get();
    if places.cut_short > 0 {
        report.notes.push(format!(
            "{} files have more than {} extents: the rest of each is read in file order; defragment them",
            places.cut_short,
            foreseek_places::EXTENTS_PER_FILE
        ));
    }
    if places.residency_unknown {
        let remedy = if rustix::process::geteuid().is_root() { "" } else { "; as root it is visible" };
        report.notes.push(format!(
            "the residency of other users' files is not visible (cachestat): they are fetched whole{remedy}"
        ));
    }
}

pub(crate) fn report_fetched(fetched: Fetched, report: &mut Report) {
    report.fetched_bytes += fetched.asked.get();
    report.fetched_again_bytes += fetched.again.get();
    report.evicted_bytes += fetched.lost.get();
    report_errors(fetched.errors, report);
}

/// The most bytes of fetched and unused data.
fn budget_of(options: &Options) -> Bytes {
    let share = available().bytes.scale(options.share);
    options.memory.map_or(share, |memory| memory.min(share))
}

/// Cuts the pieces to read into batches.
fn plan(
    tree: Tree,
    order: Vec<u32>,
    places: TreeAddresses,
    budget: Bytes,
    options: &Options,
    report: &mut Report,
) -> Prepared {
    let TreeAddresses { pieces, sizes, .. } = places;
    let fits = bytes_in(&pieces) <= budget;
    let pieces = cut(&pieces, if fits { Bytes(u64::MAX) } else { budget / ONE_FILE });
    let mut bytes_of = vec![Bytes::ZERO; tree.files().len()];
    pieces.iter().for_each(|piece| bytes_of[piece.file as usize] += piece.bytes());
    let in_order: Vec<Bytes> = order.iter().map(|file| bytes_of[*file as usize]).collect();
    let mut ranges = batches(&in_order, budget);
    if options.command.is_none() && ranges.len() > 1 {
        // No program makes room for more: take as much as fits, from the start.
        let mut held = Bytes::ZERO;
        let end = in_order.iter().take_while(|bytes| {
            held += **bytes;
            held <= budget
        });
        ranges = std::iter::once(0..end.count()).collect();
    }
    let mut batch_of = vec![u32::MAX; tree.files().len()];
    for (number, batch) in (0u32..).zip(&ranges) {
        order[batch.clone()].iter().for_each(|file| batch_of[*file as usize] = number);
    }
    let mut by_batch = vec![Vec::new(); ranges.len()];
    for piece in pieces {
        if let Some(batch) = by_batch.get_mut(batch_of[piece.file as usize] as usize) {
            batch.push(piece);
        }
    }
    let pieces: Vec<Vec<Piece>> = by_batch.iter().map(|batch| fetch::in_order(batch, &tree)).collect();
    let planned: Bytes = pieces.iter().map(|batch| bytes_in(batch)).sum();
    report.skipped_bytes = report.wanted_bytes - planned.get();
    report.batches = ranges.len() as u64;
    let window = Window::new(budget, pieces.iter().map(|batch| bytes_in(batch)));
    let used = Used::none_of(tree.files().len());
    Prepared { tree, order, sizes, bytes_of, batch_of, pieces, window, used }
}

impl Prepared {
    /// Fetches a batch.
    pub(crate) fn fetch(&self, batch: usize, work: &Work<'_>, all: u64) -> Fetched {
        let begun = Instant::now();
        let before: u64 = self.pieces[..batch].iter().map(|batch| bytes_in(batch).get()).sum();
        let report = |asked: Bytes| {
            let rate = asked.get() as f64 / 1e6 / begun.elapsed().as_secs_f64().max(1e-3);
            let share = (before + asked.get()) as f64 / (all.max(1)) as f64;
            work.report(
                Step::Reading,
                share,
                &format!("reading {} of {}, {rate:.0} MB/s", asked, Bytes(all)),
            );
        };
        fetch::fetch(&self.tree, &self.pieces[batch], &self.used, work, &report)
    }
}
