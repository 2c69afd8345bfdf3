//! The demo's query as a process of a modelled machine.
//!
//! A model stands for SQLite: it reads, in order, the pages of the scan and above each the interior pages of
//! its tree, except those that its own page cache of 2 MB (least recently used) still holds. Every read goes
//! through the same [`Planner`] and the same engine of access lists as in a real process, connected as the
//! extension connects them. What the extension reads of the database itself are reads of the process, made
//! before the hints that follow from them.

use crate::customer::QUERY;
use crate::{Result, scan};
use foreseek_hints::{CallbackRequest, Pump, Settings, Step as Reads};
use foreseek_seam::{Access, HintMode, ObjectId, StreamId};
use foreseek_simulate::directed::{Directed, Said};
use foreseek_simulate::program::{
    Answer, Drive, FileNumber, FileSpec, Handle, Program, Question, Step, Workload,
};
use foreseek_sqlite::header::Header;
use foreseek_sqlite::page::PageNo;
use foreseek_sqlite::planner::{Cost, Lookahead, Planner, ScanId};
use foreseek_sqlite::source::{Image, ReadPage};
use foreseek_units::{ByteSpan, Bytes, Instant, Nanos, PAGE_SIZE, PageSpan, Pages, Position, Span};
use rand_core::Rng;
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};

const FILE: ObjectId = ObjectId(0);
const HANDLE: Handle = Handle(0);
const STREAM: StreamId = StreamId(0);

/// Pages in SQLite's own cache: its default of 2000 KiB, where an entry takes a page and about 300 bytes.
const OWN_CACHE: usize = 466;

/// Pages to plan while the driver does not know its buffer: 64 MiB of them, as in the extension.
const PLAN_DEFAULT: usize = 16_384;

/// The outcome of a query.
#[derive(Clone, Debug, Default)]
pub(crate) struct End {
    /// The hash of the sequence of pages that were read.
    pub(crate) fingerprint: String,
    /// The engine's counters; empty without one.
    pub(crate) counters: BTreeMap<String, u64>,
}

/// Where a query puts its outcome.
#[derive(Clone, Debug, Default)]
pub(crate) struct Ending(Arc<Mutex<End>>);

