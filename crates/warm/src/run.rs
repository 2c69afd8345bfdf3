//! The two jobs: print files in physical order, and bring them into memory ahead of a program.
//!
//! *Bringing* has six steps:
//! 1. List the trees; read directories and their inodes beforehand, level by level.
//! 2. Bring the inodes of all files.
//! 3. Find the places of what is not in memory.
//! 4. Cut it into batches by the order in which it will be read ([`crate::window`]).
//! 5. Fetch the first batch in the order of the disk, then start the program.
//! 6. Fetch each further batch when there is room for it.
//!
//! What fits into the share of memory is one batch, and the program starts when that has come.
//!
//! Limits: without a program, what exceeds the share of memory is left out, and said. Where all does
//! not fit, of each file at most a quarter of the window is brought: the rest of so long a file is
//! read in sequence, which the kernel's own read-ahead does well.

use crate::command::{LOOK, Running, attend, status_of};
use crate::error::Result;
use crate::fetch::{self, Fetched};
use crate::follow::{Course, Follower};
use crate::place::{Piece, Places};
use crate::tree::{Limits, Reading, Tree};
use crate::trouble::ReadErrors;
use crate::window::{Window, batches};
use crate::{Work, parallel};
use foreseek_places::{Cached, DiskPosition, Metadata, OrderBy, Stop, c_look};
use foreseek_storage::{OpenWatch, SideCosts, SignalQueue, available};
use foreseek_units::Bytes;
use serde::Serialize;
use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::time::Instant;

/// The part of the window that one file may take where all does not fit.
const ONE_FILE: u64 = 4;

/// What is to be read.
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

/// What is wanted of [`warm`].
#[derive(Clone, Debug)]
pub struct Options {
    /// What is listed.
    pub limits: Limits,
    /// Directories and inodes alone.
    pub metadata_only: bool,
    /// The part of the memory for cached pages that may hold what was brought and not used yet.
    pub share: f64,
    /// At most so much, whatever the share is.
    pub memory: Option<Bytes>,
    /// The order in which the program reads.
    pub reading: Reading,
    /// The program that reads: its name and its arguments.
    pub command: Option<Vec<OsString>>,
}

/// How the program ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Ended {
    /// Its exit status, or 128 and the signal that ended it.
    pub status: u8,
}

/// What was done.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Report {
    /// Regular files that were found.
    pub files: u64,
    /// Directories that were listed.
    pub directories: u64,
    /// The sizes of all files.
    pub size_bytes: u64,
    /// In memory already.
    pub resident_bytes: u64,
    /// Without an address on the device: holes, delayed, inline and encoded extents.
    pub unmapped_bytes: u64,
    /// Pieces that had to be read.
    pub extents: u64,
    /// What they hold.
    pub wanted_bytes: u64,
    /// Fetched: advice was given for them.
    pub fetched_bytes: u64,
    /// Fetched and evicted before use, or gone.
    pub evicted_bytes: u64,
    /// Skipped, since memory had no room.
    pub skipped_bytes: u64,
    /// Read of the block device for inodes and directories.
    pub metadata_bytes: u64,
    /// The extents in which they lie.
    pub metadata_extents: u64,
    /// The window.
    pub window_bytes: u64,
    /// Batches in which it was fetched.
    pub batches: u64,
    /// Files and directories that could not be read.
    pub unreadable: u64,
    /// Seconds for listing, bringing inodes included.
    pub list_seconds: f64,
    /// Seconds for finding places.
    pub map_seconds: f64,
    /// Seconds for reading, before the program was started.
    pub read_seconds: f64,
    /// Seconds that the program took.
    pub command_seconds: Option<f64>,
    /// Files that the program used, where that was followed.
    pub used_files: Option<u64>,
    /// Processor time of this process, in seconds; the program's is not in it.
    pub processor_seconds: f64,
    /// How often a file system was asked where a file lies.
    pub fiemap_calls: u64,
    /// What the kernel took back on the whole machine meanwhile, at most as much as was fetched: what others may have lost by it.
    pub reclaimed_bytes: u64,
    /// How it ended.
    pub command: Option<Ended>,
    /// Warnings: what works less well than it might.
    pub notes: Vec<String>,
    /// The first errors of files that could not be read.
    pub errors: Vec<String>,
}

