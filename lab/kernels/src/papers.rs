//! Golden windows of the papers' policies in the papers' kernels.

use crate::testing::reading;
use crate::{Kernel, Settings};
use foreseek_readahead::stream::{Generation, Served};
use foreseek_units::{Lba, SectorSpan, Sectors};

/// The settings of EuroSys'07 in every window machine.
fn everywhere() -> impl Iterator<Item = Settings> {
    let eurosys = Settings::eurosys();
    let kernels = Kernel::ALL.map(|kernel| kernel.under(eurosys.congestion));
    kernels.into_iter().chain(Generation::ALL).map(|generation| {
        let mut settings = Settings::eurosys();
        settings.stream.generation = generation;
        settings
    })
}

fn aggressive(settings: &Settings) -> Vec<u64> {
    reading("aggressive", settings, 4000).pages(0..1500).iter().map(|window| window.1).collect()
}

#[test]
fn golden_depths_of_both_papers() {
    assert_eq!(aggressive(&Settings::tr840())[..7], [16, 32, 64, 128, 256, 256, 256]);
    assert_eq!(aggressive(&Settings::eurosys())[..6], [16, 32, 64, 128, 200, 200]);
}

fn sizes(policy: &str, settings: &Settings) -> Vec<u64> {
    let windows = reading(policy, settings, 4000).pages(0..1000);
    assert!(windows.windows(2).all(|pair| pair[0].0 + pair[0].1 == pair[1].0), "{windows:?}");
    windows.iter().map(|window| window.1).collect()
}

/// EuroSys'07 section 4.3: a competitive depth of 98 pages is reached in 16, 32, 64.
#[test]
fn golden_slow_start_of_the_393_kb_drive_in_every_machine() {
    for settings in everywhere() {
        let sizes = sizes("competitive", &settings);
        assert_eq!(sizes[..6], [16, 32, 64, 98, 98, 98], "{settings:?}");
    }
}

#[test]
fn golden_without_slow_start_every_fetch_is_98_pages() {
    for settings in everywhere() {
        let sizes = sizes("competitive-without-slow-start", &settings);
        assert!(sizes.iter().all(|size| *size == 98), "{settings:?}: {sizes:?}");
    }
}

/// The requests that the device serves reach the depth rule through every machine.
#[test]
fn the_depth_follows_the_seeks() {
    for settings in everywhere() {
        let mut world = reading("competitive", &settings, 4000);
        for _ in 0..100 {
            world.served(Served { from: Lba(0), range: SectorSpan::at(Lba(8), Sectors(8)) });
        }
        // 0.6 ms for the shortest seek and 3 ms of rotation, at 37.3 MB/s: 134 KB.
        let largest = world.pages(0..1000).iter().map(|window| window.1).max();
        assert_eq!(largest, Some(33), "{settings:?}");
    }
}

/// TR-840's kernel: a stream that is left and found elsewhere starts from what was used.
#[test]
fn golden_a_stream_that_moves_in_the_kernel_of_tr840() {
    let mut world = reading("competitive", &Settings::tr840(), 9000);
    world.memory.lba = Some(Lba(0));
    assert_eq!(world.pages(0..18), [(0, 16), (16, 32), (48, 64)]);
    assert_eq!(world.pages([4000]), [(4000, 2)], "two pages of the current window were used");
    assert_eq!(world.pages(4001..4016), [(4002, 4), (4006, 8), (4014, 16), (4030, 32)]);
}