impl Ending {
    pub(crate) fn get(&self) -> End {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// Prefetching in the process: the state of the extension.
struct Prefetch {
    planner: Planner,
    directed: Directed,
    /// Whether a scan was recognised, so that reads are reported to the engine.
    watched: bool,
}

/// The state of the process.
#[derive(Clone, Copy, Debug)]
enum Doing {
    /// About to open the database.
    Open,
    /// About to use its next page.
    Next,
    /// About to read this one, and to see whether it is in memory.
    Look(PageNo),
    Looked(PageNo),
    /// The engine works before the read; the scan expects the page.
    Engine(PageNo, ScanId),
    /// The plan has been read: its hints are to be given.
    Planned(PageNo, ScanId, CallbackRequest),
    Read(PageNo),
    /// The page has been read.
    Observe(PageNo),
    /// The database is to be reported to the engine.
    Watch,
}

/// A process that runs the query.
pub(crate) struct Query {
    image: Arc<[u8]>,
    reads: Arc<[PageNo]>,
    at: usize,
    /// Processor time of a page that is used: the rows' cost is spread over the reads.
    cost: Nanos,
    cache: OwnCache,
    prefetch: Option<Prefetch>,
    doing: Doing,
    /// Steps to be made first.
    steps: VecDeque<Step>,
    plan: Option<(Vec<Access>, bool)>,
    begun: Instant,
    missed: bool,
    fingerprint: blake3::Hasher,
    end: Ending,
}

impl Query {
    /// A query over the bytes of a database; with prefetching where there are settings for it.
    pub(crate) fn new(
        image: Arc<[u8]>,
        reads: Arc<[PageNo]>,
        cost: Nanos,
        settings: Option<Settings>,
    ) -> Result<Self> {
        let header = Header::parse(&image[..image.len().min(100)])?;
        let pages = u32::try_from(image.len() as u64 / PAGE_SIZE).unwrap_or(u32::MAX);
        let prefetch = settings.map(|settings| Prefetch {
            planner: Planner::new(header, pages).on_rotational_disk(),
            directed: Directed::new(Pump::new(settings)),
            watched: false,
        });
        Ok(Self {
            image,
            reads,
            at: 0,
            cost,
            cache: OwnCache::default(),
            prefetch,
            doing: Doing::Open,
            steps: VecDeque::new(),
            plan: None,
            begun: Instant::ZERO,
            missed: false,
            fingerprint: blake3::Hasher::new(),
            end: Ending::default(),
        })
    }

    /// Where it puts its outcome.
    pub(crate) fn end(&self) -> Ending {
        self.end.clone()
    }

    /// The next part of the work, perhaps with a step.
    fn work(&mut self, now: Instant) -> Option<Step> {
        match self.doing {
            Doing::Open => {
                self.doing = Doing::Next;
                Some(Step::Open { handle: HANDLE, file: FileNumber(0), announced: None })
            }
            Doing::Next => Some(self.use_page()),
            Doing::Look(page) => {
                self.begun = now;
                self.doing = Doing::Looked(page);
                let question = Question::Resident(bytes_of(page).pages());
                Some(Step::Ask { handle: HANDLE, question })
            }
            Doing::Looked(page) => {
                self.doing = Doing::Read(page);
                let prefetch = self.prefetch.as_mut()?;
                if let Some(scan) = prefetch.planner.expects(STREAM.0, page) {
                    prefetch.directed.read(STREAM, bytes_of(page));
                    self.doing = Doing::Engine(page, scan);
                }
                None
            }
            Doing::Engine(page, scan) => match self.prefetch.as_mut()?.directed.next(now) {
                Said::Step(step) => Some(step),
                Said::Over(Reads::Pass) => self.then(Doing::Read(page)),
                Said::Over(Reads::Callback(want)) => {
                    self.plan = self.planned(scan);
                    self.then(Doing::Planned(page, scan, want))
                }
            },
            Doing::Planned(page, scan, want) => {
                let plan = self.plan.take();
                let directed = &mut self.prefetch.as_mut()?.directed;
                if let Some((accesses, done)) = plan {
                    directed.hint(now, HintMode::Set, &accesses, done);
                }
                directed.callback_done(want);
                self.then(Doing::Engine(page, scan))
            }
            Doing::Read(page) => {
                self.doing = Doing::Observe(page);
                Some(Step::Read { handle: HANDLE, range: bytes_of(page) })
            }
            Doing::Observe(page) => {
                self.doing = if self.observe(now, page) { Doing::Watch } else { Doing::Next };
                None
            }
            Doing::Watch => match self.prefetch.as_mut()?.directed.next(now) {
                Said::Step(step) => Some(step),
                Said::Over(_) => self.then(Doing::Next),
            },
        }
    }

    fn then(&mut self, doing: Doing) -> Option<Step> {
        self.doing = doing;
        None
    }

    /// Uses the next page: it is read unless SQLite's own cache has it.
    fn use_page(&mut self) -> Step {
        let Some(&page) = self.reads.get(self.at) else { return self.leave() };
        self.at += 1;
        self.fingerprint.update(&page.get().to_le_bytes());
        if !self.cache.touch(page) {
            self.doing = Doing::Look(page);
        }
        Step::Compute(self.cost)
    }

    fn leave(&mut self) -> Step {
        let counters = self.prefetch.as_ref().map_or_else(BTreeMap::new, |prefetch| {
            let entries = prefetch.directed.stats().entries();
            entries.into_iter().map(|(name, count)| (name.to_owned(), count)).collect()
        });
        let end = End { fingerprint: self.fingerprint.finalize().to_hex().to_string(), counters };
        *self.end.0.lock().unwrap_or_else(PoisonError::into_inner) = end;
        Step::Exit
    }

    /// What the extension does when it is asked what comes; what it reads for that are steps.
    fn planned(&mut self, scan: ScanId) -> Option<(Vec<Access>, bool)> {
        let Prefetch { planner, directed, .. } = self.prefetch.as_mut()?;
        let stats = directed.stats();
        let pages = if stats.lookahead.is_zero() { PLAN_DEFAULT } else { stats.lookahead.get() as usize };
        let lookahead = match stats.lookahead_reads {
            0 => Lookahead::pages(pages),
            reads => Lookahead { pages, reads: reads as usize },
        };
        let mut source = Source::new(&self.image, &mut self.steps);
        let plan = planner.plan(&mut source, scan, lookahead)?;
        let accesses = plan
            .accesses
            .iter()
            .map(|access| Access { object: FILE, page: scan::file_page(access.page), mark: access.mark })
            .collect();
        Some((accesses, plan.done))
    }

    /// What the extension does after a read. Returns whether the database is to be reported to the engine.
    fn observe(&mut self, now: Instant, page: PageNo) -> bool {
        let Some(Prefetch { planner, directed, watched }) = &mut self.prefetch else { return false };
        let cost = Cost { time: now.since(self.begun), missed: self.missed };
        let start = bytes_of(page).start.get() as usize;
        let bytes = &self.image[start..start + PAGE_SIZE as usize];
        let mut source = Source::new(&self.image, &mut self.steps);
        let statement = &mut || vec![QUERY.to_owned()];
        let begun = planner.observe(&mut source, STREAM.0, page, bytes, cost, statement);
        if begun.is_none() || std::mem::replace(watched, true) {
            return false;
        }
        directed.open(STREAM, (FILE, HANDLE), Bytes(self.image.len() as u64));
        true
    }
}

impl Program for Query {
    fn next(&mut self, now: Instant, _random: &mut dyn Rng) -> Step {
        loop {
            if let Some(step) = self.steps.pop_front() {
                return step;
            }
            if let Some(step) = self.work(now) {
                return step;
            }
        }
    }

    fn answered(&mut self, answer: Answer<'_>) {
        match (self.doing, answer) {
            (Doing::Looked(_), Answer::Resident(runs)) => self.missed = runs.is_empty(),
            (Doing::Engine(..) | Doing::Watch, answer) => {
                if let Some(prefetch) = &mut self.prefetch {
                    prefetch.directed.answered(answer);
                }
            }
            // Advice for the plan's own reads: what is not fetched is read later.
            _ => {}
        }
    }

    fn memory(&self) -> Bytes {
        // The page cache's memory is given apart from the process's.
        Bytes::ZERO
    }
}

fn bytes_of(page: PageNo) -> ByteSpan {
    Span::at(scan::file_page(page).offset(), Pages(1).bytes())
}

/// Pages of the database for the planner; reading them are steps of the process.
struct Source<'a> {
    image: Image<'a>,
    steps: &'a mut VecDeque<Step>,
}

impl<'a> Source<'a> {
    fn new(image: &'a [u8], steps: &'a mut VecDeque<Step>) -> Self {
        Self { image: Image::new(image, PAGE_SIZE as usize), steps }
    }
}

impl ReadPage for Source<'_> {
    fn read(&mut self, page: PageNo, into: &mut Vec<u8>) -> std::result::Result<(), foreseek_sqlite::Error> {
        self.steps.push_back(Step::Read { handle: HANDLE, range: bytes_of(page) });
        self.image.read(page, into)
    }