impl Report {
    /// Whether all that was wanted was fetched.
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

/// The files of a source in physical order, by their numbers in the tree; what could not be placed
/// stays in, at the end of its device. Then what was done with less than was wished for, and what
/// could not be read.
///
/// # Errors
/// As [`Tree::list`] and [`Tree::of_list`].
pub fn in_physical_order(
    source: Source<'_>,
    limits: Limits,
    work: &Work<'_>,
) -> Result<(Tree, Vec<u32>, Vec<String>, ReadErrors)> {
    let mut metadata = Metadata::default();
    let mut tree = list(source, limits, &mut metadata, work)?;
    prefetch_inodes(&tree, &mut metadata);
    let mut places = Places::of(&mut tree, Cached::Kept, work);
    work.check()?;
    // The first piece of each file is where it begins: they come file by file.
    places.pieces.dedup_by_key(|piece| piece.file);
    let disks = fetch::disks_of(&tree.volumes);
    let mut stops: Vec<Stop> = (0u32..)
        .zip(tree.files())
        .map(|(what, file)| Stop {
            device: disks[usize::from(file.volume)].0,
            place: DiskPosition::Inode(file.inode),
            what,
        })
        .collect();
    for piece in &places.pieces {
        if let Some(lba) = piece.lba {
            stops[piece.file as usize].place = DiskPosition::Sector(lba.get());
        }
    }
    c_look(&mut stops, None);
    let mut notes = metadata.notes;
    notes.extend(notes_on(&tree, false));
    let mut errors = std::mem::take(&mut tree.errors);
    errors.absorb(places.errors);
    Ok((tree, stops.into_iter().map(|stop| stop.what).collect(), notes, errors))
}

/// What a user should know of the file systems, one line each.
fn notes_on(tree: &Tree, reading: bool) -> Vec<String> {
    let mut notes = Vec::new();
    for (_, volume) in tree.volumes.iter() {
        let (name, device) = (volume.name, volume.device);
        match volume.by {
            OrderBy::Inode => notes.push(format!(
                "{name} (device {device}) does not show where files lie on a disk: they are taken in the order of their \
                 inode numbers"
            )),
            OrderBy::InMemory if reading => {
                notes.push(format!("{name} (device {device}) is in memory: nothing is read of it"));
            }
            OrderBy::None => notes.push(format!("{name} (device {device}) is made up by the kernel: left alone")),
            _ => {}
        }
        if volume.backing.rotational == Some(false) {
            notes.push(format!("device {device} does not seek: the gain is small"));
        }
    }
    notes
}

/// Asks for the inodes of all files where that can be done; whether it can on every volume.
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

/// Brings a source into memory; see the module's documentation. `signals` has [`crate::SIGNALS`].
///
/// # Errors
/// Where a path that was named cannot be opened, the program cannot be started, or a signal came
/// before it was.
pub fn warm(
    source: Source<'_>,
    options: &Options,
    signals: &SignalQueue,
    progress: &(dyn Fn(f64, &str) + Sync),
) -> Result<Report> {
    let stop = AtomicBool::new(false);
    let work = Work { stop: &stop, progress };
    let mut report = Report::default();
    let before = SideCosts::now();
    let prepared = until_done(signals, &stop, || prepare(source, options, &work, &mut report));
    let prepared = prepared?;
    if let Some(command) = &options.command {
        follow(prepared, command, signals, &work, &mut report)?;
    }
    let costs = SideCosts::now().since(before);
    report.processor_seconds = costs.processor.as_secs_f64();
    report.fiemap_calls = costs.fiemap_calls;
    report.reclaimed_bytes = costs.reclaimed.get().min(report.fetched_bytes + report.metadata_bytes);
    Ok(report)
}

/// Runs `job` while a thread turns signals into `stop`.
fn until_done<T>(signals: &SignalQueue, stop: &AtomicBool, job: impl FnOnce() -> T) -> T {
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(Ordering::Acquire) {
                if signals.next().is_some() {
                    stop.store(true, Ordering::Relaxed);
                }
                std::thread::park_timeout(LOOK);
            }
        });
        // Dropped on a panic as well: the thread ends in any case.
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

/// A source that was listed and placed, and the first batch of it in memory.
struct Prepared {
    tree: Tree,
    order: Vec<u32>,
    sizes: Vec<Bytes>,
    bytes_of: Vec<Bytes>,
    batch_of: Vec<u32>,
    /// The pieces of each batch, in order.
    pieces: Vec<Vec<Piece>>,
    window: Window,
}

