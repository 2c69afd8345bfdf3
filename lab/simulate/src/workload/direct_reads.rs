//! The disk benchmarks of ATC'09 section 3: reads past the page cache, one at a time.
//!
//! - `direct-seeks` (section 3.1): "start by reading the first block of the disk to establish the disk head location (or the
//!   last block, if seeking backward), then read several blocks from the disk, each separated by the seek distance". The
//!   distance is from the start of a block to that of the next. Each read but the first is timed by itself.
//! - `direct-random` (section 3.2): "256MB of randomly chosen accesses to a 256MB file", with repetition. As many as a reorder
//!   buffer holds are read "in C-LOOK order (that is, by increasing disk position)", then the next buffer's. With infill
//!   (section 3.3) what lies between two reads is read with them where it is no more than that.
//! - `direct-sequential` (section 3.4): reads a part of the disk from an offset on, by requests of one size.
//!
//! What the paper leaves open, and the assumptions:
//!
//! - "Several" blocks are eight, or as many as there are on the disk, and each chain is read [`CHAINS`] times.
//!   Chains begin at random in the first (or last) 16 MiB, so that no result depends on one angle of the
//!   platter.
//! - A page that a buffer names twice is read twice, one after the other. With infill it is read once, since
//!   one request covers both.
//! - Ranges that infill joins are read in pieces of 512 KiB, the longest request of the kernel.

use super::WorkloadError;
use super::parameters::{Checked, DirectReads};
use super::script::{Script, Source, Steps};
use crate::program::{Drive, FileNumber, FileSpec, Handle, Program, Workload};
use foreseek_units::{Bytes, PageIndex, PageSpan, Pages, Span};
use rand::RngExt;
use rand_core::Rng;

/// The disk as one file: a little less than a disk of 500 GB.
const DISK: Bytes = Bytes::gib(465);
/// The amount of random reads, and the size of their file.
const RANDOM: Bytes = Bytes::mib(256);
/// The amount of sequential reads (figure 5; figure 4 has 256 MB).
const SEQUENTIAL: Bytes = Bytes::mib(128);
/// Timed reads of a chain.
const READS: u64 = 8;
/// How often a chain is read: enough to know its mean to a few hundredths.
const CHAINS: u64 = 200;
/// The area where chains begin.
const BEGINNINGS: Pages = Bytes::mib(16).pages_floor();
/// The longest request.
const LONGEST: Pages = Bytes::kib(512).pages_floor();
/// Reads of one batch of steps.
const BATCH: u64 = 1024;
const FILE: Handle = Handle(0);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Seeks,
    Random,
    Sequential,
}

pub(super) fn seeks(parameters: &mut Checked<'_>) -> Result<Box<dyn Workload>, WorkloadError> {
    boxed(Kind::Seeks, DISK, parameters)
}

pub(super) fn random(parameters: &mut Checked<'_>) -> Result<Box<dyn Workload>, WorkloadError> {
    boxed(Kind::Random, RANDOM, parameters)
}

pub(super) fn sequential(parameters: &mut Checked<'_>) -> Result<Box<dyn Workload>, WorkloadError> {
    boxed(Kind::Sequential, SEQUENTIAL, parameters)
}

fn boxed(kind: Kind, data: Bytes, parameters: &mut Checked<'_>) -> Result<Box<dyn Workload>, WorkloadError> {
    let direct = parameters.direct()?;
    // For seeks: the area of beginnings, and one more read.
    let least = if kind == Kind::Seeks { (BEGINNINGS * 2).bytes() + direct.distance } else { Bytes::mib(1) };
    let data = parameters.data_size(data, least)?;
    Ok(Box::new(Direct { kind, data, direct }))
}

#[derive(Debug)]
struct Direct {
    kind: Kind,
    data: Bytes,
    direct: DirectReads,
}

