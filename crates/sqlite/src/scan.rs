//! One scan by an index: where it is, what it will read next, and how much of that is worth telling.
//!
//! How much is planned follows what is known (the rent-or-buy rule that also bounds competitive
//! prefetching). A scan that began at the first entry of its index is taken to be a full scan and
//! planned as far as the buffer reaches, within [`FIRST_FULL`] at first. Any other has shown no more
//! than that it exists: its first round is as large as its evidence, and each round that was read
//! through allows the next one to be [`GROWTH`] times as large.

use crate::header::Header;
use crate::page::PageNo;
use crate::planner::Counters;
use crate::recognise::EVIDENCE;
use crate::sequence::{PageAccess, Sequence};
use crate::source::ReadPage;
use crate::tree::Interior;
use foreseek_units::Bytes;
use std::collections::{HashSet, VecDeque};

/// By what a ramp grows with each round that was read through. A sorted round costs about half a
/// random read a page, so that a scan that ends where a round begins has cost at most about half as
/// much again as without prefetching; small ranges are many, and must not lose.
pub const GROWTH: usize = 2;
/// By what it grows from [`LARGE`] on. The pages of such a round cost a fifth of a random read and
/// less, and a long scan must not spend its time in the ramp.
pub const GROWTH_LARGE: usize = 4;
/// See [`GROWTH_LARGE`].
pub const LARGE: usize = 64;
/// The first round of a full scan. A program may still give up a scan that
/// has no LIMIT after some rows, and must not wait for gigabytes; in a larger buffer the rounds grow
/// by [`GROWTH_FULL`], so that this costs one or two passes more over a table that needs a hundred.
pub const FIRST_FULL: Bytes = Bytes::mib(128);
/// See [`FIRST_FULL`].
pub const GROWTH_FULL: usize = 8;
/// How far ahead of its place a scan looks for a page that is read: what SQLite's own cache may
/// answer at a stretch, and a bound on the cost of a look.
const REACH: usize = 4096;
/// How far ahead one read alone moves a scan. A read further ahead may be another statement's that
/// met a page of the list by chance: it counts when a second one follows it.
const NEAR: usize = 64;
/// Row pages of no scan's prediction, in a row and on its own stream, after which a scan is over. A
/// join may read some of another table for each row; a scan that is still there is recognised anew.
const STRAYS_LIMIT: u32 = 64;
/// Entries generated and not yet read, at most: 32 MiB of them.
const AHEAD_LIMIT: usize = 4 << 20;
/// Entries that a young scan keeps ahead, so that it knows its next pages when the told list has
/// ended. Few, since an index leaf and interior pages must be read for them, in vain where the scan
/// ends; an older one keeps up to [`NEAR`], so that it is not lost where SQLite's cache answers some.
const LOW: usize = 4;
/// Names a scan as long as it goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ScanId(pub u64);

/// How much is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Much {
    /// Distinct pages.
    pub pages: usize,
    /// The reads in which they are, at most.
    pub reads: usize,
}

impl Much {
    /// So many distinct pages, in however many reads.
    #[must_use]
    pub fn pages(pages: usize) -> Self {
        Self { pages, reads: usize::MAX }
    }

    /// The part of one among so many scans.
    #[must_use]
    pub fn shared(self, among: usize) -> Self {
        let among = among.max(1);
        Self { pages: self.pages / among, reads: self.reads / among }
    }
}

/// What becomes of a scan's list.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// The reads to come, beginning with the one that is about to be made.
    pub accesses: Vec<PageAccess>,
    /// Whether there is no more to tell for now.
    pub done: bool,
}

/// A scan that goes on.
#[derive(Debug)]
pub(crate) struct Scan {
    pub(crate) id: ScanId,
    pub(crate) stream: u64,
    pub(crate) index: PageNo,
    sequence: Sequence,
    /// Generated and not yet read.
    ahead: VecDeque<PageAccess>,
    /// The last ones before those: read, or passed over, perhaps too soon.
    behind: VecDeque<PageNo>,
    /// Distinct pages that the next round may hold.
    allowance: usize,
    /// Whether it is taken to be a full scan.
    full: bool,
    /// How many of `ahead` were told.
    told: usize,
    /// Whether it was ever planned.
    planned: bool,
    /// Entries passed since the beginning.
    passed: u64,
    /// The same when it was last planned.
    passed_at_plan: u64,
    /// Where in terms of `passed` a single read far ahead was.
    far: Option<u64>,
    pub(crate) strays: u32,
    failed: bool,
}

impl Scan {
    /// A scan that has shown its evidence; `sequence` goes on after that.
    pub(crate) fn new(id: ScanId, stream: u64, index: PageNo, sequence: Sequence) -> Self {
        Self {
            id,
            stream,
            index,
            sequence,
            ahead: VecDeque::new(),
            behind: VecDeque::new(),
            allowance: EVIDENCE,
            full: false,
            told: 0,
            planned: false,
            passed: 0,
            passed_at_plan: 0,
            far: None,
            strays: 0,
            failed: false,
        }
    }

    /// It is taken to be a full scan.
    pub(crate) fn trust(&mut self, header: &Header) {
        self.full = true;
        self.allowance = usize::try_from(FIRST_FULL / header.page_size()).unwrap_or(usize::MAX).max(EVIDENCE);
    }

    /// It is known to read only a part of its index.
    pub(crate) fn restrict(&mut self) {
        self.full = false;
        self.allowance = EVIDENCE;
    }

    /// Whether it was ever planned, so that what it reads may be in memory on its behalf.
    pub(crate) fn is_planned(&self) -> bool {
        self.planned
    }

    /// Whether it has been read on since it was last planned, or never was planned.
    pub(crate) fn is_moving(&self) -> bool {
        !self.planned || self.passed > self.passed_at_plan
    }

