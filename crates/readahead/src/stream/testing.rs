//! A reader, a file and a naive page cache, for the tests of the policies. Every answer is checked against
//! the contract of [`Prefetcher`].

use super::{Ahead, Found, Opened, Prefetcher, Served, Settings, Touch, View, by_name};
use foreseek_device::Profile;
use foreseek_seam::{ObjectId, ProcessId, StreamId};
use foreseek_units::{DeviceCosts, Instant, Lba, PageIndex, Pages};
use std::collections::BTreeSet;
use std::sync::Arc;

/// A window in tests: its first page and its length.
pub type Window = (u64, u64);

const STREAM: StreamId = StreamId(3);

/// One stream over one file.
pub struct World {
    prefetcher: Box<dyn Prefetcher>,
    /// The pages in memory, and what else the policy may query.
    pub memory: Memory,
    lost: BTreeSet<u64>,
    markers: BTreeSet<u64>,
    length: u64,
}

/// The pages in memory.
#[derive(Default)]
pub struct Memory {
    /// The cached pages.
    pub cached: BTreeSet<u64>,
    /// Whether the queue is congested.
    pub congested: bool,
    /// The most that a stream may have ahead.
    pub bound: Option<Pages>,
    /// The start of the file on its device.
    pub lba: Option<Lba>,
    /// The pages given to a cache in front.
    pub delivered: BTreeSet<u64>,
}

impl View for Memory {
    fn cached(&self, page: PageIndex) -> bool {
        self.cached.contains(&page.0)
    }
    fn congested(&self) -> bool {
        self.congested
    }
    fn lba(&self, page: PageIndex) -> Option<Lba> {
        self.lba.map(|start| start + Pages(page.0).sectors())
    }
    fn bound(&self) -> Option<Pages> {
        self.bound
    }
    fn delivered(&self, page: PageIndex) -> bool {
        self.delivered.contains(&page.0)
    }
}

/// The costs of a built-in device.
pub fn costs(device: &str) -> Arc<dyn DeviceCosts> {
    Arc::new(Profile::builtin(device).expect("a built-in profile"))
}

impl World {
    /// The policy of this name reading a file of `length` pages, on the 393 KB drive.
    pub fn new(policy: &str, settings: &Settings, length: u64) -> Self {
        Self::announced(policy, settings, length, None)
    }

    /// The same with an announced length.
    pub fn announced(policy: &str, settings: &Settings, length: u64, announced: Option<u64>) -> Self {
        Self::with(by_name(policy, settings, &costs("ibm-36g-37")).expect("a policy"), length, announced)
    }

    /// A policy that is built already.
    pub fn with(mut prefetcher: Box<dyn Prefetcher>, length: u64, announced: Option<u64>) -> Self {
        let (object, pid) = (ObjectId(1), ProcessId(1));
        let announced = announced.map(Pages);
        let opened = Opened { stream: STREAM, object, pid, length: Pages(length), announced };
        prefetcher.opened(Instant::ZERO, opened);
        let (lost, markers) = (BTreeSet::new(), BTreeSet::new());
        Self { prefetcher, memory: Memory::default(), lost, markers, length }
    }

    /// A call that reads this many pages; returns the windows that it caused, in order.
    pub fn call(&mut self, start: u64, pages: u64) -> Vec<Window> {
        (start..start + pages)
            .flat_map(|page| self.touch(page, start + pages - page, page == start, false))
            .collect()
    }

    /// Calls that read a page each.
    pub fn pages(&mut self, pages: impl IntoIterator<Item = u64>) -> Vec<Window> {
        pages.into_iter().flat_map(|page| self.call(page, 1)).collect()
    }

    /// Page faults.
    pub fn faults(&mut self, pages: impl IntoIterator<Item = u64>) -> Vec<Window> {
        pages.into_iter().flat_map(|page| self.touch(page, 1, true, true)).collect()
    }

    /// Evicts pages that were read ahead.
    pub fn evict(&mut self, pages: impl IntoIterator<Item = u64>) {
        for page in pages {
            if self.memory.cached.remove(&page) {
                self.lost.insert(page);
            }
        }
    }

    /// The device has served a request.
    pub fn served(&mut self, served: Served) {
        self.prefetcher.served(Instant::ZERO, served);
    }

    /// A touch of one page; returns the windows that it caused.
    ///
    /// # Panics
    /// Where the policy breaks the contract of [`Prefetcher`].
    pub fn touch(&mut self, page: u64, request: u64, first: bool, mapped: bool) -> Vec<Window> {
        let found = match () {
            () if self.memory.cached.contains(&page) => Found::Hit,
            () if self.lost.contains(&page) => Found::Thrashed,
            () => Found::Miss,
        };
        let marker = self.markers.remove(&page);
        let touch = Touch {
            stream: STREAM,
            page: PageIndex(page),
            request: Pages(request),
            first,
            mapped,
            found,
            marker,
        };
        // Reading past the end shows that the file has grown.
        self.length = self.length.max(page + 1);
        let mut out = Vec::new();
        self.prefetcher.touch(Instant::ZERO, touch, &self.memory, &mut out);
        self.check(touch, &out);
        for ahead in &out {
            for at in ahead.range.iter().filter(|at| !self.memory.cached.contains(&at.0)).collect::<Vec<_>>()
            {
                self.memory.cached.insert(at.0);
                self.lost.remove(&at.0);
                if ahead.marker == Some(at) {
                    self.markers.insert(at.0);
                }
            }
        }
        out.iter().map(|ahead| (ahead.range.start.0, ahead.range.len().0)).collect()
    }

    /// Checks the contract of every prefetcher.
    fn check(&self, touch: Touch, out: &[Ahead]) {
        let end = self.length;
        let missing = matches!(touch.found, Found::Miss | Found::Thrashed);
        let demands = out.iter().filter(|ahead| ahead.demand).count();
        assert_eq!(demands, usize::from(missing), "{touch:?}: {out:?}");
        for ahead in out {
            assert!(!ahead.range.is_empty() && ahead.range.end.0 <= end, "{touch:?}: {ahead:?} of {end}");
            assert!(ahead.marker.is_none_or(|marker| ahead.range.contains(marker)), "{ahead:?}");
            assert!(!ahead.demand || ahead.range.contains(touch.page), "{touch:?}: {ahead:?}");
        }
    }
}