impl Workload for Direct {
    fn files(&self) -> Vec<FileSpec> {
        let before = if self.kind == Kind::Sequential { self.direct.offset } else { Bytes::ZERO };
        vec![FileSpec { length: before + self.data, directory: 0 }]
    }

    fn drive(&self) -> Drive {
        Drive::Jobs(1)
    }

    fn program(&mut self, _number: u64, _random: &mut dyn Rng) -> Box<dyn Program> {
        let pages = self.data.pages_floor();
        let DirectReads { distance, backward, reorder, infill, request, offset } = self.direct;
        match self.kind {
            Kind::Seeks => {
                let distance = distance.pages_floor();
                Script::boxed(Seeks { pages, distance, backward, left: CHAINS, opened: false })
            }
            Kind::Random => {
                let (buffer, gap) = (reorder.pages_floor(), infill.pages_floor());
                Script::boxed(Random { pages, buffer, gap, left: pages, opened: false })
            }
            Kind::Sequential => {
                let at = PageIndex(offset.pages_floor().get());
                let left = Span::at(at, pages);
                Script::boxed(Sequential { left, request: request.pages_floor(), opened: false })
            }
        }
    }
}

/// Opens the file before the first read.
fn open(opened: &mut bool, steps: &mut Steps) {
    if !std::mem::replace(opened, true) {
        steps.open(FILE, FileNumber(0), None);
        steps.begun();
    }
}

struct Seeks {
    pages: Pages,
    distance: Pages,
    backward: bool,
    left: u64,
    opened: bool,
}

impl Source for Seeks {
    fn more(&mut self, random: &mut dyn Rng, steps: &mut Steps) {
        if self.left == 0 {
            return;
        }
        self.left -= 1;
        open(&mut self.opened, steps);
        let beginning = random.random_range(0..BEGINNINGS.get());
        let room = (self.pages.get() - 1 - BEGINNINGS.get()) / self.distance.get();
        for read in 0..=READS.min(room) {
            let ahead = beginning + read * self.distance.get();
            let page = if self.backward { self.pages.get() - 1 - ahead } else { ahead };
            steps.begun();
            steps.direct(FILE, Span::at(PageIndex(page), Pages(1)));
            if read > 0 {
                steps.finished();
            }
        }
    }

    fn memory(&self) -> Bytes {
        Bytes::ZERO
    }
}

struct Random {
    pages: Pages,
    buffer: Pages,
    gap: Pages,
    left: Pages,
    opened: bool,
}

impl Source for Random {
    fn more(&mut self, random: &mut dyn Rng, steps: &mut Steps) {
        if self.left.is_zero() {
            return;
        }
        open(&mut self.opened, steps);
        let count = self.buffer.min(self.left);
        let draw = |_| PageIndex(random.random_range(0..self.pages.get()));
        let mut buffer: Vec<PageIndex> = (0..count.get()).map(draw).collect();
        buffer.sort_unstable();
        ranges(&buffer, self.gap).into_iter().for_each(|range| steps.direct(FILE, range));
        self.left -= count;
        if self.left.is_zero() {
            steps.finished();
        }
    }

    fn memory(&self) -> Bytes {
        Bytes::ZERO
    }
}

/// The reads for pages in ascending order: each separately, or, with a gap, those within that distance
/// together.
fn ranges(pages: &[PageIndex], gap: Pages) -> Vec<PageSpan> {
    let mut ranges: Vec<PageSpan> = Vec::new();
    for &page in pages {
        let one = Span::at(page, Pages(1));
        let joined = ranges.last_mut().filter(|last| {
            let near = page < last.end || page - last.end <= gap;
            !gap.is_zero() && near && one.end - last.start <= LONGEST
        });
        match joined {
            Some(last) => last.end = last.end.max(one.end),
            None => ranges.push(one),
        }
    }
    ranges
}

struct Sequential {
    left: PageSpan,
    request: Pages,
    opened: bool,
}

