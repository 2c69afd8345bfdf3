//! A client on real files: programs read what was written, and it was in memory before.

mod common;

use common::*;
use foreseek_hints::{Share, Stats};
use foreseek_libprefetch::{Client, Entry, Error, HintMode, Mode, Settings};
use foreseek_units::{ByteOffset, ByteSpan};
use std::fs::File;
use std::os::fd::AsRawFd;

const PAGES: u64 = 3000;

#[test]
fn a_scan_that_fits_into_memory_is_fetched_whole() {
    let folder = folder();
    let file = write_file(&folder.path().join("f"), 1, PAGES);
    if !is_cold(&file) {
        return;
    }
    let order = shuffled(PAGES, 1);
    let client = Client::new(memory(8000));
    client.watch(file.as_raw_fd(), bytes(0, PAGES)).unwrap();
    let mut ask = announce_rest(&order, file.as_raw_fd());
    read_page(&client, &file, 1, order[0], &mut ask);
    let whole = resident(&file, span(0, PAGES)).is_some_and(|seen| nearly(seen, PAGES));
    assert!(whole, "the first read fetches the whole list");
    for number in &order[1..] {
        read_page(&client, &file, 1, *number, &mut ask);
    }
    let stats = client.stats().engine;
    assert_eq!((stats.reads, stats.callbacks, stats.rounds), (PAGES, 1, 1));
    // The page whose read began the round was not in memory before it.
    assert_eq!(stats.fetched.get(), PAGES);
    assert!(
        nearly(stats.used.get(), PAGES - 1) && stats.evicted.get() <= evicted_at_most(PAGES),
        "{stats:?}"
    );
    assert!((1..=1 + evicted_at_most(PAGES)).contains(&stats.misses), "{stats:?}");
}

#[test]
fn a_scan_in_little_memory_is_fetched_in_rounds_that_fit() {
    // Of 3000 pages in 1000: five times 60 %; or from 60 % up to 95 %: 600, 900, 950 and the rest.
    for (seed, share, rounds, memory) in [(2, Share::Stock, 5, 600..=700), (5, Share::Probing, 4, 600..=1000)]
    {
        let Some((most, stats)) = undisturbed(PAGES, || scan_in_rounds(seed, share)) else { return };
        // Of the last round, at most the page just read is still in memory.
        assert!(memory.contains(&most), "{share}: {most} pages were in memory at once");
        assert_eq!((stats.rounds, stats.fetched.get()), (rounds, PAGES), "{share}");
        assert!(stats.evicted.get() <= evicted_at_most(PAGES), "{share}: {stats:?}");
        assert!(nearly(stats.used.get(), PAGES - stats.rounds), "{share}: {stats:?}");
        assert!(stats.forgotten.get() > PAGES / 2, "{share}");
    }
}

/// Reads a file at random in 1000 pages of memory; returns the most of it that was in memory, and the counters.
fn scan_in_rounds(seed: u32, share: Share) -> Option<(u64, Stats)> {
    let folder = folder();
    let file = write_file(&folder.path().join("f"), seed, PAGES);
    if !is_cold(&file) {
        return None;
    }
    let order = shuffled(PAGES, u64::from(seed));
    let mut settings = memory(1000);
    settings.policy.mode = Mode::Blocking;
    settings.policy.share = share;
    let client = Client::new(settings);
    client.watch(file.as_raw_fd(), bytes(0, PAGES)).unwrap();
    let mut ask = announce_rest(&order, file.as_raw_fd());
    let mut most = 0;
    for number in &order {
        read_page(&client, &file, seed, *number, &mut ask);
        most = most.max(resident(&file, span(0, PAGES)).unwrap());
    }
    Some((most, client.stats().engine))
}

