//! One database file of this process: the planner, the client that fetches for it, and the borrowed descriptors
//! of both.
//!
//! The client is created when the first scan is recognised. It holds one access list. If several scans of the
//! file are in progress, on one connection or several, their coming reads are merged into it, as if all
//! advanced at a pace at which they end together.

use crate::bypass::{CacheBypass, Look};
use crate::error::{Error, Result};
use crate::header::{CHANGE_COUNTER_AT, HEADER_LEN, Header};
use crate::page::{Kind, PageNo};
use crate::planner::{Cost, Counters, Lookahead, Planner, ScanId};
use crate::sequence::PageAccess;
use crate::settings;
use crate::source::ReadPage;
use crate::statements::{Ledger, Run, Running, Statement};
use foreseek_hints::allowance::{SEEK_PAGES, SEEK_PAGES_DISK};
use foreseek_hints::read_around::{Counters as Around, Outcome, ReadAround};
use foreseek_libprefetch::{Client, Entry, HintMode, Settings, Stats};
use foreseek_storage::{BackingDevice, HostFd, Identity, Means, Residency, available, cachestat, will_need};
use foreseek_units::{ByteOffset, ByteSpan, Bytes, Nanos, PAGE_SIZE, PageIndex, PageSpan, Pages, Span};
use std::os::fd::RawFd;
use std::time::{Duration, Instant};

/// Hints in one call. All at once would take 70 bytes each for a moment. The heap keeps them, and in a process
/// with limited memory they would then be missing for pages.
const HINTS_PER_CALL: usize = 1024;
/// Distinct pages planned while the client does not know its buffer: 64 MiB of 4 KiB pages.
const PLAN_DEFAULT: u64 = 16_384;

/// Windows of read-around between two measurements of the memory, each of which takes some 0.1 ms.
const WINDOWS_A_LOOK: u64 = 64;
/// A longer read went to storage, if the kernel does not report residency: a read from memory takes a
/// microsecond, from a flash drive 80.
const MISS: Duration = Duration::from_micros(50);
/// The assumed costs of reads if every read is followed, in memory or not: those of a disk, for a single read
/// and in a sorted batch.
const NOMINAL: [Nanos; 2] = [Nanos::from_micros(5000), Nanos::from_micros(1000)];

/// The state of a read before it is made.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Followed {
    /// Its page was not in memory, if that is known.
    missed: Option<bool>,
    /// A scan expected it.
    predicted: bool,
    /// Pages of the kernel that are read with it.
    around: Pages,
}

impl Followed {
    fn alone(missed: Option<bool>) -> Self {
        Self { missed, predicted: false, around: Pages::ZERO }
    }
}

/// Pages of a database through a descriptor of the host.
struct Descriptor {
    fd: HostFd,
    header: Header,
    /// The longest call of advice.
    call: Bytes,
    read: u64,
    /// Those of them that went to storage, with the time of each.
    waited: Vec<(PageNo, Nanos)>,
}

impl ReadPage for Descriptor {
    fn read(&mut self, page: PageNo, into: &mut Vec<u8>) -> Result<()> {
        let span = self.header.span_of(page);
        into.resize(self.header.page_size().get() as usize, 0);
        self.read += 1;
        let begun = Instant::now();
        let read = self.fd.read_at(into, span.start);
        let time = begun.elapsed();
        if time > MISS {
            self.waited.push((page, time.into()));
        }
        match read {
            Ok(length) if length == into.len() => Ok(()),
            _ => Err(Error::Unreadable { page }),
        }
    }

    /// Advises the kernel of the pages, neighbours together. A failure only costs time.
    fn will_need(&mut self, pages: &[PageNo]) {
        let neighbours = |a: &PageNo, b: &PageNo| a.get() + 1 == b.get();
        for run in pages.chunk_by(neighbours) {
            let (first, last) = (self.header.span_of(run[0]), self.header.span_of(run[run.len() - 1]));
            let _ = will_need(self.fd, Span::new(first.start, last.end), self.call, Means::Fadvise);
        }
    }
}

/// The reading connection, for queries about its statements. The answers are empty if it is not known.
pub(crate) trait Connection {
    /// The texts of the running statements, with the values of their parameters.
    fn texts(&self) -> Vec<String>;
    /// The running statement.
    fn statement(&self) -> Option<Running>;
    /// The runs of all running statements; `None` where a transaction goes on whichever of them run.
    fn runs(&self) -> Option<Vec<Run>>;
}

