//! The modelled kernel does what a stock one does.

mod common;

use common::{FILE, extents, kernel, page, random_pages};
use foreseek_device::{Build, Profile};
use foreseek_seam::{ObjectId, PageCache, Refusal};
use foreseek_simulate::{KernelOptions, REQUESTS_LIMIT, ReadError, VirtualKernel};
use foreseek_units::{ByteOffset, ByteSpan, Bytes, Nanos, PageIndex, PageSpan, Pages, SectorSpan, Span};

const FILE_SIZE: Bytes = Bytes::mib(64);

fn pages(start: u64, end: u64) -> PageSpan {
    Span::new(PageIndex(start), PageIndex(end))
}

fn resident(kernel: &mut VirtualKernel, range: PageSpan) -> Vec<PageSpan> {
    let mut runs = Vec::new();
    assert!(kernel.resident(FILE, range, &mut runs));
    runs
}

#[test]
fn advice_makes_one_request_for_each_missing_run_and_does_not_wait() {
    let mut kernel = kernel(FILE_SIZE, Pages(10_000));
    assert_eq!(kernel.fetch(FILE, pages(10, 12)), Ok(Pages(2)));
    assert_eq!(kernel.fetch(FILE, pages(14, 15)), Ok(Pages(1)));
    assert_eq!(kernel.counters().requests, 2);
    // What lies between and is missing: two requests, as pages 10, 11 and 14 are on their way.
    assert_eq!(kernel.fetch(FILE, pages(9, 16)), Ok(Pages(7)));
    assert_eq!(kernel.counters().requests, 5);
    assert!(kernel.elapsed() < Nanos::from_millis(1));
    assert_eq!(resident(&mut kernel, pages(0, 20)), [pages(9, 16)]);
    assert_eq!(kernel.counters().advised, Pages(7));
}

#[test]
fn long_advice_is_cut_where_the_file_is_and_where_a_request_ends() {
    let mut kernel = kernel(FILE_SIZE, Pages(10_000));
    // Extents of 2048 pages, requests of 320.
    kernel.fetch(FILE, pages(2048 - 10, 2048 + 330)).expect("placed");
    assert_eq!(kernel.counters().requests, 3);
}

#[test]
fn a_caller_waits_once_the_queue_is_full() {
    let mut kernel = kernel(FILE_SIZE, Pages(10_000));
    let at = random_pages(1, REQUESTS_LIMIT + 20, FILE_SIZE);
    for page in &at[..REQUESTS_LIMIT] {
        kernel.fetch(FILE, Span::at(*page, Pages(1))).expect("placed");
    }
    assert!(kernel.elapsed() < Nanos::from_millis(5));
    for page in &at[REQUESTS_LIMIT..] {
        kernel.fetch(FILE, Span::at(*page, Pages(1))).expect("placed");
    }
    assert!(kernel.elapsed() > Nanos::from_millis(20));
}

#[test]
fn a_read_joins_a_page_on_its_way() {
    let mut kernel = kernel(FILE_SIZE, Pages(10_000));
    kernel.fetch(FILE, pages(500, 501)).expect("placed");
    kernel.read(FILE, page(PageIndex(500))).expect("readable");
    assert_eq!((kernel.counters().late, kernel.counters().requests), (Pages(1), 1));
    let waited = kernel.elapsed();
    kernel.read(FILE, page(PageIndex(500))).expect("readable");
    assert_eq!(kernel.counters().hits, Pages(1));
    assert!(kernel.elapsed() < waited + Nanos::from_micros(10));
}

#[test]
fn sequential_reads_are_read_ahead() {
    let mut kernel = kernel(FILE_SIZE, Pages(10_000));
    for at in 0..1000 {
        kernel.read(FILE, page(PageIndex(at))).expect("readable");
    }
    // One miss; 1000 pages in windows of 32 once the ramp is over.
    assert_eq!(kernel.counters().misses, Pages(1));
    assert!(kernel.counters().requests < 40, "{:?}", kernel.counters());
    assert!(kernel.log().iter().all(|one| !one.advised && one.made < one.finished));
}

#[test]
fn random_reads_read_themselves_alone() {
    let mut kernel = kernel(FILE_SIZE, Pages(10_000));
    let at = random_pages(1, 500, FILE_SIZE);
    for page in &at {
        kernel.read(FILE, common::page(*page)).expect("readable");
    }
    let counters = *kernel.counters();
    assert_eq!(counters.hits + counters.misses, Pages(500));
    assert_eq!(counters.requests, counters.misses.get());
    let mean = kernel.elapsed().as_millis_f64() / counters.requests as f64;
    assert!((3.0..12.0).contains(&mean), "{mean} ms a random read of a small part of a 7,200 rpm disk");
}

#[test]
fn memory_is_never_exceeded_and_what_is_given_back_is_gone() {
    let mut kernel = kernel(FILE_SIZE, Pages(100));
    for at in random_pages(1, 1000, FILE_SIZE) {
        kernel.fetch(FILE, Span::at(at, Pages(3))).expect("placed");
        kernel.read(FILE, page(at)).expect("readable");
        assert!(kernel.cached() <= Pages(100));
    }
    kernel.forget(FILE, pages(0, FILE_SIZE.pages_floor().get()));
    assert_eq!(kernel.cached(), Pages::ZERO, "nothing is on its way after a read of the last");
    kernel.read(FILE, Span::new(ByteOffset(0), ByteOffset(200 * 4096))).expect("more than memory at once");
    assert!(kernel.cached() <= Pages(100));
    kernel.set_memory(Pages(10));
    assert!(kernel.cached() <= Pages(10));
}

#[test]
fn a_device_that_cannot_read_fails_the_read_and_nothing_else() {
    let bad = extents(FILE_SIZE)[0].lba + Pages(40).sectors();
    let build = Build {
        size: Some(Bytes::gib(8)),
        unreadable: vec![SectorSpan::at(bad, Pages(1).sectors())],
        ..Build::default()
    };
    let profile = Profile::builtin("barracuda-500g").expect("built in");
    let mut kernel =
        VirtualKernel::new(profile.build(&build).expect("fits"), KernelOptions::stock(Pages(1000)));
    kernel.place(FILE, &extents(FILE_SIZE));
    kernel.fetch(FILE, pages(40, 41)).expect("advice never fails for that");
    assert_eq!(kernel.read(FILE, page(PageIndex(40))), Err(ReadError::Failed(FILE, PageIndex(40))));
    assert_eq!(kernel.read(FILE, page(PageIndex(40))), Err(ReadError::Failed(FILE, PageIndex(40))));
    assert_eq!(kernel.read(FILE, page(PageIndex(41))), Ok(()));
    assert_eq!(kernel.device().failed, 2);
}

#[test]
fn what_is_not_placed_is_refused() {
    let mut kernel = kernel(FILE_SIZE, Pages(1000));
    let nowhere = ObjectId(99);
    let end = PageIndex(FILE_SIZE.pages_floor().get());
    let range: ByteSpan = page(PageIndex(0));
    assert_eq!(kernel.fetch(nowhere, pages(0, 1)), Err(Refusal::Gone));
    assert_eq!(kernel.read(nowhere, range), Err(ReadError::Unplaced(nowhere, PageIndex(0))));
    assert_eq!(kernel.read(FILE, page(end)), Err(ReadError::Unplaced(FILE, end)));
    assert_eq!(kernel.fetch(FILE, Span::at(end, Pages(5))), Ok(Pages(5)), "as beyond the end of a file");
    assert_eq!(kernel.counters().requests, 0);
}