#[test]
fn a_scan_in_little_memory_is_fetched_while_it_reads() {
    let folder = folder();
    let file = write_file(&folder.path().join("f"), 4, PAGES);
    if !is_cold(&file) {
        return;
    }
    let order = shuffled(PAGES, 4);
    let client = Client::new(memory(1000));
    client.watch(file.as_raw_fd(), bytes(0, PAGES)).unwrap();
    let mut ask = announce_rest(&order, file.as_raw_fd());
    let mut most = 0;
    for number in &order {
        read_page(&client, &file, 4, *number, &mut ask);
        most = most.max(resident(&file, span(0, PAGES)).unwrap());
    }
    let stats = client.stats().engine;
    // The kernel's own reads at the few misses come on top.
    assert!((600..=1100).contains(&most), "{most} pages were in memory at once");
    assert!(stats.evicted.get() <= evicted_at_most(PAGES), "{stats:?}");
    assert!(stats.misses < PAGES / 10, "{stats:?}");
    assert!(stats.fetched.get() < PAGES * 5 / 4, "{stats:?}");
}

#[test]
fn only_reads_of_the_region_count() {
    let folder = folder();
    let file = write_file(&folder.path().join("f"), 3, 100);
    let client = Client::new(memory(1000));
    let region = client.watch(file.as_raw_fd(), bytes(10, 20)).unwrap();
    let mut asked = Vec::new();
    for number in [0, 9, 10, 29, 30, 99] {
        read_page(&client, &file, 3, number, &mut |_, want| asked.push(want.requested.1.get() / PAGE));
    }
    assert_eq!(client.stats().engine.reads, 2);
    assert!(asked.iter().all(|page| (10..30).contains(page)), "{asked:?}");
    client.unwatch(region).unwrap();
    read_page(&client, &file, 3, 11, &mut |_, _| panic!("nothing is watched"));
    assert_eq!(client.stats().engine.reads, 2);
    assert!(matches!(client.unwatch(region), Err(Error::NoSuchRegion)));
}

/// One file after the other through one number, each watched while it is read, and one between them that is
/// not.
#[test]
#[allow(unsafe_code)]
fn reads_of_a_number_that_is_another_files_are_seen_at_once() {
    use std::os::fd::{FromRawFd, IntoRawFd};
    let folder = folder();
    let files = [1, 2, 3].map(|seed| write_file(&folder.path().join(seed.to_string()), seed, 50));
    let client = Client::new(memory(1000));
    let number = files[0].try_clone().unwrap().into_raw_fd();
    let mut reads = 0;
    for (seed, file) in (1..).zip(&files) {
        // SAFETY: the number is this test's own.
        assert_eq!(unsafe { libc::dup2(file.as_raw_fd(), number) }, number);
        // SAFETY: as above; released below.
        let open = unsafe { std::fs::File::from_raw_fd(number) };
        let region = (seed != 2).then(|| client.watch(number, bytes(0, 50)).unwrap());
        for page in 0..50 {
            read_page(&client, &open, seed, page, &mut |_, _| {});
        }
        reads += if seed == 2 { 0 } else { 50 };
        assert_eq!(client.stats().engine.reads, reads, "file {seed}");
        region.into_iter().for_each(|region| client.unwatch(region).unwrap());
        client.closed(number);
        assert_eq!(open.into_raw_fd(), number);
    }
    // SAFETY: as above, for the last time.
    drop(unsafe { std::fs::File::from_raw_fd(number) });
}

/// The C library closes some descriptors by itself (`fclose`). Nothing is fetched of a file that another one's number
/// stands for, and a read that misses is seen as what it is.
#[test]
#[allow(unsafe_code)]
fn a_number_that_became_another_files_unseen_is_found_out_by_a_miss() {
    use std::os::fd::{FromRawFd, IntoRawFd};
    let folder = folder();
    let [first, unwatched, watched] =
        [1, 2, 3].map(|seed| write_file(&folder.path().join(seed.to_string()), seed, 50));
    if !is_cold(&unwatched) || !is_cold(&watched) {
        return;
    }
    let client = Client::new(memory(1000));
    client.watch(first.as_raw_fd(), bytes(0, 50)).unwrap();
    client.watch(watched.as_raw_fd(), bytes(0, 50)).unwrap();
    let number = first.try_clone().unwrap().into_raw_fd();
    // Each is known by the number when the next takes it.
    for (file, seed, reads) in [(&first, 1, 100), (&unwatched, 2, 100), (&first, 1, 200), (&watched, 3, 250)]
    {
        // SAFETY: the number is this test's own.
        assert_eq!(unsafe { libc::dup2(file.as_raw_fd(), number) }, number);
        // SAFETY: as above; released below.
        let open = unsafe { File::from_raw_fd(number) };
        if seed == 1 {
            // From memory, so that the number is not checked again; the first read is.
            client.closed(number);
            (0..50).for_each(|page| read_page(&client, &open, seed, page, &mut |_, _| {}));
        }
        for page in 0..50 {
            read_page(&client, &open, seed, page, &mut |_, _| {});
        }
        assert_eq!(client.stats().engine.reads, reads, "file {seed}");
        assert_eq!(open.into_raw_fd(), number);
    }
    assert!(client.stats().engine.fetched.is_zero(), "nothing was announced");
    // SAFETY: as above, for the last time.
    drop(unsafe { File::from_raw_fd(number) });
}