/// The state of one file.
pub(crate) struct Watch {
    planner: Planner,
    ledger: Ledger,
    call: Bytes,
    client: Option<Client>,
    bypass: CacheBypass,
    around: ReadAround,
    /// Pages read by the extension itself.
    own_reads: u64,
    /// No client could be created; the reason is printed once.
    refused: bool,
}

/// Counters of one file.
pub(crate) struct Report {
    pub(crate) header: Header,
    pub(crate) planner: Counters,
    pub(crate) own_reads: u64,
    /// Reads that passed while a stream found all of its pages in memory.
    pub(crate) passed: u64,
    pub(crate) client: Option<Stats>,
    pub(crate) around: Around,
    pub(crate) statements: Vec<Statement>,
    /// Transactions with almost no waits.
    pub(crate) short: u64,
}

/// Reads the header of the database behind a descriptor.
pub(crate) fn header_of(fd: HostFd) -> Result<Header> {
    let mut bytes = [0; HEADER_LEN];
    let unreadable = Error::Unreadable { page: PageNo::FIRST };
    let length = fd.read_at(&mut bytes, ByteOffset::ZERO).map_err(|_| unreadable)?;
    Header::parse(&bytes[..length])
}

impl Watch {
    pub(crate) fn new(header: Header, identity: &Identity, length: Option<Bytes>) -> Self {
        let backing = BackingDevice::of(identity.device);
        let planner = Planner::new(header, header.pages_in(length.unwrap_or(Bytes(u64::MAX))));
        let on_disk = backing.rotational == Some(true);
        Self {
            planner: if on_disk { planner.on_rotational_disk() } else { planner },
            around: ReadAround::new(if on_disk { SEEK_PAGES_DISK } else { SEEK_PAGES }),
            ledger: Ledger::default(),
            call: backing.call_length(),
            client: None,
            bypass: CacheBypass::default(),
            own_reads: 0,
            refused: false,
        }
    }

    pub(crate) fn header(&self) -> &Header {
        self.planner.header()
    }

    /// A descriptor was seen for the first time, and the header through it.
    pub(crate) fn adopt(&mut self, fd: HostFd, header: Header, length: Option<Bytes>) {
        self.end(stream(fd), Planner::closed);
        self.bypass.closed(stream(fd));
        if *self.header() != header {
            self.changed(header, length);
        }
    }

    /// A transaction is over. `next`: whether another begins, and how that was seen.
    fn end(&mut self, stream: u64, next: fn(&mut Planner, u64)) {
        self.ledger.end(stream, self.planner.state(stream));
        next(&mut self.planner, stream);
    }

    pub(crate) fn closed(&mut self, fd: RawFd) {
        self.end(fd as u64, Planner::closed);
        self.bypass.closed(fd as u64);
        if let Some(client) = &self.client {
            client.closed(fd);
        }
    }

    /// Drops the client: another is created with other settings when it is needed.
    pub(crate) fn drop_client(&mut self) {
        self.client = None;
        self.refused = false;
    }

    /// SQLite is about to read a page. `None` if [`Watch::after`] is to get only those pages of the stream that
    /// are read once.
    pub(crate) fn before(&mut self, fd: HostFd, page: PageNo, span: ByteSpan) -> Option<Followed> {
        let pages = span.pages();
        let resident = || {
            let there = cachestat(fd, pages).ok()?;
            Some(there == pages.len())
        };
        let look = if self.planner.is_of_outer(stream(fd), page) {
            Look::Follow
        } else {
            self.bypass.read(stream(fd), || resident().filter(|_| settings::may_bypass()))
        };
        match look {
            Look::Bypass => None,
            Look::Suspend => {
                self.ledger.settle(stream(fd), self.planner.state(stream(fd)).0);
                self.planner.bypassed(stream(fd));
                Some(Followed::alone(Some(false)))
            }
            Look::Follow => Some(if self.follow(fd, page, span).is_some() {
                Followed { predicted: true, ..Followed::alone(Some(false)) }
            } else {
                let missed = resident().map(|there| !there);
                let around =
                    if missed == Some(true) { self.read_around(fd, page, pages) } else { Pages::ZERO };
                Followed { around, ..Followed::alone(missed) }
            }),
        }
    }

    /// Lets the client fetch for a read that a scan predicted; does nothing for another.
    fn follow(&mut self, fd: HostFd, page: PageNo, span: ByteSpan) -> Option<()> {
        let scan = self.planner.expects(stream(fd), page)?;
        let mut source = self.descriptor(fd);
        let client = self.client.as_ref()?;
        let planner = &mut self.planner;
        client.before_read(fd.raw(), span, &mut |client, _| {
            answer(client, planner, &mut source, scan);
        });
        let is_over = self.bypass.is_quiet(stream(fd))
            && self.planner.is_fully_hinted(stream(fd))
            && client.has_fetched_all();
        self.own_read(source);
        if self.planner.is_planned(scan) && !is_over {
            self.bypass.resume(stream(fd));
        }
        Some(())
    }

