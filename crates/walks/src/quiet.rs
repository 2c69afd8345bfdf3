//! Walks over files in memory: their opens of files are not reported.
//!
//! Each reported open of a file costs the program some microseconds, a tenth of the time to open and read a
//! small cached file. A walk whose files all turn out to be in memory becomes *quiet*: reports of all of its
//! directories end, and nothing is listed, placed or fetched for it. Its opens are then unknown. Such files
//! therefore do not count as passed, nor in the estimated lengths of walks.
//!
//! To detect that, it places a few entries of the first opened directories ([`TRIAL`] each, where that costs
//! the device nothing), and the first round examines [`SPREAD`] files before it lists anything ahead.
//!
//! A file that is opened again tells nothing new. After [`AGAIN`] of them in a row the walk becomes quiet as well, unless
//! more than [`SPREAD`] files of its present directory are left.
//!
//! A quiet walk is tried again as it opens directories, also those that it has opened before: at the first one, then
//! two, four, ... [`STEP_LIMIT`] directories later, and [`TRIAL_PAUSE`] after the last trial at the earliest. A trial
//! places [`TRIAL`] files spread over the directory, by the rules and at the price of any other fetch. If one of them is not in memory, the walk wakes. Before a walk over files in memory becomes quiet, [`SPREAD`]
//! files spread over the rest of its present directory are placed as well. Only the first part of a directory
//! with many files may be in memory, and no open of a directory would show that.
//!
//! *Limits.* A trial may come after the program has read its files, and then finds them in memory; the next one
//! is as likely to come in time. If a tenth of a large directory's rest is not in memory, one in thirty walks
//! still becomes quiet.

use crate::pace::Pace;
use crate::state::{About, State};
use crate::tree::{CHAIN_LIMIT, Directory, Key, Listing, flag};
use crate::{Command, Kind, ListCondition, Stopped};
use foreseek_units::{Instant, Nanos};

/// Consecutive entries in memory before a walk counts as in memory: two directories of a source tree's median
/// size. A batch that one look finds has at least as many.
const RESIDENT: u32 = 16;
/// Files that a trial places of a directory.
const TRIAL: u64 = 8;
/// Files that are placed of the rest of a directory.
const SPREAD: u64 = 32;
/// The most directories between two trials. A trial opens about as many files as the program does in one
/// directory, so that all trials together take one or two per cent of the program's own work.
const STEP_LIMIT: u64 = 32;
/// The time between two trials: some hundred directories in memory, or a few that the disk reads. A trial takes a
/// program that uses all processors as long as some directories in memory.
const TRIAL_PAUSE: Nanos = Nanos::from_millis(50);
/// Consecutive opens of files that were opened before, from which on nothing new is expected. A compiler opens hundreds of
/// headers again between two sources.
const AGAIN: u32 = 512;

/// The trials of a quiet walk.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Quiet {
    /// Directories opened since, known ones included.
    opened: u64,
    /// How many these are at the next trial.
    next: u64,
    /// The number of directories until the trial after that.
    step: u64,
    /// The time from which on there may be one.
    after: Instant,
    /// A trial is in progress.
    trying: bool,
}

/// A search among some files spread over a directory.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sample {
    /// One in so many is taken.
    pub(crate) stride: u64,
    /// How many are taken.
    pub(crate) count: u64,
    /// Whether they are spread over the rest of the present directory, and only this is searched.
    pub(crate) spread: bool,
}

impl State {
    /// Whether nothing is requested: a quiet walk without a trial.
    pub(crate) fn is_quiet(&self, at: usize) -> bool {
        self.walks[at].as_ref().and_then(|walk| walk.quiet).is_some_and(|quiet| !quiet.trying)
    }

    /// Starts reports of opened files in a directory.
    pub(crate) fn report_opens(&mut self, key: Key) {
        let reports = |it: &&mut Directory| !it.reported && !it.is_used_up();
        let Some(directory) = self.tree.get_mut(key).filter(reports) else { return };
        directory.reported = true;
        self.outbox.push_back(Command::WatchOpens { directory: directory.node, on: true });
    }

