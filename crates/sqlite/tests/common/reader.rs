//! A program that reads a database through its own page cache. The planner observes its reads.
#![allow(dead_code, reason = "each test binary uses its part")]

use foreseek_sqlite::Error;
use foreseek_sqlite::header::Header;
use foreseek_sqlite::page::PageNo;
use foreseek_sqlite::planner::{Cost, Counters, Lookahead, Planner};
use foreseek_sqlite::source::{Image, ReadPage};
use foreseek_units::{Bytes, Nanos};
use std::collections::{HashSet, VecDeque};

/// A source that records the pages read from it: a test can check that none of these reads is unnecessary.
pub(crate) struct Counted<'a> {
    pub(crate) image: Image<'a>,
    pub(crate) read: Vec<PageNo>,
}

impl ReadPage for Counted<'_> {
    fn read(&mut self, page: PageNo, into: &mut Vec<u8>) -> Result<(), Error> {
        self.read.push(page);
        self.image.read(page, into)
    }
}

/// A program that reads a database through its own page cache. The planner observes its reads.
pub(crate) struct Reader<'a> {
    pub(crate) source: Counted<'a>,
    pub(crate) planner: Planner,
    cache: VecDeque<PageNo>,
    cache_pages: usize,
    pub(crate) reads: usize,
    pub(crate) hinted: HashSet<PageNo>,
    /// Every page that a plan ever held.
    pub(crate) all_hinted: HashSet<PageNo>,
    pub(crate) hits: usize,
    /// The largest number of pages that the planner read during one read of the program.
    pub(crate) most_own: usize,
    /// The number of reads in each plan.
    pub(crate) plans: Vec<usize>,
    /// Distinct pages a plan may hold.
    pub(crate) buffer: usize,
    /// The statement that runs.
    pub(crate) statement: &'static str,
    pub(crate) asked: usize,
}

impl<'a> Reader<'a> {
    pub(crate) fn new(file: &'a [u8], cache_pages: usize) -> Self {
        let header = Header::parse(file).expect("a database");
        let image = Image::new(file, header.page_size().get() as usize);
        Self {
            source: Counted { image, read: Vec::new() },
            planner: Planner::new(header, header.pages_in(Bytes(file.len() as u64))),
            cache: VecDeque::new(),
            cache_pages,
            reads: 0,
            hinted: HashSet::new(),
            all_hinted: HashSet::new(),
            hits: 0,
            most_own: 0,
            plans: Vec::new(),
            buffer: 300,
            statement: "SELECT * FROM t",
            asked: 0,
        }
    }

    pub(crate) fn read(&mut self, stream: u64, page: PageNo) {
        if self.cache.contains(&page) {
            return;
        }
        if self.cache.len() >= self.cache_pages {
            self.cache.pop_front();
        }
        self.cache.push_back(page);
        self.reads += 1;
        let own = self.source.read.len();
        // A page of a sorted batch costs a fifth of a single read.
        let mut cost = Cost { time: Nanos::from_millis(5), missed: true };
        if let Some(scan) = self.planner.expects(stream, page) {
            if self.hinted.contains(&page) {
                self.hits += 1;
                cost = Cost { time: Nanos::from_millis(1), missed: false };
            } else {
                // As in the extension: scans that proceed at the same time are planned together.
                let plans = self.planner.plan_together(&mut self.source, scan, Lookahead::pages(self.buffer));
                self.hinted.clear();
                for (at, plan) in plans.into_iter().enumerate() {
                    let plan = plan.expect("goes on");
                    if let Some(first) = plan.accesses.first().filter(|_| at == 0) {
                        assert_eq!(first.page, page);
                        cost = Cost { time: Nanos::from_millis(1), missed: false };
                    }
                    self.hinted.extend(plan.accesses.iter().map(|access| access.page));
                    self.plans.push(plan.accesses.len());
                }
                self.all_hinted.extend(&self.hinted);
                assert!(self.hinted.len() <= self.buffer);
            }
        }
        let mut bytes = Vec::new();
        self.source.image.read(page, &mut bytes).expect("is there");
        let statements = &mut || {
            self.asked += 1;
            vec![self.statement.to_owned()]
        };
        self.planner.observe(&mut self.source, stream, page, &bytes, cost, statements);
        self.most_own = self.most_own.max(self.source.read.len() - own);
    }

    /// Reads the interior pages, as the first descents of SQLite do.
    pub(crate) fn read_interior(&mut self, file: &[u8]) {
        let size = self.planner.header().page_size().get() as usize;
        for number in 1..=(file.len() / size) as u32 {
            let at = (number as usize - 1) * size + if number == 1 { 100 } else { 0 };
            if matches!(file[at], 2 | 5) {
                self.read(1, PageNo(number));
            }
        }
    }

    pub(crate) fn counters(&self) -> Counters {
        self.planner.counters()
    }
}