    /// Counts the reads of prediction.
    fn own_read(&mut self, source: Descriptor) {
        self.own_reads += source.read;
        // With nominal costs, a read has no time of its own.
        for (page, time) in source.waited.into_iter().filter(|_| settings::may_bypass()) {
            self.planner.own_read(page, time);
        }
    }

    /// Requests the neighbours of a page that misses, if that is likely to pay. Returns how many.
    fn read_around(&mut self, fd: HostFd, page: PageNo, read: PageSpan) -> Pages {
        let (misses, end) = self.planner.misses_and_end(stream(fd));
        // A page outside of the known trees mostly belongs to a chain, which the kernel reads ahead.
        let Some(class) = self.planner.tree_of(page).map(class) else { return Pages::ZERO };
        let Some(window) = self.around.window(class, read, misses, end) else { return Pages::ZERO };
        let window = window.intersection(self.planner.extent());
        let mut there = vec![read];
        if !Residency::Cachestat.runs(fd, window, &mut there) {
            return Pages::ZERO;
        }
        let absent = |page: &PageIndex| there.iter().all(|run| !run.contains(*page));
        let neighbours: Vec<PageIndex> = window.iter().filter(absent).collect();
        if neighbours.is_empty() || will_need(fd, window.bytes(), self.call, Means::Fadvise).is_err() {
            return Pages::ZERO;
        }
        if self.around.counters().windows.is_multiple_of(WINDOWS_A_LOOK) {
            let memory = settings::current().ok().and_then(|settings| settings.policy.memory);
            let available = available().bytes;
            self.planner.set_memory(available);
            let share = share(available.pages_floor(), self.planner.extent().len());
            self.around.set_unread_limit(memory.unwrap_or(share).min(share));
        }
        self.around.fetched(class, &neighbours);
        Pages(neighbours.len() as u64)
    }

    /// Whether a page is needed though its stream is bypassed: interior pages are read once, and without them a
    /// later scan cannot be recognised.
    pub(crate) fn is_needed_in_bypass(page: PageNo, bytes: &[u8]) -> bool {
        let at = if page == PageNo::FIRST { HEADER_LEN } else { 0 };
        bytes.get(at).and_then(|&flag| Kind::of(flag)).is_some_and(Kind::is_interior)
    }

    /// SQLite has read a page, which took `time` with the extension's work before it. `connection` returns the
    /// statements that may be reading.
    pub(crate) fn after(
        &mut self,
        fd: HostFd,
        page: PageNo,
        bytes: &[u8],
        followed: Option<Followed>,
        time: Duration,
        connection: &dyn Connection,
    ) {
        let begun = Instant::now();
        if page == PageNo::FIRST {
            self.counter_read(fd, &bytes[CHANGE_COUNTER_AT as usize..]);
        }
        let mut source = self.descriptor(fd);
        let cost = cost(followed, time);
        if cost.time > MISS.into() {
            self.bypass.waited(stream(fd));
        }
        // In WAL mode and with exclusive locks, SQLite reads no counter at the beginning of a transaction.
        if cost.missed {
            let running = connection.runs();
            if self.ledger.is_another_transaction(stream(fd), running.as_deref()) {
                self.end(stream(fd), Planner::begin_unseen_transaction);
            }
            self.ledger.missed(stream(fd), running);
        }
        let texts = &mut || connection.texts();
        let scan = self.planner.observe(&mut source, stream(fd), page, bytes, cost, texts);
        let has_read = source.read > 0;
        self.own_read(source);
        let prefetched = self.was_prefetched(fd, page, followed, cost.time);
        self.account(stream(fd), cost.missed, prefetched, connection);
        if has_read && settings::may_bypass() {
            self.planner.add_overhead(stream(fd), begun.elapsed().into());
        }
        if scan.is_some() {
            self.provide_client(fd);
        }
    }

    /// Whether a scan has predicted a read, or its page was read with a neighbour.
    fn was_prefetched(&mut self, fd: HostFd, page: PageNo, followed: Option<Followed>, time: Nanos) -> bool {
        let Some(Followed { missed: Some(missed), predicted, around }) = followed else { return false };
        if predicted {
            return true;
        }
        let Some(class) = self.planner.tree_of(page).map(class) else { return false };
        let read = self.header().span_of(page).pages();
        let saved = self.around.read(class, read, Outcome { time, missed, around });
        if let Some(time) = saved {
            self.planner.add_saved(stream(fd), time);
            self.bypass.resume(stream(fd));
        }
        saved.is_some()
    }

