//! Blurring an image in tiles (ATC'09 section 5.3), and the programs beside it (section 5.6).
//!
//! What the paper says: GIMP divides a square RGBA image into square tiles and processes them by row or by
//! column. Its own cache has 100 MB; tiles that do not fit go to a swap file. "To blur an image, GIMP makes
//! three strided passes over the swap file"; "blur uses two copies of the image for most of the operation and
//! three to finish". Strides come from a pass by rows that reads what a pass by columns wrote, "or vice versa".
//! A process takes about 150 MB. The programs beside it: md5sum of a file of 2.13 GB; mem-walk, which reads
//! each page of 100 MB in turn.
//!
//! What it leaves open, and the assumptions:
//!
//! - A tile has 64 by 64 pixels, as GIMP's: 16 KiB. The cache evicts the least recently used tile; a changed
//!   one is written to its place in the swap file, which is assigned at its first write, one behind the other.
//! - The image has been made row by row, which is not timed. Then, as in GIMP's blur, a pass by columns reads
//!   the image and writes the second copy; a pass by rows reads that and writes it in place; the last pass, by
//!   rows, reads it and writes the third. All three read in the other order than that of the writes.
//! - With libprefetch the callback lists the rest of the pass, as in the paper's figure 7, as far as tiles have
//!   been swapped.
//! - A pass costs 1.14 ms of processor time for a tile: 28 s for 128 MB that fit into memory (figure 9), in
//!   three passes.
//! - A program beside it begins when the image has been made. Only that program is timed then.
//! - md5sum reads 32 KiB at a time and computes for 10 us a page: 400 MB/s, typical of such processors.
//! - mem-walk uses its pages for as long as the blur of 512 MB takes alone under a stock kernel ([`WALK`],
//!   measured here). A page that stays in memory takes only processor time.

use super::WorkloadError;
use super::parameters::Checked;
use super::script::{Reader, Script, Source, Steps};
use crate::directed::{Application, Hint, Pair};
use crate::program::{Drive, FileNumber, FileSpec, Handle, Program, Step, Workload};
use foreseek_hints::CallbackRequest;
use foreseek_seam::{Access, HintMode, ObjectId};
use foreseek_units::{ByteOffset, ByteSpan, Bytes, Instant, Nanos, PageIndex, Pages};
use rand_core::Rng;
use rustc_hash::FxHashMap;
use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The smallest image of figure 9.
const IMAGE: Bytes = Bytes::mib(128);
const TILE: Bytes = Bytes::kib(16);
const TILE_PAGES: Pages = TILE.pages_floor();
/// The image, its shadow and the result.
const COPIES: u32 = 3;
/// The program's own cache.
const CACHE: Bytes = Bytes::mib(100);
/// Private memory of a process.
const MEMORY: Bytes = Bytes::mib(150);
/// Processor time of a tile in a pass, where no other is given.
const WORK: Nanos = Nanos::from_micros(1140);
/// The file of md5sum, the size of a read, and the processor time for that.
const MD5_FILE: Bytes = Bytes(2_130_000_000);
const MD5_READ: Bytes = Bytes::kib(32);
const MD5_WORK: Nanos = Nanos::from_micros(80);
/// The memory of mem-walk, and its processor time.
const WALKED: Bytes = Bytes::mib(100);
const WALK: Nanos = Nanos::from_secs(539);
/// The work of mem-walk between two checks of the clock.
const TURN: Nanos = Nanos::from_millis(10);
/// How often the program beside checks whether the image has been made.
const LOOK: Nanos = Nanos::from_millis(100);
/// Accesses of one hint: 1024 tiles.
const BATCH: usize = 4096;
const SWAP: Handle = Handle(0);

pub(super) fn tile_blur(parameters: &mut Checked<'_>) -> Result<Box<dyn Workload>, WorkloadError> {
    let beside = match parameters.workload() {
        "tile-blur+md5sum" => Some(Beside::Md5sum(parameters.file_size(MD5_FILE, MD5_READ)?)),
        "tile-blur+mem-walk" => {
            let memory = parameters.file_size(WALKED, Bytes::kib(4))?;
            Some(Beside::MemWalk(memory, parameters.walk_time(WALK)))
        }
        _ => None,
    };
    let image = parameters.data_size(IMAGE, TILE)?;
    let processes = parameters.processes(1)?;
    let side = ((image.get() / TILE.get()) as f64).sqrt().round() as u32;
    let cache = (parameters.cache(CACHE, TILE)?.get() / TILE.get()) as usize;
    let (work, memory) = (parameters.tile_cost(WORK), parameters.handler_memory(MEMORY));
    Ok(Box::new(Blurs { side, cache, work, memory, processes, beside, first: None }))
}