#[test]
fn the_application_gets_its_last_mark_and_continues_there() {
    let folder = folder();
    let index = write_file(&folder.path().join("index"), 4, 40);
    let data = write_file(&folder.path().join("data"), 5, 400);
    if !is_cold(&index) || !is_cold(&data) {
        return;
    }
    let (index_fd, data_fd) = (index.as_raw_fd(), data.as_raw_fd());
    let order = shuffled(400, 4);
    let client = Client::new(memory(2000));
    client.watch(index_fd, bytes(0, 40)).unwrap();
    client.watch(data_fd, bytes(0, 400)).unwrap();
    // An index page, then the ten data pages that it points to; four index pages a hint.
    let leaf = |number: u64| {
        let mut leaf = vec![Entry { fd: index_fd, offset: ByteOffset(number * PAGE), mark: true }];
        leaf.extend(entries(data_fd, &order[number as usize * 10..][..10]));
        leaf
    };
    let mut marks = Vec::new();
    let mut ask = |client: &Client, want: foreseek_libprefetch::CallbackRequest| {
        let from = want.marked.map_or(0, |(fd, offset)| {
            assert_eq!(fd, index_fd);
            offset.get() / PAGE + 1
        });
        marks.push(from);
        let mode = if from == 0 { HintMode::Set } else { HintMode::SetFromMark };
        // From the mark on: the data of the marked page, then the next pages.
        let mut hint = if from == 0 { Vec::new() } else { leaf(from - 1).split_off(1) };
        for number in from..(from + 4).min(40) {
            hint.extend(leaf(number));
        }
        let n = hint.len();
        assert_eq!(client.hint(mode, &hint, false).unwrap(), n);
    };
    for number in 0..40 {
        // Every third index page comes from the application's own cache: it is never read.
        if number % 3 != 1 {
            read_page(&client, &index, 4, number, &mut ask);
        }
        for data_page in &order[number as usize * 10..][..10] {
            read_page(&client, &data, 5, *data_page, &mut ask);
        }
    }
    assert!(marks.windows(2).all(|two| two[0] <= two[1]), "{marks:?}");
    assert!(marks.len() >= 10, "{marks:?}");
    assert!(*marks.last().unwrap() >= 36, "{marks:?}");
    let stats = client.stats().engine;
    // Only the ends of the hints lead to questions; index pages that are skipped do not.
    assert_eq!((stats.unlisted, stats.callbacks), (10, 10), "{stats:?}");
    assert!(stats.rounds == 10 && stats.evicted.get() <= evicted_at_most(PAGES), "{stats:?}");
}

#[test]
fn ignored_reads_and_the_applications_own_are_no_progress() {
    let folder = folder();
    let file = write_file(&folder.path().join("f"), 6, 100);
    let client = Client::new(memory(1000));
    client.watch(file.as_raw_fd(), bytes(0, 100)).unwrap();
    client.ignore();
    client.ignore();
    read_page(&client, &file, 6, 1, &mut |_, _| panic!("ignored"));
    assert!(client.unignore());
    read_page(&client, &file, 6, 2, &mut |_, _| panic!("still ignored"));
    std::thread::scope(|scope| {
        // Another thread ignores nothing.
        scope.spawn(|| read_page(&client, &file, 6, 3, &mut |_, _| ()));
    });
    assert!(client.unignore());
    assert!(!client.unignore());
    assert_eq!((client.stats().engine.reads, client.stats().ignored), (1, 2));
    let mut asked = 0;
    read_page(&client, &file, 6, 50, &mut |client, _| {
        asked += 1;
        read_page(client, &file, 6, 51, &mut |_, _| panic!("a read of the callback leads to no question"));
    });
    assert!(asked <= 1);
    assert_eq!(client.stats().engine.reads, 2);
}