    /// Counts a read for the statement that made it.
    fn account(&mut self, stream: u64, waited: bool, prefetched: bool, connection: &dyn Connection) {
        let state = || self.planner.state(stream);
        if self.ledger.read(stream, (waited && !prefetched, prefetched), state, || connection.statement()) {
            self.planner.begin_statement(stream);
        }
    }

    /// SQLite has read the bytes that show whether the file was changed: a transaction begins.
    pub(crate) fn transaction(&mut self, fd: HostFd, bytes: &[u8]) {
        self.end(stream(fd), Planner::begin_transaction);
        self.counter_read(fd, bytes);
    }

    fn changed(&mut self, header: Header, length: Option<Bytes>) {
        self.planner.changed(header, header.pages_in(length.unwrap_or(Bytes(u64::MAX))));
        self.around.changed();
    }

    fn counter_read(&mut self, fd: HostFd, bytes: &[u8]) {
        let Some(counter) = bytes.first_chunk().map(|bytes| u32::from_be_bytes(*bytes)) else { return };
        if counter == self.header().change_counter {
            return;
        }
        if let (Ok(header), Some((_, length))) = (header_of(fd), fd.identify()) {
            self.changed(header, length);
        }
    }

    pub(crate) fn report(&self) -> Report {
        Report {
            header: *self.header(),
            planner: self.planner.counters(),
            own_reads: self.own_reads,
            passed: self.bypass.passed,
            client: self.client.as_ref().map(Client::stats),
            around: self.around.counters(),
            statements: self.ledger.report(|stream| self.planner.state(stream)),
            short: self.ledger.short,
        }
    }

    fn descriptor(&self, fd: HostFd) -> Descriptor {
        Descriptor { fd, header: *self.header(), call: self.call, read: 0, waited: Vec::new() }
    }

    fn provide_client(&mut self, fd: HostFd) {
        if self.client.is_some() || self.refused {
            return;
        }
        let made = settings::current().and_then(|settings: Settings| {
            let client = Client::new(settings);
            let whole = Span::new(ByteOffset::ZERO, ByteOffset(i64::MAX as u64));
            client.watch(fd.raw(), whole).map(|_| client)
        });
        self.planner.set_memory(available().bytes);
        match made {
            Ok(client) => self.client = Some(client),
            Err(error) => {
                self.refused = true;
                settings::warn(&format!("a database is read as without prefetching: {error}"));
            }
        }
    }
}

/// The cost of a read. One that was not followed costs nothing.
fn cost(followed: Option<Followed>, time: Duration) -> Cost {
    let Some(Followed { missed, predicted, .. }) = followed else { return Cost::default() };
    if !settings::may_bypass() {
        return Cost { time: NOMINAL[usize::from(predicted)], missed: true };
    }
    Cost { time: time.into(), missed: missed.unwrap_or(time > MISS) }
}

/// Passes the coming reads of this scan, and of those in progress beside it, to the client.
fn answer(client: &Client, planner: &mut Planner, source: &mut Descriptor, scan: ScanId) {
    let lookahead = lookahead(client, planner.header());
    let plans = planner.plan_together(source, scan, lookahead);
    let done = plans.iter().flatten().all(|plan| plan.done);
    let merged = merge(plans.into_iter().flatten().map(|plan| plan.accesses).collect());
    let mut mode = HintMode::Set;
    let mut parts = merged.chunks(HINTS_PER_CALL).peekable();
    while let Some(part) = parts.next() {
        let entries = entries(source.fd.raw(), planner.header(), part);
        let taken = client.hint(mode, &entries, done && parts.peek().is_none());
        // Refused hints are requested again.
        if taken.ok() != Some(entries.len()) {
            break;
        }
        mode = HintMode::Append;
    }
}

/// Merges lists so that all of them end together; the first item of the first list comes first.
fn merge(mut lists: Vec<Vec<PageAccess>>) -> Vec<PageAccess> {
    if lists.len() == 1 {
        return lists.pop().unwrap_or_default();
    }
    // The item at `at` of a list of `len` comes at the fraction at/len.
    let mut items: Vec<(f64, PageAccess)> = Vec::with_capacity(lists.iter().map(Vec::len).sum());
    for list in lists {
        let length = list.len().max(1) as f64;
        items.extend(list.into_iter().enumerate().map(|(at, access)| (at as f64 / length, access)));
    }
    items.sort_by(|a, b| a.0.total_cmp(&b.0));
    items.into_iter().map(|(_, access)| access).collect()
}