    /// Whether it seems to be lost: others are read in its place.
    pub(crate) fn is_lost(&self) -> bool {
        self.strays as usize >= 2 * EVIDENCE
    }

    /// Whether it has been read to its end.
    pub(crate) fn is_finished(&self) -> bool {
        self.ahead.len() <= 1 && self.sequence.finished()
    }

    /// Entries of the last plan that were read or passed over, and those that were not.
    pub(crate) fn use_of_plan(&self) -> (u64, u64) {
        let left = self.told.min(self.ahead.len()).saturating_sub(1);
        (self.passed - self.passed_at_plan, left as u64)
    }

    /// Keeps a few entries ahead, so that the next reads are known as its own.
    pub(crate) fn keep_ahead<R: ReadPage>(
        &mut self,
        interior: &mut Interior,
        source: &mut R,
        counters: &mut Counters,
    ) {
        let low = self.low();
        if self.ahead.len() < low {
            self.extend(interior, source, 2 * low, 1, counters);
        }
    }

    /// A page was read at which it is not: where it knows little of what comes, it may find the page a
    /// little further on.
    pub(crate) fn catch_up<R: ReadPage>(
        &mut self,
        interior: &mut Interior,
        source: &mut R,
        page: PageNo,
        counters: &mut Counters,
    ) {
        let low = self.low();
        if self.ahead.len() < 2 * low && !self.is_at(page) {
            self.extend(interior, source, 2 * low, 1, counters);
            self.meets(page, false);
        }
    }

    /// A row page was read that is not its own. Answers whether it is over.
    pub(crate) fn strays_on(&mut self, page: PageNo) -> bool {
        self.strays += u32::from(!self.behind.contains(&page));
        self.strays > STRAYS_LIMIT
    }

    /// The reads that it will make, from the one that is about to be made.
    pub(crate) fn plan<R: ReadPage>(
        &mut self,
        interior: &mut Interior,
        source: &mut R,
        much: Much,
        counters: &mut Counters,
    ) -> Plan {
        let wanted = self.allowance.min(much.pages).max(1);
        let most = much.reads.clamp(1, AHEAD_LIMIT);
        let mut pages = HashSet::new();
        let (mut counted, mut marks) = (0, 0);
        loop {
            while counted < self.ahead.len().min(most) && pages.len() < wanted {
                // Where so many reads cannot be too many pages, they need not be told apart.
                if most > wanted {
                    pages.insert(self.ahead[counted].page);
                }
                marks += usize::from(self.ahead[counted].mark);
                counted += 1;
            }
            let ended = self.sequence.finished() || self.failed || counted >= most;
            if pages.len() >= wanted || ended {
                break;
            }
            // How many leaves the rest takes, going by those that were counted.
            let leaf = (counted / marks.max(1)).max(1);
            let missing = (wanted - pages.len()).min(most - counted);
            let more = if self.full { 1 } else { missing };
            self.extend(interior, source, counted + more, missing.div_ceil(leaf), counters);
        }
        self.told = counted;
        self.planned = true;
        self.passed_at_plan = self.passed;
        let growth = match self.allowance {
            _ if self.full => GROWTH_FULL,
            LARGE.. => GROWTH_LARGE,
            _ => GROWTH,
        };
        self.allowance = self.allowance.saturating_mul(growth);
        let ended = counted == self.ahead.len() && (self.sequence.finished() || self.failed);
        let done = ended || wanted < much.pages;
        Plan { accesses: self.ahead.iter().take(counted).copied().collect(), done }
    }

    /// Generates more until `entries` are ahead, or its sequence ends: whole leaves of a full scan, no
    /// more than is asked for of another. `leaves` are about to be generated, by this call and the
    /// next ones together.
    fn extend<R: ReadPage>(
        &mut self,
        interior: &mut Interior,
        source: &mut R,
        entries: usize,
        leaves: usize,
        counters: &mut Counters,
    ) {
        let entries = entries.min(AHEAD_LIMIT);
        while self.ahead.len() < entries && !self.failed {
            let part = if self.full { usize::MAX } else { entries - self.ahead.len() };
            match self.sequence.next_part(interior, source, leaves, part) {
                Ok(Some(reads)) => {
                    counters.planned += reads.len() as u64;
                    self.ahead.extend(reads);
                }
                Ok(None) => break,
                Err(_) => {
                    self.failed = true;
                    counters.failed += 1;
                }
            }
        }
    }

    /// How many entries to keep ahead at least.
    fn low(&self) -> usize {
        LOW + usize::try_from(self.passed).unwrap_or(NEAR).min(NEAR)
    }

    /// Whether this page is the one that it has come to.
    pub(crate) fn is_at(&self, page: PageNo) -> bool {
        self.ahead.front().is_some_and(|front| front.page == page)
    }

    /// Moves on to a page that is read, where it is ahead. An interior page (of a table WITHOUT ROWID)
    /// moves nothing but from the very next place: it is mostly read on the way down.
    pub(crate) fn meets(&mut self, page: PageNo, interior: bool) -> bool {
        let Some(at) = self.ahead.iter().take(REACH).position(|access| access.page == page) else {
            return false;
        };
        let place = self.passed + at as u64;
        if interior && at > 1 {
            return false;
        }
        if at > NEAR && self.far.is_none_or(|far| far >= place) {
            self.far = Some(place);
            return false;
        }
        self.far = None;
        self.behind.extend(self.ahead.drain(..at).map(|access| access.page));
        let old = self.behind.len().saturating_sub(NEAR);
        self.behind.drain(..old);
        self.told = self.told.saturating_sub(at);
        self.passed = place;
        self.strays = 0;
        true
    }
}
