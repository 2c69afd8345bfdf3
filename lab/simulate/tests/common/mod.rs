//! A file on a modelled disk, and two ways to read it.
#![allow(dead_code)]

use foreseek_device::{Build, Profile};
use foreseek_hints::{Driver, Settings, Stats, Step};
use foreseek_seam::{Access, Extent, HintMode, ObjectId, Recorder, StreamId, Who};
use foreseek_simulate::{KernelOptions, VirtualKernel};
use foreseek_units::{ByteOffset, ByteSpan, Bytes, Lba, Nanos, PageIndex, Pages, Span};

pub(crate) const FILE: ObjectId = ObjectId(1);
pub(crate) const STREAM: StreamId = StreamId(1);

/// A 7,200 rpm disk of 8 GiB with one file of this length in it, in pieces of 8 MiB placed apart.
pub(crate) fn kernel(file: Bytes, memory: Pages) -> VirtualKernel {
    let profile = Profile::builtin("barracuda-500g").expect("built in");
    let build = Build { size: Some(Bytes::gib(8)), ..Build::default() };
    let mut kernel = VirtualKernel::new(profile.build(&build).expect("fits"), KernelOptions::stock(memory));
    kernel.place(FILE, &extents(file));
    kernel
}

pub(crate) fn extents(file: Bytes) -> Vec<Extent> {
    let piece = Bytes::mib(8).pages_floor();
    let pieces = file.pages_ceil().get().div_ceil(piece.get());
    (0..pieces)
        .map(|n| Extent {
            page: PageIndex(n * piece.get()),
            pages: piece.min(file.pages_ceil() - Pages(n * piece.get())),
            lba: Lba(2048 + n * (piece.sectors().get() + 4096)),
        })
        .collect()
}

/// Pseudo-random pages of a file; the same for the same seed.
pub(crate) fn random_pages(seed: u64, reads: usize, file: Bytes) -> Vec<PageIndex> {
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    (0..reads)
        .map(|_| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            PageIndex((state >> 11) % file.pages_floor().get())
        })
        .collect()
}

pub(crate) fn page(at: PageIndex) -> ByteSpan {
    Span::at(at.offset(), Bytes(4096))
}

/// The time that stock takes for these reads.
pub(crate) fn stock(kernel: &mut VirtualKernel, reads: &[ByteSpan]) -> Nanos {
    for range in reads {
        kernel.read(FILE, *range).expect("readable");
    }
    kernel.elapsed()
}

/// How an application gives hints.
pub(crate) type Hint<'a> = dyn FnMut(HintMode, &[Access], bool) -> usize + 'a;

/// An application: what it reads, and what it says when it is asked before its `nth` read, of a page.
pub(crate) struct Application<'a> {
    pub(crate) reads: &'a [ByteSpan],
    pub(crate) answer: &'a mut dyn FnMut(&mut Hint<'_>, usize, PageIndex),
}

pub(crate) fn access(at: PageIndex) -> Access {
    Access { object: FILE, page: at, mark: false }
}

/// The time that the same reads take with a driver, and what it did.
pub(crate) fn prefetched(
    kernel: &mut VirtualKernel,
    settings: Settings,
    recorder: Option<Recorder>,
    length: Bytes,
    application: Application<'_>,
) -> (Nanos, Stats) {
    let mut driver = Driver::new(settings);
    if let Some(recorder) = recorder {
        driver.record_into(recorder);
    }
    driver.open(kernel, STREAM, FILE, length, Who(1));
    driver.watch(kernel, FILE, Span::at(ByteOffset::ZERO, length));
    for (nth, range) in application.reads.iter().enumerate() {
        let mut step = driver.read(kernel, STREAM, *range);
        while let Step::Want(want) = step {
            let mut hint =
                |mode: HintMode, accesses: &[Access], done: bool| driver.hint(kernel, mode, accesses, done);
            (application.answer)(&mut hint, nth, want.requested.1);
            step = driver.answered(kernel, want.request);
        }
        kernel.read(FILE, *range).expect("readable");
    }
    driver.close(kernel, STREAM);
    (kernel.elapsed(), *driver.stats())
}
