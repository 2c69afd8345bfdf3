//! The kernel's page cache on a real file: advice, residency by both calls, layout, clipping.

#![allow(clippy::print_stdout)]

use foreseek_seam::{ObjectId, PageCache, Refusal, lba_of};
use foreseek_storage::loop_device::{LoopDevice, LoopOptions};
use foreseek_storage::{HostFd, KernelPageCache, Layout, Means, Options, Residency, cachestat, will_need};
use foreseek_units::{ByteOffset, ByteSpan, Bytes, PageIndex, PageSpan, Pages, Sectors};
use rustix::io::Errno;
use std::fs::File;
use std::io::Write;
use std::os::fd::AsRawFd;
use std::time::{Duration, Instant};

/// A file of written pages on the disk with the build directory (a tmpfs ignores advice).
fn file(pages: u64) -> File {
    let mut file = tempfile::tempfile_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    for page in 0..pages {
        file.write_all(&[page as u8; 4096]).unwrap();
    }
    file.sync_all().unwrap();
    file
}

fn host(file: &File) -> HostFd {
    HostFd::new(file.as_raw_fd()).unwrap()
}

fn span(start: u64, pages: u64) -> PageSpan {
    PageSpan::at(PageIndex(start), Pages(pages))
}

/// A cache with the file as an object, of which no page is resident; `None` where the file system or the
/// kernel does not allow that.
fn cold(file: &File, pages: u64) -> Option<(KernelPageCache, ObjectId)> {
    let mut cache = KernelPageCache::new(Options::default());
    let (identity, length) = host(file).identify().unwrap();
    let object = cache.register(host(file), identity, length);
    cache.forget(object, span(0, pages));
    cache.finish();
    match cachestat(host(file), span(0, pages)) {
        Ok(Pages(0)) => Some((cache, object)),
        Ok(left) => {
            println!("SKIPPED: DONTNEED leaves {left} resident: the build folder's file system keeps them");
            None
        }
        Err(error) => {
            println!("SKIPPED: cachestat: {error}: Linux 6.5 or later has it");
            None
        }
    }
}

/// Waits until the data are there: `mincore` counts pages whose data have arrived, `cachestat` already those
/// whose read has begun, and a page whose read is in flight cannot be dropped.
fn wait_until_resident(file: &File, range: PageSpan) -> bool {
    let limit = Instant::now() + Duration::from_secs(20);
    loop {
        let mut runs = Vec::new();
        assert!(Residency::Mincore.runs(host(file), range, &mut runs));
        if runs == [range] {
            return true;
        }
        if Instant::now() > limit {
            return false;
        }
        std::thread::sleep(Duration::from_millis(2));
    }
}

#[test]
fn what_is_fetched_is_resident_and_what_is_forgotten_is_not() {
    let file = file(2000);
    let Some((mut cache, object)) = cold(&file, 2000) else { return };
    // 1500 pages are more than any device's longest request.
    assert_eq!(cache.fetch(object, span(100, 1500)), Ok(Pages(1500)));
    assert!(wait_until_resident(&file, span(100, 1500)));
    let mut runs = Vec::new();
    assert!(cache.resident(object, span(0, 2000), &mut runs));
    assert_eq!(runs, [span(100, 1500)]);

    cache.forget(object, span(200, 10));
    cache.forget(object, span(210, 10));
    runs.clear();
    assert!(cache.resident(object, span(0, 2000), &mut runs), "a query drops the collected ranges first");
    assert_eq!(runs, [span(100, 100), span(220, 1380)]);
    assert_eq!(cache.notices(), []);
}

