//! The demo in virtual time: the same database, planner, driver and device; the kernel is a model.
//!
//! The query is a process of a modelled machine (see [`crate::query_process`]) with the disk to itself. The
//! file lies in one piece on the disk. Time is not scaled.
//!
//! Limits: no rows are formatted, so that the result is the sequence of pages that were read; the kernel's own
//! copy of metadata is taken to be in memory.

use crate::database::{self, Plan};
use crate::options::{DISK_SIZE, Options, build};
use crate::outcome::{DiskUse, Limits, Measured, Outcome, QueryRun};
use crate::query_process::{Alone, End, Query};
use crate::report::blocks::Mark;
use crate::{Error, Result, left, notes, scan};
use foreseek_device::Profile;
use foreseek_hints::{Mode, Settings};
use foreseek_rig::{Interrupt, Program};
use foreseek_seam::Extent;
use foreseek_simulate::machine::{Logged, Machine, Parts, Period, Report};
use foreseek_sqlite::header::Header;
use foreseek_sqlite::page::{Page, PageNo};
use foreseek_sqlite::source::{Image, ReadPage};
use foreseek_units::{Bytes, Instant, Lba, Nanos, PAGE_SIZE, PageIndex, Pages, Position};
use std::collections::HashMap;
use std::sync::Arc;

/// Where the file lies: near the beginning, as ext4 puts it.
const START: Lba = Lba(1 << 19);

/// Processor time of a row, from the index entry to the text of the result: measured as 0.42 s for 150,000
/// rows.
const ROW: Nanos = Nanos(2800);

/// The limit of a run in virtual time: a hundred times the longest.
const LONGEST: Nanos = Nanos::from_secs(10_000_000);

/// Requests that are kept for the figure, 24 MiB of them; later ones are only counted.
const LOG_LIMIT: usize = 1 << 20;

/// Runs it all.
pub(crate) fn run(
    options: &Options,
    profile: &Profile,
    why: String,
    interrupt: &Interrupt,
) -> Result<Outcome> {
    let start = std::time::Instant::now();
    let shell = Program::find("sqlite3", "sqlite3")?;
    let folder = left::make_folder()?;
    let plan = Plan { size: options.database_size, seed: options.seed };
    let path = folder.path().join("tpcc.db");
    let database = database::build(&shell, &path, plan, interrupt, &mut |_| ())?;
    let image = std::fs::read(&path).map_err(|error| Error::io("cannot read", path.display(), error))?;
    let image: Arc<[u8]> = image.into();
    let extents = [Extent { page: PageIndex::ZERO, pages: database.bytes.pages_ceil(), lba: START }];
    let reads: Arc<[PageNo]> = reads(&image)?.into();
    let accesses = scan::addresses(&scan::pages(&image)?, &extents)?;
    let limits = Limits { profile, accesses: &accesses };
    let mut runs = Vec::new();
    for (name, title, memory) in options.runs(database.bytes) {
        let measure = |prefetch: bool| {
            interrupt.check()?;
            let mut stage = options.show.stage(&format!("simulated, {title}"), database.rows);
            let settings = prefetch.then(|| settings(profile, options.mode));
            let cost = Nanos(ROW.get() * database.rows / reads.len().max(1) as u64);
            let query = Query::new(Arc::clone(&image), Arc::clone(&reads), cost, settings)?;
            let end = query.end();
            let report = modelled(profile, memory.pages_floor(), &extents, query)?;
            let measured = measured(report, &end.get(), database.rows, reads.len());
            stage.at(database.rows, Bytes::ZERO, &mut || None);
            stage.done(&format!("{:.1} s of virtual time", measured.time.as_secs_f64()));
            Ok::<_, Error>(measured)
        };
        runs.push(QueryRun::compare(name, title.clone(), memory, measure(false)?, measure(true)?, &limits)?);
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
        notes: notes::simulated(),
    })
}

/// The policy as the extension has it on a disk of this profile.
fn settings(profile: &Profile, mode: Mode) -> Settings {
    Settings { infill: profile.infill().pages_floor(), mode, ..Settings::default() }
}

/// Every page that SQLite asks its pager for, in order: before each page of the scan the interior pages above
/// it.
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

/// Runs the query on a machine with a disk of this profile.
fn modelled(profile: &Profile, memory: Pages, extents: &[Extent], query: Query) -> Result<Report> {
    let workload = Box::new(Alone::new(query));
    let parts = Parts::stock(memory, profile.build(&build())?, workload, vec![extents.to_vec()]);
    let period = Period { warm_up: Nanos::ZERO, duration: LONGEST };
    Ok(Machine::new(parts)?.logging(LOG_LIMIT).run(period, &mut |_| {})?)
}

fn measured(report: Report, end: &End, rows: u64, reads: usize) -> Measured {
    let device = report.device;
    let mark = |logged: &Logged| Mark { at: logged.at.since(Instant::ZERO), lba: logged.range.start };
    Measured {
        time: report.time,
        rows,
        result: Bytes(reads as u64 * 4),
        fingerprint: end.fingerprint.clone(),
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
        prefetcher: end.counters.clone(),
        marks: report.requests.iter().map(mark).collect(),
    }
}