#[test]
fn descriptors_of_a_file_are_one_file_and_closing_some_of_them_is_no_loss() {
    let folder = folder();
    let path = folder.path().join("f");
    let first = write_file(&path, 7, 200);
    if !is_cold(&first) {
        return;
    }
    let second = File::open(&path).unwrap();
    let third = second.try_clone().unwrap();
    let order = shuffled(200, 7);
    let client = Client::new(memory(2000));
    client.watch(first.as_raw_fd(), bytes(0, 200)).unwrap();
    // Hinted through one descriptor, read through another, after the first is gone.
    client.hint(HintMode::Set, &entries(second.as_raw_fd(), &order[..100]), true).unwrap();
    client.closed(first.as_raw_fd());
    drop(first);
    let mut marked = None;
    for number in &order[..100] {
        read_page(&client, &third, 7, *number, &mut |_, want| marked = want.marked);
    }
    let stats = client.stats().engine;
    assert_eq!((stats.reads, stats.fetched.get(), stats.unlisted), (100, 100, 0));
    assert_eq!(marked, None);
    // All are closed: the file is not fetched until it is opened again.
    client.closed(second.as_raw_fd());
    client.closed(third.as_raw_fd());
    drop((second, third));
    let again = File::open(&path).unwrap();
    chill(&again);
    client.hint(HintMode::Set, &entries(again.as_raw_fd(), &order[100..]), true).unwrap();
    for number in &order[100..] {
        read_page(&client, &again, 7, *number, &mut |_, _| ());
    }
    let stats = client.stats().engine;
    assert_eq!((stats.reads, stats.fetched.get(), stats.refused), (200, 200, 0));
}

#[test]
fn a_file_that_shrinks_and_grows_is_followed() {
    let folder = folder();
    let file = write_file(&folder.path().join("f"), 8, 500);
    let fd = file.as_raw_fd();
    let client = Client::new(memory(200));
    client.watch(fd, ByteSpan::new(ByteOffset(0), ByteOffset(u64::MAX))).unwrap();
    let order = shuffled(500, 8);
    assert_eq!(client.hint(HintMode::Set, &entries(fd, &order), true).unwrap(), 500);
    for number in &order[..100] {
        read_page(&client, &file, 8, *number, &mut |_, _| ());
    }
    file.set_len(250 * PAGE).unwrap();
    for number in order[100..].iter().filter(|number| **number < 250) {
        read_page(&client, &file, 8, *number, &mut |_, _| ());
    }
    // At and beyond the end there is nothing to fetch, and no question.
    client.before_read(fd, bytes(250, 5), &mut |_, _| panic!("beyond the end"));
    let beyond = client.stats().beyond_end;
    assert_eq!(client.hint(HintMode::Set, &entries(fd, &[300, 10, 301]), true).unwrap(), 3);
    assert_eq!(client.stats().beyond_end, beyond + 2);
    // It grows again: new pages count.
    for number in 250..260 {
        std::os::unix::fs::FileExt::write_all_at(&file, &page(8, number), number * PAGE).unwrap();
    }
    file.sync_all().unwrap();
    assert_eq!(client.hint(HintMode::Set, &entries(fd, &[255, 256]), true).unwrap(), 2);
    assert_eq!(client.stats().beyond_end, beyond + 2);
    for number in [255, 256] {
        read_page(&client, &file, 8, number, &mut |_, _| ());
    }
}