#[test]
fn a_range_is_there_as_a_whole_or_not() {
    let file = file(100);
    let Some((mut cache, object)) = cold(&file, 100) else { return };
    let mut runs = Vec::new();
    let bytes = |start, pages| span(start, pages).bytes();
    assert!(!cache.has_all(object, host(&file), bytes(10, 20)), "no descriptor was asked");
    assert!(cache.resident(object, span(0, 100), &mut runs));
    assert_eq!(runs, []);
    assert_eq!(cache.fetch(object, span(10, 20)), Ok(Pages(20)));
    assert!(wait_until_resident(&file, span(10, 20)));
    for (start, pages, there) in
        [(10, 20, true), (15, 3, true), (9, 2, false), (10, 21, false), (29, 1, true)]
    {
        assert_eq!(cache.has_all(object, host(&file), bytes(start, pages)), there, "{start}, {pages}");
    }
    let end = span(99, 1).bytes();
    let beyond = ByteSpan::new(end.start, ByteOffset(end.end.get() + 1));
    assert!(!cache.has_all(object, host(&file), beyond), "the file may have grown");
    // The answer holds within the call, until pages of it are dropped.
    assert!(cache.has_all(object, host(&file), bytes(10, 10)));
    assert!(cache.resident(object, span(12, 3), &mut runs));
    assert_eq!(std::mem::take(&mut runs), [span(12, 3)]);
    cache.forget(object, span(12, 1));
    assert!(!cache.has_all(object, host(&file), bytes(10, 10)));
    assert!(cache.has_all(object, host(&file), bytes(13, 10)));
    cache.forget(object, span(14, 1));
    assert!(cache.resident(object, span(12, 4), &mut runs));
    assert_eq!(runs, [span(13, 1), span(15, 1)]);
    cache.closed(host(&file));
    assert!(!cache.has_all(object, host(&file), bytes(20, 1)), "its descriptor is closed");
}

#[test]
fn both_means_bring_the_same_pages_in_whatever_the_length_of_a_call() {
    for (means, call) in [(Means::Fadvise, Bytes::kib(4)), (Means::Readahead, Bytes::kib(128))] {
        let file = file(700);
        if cold(&file, 700).is_none() {
            return;
        }
        let range = span(50, 600);
        assert_eq!(will_need(host(&file), range.bytes(), call, means), Ok(range.bytes().len()));
        assert!(wait_until_resident(&file, range), "{means:?}");
        assert_eq!(cachestat(host(&file), span(0, 700)), Ok(Pages(600)), "{means:?}");
    }
}

#[test]
fn both_means_see_the_same_pages() {
    let file = file(300);
    let Some((mut cache, object)) = cold(&file, 300) else { return };
    for start in [3, 40, 41, 200] {
        cache.fetch(object, span(start, 1)).unwrap();
    }
    for page in [3, 40, 41, 200] {
        assert!(wait_until_resident(&file, span(page, 1)));
    }
    let (mut counted, mut mapped) = (Vec::new(), Vec::new());
    assert!(Residency::Cachestat.runs(host(&file), span(0, 300), &mut counted));
    assert!(Residency::Mincore.runs(host(&file), span(0, 300), &mut mapped));
    assert_eq!(counted, [span(3, 1), span(40, 2), span(200, 1)]);
    assert_eq!(mapped, counted);
}

#[test]
fn a_file_that_shrinks_is_clipped_and_one_that_is_closed_is_gone() {
    let whole = file(100);
    let Some((mut cache, object)) = cold(&whole, 100) else { return };
    whole.set_len(50 * 4096 + 1).unwrap();
    assert_eq!(cache.fetch(object, span(40, 30)), Ok(Pages(11)));
    assert_eq!(cache.length(object), Bytes(50 * 4096 + 1));
    assert_eq!(cache.fetch(object, span(60, 5)), Ok(Pages::ZERO));
    cache.closed(host(&whole));
    assert_eq!(cache.fetch(object, span(0, 5)), Err(Refusal::Gone));
    assert_eq!(cache.extents(object), []);
}

#[test]
fn a_number_that_names_another_file_now_is_not_used() {
    let (first, second) = (file(10), file(10));
    let mut cache = KernelPageCache::new(Options::default());
    let (identity, length) = host(&first).identify().unwrap();
    // The descriptor of the second file stands for one whose number was reused without notice.
    let object = cache.register(host(&second), identity, length);
    cache.finish();
    assert_eq!(cache.descriptor(object), None);
    assert_eq!(cache.fetch(object, span(0, 1)), Err(Refusal::Gone));
}

