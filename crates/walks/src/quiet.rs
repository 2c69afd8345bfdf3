//! Walks over what is in memory: their opens of files are not asked for.
//!
//! Each reported open of a file costs the program that makes it some microseconds, a tenth of what opening and reading a small cached file
//! takes. A walk whose files all turn out to be in memory becomes *quiet*: reports of all of its directories end, and nothing is listed, placed or fetched for
//! it. What it opens is not known then, so that such files count neither as passed over nor in what is learnt of the lengths of walks.
//!
//! To find that out, the first directories that are opened are glanced at ([`TRIAL`] entries each, where that costs the device nothing), and the first
//! round looks at [`SPREAD`] files before it lists anything ahead.
//!
//! A quiet walk is tried again as it opens directories: the first one, then two, four, ... [`STEP_LIMIT`] further on. A trial
//! places [`TRIAL`] files spread over the directory, by the rules and at the price of any other fetch. If one of them is not in memory, the walk is
//! not quiet any more. Before a walk becomes quiet, [`SPREAD`] files spread over the rest of its present directory are placed as
//! well: a directory of many files may be in memory in its first part alone, and no open of a directory would show that.
//!
//! *Limits.* A trial may come when the program has read its files already, and then finds them in memory; the next one is
//! as likely to come in time. Where a tenth of a large directory's rest is not in memory, one in thirty walks becomes quiet all the
//! same. A driver that sees reads sees opens as well and pays nothing for a report, so that nothing is quiet there.

use crate::pace::Pace;
use crate::state::{About, State};
use crate::tree::{Key, Listing, flag};
use crate::{Command, Kind, Stopped};
use foreseek_units::Nanos;

/// Entries in memory, one after the other, until a walk can be said to find everything there: two directories of a source tree's
/// median size. A batch that one look finds has at least as many.
const RESIDENT: u32 = 16;
/// Files that a trial of a directory places.
const TRIAL: u64 = 8;
/// Files that are placed of the rest of a directory.
const SPREAD: u64 = 32;
/// Directories from one trial to the next at most: a trial opens about as many files as the program does in one directory, so that all
/// trials together take one or two per cent of what the program itself does.
const STEP_LIMIT: u64 = 32;
/// Directories from the last one opened up to the top whose files are reported when a walk wakes.
const CHAIN_LIMIT: usize = 64;

/// How a quiet walk is tried.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Quiet {
    /// When so many directories were opened.
    next: u64,
    /// The following one so many directories later.
    step: u64,
    /// A trial is under way.
    trying: bool,
}

/// A look at some files spread over a directory.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sample {
    /// One in so many is taken.
    pub(crate) stride: u64,
    /// How many.
    pub(crate) count: u64,
    /// Whether they are spread over the rest of the present directory, and nothing else is looked at.
    pub(crate) spread: bool,
}

impl State {
    /// Whether nothing is asked for: a quiet walk that is not tried.
    pub(crate) fn is_quiet(&self, at: usize) -> bool {
        self.walks[at].as_ref().and_then(|walk| walk.quiet).is_some_and(|quiet| !quiet.trying)
    }

    /// Has opens of files in a directory reported.
    pub(crate) fn attend(&mut self, key: Key) {
        let Some(directory) = self.tree.get_mut(key).filter(|directory| !directory.attended) else { return };
        directory.attended = true;
        self.outbox.push_back(Command::WatchOpens { directory: directory.node, on: true });
    }

