//! The demo in virtual time: the same database, planner, driver and device; the kernel is a model.
//!
//! SQLite's place is taken by a model of what it does: it reads, in order, the pages of the scan and
//! above each the interior pages of its tree, except those that its own page cache of 2 MB (least
//! recently used) still holds. Every read goes through the same [`Planner`] and the same [`Driver`]
//! as in a real process, in the way in which the extension connects them. The file lies in one piece
//! on the disk. Time is not scaled: in virtual time nobody waits.
//!
//! Limits: no rows are formatted, so that the result is the sequence of pages that were read; the
//! kernel's own copy of metadata is taken to be in memory.

use crate::customer::QUERY;
use crate::database::{self, Plan};
use crate::options::{DISK_SIZE, Options, build};
use crate::outcome::{DiskUse, Limits, Measured, Outcome, Run};
use crate::report::blocks::Mark;
use crate::{Error, Result, scan};
use foreseek_device::Profile;
use foreseek_hints::{Driver, Mode, Settings, Step};
use foreseek_rig::{Interrupt, Program};
use foreseek_seam::{Access, Extent, HintMode, ObjectId, PageCache, StreamId, Who};
use foreseek_simulate::{KernelOptions, VirtualKernel};
use foreseek_sqlite::header::Header;
use foreseek_sqlite::page::{Page, PageNo};
use foreseek_sqlite::planner::{Cost, Much, Planner, ScanId};
use foreseek_sqlite::source::{Image, ReadPage};
use foreseek_units::{
    ByteOffset, Bytes, Instant, Lba, Nanos, PAGE_SIZE, PageIndex, PageSpan, Pages, Position, Span,
};
use std::collections::{BTreeMap, HashMap};

const FILE: ObjectId = ObjectId(1);
const STREAM: StreamId = StreamId(1);

/// Where the file lies: a little inside, as ext4 puts it.
const START: Lba = Lba(1 << 19);

/// What SQLite's own cache holds: its default of 2000 KiB, an entry of which takes a page and about
/// 300 bytes.
const OWN_CACHE: usize = 466;

/// What a row costs the processor, from the index entry to the text of the result: measured as 0.42 s
/// for 150,000 rows.
const ROW: Nanos = Nanos(2800);

/// Pages planned for where the driver does not know its buffer yet: 64 MiB of them, as the extension.
const PLAN_DEFAULT: usize = 16_384;

/// Runs it all.
pub(crate) fn run(
    options: &Options,
    profile: &Profile,
    why: String,
    interrupt: &Interrupt,
) -> Result<Outcome> {
    let start = std::time::Instant::now();
    let shell = Program::find("sqlite3", "sqlite3")?;
    let folder = tempfile::Builder::new()
        .prefix("foreseek-demo-")
        .tempdir()
        .map_err(|error| Error::io("cannot make a folder in", std::env::temp_dir().display(), error))?;
    let plan = Plan { size: options.database_size, seed: options.seed };
    let path = folder.path().join("tpcc.db");
    let database = database::build(&shell, &path, plan, interrupt, &mut |_| ())?;
    let image = std::fs::read(&path).map_err(|error| Error::io("cannot read", path.display(), error))?;
    let extents = [Extent { page: PageIndex::ZERO, pages: database.bytes.pages_ceil(), lba: START }];
    let reads = reads(&image)?;
    let accesses = scan::places(&scan::pages(&image)?, &extents)?;
    let limits = Limits { profile, accesses: &accesses };
    let mut runs = Vec::new();
    for (name, title, memory) in options.runs(database.bytes) {
        let measure = |prefetch: bool| {
            interrupt.check()?;
            let mut stage = options.show.stage(&format!("simulated, {title}"), database.rows);
            let kernel =
                VirtualKernel::new(profile.build(&build())?, KernelOptions::stock(memory.pages_floor()));
            let mut process =
                Process::new(&image, &extents, kernel, prefetch.then(|| settings(profile, options.mode)))?;
            let measured = process.run(&reads, database.rows)?;
            stage.at(database.rows, Bytes::ZERO, &mut || None);
            stage.done(&format!("{:.1} s of virtual time", measured.time.as_secs_f64()));
            Ok::<_, Error>(measured)
        };
        runs.push(Run::compare(name, title.clone(), memory, measure(false)?, measure(true)?, &limits)?);
    }
    Ok(Outcome {
        simulated: true,
        why_simulated: Some(why),
        database: database.bytes,
        rows: database.rows,
        seed: options.seed,
        profile: options.profile.clone(),
        disk: DISK_SIZE,
        time_scale: 1.0,
        runs,
        elapsed: Nanos::from(start.elapsed()),
        versions: vec![("foreseek".to_owned(), env!("CARGO_PKG_VERSION").to_owned())],
        notes: notes(),
    })
}