fn prepare(
    source: Source<'_>,
    options: &Options,
    work: &Work<'_>,
    report: &mut Report,
) -> Result<Option<Prepared>> {
    let begun = Instant::now();
    let mut metadata = Metadata::default();
    let mut tree = list(source, options.limits, &mut metadata, work)?;
    let foreseen = prefetch_inodes(&tree, &mut metadata);
    if options.metadata_only {
        bring_metadata(&tree, &mut metadata, foreseen, work)?;
    }
    report.files = tree.files().len() as u64;
    report.directories = tree.directories() as u64;
    report.metadata_bytes = metadata.bytes.get();
    report.metadata_extents = metadata.pieces;
    report.notes = std::mem::take(&mut metadata.notes);
    report.list_seconds = begun.elapsed().as_secs_f64();
    if options.metadata_only {
        report.notes.extend(notes_on(&tree, true));
        report_troubles(std::mem::take(&mut tree.errors), report);
        return Ok(None);
    }
    let begun = Instant::now();
    let mut places = Places::of(&mut tree, Cached::LeftOut, work);
    work.check()?;
    report.map_seconds = begun.elapsed().as_secs_f64();
    report.notes.extend(notes_on(&tree, true));
    let mut errors = std::mem::take(&mut tree.errors);
    errors.absorb(std::mem::take(&mut places.errors));
    report_troubles(errors, report);
    report_places(&places, report);
    let mut prepared = plan(tree, places, options, report);
    let begun = Instant::now();
    if let Some(first) = prepared.window.next() {
        let fetched = prepared.fetch(first, work, report.wanted_bytes);
        work.check()?;
        prepared.window.fetched(first, fetched.asked);
        report_brought(fetched, report);
    }
    report.read_seconds = begun.elapsed().as_secs_f64();
    Ok(Some(prepared))
}

/// Waits for inodes that were asked for, or looks at every file, in the order of inodes.
fn bring_metadata(tree: &Tree, metadata: &mut Metadata, foreseen: bool, work: &Work<'_>) -> Result<()> {
    metadata.wait();
    if !foreseen {
        let mut order: Vec<u32> = (0..tree.files().len() as u32).collect();
        order.sort_unstable_by_key(|index| {
            let file = &tree.files()[*index as usize];
            (file.volume, file.inode)
        });
        parallel::map(&order, work.stop, |index| tree.look(&tree.files()[*index as usize]));
    }
    work.check()
}

fn report_troubles(errors: ReadErrors, report: &mut Report) {
    report.unreadable += errors.count;
    let mut all = ReadErrors { count: 0, first: std::mem::take(&mut report.errors) };
    all.absorb(errors);
    report.errors = all.first;
}

fn report_places(places: &Places, report: &mut Report) {
    report.size_bytes = places.sizes.iter().copied().sum::<Bytes>().get();
    report.resident_bytes = places.resident.get();
    report.unmapped_bytes = places.placeless.get();
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
        report.notes.push(
            "what is in memory of other users' files cannot be seen (cachestat): they are asked for whole; root sees it"
                .to_owned(),
        );
    }
}

fn report_brought(fetched: Fetched, report: &mut Report) {
    report.fetched_bytes += fetched.asked.get();
    report.evicted_bytes += fetched.lost.get();
    report_troubles(fetched.errors, report);
}

fn bytes_in(pieces: &[Piece]) -> Bytes {
    pieces.iter().map(|piece| piece.pages.len().bytes()).sum()
}

/// Cuts what has to be read into batches.
fn plan(tree: Tree, places: Places, options: &Options, report: &mut Report) -> Prepared {
    let Places { mut pieces, sizes, .. } = places;
    let share = available().bytes.scale(options.share);
    let budget = options.memory.map_or(share, |memory| memory.min(share));
    report.window_bytes = budget.get();
    let fits = bytes_in(&pieces) <= budget;
    let mut bytes_of = vec![Bytes::ZERO; tree.files().len()];
    let most = if fits { Bytes(u64::MAX) } else { budget / ONE_FILE };
    // Pieces come file by file, from each file's start on.
    pieces.retain(|piece| {
        let taken = &mut bytes_of[piece.file as usize];
        let fits = *taken + piece.pages.len().bytes() <= most || taken.is_zero();
        if fits {
            *taken += piece.pages.len().bytes();
        }
        fits
    });
    let order = tree.in_order_of(options.reading);
    let in_order: Vec<Bytes> = order.iter().map(|file| bytes_of[*file as usize]).collect();
    let mut cut = batches(&in_order, budget);
    if options.command.is_none() && cut.len() > 1 {
        // Nobody makes room for more: as much as fits, from the start.
        let mut held = Bytes::ZERO;
        let end = in_order.iter().take_while(|bytes| {
            held += **bytes;
            held <= budget
        });
        cut = std::iter::once(0..end.count().max(1)).collect();
    }
    let mut batch_of = vec![u32::MAX; tree.files().len()];
    for (number, batch) in (0u32..).zip(&cut) {
        order[batch.clone()].iter().for_each(|file| batch_of[*file as usize] = number);
    }
    let mut by_batch = vec![Vec::new(); cut.len()];
    for piece in pieces {
        if let Some(batch) = by_batch.get_mut(batch_of[piece.file as usize] as usize) {
            batch.push(piece);
        }
    }
    let pieces: Vec<Vec<Piece>> = by_batch.iter().map(|batch| fetch::in_order(batch, &tree)).collect();
    let planned: Bytes = pieces.iter().map(|batch| bytes_in(batch)).sum();
    report.skipped_bytes = report.wanted_bytes - planned.get();
    report.batches = cut.len() as u64;
    let window = Window::new(budget, pieces.iter().map(|batch| bytes_in(batch)));
    Prepared { tree, order, sizes, bytes_of, batch_of, pieces, window }
}