    /// Ends reports in a directory in which each file was opened: no further open tells anything.
    pub(crate) fn end_reports(&mut self, key: Key) {
        let used_up = |it: &&mut Directory| it.reported && it.is_used_up();
        let Some(directory) = self.tree.get_mut(key).filter(used_up) else { return };
        directory.reported = false;
        self.outbox.push_back(Command::WatchOpens { directory: directory.node, on: false });
    }

    /// A directory that a program opened was listed: places a few of its entries whose inodes are in memory,
    /// which costs the device nothing. Does nothing once an entry was not in memory.
    pub(crate) fn check_resident(&mut self, at: usize, key: Key) {
        let (Some(walk), Some(directory)) = (&self.walks[at], self.tree.get(key)) else { return };
        if walk.missing || !directory.opened {
            return;
        }
        let stride = (directory.items.len() as u64 / TRIAL).max(1) as usize;
        // From the end: the program has read the first of them itself.
        let spread = (0..directory.items.len() as u32).rev().step_by(stride);
        let spread = spread.map(|entry| (entry, &directory.items[entry as usize]));
        let may = spread.filter(|(_, item)| {
            item.kind != Kind::Other && !item.is(flag::OPENED | flag::PLACE_ASKED) && walk.holds(item)
        });
        let some = may.map(|(entry, item)| About { directory: key, entry, inode: item.inode });
        let some: Vec<About> = some.take(TRIAL as usize).collect();
        self.ask_places(at, &some);
    }

    /// Addresses have arrived: checks whether everything is in memory.
    pub(crate) fn consider(&mut self, at: usize) {
        let Some(walk) = &self.walks[at] else { return };
        let known = walk.quiet.is_some() || walk.sample.is_some() || walk.round.is_some() || walk.missing;
        if walk.file_places == 0 && walk.directory_places == 0 && !known {
            self.conclude(at);
        }
    }

    /// A round has ended: checks whether everything is in memory. Returns whether the round goes on.
    pub(crate) fn judge(&mut self, at: usize, stopped: Stopped) -> bool {
        let Some(walk) = &mut self.walks[at] else { return false };
        let complete = stopped == Stopped::Complete;
        let sample = walk.sample.take();
        match &mut walk.quiet {
            Some(quiet) if complete && walk.resident > 0 => {
                quiet.step = (quiet.step * 2).min(STEP_LIMIT);
                (quiet.trying, quiet.next) = (false, quiet.opened + quiet.step);
                false
            }
            Some(_) if complete && !walk.missing => {
                // Nothing was placed.
                self.give_up_trial(at);
                false
            }
            Some(_) => {
                self.wake(at);
                true
            }
            None if sample.is_some_and(|sample| sample.spread) && walk.resident >= RESIDENT => {
                self.become_quiet(at);
                false
            }
            None => {
                // The sample was not all that there is to search.
                let next = |state: &Self| state.walks[at].as_ref().is_some_and(|walk| walk.sample.is_some());
                if complete && self.conclude(at) { next(self) } else { sample.is_some() }
            }
        }
    }

    /// Ends reports if all recently placed entries are in memory, or starts a sample of the rest of a large
    /// directory. Returns whether it did one of these.
    fn conclude(&mut self, at: usize) -> bool {
        let Some(walk) = &self.walks[at] else { return false };
        let waits = walk.contents.is_some() || walk.waiting() > 0;
        if walk.resident < RESIDENT || waits {
            return false;
        }
        let rest = self.rest(at);
        if rest <= SPREAD {
            self.become_quiet(at);
        } else if let Some(walk) = &mut self.walks[at] {
            walk.sample = Some(Sample { stride: rest / SPREAD, count: SPREAD, spread: true });
        }
        true
    }

    /// A round begins: while everything found was in memory, it examines some files before it lists directories
    /// ahead.
    pub(crate) fn first_sample(&mut self, at: usize) {
        let entries = self.tree.counts().1 as u64;
        if let Some(walk) = &mut self.walks[at]
            && !walk.missing
            && walk.sample.is_none()
            && walk.quiet.is_none()
        {
            let stride = if walk.random { (entries / SPREAD).max(1) } else { 1 };
            walk.sample = Some(Sample { stride, count: SPREAD, spread: false });
        }
    }