/// The program beside a blur.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Beside {
    /// Of a file of this length.
    Md5sum(Bytes),
    /// Through so much memory, for so long.
    MemWalk(Bytes, Nanos),
}

struct Blurs {
    side: u32,
    /// Tiles in the program's own cache.
    cache: usize,
    /// Processor time of a tile in a pass.
    work: Nanos,
    /// Private memory of a blur.
    memory: Bytes,
    processes: u32,
    /// The program beside, which is the last job.
    beside: Option<Beside>,
    /// The tiles of the first blur, for which the program beside waits.
    first: Option<Arc<Mutex<Tiles>>>,
}

impl Blurs {
    fn blur(&mut self, number: u64) -> (Blur, Arc<Mutex<Tiles>>) {
        let tiles = Arc::new(Mutex::new(Tiles::new(self.side, self.cache, self.work)));
        self.first.get_or_insert_with(|| Arc::clone(&tiles));
        let file = FileNumber(number as u32);
        let (steps, timed) = (VecDeque::new(), self.beside.is_none());
        let memory = self.memory;
        (Blur { file, tiles: Arc::clone(&tiles), steps, timed, memory, opened: false, ended: false }, tiles)
    }

    /// The program beside the blurs.
    fn beside(&self, number: u64, beside: Beside) -> Box<dyn Program> {
        let work: Box<dyn Source> = match beside {
            Beside::Md5sum(length) => Box::new(Md5sum {
                file: FileNumber(number as u32),
                reader: Reader::new(Handle(0), length),
                begun: false,
            }),
            Beside::MemWalk(memory, left) => Box::new(MemWalk { memory, left }),
        };
        Script::boxed(AfterMaking { made: self.first.clone(), begun: false, work })
    }
}

impl Workload for Blurs {
    fn files(&self) -> Vec<FileSpec> {
        let swap = TILE * u64::from(self.side) * u64::from(self.side) * u64::from(COPIES);
        let mut files = vec![FileSpec { length: swap, directory: 0 }; self.processes as usize];
        if let Some(Beside::Md5sum(length)) = self.beside {
            files.push(FileSpec { length, directory: 1 });
        }
        files
    }

    fn drive(&self) -> Drive {
        Drive::Jobs(self.processes + u32::from(self.beside.is_some()))
    }

    fn program(&mut self, number: u64, _random: &mut dyn Rng) -> Box<dyn Program> {
        match self.beside.filter(|_| number >= u64::from(self.processes)) {
            Some(beside) => self.beside(number, beside),
            None => Box::new(self.blur(number).0),
        }
    }

    fn directed(&mut self, number: u64, _random: &mut dyn Rng) -> Option<Pair> {
        if number >= u64::from(self.processes) {
            return None;
        }
        let (blur, tiles) = self.blur(number);
        let list = Rest { file: blur.file, tiles };
        Some((Box::new(blur), Box::new(list)))
    }
}

/// A pass over the tiles.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Pass {
    /// The copy that is read; `None` while the image is made.
    from: Option<u32>,
    /// The copy that is written.
    to: u32,
    by_columns: bool,
}

const PASSES: [Pass; 4] = [
    Pass { from: None, to: 0, by_columns: false },
    Pass { from: Some(0), to: 1, by_columns: true },
    Pass { from: Some(1), to: 1, by_columns: false },
    Pass { from: Some(1), to: 2, by_columns: false },
];

/// The tiles and the program's cache of them.
struct Tiles {
    side: u32,
    /// Tiles in the cache.
    cache: usize,
    /// Processor time of a tile in a pass.
    work: Nanos,
    pass: usize,
    /// How many tiles of the pass are done.
    done: u32,
    /// The place of each tile in the swap file, in tiles; by copy, row and column.
    places: Vec<Option<u32>>,
    next_place: u32,
    /// Each cached tile's last use, and whether it was changed since it was read or written.
    cached: FxHashMap<u32, (u64, bool)>,
    by_use: BTreeMap<u64, u32>,
    uses: u64,
}