impl Prepared {
    fn fetch(&self, batch: usize, work: &Work<'_>, all: u64) -> Fetched {
        let begun = Instant::now();
        let before: u64 = self.pieces[..batch].iter().map(|batch| bytes_in(batch).get()).sum();
        let told = |asked: Bytes| {
            let rate = asked.get() as f64 / 1e6 / begun.elapsed().as_secs_f64().max(1e-3);
            let share = (before + asked.get()) as f64 / (all.max(1)) as f64;
            work.tell(share, &format!("reading {} of {}, {rate:.0} MB/s", asked, Bytes(all)));
        };
        fetch::bring(&self.tree, &self.pieces[batch], work, &told)
    }
}

/// Starts the program and keeps the window ahead of it.
fn follow(
    prepared: Option<Prepared>,
    words: &[OsString],
    signals: &SignalQueue,
    work: &Work<'_>,
    report: &mut Report,
) -> Result<()> {
    let begun = Instant::now();
    let Some(mut prepared) = prepared.filter(|prepared| prepared.pieces.len() > 1) else {
        let mut running = Running::start(words, signals)?;
        let status = attend(&mut running, signals, &mut || ())?;
        return conclude(status, begun, report);
    };
    let watch = watch_of(&prepared.tree);
    let mut running = Running::start(words, signals)?;
    let mut window = prepared.window.clone();
    let order = std::mem::take(&mut prepared.order);
    let course = Course {
        tree: &prepared.tree,
        order: &order,
        batch_of: &prepared.batch_of,
        bytes_of: &prepared.bytes_of,
        sizes: &prepared.sizes,
    };
    let mut follower = match watch {
        Ok(watch) => Follower::by_opens(course, watch),
        Err(error) => {
            report.notes.push(format!(
                "which files the command reads cannot be seen (fanotify: {error}): its progress is taken from \
                 /proc/PID/io; root sees it"
            ));
            Follower::by_account(course, running.id())
        }
    };
    let (ask, asked) = mpsc::sync_channel::<usize>(1);
    let (tell, told) = mpsc::channel();
    let silent = Work { stop: work.stop, progress: &|_, _| () };
    let status = std::thread::scope(|scope| {
        let prepared = &prepared;
        scope.spawn(move || {
            for batch in asked {
                let fetched = prepared.fetch(batch, &silent, 0);
                if tell.send((batch, fetched)).is_err() {
                    return;
                }
            }
        });
        let mut busy = false;
        let status = attend(&mut running, signals, &mut || {
            if let Ok((batch, fetched)) = told.try_recv() {
                window.fetched(batch, fetched.asked);
                report_brought(fetched, report);
                busy = false;
            }
            follower.look(&mut window);
            if !busy && let Some(next) = window.next() {
                busy = ask.try_send(next).is_ok();
            }
        });
        // The program has ended: nobody needs the rest.
        work.stop.store(true, Ordering::Relaxed);
        drop(ask);
        status
    })?;
    follower.look(&mut window);
    report.used_files = Some(follower.used());
    if follower.overflows() > 0 {
        report
            .notes
            .push(format!("the kernel lost events {} times: some files were not seen", follower.overflows()));
    }
    let left: Bytes = (0..prepared.pieces.len())
        .filter(|batch| !window.is_fetched(*batch))
        .map(|batch| bytes_in(&prepared.pieces[batch]))
        .sum();
    report.skipped_bytes += left.get();
    conclude(status, begun, report)
}

fn conclude(status: std::process::ExitStatus, begun: Instant, report: &mut Report) -> Result<()> {
    report.command = Some(Ended { status: status_of(status) });
    report.command_seconds = Some(begun.elapsed().as_secs_f64());
    Ok(())
}

/// A watch over the file systems of a tree.
fn watch_of(tree: &Tree) -> std::result::Result<OpenWatch, rustix::io::Errno> {
    let watch = OpenWatch::new()?;
    let mut watched = false;
    for (index, volume) in tree.volumes.iter() {
        if volume.by == OrderBy::None {
            continue;
        }
        if let Some(place) = tree.somewhere_on(index) {
            watch.add(std::os::fd::AsFd::as_fd(&place))?;
            watched = true;
        }
    }
    if watched { Ok(watch) } else { Err(rustix::io::Errno::NOENT) }
}