    /// Entries of the present directory that were not reached.
    fn rest(&self, at: usize) -> u64 {
        let Some(walk) = &self.walks[at] else { return 0 };
        let directory = walk.cursor.and_then(|key| self.tree.get(key));
        let rest = directory.zip(directory.and_then(|directory| walk.order(directory)));
        rest.map_or(0, |(directory, order)| (directory.items.len() - directory.reached(order)) as u64)
    }

    /// A file was opened, which `again` says: ends reports if programs do nothing else any more.
    pub(crate) fn opens_again(&mut self, at: usize, again: bool) {
        let Some(walk) = &mut self.walks[at] else { return };
        walk.again = if again { walk.again.saturating_add(1) } else { 0 };
        // The rest of a large directory may be what comes next.
        if walk.again >= AGAIN && walk.quiet.is_none() && !walk.is_fetching() && self.rest(at) <= SPREAD {
            self.become_quiet(at);
        }
    }

    fn become_quiet(&mut self, at: usize) {
        let Some(walk) = &mut self.walks[at] else { return };
        let after = walk.last + TRIAL_PAUSE;
        walk.quiet = Some(Quiet { opened: 0, next: 1, step: 1, after, trying: false });
        (walk.unseen, walk.round, walk.sample, walk.again) = (true, None, None, 0);
        walk.to_examine.clear();
        for key in &walk.all {
            let Some(directory) = self.tree.get_mut(*key) else { continue };
            directory.unseen |= directory.opened;
            if std::mem::take(&mut directory.reported) {
                self.outbox.push_back(Command::WatchOpens { directory: directory.node, on: false });
            }
        }
    }

    /// A quiet walk has opened a directory: starts a trial if it is due.
    pub(crate) fn try_again(&mut self, at: usize, key: Key) {
        let (Some(walk), Some(directory)) = (&mut self.walks[at], self.tree.get_mut(key)) else { return };
        directory.unseen = true;
        let Some(quiet) = &mut walk.quiet else { return };
        quiet.opened += 1;
        if quiet.trying || quiet.opened < quiet.next || walk.last < quiet.after {
            return;
        }
        (quiet.trying, quiet.after) = (true, walk.last + TRIAL_PAUSE);
        (walk.resident, walk.missing) = (0, false);
        walk.cursor = Some(key);
        (walk.look_at, walk.next_cost) = (0, Nanos::ZERO);
        directory.forget_residents();
        if directory.listing != Listing::None || !self.list(at, key, ListCondition::Always) {
            self.sample(at, key);
            self.advance(at);
        }
    }

    /// Sets the sample of a trial, once its directory is listed.
    pub(crate) fn sample(&mut self, at: usize, key: Key) {
        let count = self.tree.get(key).map_or(0, |directory| directory.items.len() as u64);
        if let Some(walk) = &mut self.walks[at]
            && walk.quiet.is_some_and(|quiet| quiet.trying)
        {
            walk.sample = Some(Sample { stride: (count / TRIAL).max(1), count: TRIAL, spread: true });
        }
    }

    /// A trial had no result: the next directory is tried.
    pub(crate) fn give_up_trial(&mut self, at: usize) {
        let Some(walk) = &mut self.walks[at] else { return };
        walk.sample = None;
        if let Some(quiet) = &mut walk.quiet {
            (quiet.trying, quiet.next) = (false, quiet.opened + 1);
        }
    }

    /// Something is not in memory: opens are reported again, in the directory opened last and those above it.
    pub(crate) fn wake(&mut self, at: usize) {
        let Some(walk) = &mut self.walks[at] else { return };
        (walk.quiet, walk.sample) = (None, None);
        // It was measured on files in memory.
        walk.pace = Pace::default();
        let opened = Some(walk.opened);
        let is_its = |key: &Key| self.tree.get(*key).is_some_and(|it| it.opened && it.walk as usize == at);
        let keys: Vec<Key> = self.tree.upwards(opened).take(CHAIN_LIMIT).take_while(is_its).collect();
        keys.into_iter().for_each(|key| self.report_opens(key));
    }
}