#[test]
fn a_file_lies_in_ascending_extents_without_gaps() {
    let file = file(1000);
    let (identity, _) = host(&file).identify().unwrap();
    let layout = match Layout::of(host(&file), &identity, Sectors::ZERO) {
        Ok(layout) => layout,
        Err(Errno::OPNOTSUPP) => {
            println!("SKIPPED: the build folder's file system has no FIEMAP");
            return;
        }
        Err(error) => panic!("{error}"),
    };
    assert!(!layout.cut_short);
    assert!(layout.extents.windows(2).all(|two| two[0].page + two[0].pages <= two[1].page));
    for page in 0..1000 {
        assert!(
            lba_of(&layout.extents, PageIndex(page)).is_some(),
            "page {page} of a synced file has an address"
        );
    }
    assert_eq!(lba_of(&layout.extents, PageIndex(1000)), None);
}

#[test]
fn many_extents_are_read_in_batches() {
    // Every other page: as many extents as written pages, more than two batches.
    let file = tempfile::tempfile_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    for n in 0..600u64 {
        std::os::unix::fs::FileExt::write_all_at(&file, &[1; 4096], n * 8192).unwrap();
    }
    file.sync_all().unwrap();
    let (identity, _) = host(&file).identify().unwrap();
    let Ok(layout) = Layout::of(host(&file), &identity, Sectors(8)) else {
        println!("SKIPPED: the build folder's file system has no FIEMAP");
        return;
    };
    let placed: Pages = layout.extents.iter().map(|extent| extent.pages).sum();
    assert_eq!(placed, Pages(600), "holes have no address");
    for n in 0..600 {
        assert!(lba_of(&layout.extents, PageIndex(2 * n)).is_some());
        assert_eq!(lba_of(&layout.extents, PageIndex(2 * n + 1)), None);
    }
}

/// Detaches the loop device, also when the test fails.
struct Detach(LoopDevice);

impl Drop for Detach {
    fn drop(&mut self) {
        let _ = self.0.clear(Duration::from_secs(10));
    }
}

#[test]
fn objects_on_different_disks_sort_by_disk() {
    let backing = tempfile::NamedTempFile::new_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    backing.as_file().set_len(1 << 20).unwrap();
    let options = LoopOptions::DISK;
    let device = match LoopDevice::attach(backing.as_file(), backing.path(), options) {
        Ok(device) => Detach(device),
        Err(error) => {
            println!("SKIPPED: {error}");
            return;
        }
    };
    let node = File::open(device.0.path()).unwrap();
    let (first, last) = (file(10), file(10));
    let mut cache = KernelPageCache::new(Options::default());
    let mut place = |file: &File| {
        let (identity, length) = host(file).identify().unwrap();
        let object = cache.register(host(file), identity, length);
        cache.finish();
        lba_of(&cache.extents(object), PageIndex(9))
    };
    let (first, on_loop, last) = (place(&first), place(&node), place(&last));
    let (Some(first), Some(on_loop), Some(last)) = (first, on_loop, last) else {
        println!("SKIPPED: the build folder's file system has no FIEMAP");
        return;
    };
    // The loop device is the second disk in the cache: all its addresses lie beyond those of the first.
    assert!(first < on_loop && last < on_loop, "{first:?} {on_loop:?} {last:?}");
    assert_eq!(
        on_loop.get() % (1 << 44),
        72,
        "within its disk, the address of a block device's page is its offset"
    );
}

#[test]
fn files_in_file_order_are_not_placed() {
    let file = file(4);
    let mut cache = KernelPageCache::new(Options { file_order: true });
    let (identity, length) = host(&file).identify().unwrap();
    let object = cache.register(host(&file), identity, length);
    assert_eq!(cache.extents(object), []);
    assert_eq!(cache.notices(), []);
}