    fn will_need(&mut self, pages: &[PageNo]) {
        for run in pages.chunk_by(|a, b| a.get() + 1 == b.get()) {
            let pages: PageSpan = Span::at(scan::file_page(run[0]), Pages(run.len() as u64));
            self.steps.push_back(Step::Advise { handle: HANDLE, pages });
        }
    }
}

/// The database and the one process.
pub(crate) struct Alone {
    length: Bytes,
    query: Option<Query>,
}

impl Alone {
    pub(crate) fn new(query: Query) -> Self {
        Self { length: Bytes(query.image.len() as u64), query: Some(query) }
    }
}

impl Workload for Alone {
    fn files(&self) -> Vec<FileSpec> {
        vec![FileSpec { length: self.length, directory: 0 }]
    }

    fn drive(&self) -> Drive {
        Drive::Jobs(1)
    }

    fn program(&mut self, _number: u64, _random: &mut dyn Rng) -> Box<dyn Program> {
        match self.query.take() {
            Some(query) => Box::new(query),
            None => unreachable!("one job has one process"),
        }
    }
}

/// SQLite's own page cache: the least recently used page is evicted.
#[derive(Debug, Default)]
struct OwnCache {
    last_use: HashMap<PageNo, u64>,
    by_use: BTreeMap<u64, PageNo>,
    uses: u64,
}

impl OwnCache {
    /// Uses a page and returns whether it was there.
    fn touch(&mut self, page: PageNo) -> bool {
        self.uses += 1;
        let before = self.last_use.insert(page, self.uses);
        if let Some(before) = before {
            self.by_use.remove(&before);
        }
        self.by_use.insert(self.uses, page);
        if self.last_use.len() > OWN_CACHE
            && let Some((_, oldest)) = self.by_use.pop_first()
        {
            self.last_use.remove(&oldest);
        }
        before.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_own_cache_keeps_what_was_used_last() {
        let mut cache = OwnCache::default();
        for page in 1..=OWN_CACHE as u32 {
            assert!(!cache.touch(PageNo(page)));
        }
        assert!(cache.touch(PageNo(1)));
        assert!(!cache.touch(PageNo(100_000)));
        assert!(cache.touch(PageNo(1)));
        assert!(!cache.touch(PageNo(2)));
    }
}