#[test]
fn a_disabled_client_does_nothing_and_succeeds() {
    let folder = folder();
    let file = write_file(&folder.path().join("f"), 9, 10);
    let settings = Settings::from_variables(|name| (name == "FORESEEK_DISABLE").then(|| "1".into())).unwrap();
    let client = Client::new(settings);
    let region = client.watch(-1, bytes(0, 0)).unwrap();
    assert_eq!(client.hint(HintMode::Set, &entries(file.as_raw_fd(), &[1, 2]), true).unwrap(), 2);
    read_page(&client, &file, 9, 1, &mut |_, _| panic!("disabled"));
    client.unwatch(region).unwrap();
    assert_eq!(client.stats(), foreseek_libprefetch::Stats::default());
    assert!(!client.is_watching());
}

#[test]
fn errors_state_their_reason() {
    let folder = folder();
    let file = write_file(&folder.path().join("f"), 10, 10);
    let fd = file.as_raw_fd();
    let (one, other) = (Client::new(memory(100)), Client::new(memory(100)));
    let fails_with = |result: Result<_, Error>, words: &[&str]| {
        let text = result.map(|_: foreseek_libprefetch::Region| ()).unwrap_err().to_string();
        assert!(words.iter().all(|word| text.contains(word)), "{text}");
    };
    fails_with(one.watch(-1, bytes(0, 1)), &["watch", "-1", "not open"]);
    fails_with(one.watch(fd, bytes(3, 0)), &["empty", &fd.to_string()]);
    let (reader, _writer) = std::io::pipe().unwrap();
    fails_with(one.watch(reader.as_raw_fd(), bytes(0, 1)), &["regular file"]);
    let write_only = File::options().write(true).open(folder.path().join("f")).unwrap();
    fails_with(one.watch(write_only.as_raw_fd(), bytes(0, 1)), &["writing only"]);

    let error = one.hint(HintMode::Set, &entries(fd, &[1]), true).unwrap_err();
    assert!(matches!(error, Error::NotWatched { index: 0, .. }), "{error}");
    let region = one.watch(fd, bytes(0, 5)).unwrap();
    fails_with(other.watch(fd, bytes(4, 2)), &["another client", "16384..24576"]);
    one.watch(fd, bytes(4, 2)).unwrap();
    other.watch(fd, bytes(6, 4)).unwrap();
    one.unwatch(region).unwrap();
    other.watch(fd, bytes(0, 4)).unwrap();
    drop(one);
    other.watch(fd, bytes(4, 2)).unwrap();
    let foreign = write_file(&folder.path().join("g"), 11, 2);
    let mixed = [entries(fd, &[1]), entries(foreign.as_raw_fd(), &[1])].concat();
    let error = other.hint(HintMode::Set, &mixed, true).unwrap_err();
    assert!(matches!(error, Error::NotWatched { index: 1, .. }), "{error}");
}

/// A scan whose list holds a third of it; returns the number of questions, and the counters.
fn scan_with_a_full_list() -> Option<(usize, Stats)> {
    let folder = folder();
    let file = write_file(&folder.path().join("f"), 12, 3000);
    let fd = file.as_raw_fd();
    let mut settings = memory(600);
    settings.policy.list_limit = 1024;
    settings.policy.mode = Mode::Blocking;
    let client = Client::new(settings);
    client.watch(fd, bytes(0, 3000)).unwrap();
    let order = shuffled(3000, 12);
    let mut questions = 0;
    let mut ask = |client: &Client, want: foreseek_libprefetch::CallbackRequest| {
        questions += 1;
        let at = order.iter().position(|page| page * PAGE == want.requested.1.get()).unwrap();
        let taken = client.hint(HintMode::Set, &entries(fd, &order[at..]), true).unwrap();
        assert!(taken == 1024 || taken == order.len() - at, "{taken} of {}", order.len() - at);
    };
    for number in &order {
        read_page(&client, &file, 12, *number, &mut ask);
    }
    Some((questions, client.stats().engine))
}

#[test]
fn a_full_list_accepts_what_fits_and_asks_for_the_rest() {
    let (questions, stats) = undisturbed(3000, scan_with_a_full_list).expect("a scan");
    assert!(questions >= 3, "{questions}");
    assert_eq!(stats.fetched.get(), 3000);
    assert!(nearly(stats.used.get(), 3000 - stats.rounds), "{stats:?}");
    assert!(stats.unlisted <= 1, "{stats:?}");
}