impl Tiles {
    fn new(side: u32, cache: usize, work: Nanos) -> Self {
        let places = vec![None; (side * side * COPIES) as usize];
        let (cached, by_use) = (FxHashMap::default(), BTreeMap::new());
        Self { side, cache, work, pass: 0, done: 0, places, next_place: 0, cached, by_use, uses: 0 }
    }

    fn all(&self) -> u32 {
        self.side * self.side
    }

    /// The `n`-th tile of a copy in a pass.
    fn tile(&self, pass: Pass, copy: u32, n: u32) -> u32 {
        let (outer, inner) = (n / self.side, n % self.side);
        let place = if pass.by_columns { inner * self.side + outer } else { n };
        copy * self.all() + place
    }

    fn range(place: u32) -> ByteSpan {
        ByteSpan::at(ByteOffset(u64::from(place) * TILE.get()), TILE)
    }

    /// Uses a tile: reads it if it is not cached, and evicts another if there is no room.
    fn touch(&mut self, tile: u32, changed: bool, steps: &mut VecDeque<Step>) {
        self.uses += 1;
        let before = self.cached.insert(tile, (self.uses, changed));
        match before {
            Some((last, was_changed)) => {
                self.by_use.remove(&last);
                self.cached.insert(tile, (self.uses, changed || was_changed));
            }
            None => {
                if let Some(place) = self.places[tile as usize] {
                    steps.push_back(Step::Read { handle: SWAP, range: Self::range(place) });
                }
            }
        }
        self.by_use.insert(self.uses, tile);
        if self.cached.len() > self.cache
            && let Some((_, oldest)) = self.by_use.pop_first()
        {
            let changed = self.cached.remove(&oldest).is_some_and(|(_, changed)| changed);
            if changed {
                let place = self.place(oldest);
                steps.push_back(Step::Write { handle: SWAP, range: Self::range(place) });
            }
        }
    }

    /// A tile's place in the swap file; assigned if it has none.
    fn place(&mut self, tile: u32) -> u32 {
        let next = self.next_place;
        let place = &mut self.places[tile as usize];
        if place.is_none() {
            self.next_place += 1;
        }
        *place.get_or_insert(next)
    }

    /// The next tile of the pass, or the next pass; returns false at the end.
    fn work(&mut self, steps: &mut VecDeque<Step>) -> bool {
        let Some(&pass) = PASSES.get(self.pass) else { return false };
        if self.done == self.all() {
            (self.pass, self.done) = (self.pass + 1, 0);
            if pass.from.is_none() {
                steps.push_back(Step::Begun);
            }
            return true;
        }
        if let Some(from) = pass.from {
            self.touch(self.tile(pass, from, self.done), pass.to == from, steps);
            steps.push_back(Step::Compute(self.work));
        }
        if pass.from != Some(pass.to) {
            self.touch(self.tile(pass, pass.to, self.done), true, steps);
        }
        self.done += 1;
        true
    }
}

fn lock(tiles: &Mutex<Tiles>) -> MutexGuard<'_, Tiles> {
    tiles.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A program that blurs.
struct Blur {
    file: FileNumber,
    tiles: Arc<Mutex<Tiles>>,
    steps: VecDeque<Step>,
    /// Whether it reports its time.
    timed: bool,
    memory: Bytes,
    opened: bool,
    ended: bool,
}

impl Program for Blur {
    fn next(&mut self, _now: Instant, _random: &mut dyn Rng) -> Step {
        if !std::mem::replace(&mut self.opened, true) {
            return Step::Open { handle: SWAP, file: self.file, announced: None };
        }
        loop {
            if let Some(step) = self.steps.pop_front() {
                return step;
            }
            if lock(&self.tiles).work(&mut self.steps) {
                continue;
            }
            if std::mem::replace(&mut self.ended, true) {
                return Step::Exit;
            }
            if self.timed {
                self.steps.push_back(Step::Finished);
            }
            return Step::Close { handle: SWAP };
        }
    }

    fn memory(&self) -> Bytes {
        self.memory
    }
}

/// The application that answers for it.
struct Rest {
    file: FileNumber,
    tiles: Arc<Mutex<Tiles>>,
}