fn notes() -> Vec<String> {
    [
        "Simulated: no disk, no kernel and no SQLite took part. The planner, the prefetching engine and its \
         driver, and the model of the disk are the ones that run for real; the page cache and SQLite's own \
         cache are models.",
        "Virtual time needs no scaling: --time-scale has no effect, and seconds are those of the unscaled disk.",
        "No rows are produced: the fingerprint is that of the sequence of pages read, and the file lies in one \
         piece.",
    ]
    .map(str::to_owned)
    .to_vec()
}

/// The policy as the extension has it on a disk of this profile.
fn settings(profile: &Profile, mode: Mode) -> Settings {
    Settings { infill: profile.infill().pages_floor(), mode, ..Settings::default() }
}

/// Every page that SQLite asks its pager for, in order: above each page of the scan the way to it.
fn reads(image: &[u8]) -> Result<Vec<PageNo>> {
    let parents = parents(image)?;
    let mut reads = vec![PageNo::FIRST];
    for page in scan::pages(image)? {
        let way = std::iter::successors(Some(page), |page| parents.get(page).copied());
        let at = reads.len();
        reads.extend(way);
        reads[at..].reverse();
    }
    Ok(reads)
}

/// The parent of each page that has one.
fn parents(image: &[u8]) -> Result<HashMap<PageNo, PageNo>> {
    let header = Header::parse(&image[..image.len().min(100)])?;
    let mut source = Image::new(image, PAGE_SIZE as usize);
    let mut bytes = Vec::new();
    let mut parents = HashMap::new();
    for number in 1..=u32::try_from(image.len() as u64 / PAGE_SIZE).unwrap_or(u32::MAX) {
        let number = PageNo(number);
        source.read(number, &mut bytes)?;
        let page = Page::parse(number, &bytes, header.usable())?;
        if page.kind().is_interior() {
            for child in 0..=page.cells() {
                parents.insert(page.child(child)?, number);
            }
        }
    }
    Ok(parents)
}

/// Prefetching in a process: what the extension holds.
struct Prefetch {
    planner: Planner,
    driver: Driver,
    /// Whether a scan was recognised, so that reads are told.
    watched: bool,
}

/// A process that runs the query over a modelled kernel.
struct Process<'a> {
    image: &'a [u8],
    kernel: VirtualKernel,
    cache: OwnCache,
    prefetch: Option<Prefetch>,
}

impl<'a> Process<'a> {
    fn new(
        image: &'a [u8],
        extents: &[Extent],
        mut kernel: VirtualKernel,
        settings: Option<Settings>,
    ) -> Result<Self> {
        kernel.place(FILE, extents);
        let header = Header::parse(&image[..image.len().min(100)])?;
        let pages = u32::try_from(image.len() as u64 / PAGE_SIZE).unwrap_or(u32::MAX);
        let prefetch = settings.map(|settings| Prefetch {
            planner: Planner::new(header, pages).on_disk(),
            driver: Driver::new(settings),
            watched: false,
        });
        Ok(Self { image, kernel, cache: OwnCache::default(), prefetch })
    }

    fn run(&mut self, reads: &[PageNo], rows: u64) -> Result<Measured> {
        let mut fingerprint = blake3::Hasher::new();
        // The rows' cost is spread over the reads.
        let cost = Nanos(ROW.get() * rows / reads.len().max(1) as u64);
        for &page in reads {
            fingerprint.update(&page.get().to_le_bytes());
            self.kernel.compute(cost);
            if !self.cache.touch(page) {
                self.read(page)?;
            }
        }
        let device = self.kernel.device();
        let marks = self
            .kernel
            .log()
            .iter()
            .map(|logged| Mark { at: logged.finished.since(Instant::ZERO), lba: logged.lba });
        Ok(Measured {
            time: self.kernel.elapsed(),
            rows,
            result: Bytes(reads.len() as u64 * 4),
            fingerprint: fingerprint.finalize().to_hex().to_string(),
            disk: DiskUse {
                requests: device.requests,
                seeks: device.seeks,
                mean_seek_distance: (device.seek_distance / device.seeks.max(1)).bytes(),
                read: device.read,
                busy: device.busy,
            },
            memory_peak: Bytes::ZERO,
            processor: Nanos::ZERO,
            path_share: 0.0,
            prefetcher: self.counters(),
            marks: marks.collect(),
        })
    }

