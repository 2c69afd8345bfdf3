//! Fetches batches while the program runs that reads them.
//!
//! *When it starts.* The program starts when half of the first batch is requested. While it begins it reads other files and
//! computes, and the files that it reads first are as likely in the fetched half as any. It waits for a file of
//! the other half like for any read, and the disk's queue serves its reads on the way. A program that starts with the pass
//! would read most files by itself and interrupt the pass; one that starts after it finds the disk idle from then on.
//!
//! *When the program has ended*, what is left is not needed, and is skipped.

use crate::command::{Running, status_of, wait_for_end};
use crate::error::Result;
use crate::fetch::{Fetched, bytes_in};
use crate::follow::{Follower, ReadOrder, with_descendants};
use crate::run::{Ended, Prepared, Report, report_fetched};
use crate::tree::Tree;
use crate::window::Window;
use crate::{Progress, Work};
use foreseek_places::OrderBy;
use foreseek_storage::fanotify::CloseWatch;
use foreseek_storage::{LowIoPriority, SignalQueue};
use foreseek_units::Bytes;
use rustix::io::Errno;
use std::ffi::OsString;
use std::os::fd::AsFd;
use std::process::ExitStatus;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{self, Receiver, SyncSender, TryRecvError};
use std::time::{Duration, Instant};

/// The divisor for the part of the first batch that is requested before the program starts: a half.
const STARTED_AT: u64 = 2;
/// How often that is checked.
const CHECK: Duration = Duration::from_millis(2);

/// Starts the program and keeps the window ahead of it.
///
/// # Errors
/// A signal came before the program was started, or it cannot be.
pub(crate) fn run(
    prepared: Option<Prepared>,
    words: &[OsString],
    signals: &SignalQueue,
    work: &Work<'_>,
    report: &mut Report,
) -> Result<()> {
    let Some(prepared) = prepared.filter(|prepared| !prepared.pieces.is_empty()) else {
        check_signals(signals, work)?;
        let begun = Instant::now();
        let status = wait_for_end(&mut start(words, signals, work)?, signals, &mut || ())?;
        conclude(status, begun, report);
        return Ok(());
    };
    let prepared = &prepared;
    let wanted = report.wanted_bytes - report.skipped_bytes;
    let requested = AtomicU64::new(0);
    let progress = |progress: Progress<'_>| {
        if let Progress::At { share, .. } = progress {
            requested.store((share * wanted as f64) as u64, Ordering::Relaxed);
        }
        (work.progress)(progress);
    };
    let fetching = Work { stop: work.stop, progress: &progress };
    let (ask, asked) = mpsc::sync_channel::<usize>(1);
    let (results, done) = mpsc::channel();
    let mut fetches = std::thread::scope(|scope| {
        // It is dropped on a panic as well: the thread ends in any case.
        let mut fetches = Fetches {
            window: prepared.window.clone(),
            ask: Some(ask),
            done,
            busy: false,
            begun: Instant::now(),
        };
        scope.spawn(move || {
            // The program's own reads are urgent, and what is read here is for later.
            let _low = LowIoPriority::begin();
            for batch in asked {
                if results.send((batch, prepared.fetch(batch, &fetching, wanted))).is_err() {
                    return;
                }
            }
        });
        let enough = bytes_in(&prepared.pieces[0]).get() / STARTED_AT;
        let is_enough = || requested.load(Ordering::Relaxed) >= enough;
        let ended = fetches
            .begin(&is_enough, signals, work, report)
            .and_then(|()| fetches.follow(prepared, words, signals, work, report));
        // What is left is not needed.
        work.stop.end();
        fetches.ask = None;
        ended.map(|()| fetches)
    })?;
    let unfetched = (0..prepared.pieces.len()).filter(|batch| !fetches.window.is_fetched(*batch));
    let skipped = unfetched.map(|batch| bytes_in(&prepared.pieces[batch])).sum::<Bytes>().get();
    let before = report.fetched_bytes;
    // The program's end may have interrupted one.
    fetches.take_finished(report);
    report.skipped_bytes += skipped.saturating_sub(report.fetched_bytes - before);
    report.held_back_seconds = prepared.tree.volumes.held_back().as_secs_f64();
    Ok(())
}

/// Starts the program, to which the terminal belongs from then on.
fn start(words: &[OsString], signals: &SignalQueue, work: &Work<'_>) -> Result<Running> {
    (work.progress)(Progress::Over);
    Running::start(words, signals)
}

/// Takes the signals that have come.
///
/// # Errors
/// One has come.
fn check_signals(signals: &SignalQueue, work: &Work<'_>) -> Result<()> {
    while let Some(signal) = signals.next() {
        work.stop.by(signal.number);
    }
    work.check()
}

/// The fetches of batches by another thread.
struct Fetches {
    window: Window,
    /// `None` at the end.
    ask: Option<SyncSender<usize>>,
    done: Receiver<(usize, Fetched)>,
    busy: bool,
    begun: Instant,
}