impl Application for Rest {
    fn asked(&mut self, _reads: usize, want: CallbackRequest, hint: &mut Hint<'_>) {
        let tiles = lock(&self.tiles);
        let Some((pass, from)) = PASSES.get(tiles.pass).and_then(|pass| Some((*pass, pass.from?))) else {
            hint(HintMode::Set, &[], true);
            return;
        };
        let object = ObjectId(u64::from(self.file.0));
        // The requested tile already counts as done when its read comes.
        let first = tiles.done.saturating_sub(1);
        let asked = want.requested.1;
        let rest = (first..tiles.all()).filter_map(|n| tiles.places[tiles.tile(pass, from, n) as usize]);
        let pages = rest.flat_map(|place| {
            let start = PageIndex(u64::from(place) * TILE_PAGES.get());
            (0..TILE_PAGES.get()).map(move |page| start + Pages(page))
        });
        let accesses: Vec<Access> = pages
            .skip_while(|page| *page != asked)
            .map(|page| Access { object, page, mark: false })
            .collect();
        let mut mode = HintMode::Set;
        for batch in accesses.chunks(BATCH) {
            if hint(mode, batch, false) < batch.len() {
                break;
            }
            mode = HintMode::Append;
        }
        hint(mode, &[], true);
    }
}

/// Waits until an image has been made.
struct AfterMaking {
    made: Option<Arc<Mutex<Tiles>>>,
    begun: bool,
    work: Box<dyn Source>,
}

impl Source for AfterMaking {
    fn more(&mut self, random: &mut dyn Rng, steps: &mut Steps) {
        if self.made.as_ref().is_some_and(|tiles| lock(tiles).pass == 0) {
            return steps.sleep(LOOK);
        }
        if !std::mem::replace(&mut self.begun, true) {
            steps.begun();
        }
        self.work.more(random, steps);
    }

    fn memory(&self) -> Bytes {
        self.work.memory()
    }
}

struct Md5sum {
    file: FileNumber,
    reader: Reader,
    begun: bool,
}

impl Source for Md5sum {
    fn more(&mut self, _random: &mut dyn Rng, steps: &mut Steps) {
        if !std::mem::replace(&mut self.begun, true) {
            steps.open(Handle(0), self.file, None);
        }
        if self.reader.read(MD5_READ, steps).is_zero() {
            return;
        }
        steps.compute(MD5_WORK);
        if self.reader.left().is_zero() {
            steps.close(Handle(0));
            steps.finished();
        }
    }

    fn memory(&self) -> Bytes {
        Bytes::mib(1)
    }
}

struct MemWalk {
    memory: Bytes,
    left: Nanos,
}

impl Source for MemWalk {
    fn more(&mut self, _random: &mut dyn Rng, steps: &mut Steps) {
        if self.left.is_zero() {
            return;
        }
        let turn = TURN.min(self.left);
        steps.compute(turn);
        self.left -= turn;
        if self.left.is_zero() {
            steps.finished();
        }
    }

    fn memory(&self) -> Bytes {
        self.memory
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The ranges of each pass's reads and writes, in tiles.
    fn passes(side: u32) -> Vec<(Vec<u64>, Vec<u64>)> {
        let mut tiles = Tiles::new(side, (CACHE.get() / TILE.get()) as usize, WORK);
        let mut passes = vec![(Vec::new(), Vec::new()); PASSES.len()];
        let mut steps = VecDeque::new();
        loop {
            let pass = tiles.pass;
            if !tiles.work(&mut steps) {
                return passes;
            }
            for step in steps.drain(..) {
                let tile = |range: ByteSpan| range.start.get() / TILE.get();
                match step {
                    Step::Read { range, .. } => passes[pass].0.push(tile(range)),
                    Step::Write { range, .. } => passes[pass].1.push(tile(range)),
                    _ => {}
                }
            }
        }
    }

    #[test]
    fn an_image_that_fits_into_the_cache_is_neither_read_nor_written() {
        // 3 x 45 x 45 tiles are fewer than 6400.
        assert!(passes(45).iter().all(|(reads, writes)| reads.is_empty() && writes.is_empty()));
    }

    #[test]
    fn each_pass_over_a_large_image_reads_it_with_a_stride() {
        let side = 200u64;
        let passes = passes(side as u32);
        let stride = |reads: &[u64]| {
            let far = reads.windows(2).filter(|pair| pair[0].abs_diff(pair[1]) == side).count();
            far as f64 / reads.len() as f64
        };
        assert!(passes[0].0.is_empty());
        for (reads, _) in &passes[1..] {
            assert!(reads.len() as u64 > side * side * 9 / 10, "{}", reads.len());
            assert!(stride(reads) > 0.8, "{}", stride(reads));
        }
        // Tiles that were written first come first.
        assert!(passes[0].1.is_sorted());
    }
}