    /// One read of the pager, as the extension sees it: before, the read, after.
    fn read(&mut self, page: PageNo) -> Result<()> {
        let range = Span::at(scan::file_page(page).offset(), Pages(1).bytes());
        let begun = self.kernel.now();
        let mut runs = Vec::new();
        self.kernel.resident(FILE, range.pages(), &mut runs);
        let missed = runs.is_empty();
        if let Some(prefetch) = &mut self.prefetch
            && let Some(id) = prefetch.planner.expects(STREAM.0, page)
        {
            let mut step = prefetch.driver.read(&mut self.kernel, STREAM, range);
            while let Step::Want(want) = step {
                prefetch.answer(self.image, &mut self.kernel, id);
                step = prefetch.driver.answered(&mut self.kernel, want.request);
            }
        }
        self.kernel.read(FILE, range)?;
        let cost = Cost { time: self.kernel.now().since(begun), missed };
        if let Some(prefetch) = &mut self.prefetch {
            let start = range.start.get() as usize;
            let bytes = &self.image[start..start + PAGE_SIZE as usize];
            let mut source =
                Modelled { image: Image::new(self.image, PAGE_SIZE as usize), kernel: &mut self.kernel };
            let told = &mut || vec![QUERY.to_owned()];
            let begun = prefetch.planner.observe(&mut source, STREAM.0, page, bytes, cost, told);
            if begun.is_some() && !prefetch.watched {
                prefetch.watched = true;
                let length = Bytes(self.image.len() as u64);
                prefetch.driver.open(&mut self.kernel, STREAM, FILE, length, Who(1));
                prefetch.driver.watch(&mut self.kernel, FILE, Span::at(ByteOffset::ZERO, length));
            }
        }
        Ok(())
    }

    fn counters(&self) -> BTreeMap<String, u64> {
        let Some(prefetch) = &self.prefetch else { return BTreeMap::new() };
        let entries = prefetch.driver.stats().entries();
        entries.into_iter().map(|(name, count)| (name.to_owned(), count)).collect()
    }
}

impl Prefetch {
    /// What the extension does when it is asked what comes.
    fn answer(&mut self, image: &[u8], kernel: &mut VirtualKernel, id: ScanId) {
        let stats = self.driver.stats();
        let pages = if stats.lookahead.is_zero() { PLAN_DEFAULT } else { stats.lookahead.get() as usize };
        let much = match stats.lookahead_reads {
            0 => Much::pages(pages),
            reads => Much { pages, reads: reads as usize },
        };
        let mut source = Modelled { image: Image::new(image, PAGE_SIZE as usize), kernel };
        let Some(plan) = self.planner.plan(&mut source, id, much, false) else { return };
        let accesses: Vec<Access> = plan
            .accesses
            .iter()
            .map(|access| Access { object: FILE, page: scan::file_page(access.page), mark: access.mark })
            .collect();
        self.driver.hint(kernel, HintMode::Set, &accesses, plan.done);
    }
}

/// Pages of the database through the modelled kernel.
struct Modelled<'a> {
    image: Image<'a>,
    kernel: &'a mut VirtualKernel,
}

impl ReadPage for Modelled<'_> {
    fn read(&mut self, page: PageNo, into: &mut Vec<u8>) -> std::result::Result<(), foreseek_sqlite::Error> {
        let range = Span::at(scan::file_page(page).offset(), Pages(1).bytes());
        self.kernel.read(FILE, range).map_err(|_| foreseek_sqlite::Error::Unreadable { page })?;
        self.image.read(page, into)
    }

    fn soon(&mut self, pages: &[PageNo]) {
        for run in pages.chunk_by(|a, b| a.get() + 1 == b.get()) {
            let start = scan::file_page(run[0]);
            let span: PageSpan = Span::at(start, Pages(run.len() as u64));
            // What is not fetched is read later.
            let _ = self.kernel.fetch(FILE, span);
        }
    }
}

/// SQLite's own page cache: the least recently used page goes.
#[derive(Debug, Default)]
struct OwnCache {
    last_use: HashMap<PageNo, u64>,
    by_use: BTreeMap<u64, PageNo>,
    uses: u64,
}

impl OwnCache {
    /// Uses a page and answers whether it was there.
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
