//! The main job in virtual time: random reads of a file on a modelled disk, stock and prefetched.
//! Nothing here is timed; the figures are the model's and the same on every machine.

mod common;

use common::{Application, access, kernel, page, prefetched, random_pages, stock};
use foreseek_hints::Settings;
use foreseek_seam::HintMode;
use foreseek_units::{ByteSpan, Bytes, PageIndex};

fn speed_up(file: Bytes, memory: Bytes, reads: usize) -> f64 {
    let pages: Vec<PageIndex> = random_pages(1, reads, file);
    let ranges: Vec<ByteSpan> = pages.iter().map(|at| page(*at)).collect();
    let memory = memory.pages_floor();
    let without = stock(&mut kernel(file, memory), &ranges);
    let list: Vec<_> = pages.iter().map(|at| access(*at)).collect();
    let mut disk = kernel(file, memory);
    let (with, _) = prefetched(
        &mut disk,
        Settings::default(),
        None,
        file,
        Application {
            reads: &ranges,
            answer: &mut |hint, nth, _| {
                assert_eq!(hint(HintMode::Set, &list[nth..], true), list.len() - nth);
            },
        },
    );
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