    /// A directory that a program opened was listed: places a few of its entries whose inodes are in memory, which costs
    /// the device nothing. Until something was found that is not in memory.
    pub(crate) fn glance(&mut self, at: usize, key: Key) {
        let (Some(walk), Some(directory)) = (&self.walks[at], self.tree.get(key)) else { return };
        if walk.missing || !directory.opened || self.settings.sees_reads {
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

    /// Places have come: whether everything is in memory.
    pub(crate) fn consider(&mut self, at: usize) {
        let Some(walk) = &self.walks[at] else { return };
        let known = walk.quiet.is_some() || walk.sample.is_some() || walk.round.is_some() || walk.missing;
        if walk.places == 0 && !known {
            self.conclude(at);
        }
    }

    /// A round has ended: whether everything is in memory. Answers whether the round goes on.
    pub(crate) fn judge(&mut self, at: usize, stopped: Stopped) -> bool {
        let Some(walk) = &mut self.walks[at] else { return false };
        let complete = stopped == Stopped::Complete;
        let sample = walk.sample.take();
        match &mut walk.quiet {
            Some(quiet) if complete && walk.resident > 0 => {
                quiet.step = (quiet.step * 2).min(STEP_LIMIT);
                (quiet.trying, quiet.next) = (false, walk.directories + quiet.step);
                false
            }
            Some(_) => {
                self.wake(at);
                true
            }
            None if sample.is_some_and(|sample| sample.spread) && walk.resident >= RESIDENT => {
                self.hush(at);
                false
            }
            None => {
                // A sample was not all that there is to be looked at.
                let next = |state: &Self| state.walks[at].as_ref().is_some_and(|walk| walk.sample.is_some());
                if complete && self.conclude(at) { next(self) } else { sample.is_some() }
            }
        }
    }

    /// Ends reports where all that was placed of late is in memory, or has the rest of a large directory looked at. Answers
    /// whether it did one of these.
    fn conclude(&mut self, at: usize) -> bool {
        let Some(walk) = &self.walks[at] else { return false };
        let waits = walk.contents.is_some() || walk.waiting() > 0;
        if walk.resident < RESIDENT || waits || self.settings.sees_reads {
            return false;
        }
        let rest = self.rest(at);
        if rest <= SPREAD {
            self.hush(at);
        } else if let Some(walk) = &mut self.walks[at] {
            walk.sample = Some(Sample { stride: rest / SPREAD, count: SPREAD, spread: true });
        }
        true
    }

    /// A round begins: as long as nothing was found that is not in memory, it looks at some files before it lists directories ahead.
    pub(crate) fn first_sample(&mut self, at: usize) {
        if let Some(walk) = &mut self.walks[at]
            && !walk.missing
            && walk.sample.is_none()
            && walk.quiet.is_none()
        {
            walk.sample = Some(Sample { stride: 1, count: SPREAD, spread: false });
        }
    }

    /// Entries of the present directory that were not reached.
    fn rest(&self, at: usize) -> u64 {
        let Some(walk) = &self.walks[at] else { return 0 };
        let directory = walk.cursor.and_then(|key| self.tree.get(key));
        let rest = directory.zip(directory.and_then(|directory| walk.order(directory)));
        rest.map_or(0, |(directory, order)| (directory.items.len() - directory.reached(order)) as u64)
    }

    fn hush(&mut self, at: usize) {
        let Some(walk) = &mut self.walks[at] else { return };
        walk.quiet = Some(Quiet { next: walk.directories + 1, step: 1, trying: false });
        (walk.unseen, walk.round) = (true, None);
        for key in &walk.all {
            let Some(directory) = self.tree.get_mut(*key) else { continue };
            directory.unseen |= directory.opened;
            if std::mem::take(&mut directory.attended) {
                self.outbox.push_back(Command::WatchOpens { directory: directory.node, on: false });
            }
        }
    }

    /// A quiet walk has opened a directory: it may be time to try it.
    pub(crate) fn try_again(&mut self, at: usize, key: Key) {
        let (Some(walk), Some(directory)) = (&mut self.walks[at], self.tree.get_mut(key)) else { return };
        directory.unseen = true;
        let Some(quiet) = &mut walk.quiet else { return };
        if quiet.trying || walk.directories < quiet.next {
            return;
        }
        quiet.trying = true;
        walk.cursor = Some(key);
        (walk.look_at, walk.next_cost) = (0, Nanos::ZERO);
        if directory.listing != Listing::None || !self.list(at, key, None) {
            self.sample(at, key);
            self.advance(at);
        }
    }

    /// What a trial looks at, once its directory is listed.
    pub(crate) fn sample(&mut self, at: usize, key: Key) {
        let count = self.tree.get(key).map_or(0, |directory| directory.items.len() as u64);
        if let Some(walk) = &mut self.walks[at]
            && walk.quiet.is_some_and(|quiet| quiet.trying)
        {
            walk.sample = Some(Sample { stride: (count / TRIAL).max(1), count: TRIAL, spread: true });
        }
    }

    /// A trial came to nothing: the next directory is tried.
    pub(crate) fn give_up_trial(&mut self, at: usize) {
        let Some(walk) = &mut self.walks[at] else { return };
        walk.sample = None;
        if let Some(quiet) = &mut walk.quiet {
            (quiet.trying, quiet.next) = (false, walk.directories + 1);
        }
    }

    /// Something is not in memory: opens are reported again, in the directory opened last and those above it.
    pub(crate) fn wake(&mut self, at: usize) {
        let Some(walk) = &mut self.walks[at] else { return };
        (walk.quiet, walk.sample) = (None, None);
        // It told of files in memory.
        walk.pace = Pace::default();
        let mut next = Some(walk.opened);
        for _ in 0..CHAIN_LIMIT {
            let Some(key) = next else { break };
            let Some(directory) = self.tree.get(key).filter(|it| it.opened && it.walk as usize == at) else {
                break;
            };
            next = directory.parent.and_then(|parent| self.tree.key(parent));
            self.attend(key);
        }
    }
}