impl Fetches {
    fn take_finished(&mut self, report: &mut Report) {
        match self.done.try_recv() {
            Ok((batch, fetched)) => {
                self.window.fetched(batch, fetched.asked);
                report_fetched(fetched, report);
                if batch == 0 {
                    report.read_seconds = self.begun.elapsed().as_secs_f64();
                }
                self.busy = false;
            }
            // The thread has panicked, which ends this one as well once the program has ended.
            Err(TryRecvError::Disconnected) => self.busy = false,
            Err(TryRecvError::Empty) => {}
        }
    }

    /// Takes a finished batch, and asks for the next one.
    fn advance(&mut self, report: &mut Report) {
        self.take_finished(report);
        if !self.busy
            && let Some(next) = self.window.next()
        {
            self.busy = self.ask.as_ref().is_some_and(|ask| ask.try_send(next).is_ok());
        }
    }

    /// Begins the first batch, and waits until enough of it is requested.
    fn begin(
        &mut self,
        is_enough: &dyn Fn() -> bool,
        signals: &SignalQueue,
        work: &Work<'_>,
        report: &mut Report,
    ) -> Result<()> {
        self.advance(report);
        while self.busy && !is_enough() {
            check_signals(signals, work)?;
            std::thread::sleep(CHECK);
            self.take_finished(report);
        }
        check_signals(signals, work)
    }

    /// Starts the program and fetches ahead of it until it ends.
    fn follow(
        &mut self,
        prepared: &Prepared,
        words: &[OsString],
        signals: &SignalQueue,
        work: &Work<'_>,
        report: &mut Report,
    ) -> Result<()> {
        let is_windowed = prepared.pieces.len() > 1;
        // One batch needs no window. What is used of it is not read again, but nothing is opened to know that.
        let watch = watch_of(&prepared.tree);
        let is_followed = is_windowed || watch.as_ref().is_ok_and(|watch| !watch.opens_files());
        let begun = Instant::now();
        let mut running = start(words, signals, work)?;
        let command = running.id();
        // Its own reads are no reason to hold back.
        let helps = |process| prepared.tree.volumes.iter().for_each(|(_, volume)| volume.disk.helps(process));
        helps(command);
        let mut follower = is_followed.then(|| follower_of(prepared, watch, command, report));
        let mut look = |fetches: &mut Self, report: &mut Report| {
            if let Some(follower) = &mut follower {
                follower.look(&mut fetches.window, fetches.busy);
            }
            fetches.advance(report);
            if !is_windowed && !fetches.busy {
                // All of it is fetched.
                follower = None;
            }
            if fetches.busy {
                with_descendants(command).into_iter().for_each(helps);
            }
        };
        let status = wait_for_end(&mut running, signals, &mut || look(self, report))?;
        conclude(status, begun, report);
        if let Some(follower) = follower.as_mut().filter(|_| is_windowed) {
            follower.look(&mut self.window, self.busy);
            report.used_files = Some(follower.used());
            if follower.overflows() > 0 {
                report.notes.push(format!(
                    "the kernel lost events {} times: some files were missed",
                    follower.overflows()
                ));
            }
        }
        Ok(())
    }
}

fn conclude(status: ExitStatus, begun: Instant, report: &mut Report) {
    report.command = Some(Ended { status: status_of(status) });
    report.command_seconds = Some(begun.elapsed().as_secs_f64());
}

/// By a watch from before the program's start, or by its count of read bytes.
fn follower_of<'a>(
    prepared: &'a Prepared,
    watch: std::result::Result<CloseWatch, Errno>,
    command: u32,
    report: &mut Report,
) -> Follower<'a> {
    let read_order = ReadOrder {
        tree: &prepared.tree,
        order: &prepared.order,
        batch_of: &prepared.batch_of,
        bytes_of: &prepared.bytes_of,
        sizes: &prepared.sizes,
        pieces: &prepared.pieces,
        used: &prepared.used,
    };
    match watch {
        Ok(watch) => Follower::by_closes(read_order, watch),
        Err(error) => {
            let needs = if rustix::process::geteuid().is_root() {
                "it needs CAP_SYS_ADMIN"
            } else {
                "as root it is visible"
            };
            report.notes.push(format!(
                "which files the command reads is not visible (fanotify: {error}): its progress is taken from \
                 /proc/PID/io; {needs}"
            ));
            Follower::by_account(read_order, command)
        }
    }
}

/// A watch over the file systems of a tree.
fn watch_of(tree: &Tree) -> std::result::Result<CloseWatch, Errno> {
    let mut watch = CloseWatch::new()?;
    let mut watched = false;
    for (index, volume) in tree.volumes.iter() {
        if volume.by == OrderBy::None {
            continue;
        }
        if let Some(place) = tree.somewhere_on(index) {
            watch.add(place.as_fd(), volume.shows_inodes_in_handles())?;
            watched = true;
        }
    }
    if watched { Ok(watch) } else { Err(Errno::NOENT) }
}