/// The class of a tree, by its root.
fn class(root: PageNo) -> u64 {
    u64::from(root.get())
}

/// How much of the memory may hold prefetched and unread pages: half if the file fits into it, and less in
/// proportion for a larger file, since pages of its other trees need room as well.
fn share(memory: Pages, file: Pages) -> Pages {
    let (memory, file) = (u128::from(memory.get()), u128::from(file.get()));
    Pages(u64::try_from(memory * memory / (2 * file.max(memory).max(1))).unwrap_or(u64::MAX))
}

fn stream(fd: HostFd) -> u64 {
    fd.raw() as u64
}

/// How far ahead the client needs reads.
fn lookahead(client: &Client, header: &Header) -> Lookahead {
    let stats = client.stats().engine;
    let page = header.page_size().get();
    let pages =
        |pages: u64| usize::try_from((pages.saturating_mul(PAGE_SIZE)).div_ceil(page)).unwrap_or(usize::MAX);
    let distinct = if stats.lookahead.is_zero() { PLAN_DEFAULT } else { stats.lookahead.get() };
    // A read of a large page is several reads for the client, and of a small one less than one.
    match stats.lookahead_reads {
        0 => Lookahead::pages(pages(distinct)),
        reads => Lookahead { pages: pages(distinct), reads: pages(reads) },
    }
}

/// Database pages as pages of the kernel: a large one is several, several small ones are one.
fn entries(fd: RawFd, header: &Header, accesses: &[PageAccess]) -> Vec<Entry> {
    let mut entries: Vec<Entry> = Vec::with_capacity(accesses.len());
    for access in accesses {
        let span = header.span_of(access.page);
        for (at, page) in span.pages().iter().enumerate() {
            let entry = Entry { fd, offset: page.offset(), mark: access.mark && at == 0 };
            match entries.last_mut() {
                Some(last) if last.offset == entry.offset => last.mark |= entry.mark,
                _ => entries.push(entry),
            }
        }
    }
    entries
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header(page_size: u16) -> Header {
        let mut bytes = [0u8; 100];
        bytes[..16].copy_from_slice(b"SQLite format 3\0");
        bytes[16..18].copy_from_slice(&page_size.to_be_bytes());
        bytes[18..24].copy_from_slice(&[1, 1, 0, 64, 32, 32]);
        Header::parse(&bytes).expect("sound")
    }

    fn offsets(page_size: u16, pages: &[(u32, bool)]) -> Vec<(u64, bool)> {
        let accesses: Vec<_> =
            pages.iter().map(|&(page, mark)| PageAccess { page: PageNo(page), mark }).collect();
        entries(3, &header(page_size), &accesses)
            .iter()
            .map(|entry| (entry.offset.get(), entry.mark))
            .collect()
    }

    #[test]
    fn merged_lists_end_together_and_keep_their_orders() {
        let list = |pages: std::ops::Range<u32>| {
            pages.map(|page| PageAccess { page: PageNo(page), mark: false }).collect::<Vec<_>>()
        };
        let merged = merge(vec![list(1..5), list(10..12), Vec::new()]);
        let pages: Vec<u32> = merged.iter().map(|access| access.page.get()).collect();
        assert_eq!(pages, [1, 10, 2, 3, 11, 4]);
        assert_eq!(merge(vec![list(1..3)]), list(1..3));
        assert_eq!(merge(Vec::new()), []);
    }

    #[test]
    fn windows_hold_half_of_the_memory_and_less_of_it_for_a_larger_file() {
        let held = |memory, file| share(Pages(memory), Pages(file)).get();
        assert_eq!([held(1000, 0), held(1000, 400), held(1000, 1000)], [500; 3]);
        assert_eq!([held(1000, 2000), held(1000, 4000), held(1000, 4_000_000)], [250, 125, 0]);
        assert_eq!([held(0, 0), held(0, 9), held(u64::MAX, 1)], [0, 0, u64::MAX / 2]);
    }

    #[test]
    fn pages_of_any_size_become_pages_of_the_kernel() {
        assert_eq!(offsets(4096, &[(1, true), (3, false)]), [(0, true), (8192, false)]);
        assert_eq!(offsets(8192, &[(2, true)]), [(8192, true), (12_288, false)]);
        assert_eq!(offsets(512, &[(1, false), (8, true), (9, false)]), [(0, true), (4096, false)]);
    }
}
