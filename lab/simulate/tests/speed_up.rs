//! The main job in virtual time: random reads of a file on a modelled disk, stock and prefetched.
//! Nothing here is timed; the figures are the model's and the same on every machine.

mod common;

use common::{Setup, page, random_pages, reads, tells};
use foreseek_hints::Settings;
use foreseek_units::{ByteSpan, Bytes, PageIndex};

fn speed_up(file: Bytes, memory: Bytes, count: usize) -> f64 {
    let pages: Vec<PageIndex> = random_pages(1, count, file);
    let ranges: Vec<ByteSpan> = pages.iter().map(|at| page(*at)).collect();
    let setup = Setup::new(file, memory.pages_floor());
    let without = setup.stock(reads(&ranges));
    let (with, _) = setup.prefetched(Settings::default(), None, reads(&ranges), tells(&pages));
    without.as_secs_f64() / with.as_secs_f64()
}

#[test]
fn a_file_twice_as_large_as_memory_is_read_many_times_faster() {
    let speed_up = speed_up(Bytes::mib(64), Bytes::mib(32), 30_000);
    assert!(speed_up > 10.0, "{speed_up}");
}

#[test]
fn a_file_that_fits_is_read_many_times_faster() {
    let speed_up = speed_up(Bytes::mib(64), Bytes::mib(160), 30_000);
    assert!(speed_up > 14.0, "{speed_up}");
}

#[test]
fn a_file_much_larger_than_memory_is_read_faster() {
    let speed_up = speed_up(Bytes::mib(512), Bytes::mib(32), 10_000);
    assert!(speed_up > 3.0, "{speed_up}");
}