impl Source for Sequential {
    fn more(&mut self, _random: &mut dyn Rng, steps: &mut Steps) {
        if self.left.is_empty() {
            return;
        }
        open(&mut self.opened, steps);
        for _ in 0..BATCH {
            let read = Span::at(self.left.start, self.request.min(self.left.len()));
            if !read.is_empty() {
                steps.direct(FILE, read);
            }
            self.left = PageSpan::new(read.end, self.left.end);
        }
        if self.left.is_empty() {
            steps.finished();
        }
    }

    fn memory(&self) -> Bytes {
        Bytes::ZERO
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::program::{Step, begin};
    use crate::workload::{Parameters, by_name};
    use foreseek_units::Instant;

    fn reads(name: &str, data: Bytes, direct: DirectReads) -> Vec<PageSpan> {
        let parameters = Parameters { data_size: Some(data), direct: Some(direct), ..Parameters::default() };
        let mut workload = by_name(name, &parameters).unwrap_or_else(|error| panic!("{error}"));
        let (mut program, mut random) = begin(&mut *workload, 1, 0);
        let steps = std::iter::from_fn(|| Some(program.next(Instant::ZERO, &mut random)));
        let steps = steps.take_while(|step| *step != Step::Exit);
        steps
            .filter_map(|step| if let Step::Direct { pages, .. } = step { Some(pages) } else { None })
            .collect()
    }

    #[test]
    fn seeks_go_so_far_in_either_direction() {
        let distance = Bytes::mib(2);
        for backward in [false, true] {
            let direct = DirectReads { distance, backward, ..DirectReads::default() };
            let reads = reads("direct-seeks", Bytes::gib(1), direct);
            assert_eq!(reads.len() as u64, CHAINS * (READS + 1));
            let (first, second) = (reads[0].start.get(), reads[1].start.get());
            assert_eq!(first.abs_diff(second), 512);
            assert_eq!(second < first, backward);
        }
        // As many as there is room for.
        let direct = DirectReads { distance: Bytes::mib(900), ..DirectReads::default() };
        assert_eq!(reads("direct-seeks", Bytes::gib(1), direct).len() as u64, CHAINS * 2);
    }

    #[test]
    fn random_reads_are_sorted_a_buffer_at_a_time_and_are_as_many_as_there_are_pages() {
        let direct = DirectReads { reorder: Bytes::mib(1), ..DirectReads::default() };
        let reads = reads("direct-random", Bytes::mib(4), direct);
        assert_eq!(reads.len(), 1024);
        for buffer in reads.chunks(256) {
            assert!(buffer.is_sorted_by_key(|read| read.start));
        }
        assert!(reads[255].start > reads[256].start);
    }

    #[test]
    fn infill_joins_what_is_near_and_is_cut_at_the_longest_request() {
        let page = |pages: &[u64]| -> Vec<PageIndex> { pages.iter().map(|page| PageIndex(*page)).collect() };
        let span = |start, end| PageSpan::new(PageIndex(start), PageIndex(end));
        let pages = page(&[0, 1, 1, 5, 20]);
        assert_eq!(ranges(&pages, Pages::ZERO).len(), 5);
        assert_eq!(ranges(&pages, Pages(3)), [span(0, 6), span(20, 21)]);
        let long: Vec<PageIndex> = (0..300).map(PageIndex).collect();
        assert_eq!(ranges(&long, Pages(1)), [span(0, 128), span(128, 256), span(256, 300)]);
    }

    #[test]
    fn sequential_reads_cover_their_part_once() {
        let direct = DirectReads { request: Bytes::kib(12), offset: Bytes::mib(8), ..DirectReads::default() };
        let reads = reads("direct-sequential", Bytes::mib(1), direct);
        assert_eq!(
            (reads[0].start, reads.last().map(|read| read.end)),
            (PageIndex(2048), Some(PageIndex(2304)))
        );
        assert!(reads.windows(2).all(|pair| pair[0].end == pair[1].start && pair[0].len() == Pages(3)));
    }
}
