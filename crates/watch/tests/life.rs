//! Files and file systems while they are watched: unmounts, errors of the disk, changes, many events, and the
//! end.
#![allow(clippy::print_stdout, reason = "a test that cannot run says so")]

#[allow(dead_code, reason = "another test uses the rest")]
mod common;

use common::{Actor, Eager, NOBODY, SIZE, Setup, is_open, resident, until, write, write_named};
use foreseek_units::Pages;
use rustix::fs::{
    AtFlags, CWD, FallocateFlags, OFlags, RenameFlags, Timespec, Timestamps, XattrFlags, fallocate,
    lgetxattr, llistxattr, renameat_with, setxattr, utimensat,
};
use rustix::io::Errno;
use rustix::mount::{MountFlags, UnmountFlags, mount, unmount};
use std::collections::BTreeMap;
use std::fs::{self, File, Permissions};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt, PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// Unmounts during walks.
const UNMOUNTS: usize = 100;
/// Entries of the largest directory.
const MANY: usize = 1_100_000;
/// How many of them are kept.
const KEPT: u64 = 1 << 20;
/// Links to one file: ext4 has 65,000 at most.
const LINKS: usize = 64_000;
/// Changes of the random test.
const CHANGES: usize = 3000;
/// Its directories, and the files in each that nobody changes.
const FOLDERS: u64 = 6;
const STILL: u64 = 30;

#[test]
fn a_hundred_unmounts_during_walks_find_nothing_busy() {
    let Some(setup) = Setup::new() else { return };
    let tree = setup.path("tree");
    for folder in 0..20 {
        let folder = tree.join(format!("d{folder}"));
        fs::create_dir_all(&folder).expect("made");
        (0..50).for_each(|n| write(&folder.join(format!("f{n}")), 16_384));
    }
    setup.cold();
    let watcher = setup.watch();
    let mut actor = Actor::new(0);
    let (mut busy, mut under_way, mut longest) = (0, 0, 0.0f64);
    for round in 0..UNMOUNTS {
        let known = || watcher.status().watched.len();
        assert!(until(|| known() == 1), "round {round}: {:?}", watcher.status());
        let before = watcher.counters().now();
        assert_eq!(actor.does("list", &tree), "20");
        // Sometimes at once, sometimes after much of it was fetched.
        let begun = || watcher.counters().now().placed > before.placed;
        assert!(round % 4 == 0 || until(begun), "round {round}: {:?}", watcher.counters().now());
        match setup.try_unmount() {
            Ok(()) => {}
            Err(Errno::BUSY) => {
                busy += 1;
                setup.unmount();
            }
            Err(error) => panic!("round {round}: {error}"),
        }
        let after = watcher.counters().now();
        under_way += usize::from(after.content_bytes - before.content_bytes < 20 * 50 * 16_384);
        let unmounted = Instant::now();
        assert!(until(|| setup.is_free()), "round {round}: its device stays in use");
        longest = longest.max(unmounted.elapsed().as_secs_f64());
        assert!(until(|| watcher.status().watched.is_empty()), "round {round}");
        setup.mount();
    }
    println!(
        "{under_way} of {UNMOUNTS} came during a walk; a device was free {longest:.3} s after its unmount at the latest"
    );
    assert_eq!(busy, 0, "of {UNMOUNTS}");
    assert!(under_way * 2 > UNMOUNTS, "the test's own setup: {under_way}");
}

/// A disk of two partitions, with a file system on each.
struct Partitions {
    disk: PathBuf,
    points: Vec<PathBuf>,
    _place: tempfile::TempDir,
}

impl Partitions {
    /// `None`, with a message, if the machine does not allow it.
    fn new() -> Option<Self> {
        const LENGTH: u64 = 64 << 20;
        if !rustix::process::geteuid().is_root() {
            println!("SKIPPED: watching needs root");
            return None;
        }
        let place = tempfile::tempdir_in("/var/tmp").expect("a place");
        let image = place.path().join("image");
        // A table of two partitions of Linux, each but for its first MiB as long as the half of the disk.
        let mut table = [0; 512];
        for (number, entry) in table[446..].chunks_exact_mut(16).take(2).enumerate() {
            entry[4] = 0x83;
            let start = (number as u64 * LENGTH + (1 << 20)) / 512;
            entry[8..12].copy_from_slice(&(start as u32).to_le_bytes());
            entry[12..].copy_from_slice(&((LENGTH - (1 << 20)) as u32 / 512).to_le_bytes());
        }
        table[510..].copy_from_slice(&[0x55, 0xAA]);
        fs::write(&image, table).expect("written");
        File::options().write(true).open(&image).and_then(|file| file.set_len(2 * LENGTH)).expect("sparse");
        let tool = |name: &str, arguments: &[&str]| {
            let done = Command::new(name).args(arguments).output().expect("it runs");
            let text = String::from_utf8_lossy(&done.stderr).into_owned();
            (done.status.success(), String::from_utf8_lossy(&done.stdout).trim().to_owned() + &text)
        };
        let image = image.to_str().expect("plain");
        let (attached, disk) = tool("losetup", &["--find", "--show", "--partscan", "--direct-io=on", image]);
        if !attached {
            println!("SKIPPED: {disk}");
            return None;
        }
        let mut all = Self { disk: disk.clone().into(), points: Vec::new(), _place: place };
        let name = all.disk.file_name().expect("a device").to_string_lossy().into_owned();
        fs::write(format!("/sys/block/{name}/queue/rotational"), "1").expect("set");
        if !Path::new(&format!("{disk}p1")).exists() {
            // A kernel that does not read such tables itself.
            tool("partx", &["--add", &disk]);
        }
        for number in [1, 2] {
            let (device, point) = (format!("{disk}p{number}"), all._place.path().join(number.to_string()));
            assert!(until(|| Path::new(&device).exists()), "{device} does not appear");
            fs::create_dir(&point).expect("made");
            assert!(tool("mkfs.ext4", &["-q", "-F", &device]).0);
            assert!(tool("mount", &[&device, point.to_str().expect("plain")]).0);
            all.points.push(point);
        }
        Some(all)
    }
}

impl Drop for Partitions {
    fn drop(&mut self) {
        for point in &self.points {
            let _ = unmount(point, UnmountFlags::DETACH);
        }
        let _ = Command::new("losetup").arg("--detach").arg(&self.disk).status();
    }
}

#[test]
fn an_unmounted_partition_is_not_open_while_a_program_walks_beside_it() {
    let Some(all) = Partitions::new() else { return };
    let trees: Vec<PathBuf> = all.points.iter().map(|point| point.join("tree")).collect();
    for tree in &trees {
        (0..2).for_each(|n| fs::create_dir_all(tree.join(format!("d{n}"))).expect("made"));
        (0..20).for_each(|n| write(&tree.join(format!("d{}/f{n}", n % 2)), 16_384));
    }
    let options = foreseek_watch::Options { paths: all.points.clone(), ..Default::default() };
    let make = |_, _| -> Box<dyn foreseek_watch::Engine> { Box::new(Eager::default()) };
    let watcher = foreseek_watch::Watcher::start_with(&options, Box::new(make)).expect("it starts");
    assert_eq!(watcher.status().disks.len(), 1, "{:?}", watcher.status());
    let mut actor = Actor::new(0);
    let partition = PathBuf::from(format!("{}p2", all.disk.display()));
    let opened = || {
        trees.iter().for_each(|tree| assert_eq!(actor.does("list", tree), "2"));
        is_open(&partition)
    };
    assert!(until(opened), "{:?}", watcher.counters().now());
    unmount(&all.points[1], UnmountFlags::empty()).expect("not busy");
    let closed = || {
        assert_eq!(actor.does("list", &trees[0]), "2");
        !is_open(&partition)
    };
    assert!(until(closed), "{:?}", watcher.counters().now());
    drop(watcher);
}

#[test]
fn a_failing_disk_affects_only_the_files_that_it_fails_on() {
    let Some(setup) = Setup::new() else { return };
    let tree = setup.path("tree");
    fs::create_dir(&tree).expect("made");
    let files: Vec<PathBuf> = (0..30).map(|n| tree.join(format!("f{n}"))).collect();
    files.iter().for_each(|path| write(path, 1 << 20));
    setup.cold();
    let places: Vec<u64> = files.iter().map(|path| place(path)).collect();
    let middle = places.iter().sum::<u64>() / places.len() as u64;
    setup.cold();
    let length = fs::metadata(&setup.image).expect("there").len();
    // Reads beyond the end of the image fail.
    File::options().write(true).open(&setup.image).and_then(|image| image.set_len(middle)).expect("cut");
    let watcher = setup.watch();
    let mut actor = Actor::new(0);
    assert_eq!(actor.does("list", &tree), "30");
    assert!(until(|| watcher.counters().now().placed >= 30), "{:?}", watcher.counters().now());
    let good: Vec<&PathBuf> =
        files.iter().zip(&places).filter(|(_, at)| **at + (1 << 20) < middle).map(|(path, _)| path).collect();
    assert!(good.len() > 5 && good.len() < 25, "the test's own setup: {}", good.len());
    assert!(until(|| good.iter().all(|path| resident(path) == Pages(256))), "{:?}", watcher.counters().now());
    // The program gets the same errors as without a watcher.
    let bad = files.iter().zip(&places).find(|(_, at)| **at > middle).expect("some").0;
    assert_eq!(actor.does("read", bad), format!("error {}", Errno::IO.raw_os_error()));
    assert_eq!(actor.does("read", good[0]), (1 << 20).to_string());
    assert!(watcher.is_running());
    drop(watcher);
    File::options().write(true).open(&setup.image).and_then(|image| image.set_len(length)).expect("grown");
}

/// The first byte of a file on the disk.
fn place(path: &Path) -> u64 {
    use foreseek_storage::{HostFd, Layout};
    use std::os::fd::AsRawFd;
    let file = File::open(path).expect("there");
    let fd = HostFd::new(file.as_raw_fd()).expect("open");
    let layout = Layout::exactly(fd, foreseek_units::Sectors::ZERO, 4).expect("FIEMAP");
    layout.extents.first().expect("written").lba.offset().get()
}

/// A small generator, so that each run is the same.
struct Random(u64);

impl Random {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % end
    }
}

/// Changes a tree, each time with another random step. Two of them change two trees alike.
struct Changes<'a> {
    root: &'a Path,
    random: Random,
    /// How often each kind of change was made.
    made: BTreeMap<&'static str, usize>,
}

impl<'a> Changes<'a> {
    fn of(root: &'a Path) -> Self {
        Self { root, random: Random(1), made: BTreeMap::new() }
    }

    /// The result of one change, for comparison: what was read, or how it failed.
    fn step(&mut self, step: usize, mapper: &mut Actor) -> String {
        let [verb, length, at, first, second, from, to] =
            [17, 60_000, 80_000, 25, 25, FOLDERS, FOLDERS].map(|end| self.random.below(end));
        let folders = [from, to].map(|n| self.root.join(format!("d{n}")));
        let (path, other) = (folders[0].join(format!("f{first}")), folders[1].join(format!("f{second}")));
        let bytes = vec![b'a' + (at % 26) as u8; length as usize];
        let mut read = String::new();
        let open = || File::options().write(true).open(&path);
        let (kind, result) = match verb {
            0..=2 => ("written", fs::create_dir_all(&folders[0]).and_then(|()| fs::write(&path, &bytes))),
            3 => ("changed", open().and_then(|file| file.write_all_at(&bytes, at))),
            4 => ("renamed", fs::rename(&path, &other)),
            5 => ("removed", fs::remove_file(&path)),
            6 => ("cut", open().and_then(|file| file.set_len(at))),
            7 => ("linked", fs::hard_link(&path, &other)),
            8 => {
                // As editors do.
                let new = path.with_extension("new");
                ("replaced", fs::write(&new, &bytes).and_then(|()| fs::rename(&new, &path)))
            }
            9 => ("read", fs::read(&path).map(|found| read = format!("{} {}", found.len(), sum(&found)))),
            10 => ("exchanged", exchange(&folders)),
            11 => ("written directly", write_directly(&path, &bytes, at)),
            12 => {
                read = mapper.does("map", &path);
                let is_made = read.starts_with("mapped");
                ("mapped", if is_made { Ok(()) } else { Err(Errno::NOENT.into()) })
            }
            13 => ("punched", open().and_then(|file| punch(&file, at, length + 1))),
            14 => ("mode set", fs::set_permissions(&path, Permissions::from_mode(at as u32 & 0o777))),
            15 => ("owner set", chown(&path, Some(first as u32), Some(second as u32))),
            _ => ("attribute set", set_attribute(&path, &bytes[..bytes.len().min(200)])),
        };
        let result = match result {
            Ok(()) => {
                *self.made.entry(kind).or_default() += 1;
                format!("{kind} {read}")
            }
            Err(error) => format!("error {:?} {read}", error.raw_os_error()),
        };
        // What was changed has the same time in both trees.
        for path in [&path, &other, &folders[0], &folders[1], self.root] {
            let _ = set_time(path, step);
        }
        result
    }
}

fn set_time(path: &Path, step: usize) -> rustix::io::Result<()> {
    let time = Timespec { tv_sec: 1_000_000 + step as i64, tv_nsec: 7 };
    let times = Timestamps { last_access: time, last_modification: time };
    utimensat(CWD, path, &times, AtFlags::SYMLINK_NOFOLLOW)
}

fn exchange(folders: &[PathBuf; 2]) -> std::io::Result<()> {
    Ok(renameat_with(CWD, &folders[0], CWD, &folders[1], RenameFlags::EXCHANGE)?)
}

fn punch(file: &File, at: u64, length: u64) -> std::io::Result<()> {
    Ok(fallocate(file, FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE, at, length)?)
}

fn set_attribute(path: &Path, value: &[u8]) -> std::io::Result<()> {
    Ok(setxattr(path, "user.test", value, XattrFlags::empty())?)
}

/// Writes some blocks without the page cache, which `O_DIRECT` allows from aligned memory alone.
fn write_directly(path: &Path, bytes: &[u8], at: u64) -> std::io::Result<()> {
    const BLOCK: usize = 4096;
    let file = File::options().write(true).custom_flags(OFlags::DIRECT.bits().cast_signed()).open(path)?;
    let length = bytes.len().div_ceil(BLOCK).max(1) * BLOCK;
    let memory = vec![bytes.first().copied().unwrap_or(b'0'); length + BLOCK];
    let start = memory.as_ptr().align_offset(BLOCK);
    file.write_all_at(&memory[start..start + length], at / BLOCK as u64 * BLOCK as u64)
}

fn sum(bytes: &[u8]) -> u64 {
    bytes.iter().fold(7, |sum, byte| (sum * 31 + u64::from(*byte)) % 1_000_000_007)
}

/// What a program can see of a file or directory.
#[derive(Debug, PartialEq, Eq)]
struct Seen {
    mode: u32,
    owner: (u32, u32),
    links: u64,
    changed: (i64, i64),
    length: u64,
    content: u64,
    attributes: BTreeMap<Vec<u8>, (usize, u64)>,
}

impl Seen {
    fn of(path: &Path) -> Self {
        let stat = fs::symlink_metadata(path).expect("there");
        let (mut names, mut value) = (vec![0; 4096], vec![0; 4096]);
        let length = llistxattr(path, &mut names).expect("there");
        let names = names[..length].split(|byte| *byte == 0).filter(|name| !name.is_empty());
        let attributes = names.map(|name| {
            let length = lgetxattr(path, name, &mut value).expect("there");
            (name.to_owned(), (length, sum(&value[..length])))
        });
        Self {
            mode: stat.mode(),
            owner: (stat.uid(), stat.gid()),
            links: stat.nlink(),
            changed: (stat.mtime(), stat.mtime_nsec()),
            length: if stat.is_file() { stat.len() } else { 0 },
            content: if stat.is_file() { sum(&fs::read(path).expect("read")) } else { 0 },
            attributes: attributes.collect(),
        }
    }
}

/// All of a tree, with itself.
fn all_of(root: &Path) -> BTreeMap<PathBuf, Seen> {
    let mut all = BTreeMap::new();
    let mut waiting = vec![root.to_owned()];
    while let Some(path) = waiting.pop() {
        if path.is_dir() {
            waiting.extend(fs::read_dir(&path).expect("there").map(|entry| entry.expect("there").path()));
        }
        all.insert(path.strip_prefix(root).expect("below").to_owned(), Seen::of(&path));
    }
    all
}

fn assert_same(tree: &Path, other: &Path) {
    let (all, others) = (all_of(tree), all_of(other));
    let names = all.keys().chain(others.keys());
    let differs = |name: &&PathBuf| all.get(*name) != others.get(*name);
    if let Some(name) = names.into_iter().find(differs) {
        panic!("{}: {:?}, unwatched {:?}", name.display(), all.get(name), others.get(name));
    }
}

#[test]
fn changes_of_a_watched_tree_give_the_same_results_as_unwatched() {
    let (Some(watched), Some(plain)) = (Setup::new(), Setup::new()) else { return };
    let watcher = watched.watch();
    changes_give_the_same(&watched, &plain, watcher);
}

#[test]
fn changes_give_the_same_results_with_the_engine_of_the_product() {
    let (Some(watched), Some(plain)) = (Setup::new(), Setup::new()) else { return };
    let watcher = watched.watch_as_users_do();
    changes_give_the_same(&watched, &plain, watcher);
}

#[test]
fn changes_on_xfs_give_the_same_results_with_the_engine_of_the_product() {
    let xfs = || Setup::of("xfs", &["-q", "-f"]);
    let (Some(watched), Some(plain)) = (xfs(), xfs()) else { return };
    let watcher = watched.watch_as_users_do();
    changes_give_the_same(&watched, &plain, watcher);
}

/// Is true from its end on.
struct SetOnDrop<'a>(&'a AtomicBool);

impl Drop for SetOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Walks on one of two file systems while both are changed alike.
fn changes_give_the_same(watched: &Setup, plain: &Setup, watcher: foreseek_watch::Watcher) {
    let (tree, other) = (watched.path("tree"), plain.path("tree"));
    for root in [&tree, &other] {
        (0..FOLDERS).for_each(|n| fs::create_dir_all(root.join(format!("d{n}"))).expect("made"));
        // Files that nobody changes, in other places of the disk than their names say.
        for n in (0..FOLDERS * STILL).map(|n| n * 7919 % (FOLDERS * STILL)) {
            let path = root.join(format!("d{}/still{n}", n % FOLDERS));
            write_named(&path, 16_384);
            set_time(&path, n as usize).expect("ours");
        }
    }
    let (mut changes, mut again) = (Changes::of(&tree), Changes::of(&other));
    let (walks, checked) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let (ends, mounted) = (AtomicBool::new(false), Mutex::new(()));
    let walk = || {
        let mut walker = Actor::new(0);
        for number in (0..FOLDERS).cycle() {
            // The other thread has a turn.
            std::thread::sleep(Duration::from_millis(5));
            if ends.load(Ordering::Relaxed) {
                break;
            }
            let _mounted = mounted.lock().expect("the other thread goes on");
            if number == 0 {
                walker.does("list", &tree);
                walks.fetch_add(1, Ordering::Relaxed);
            }
            let read = walker.does("slowly", &tree.join(format!("d{number}")));
            let (right, all) = read.split_once(" of ").unwrap_or_else(|| panic!("d{number}: {read}"));
            assert_eq!(right, all, "d{number}: contents that nobody wrote");
            checked.fetch_add(all.parse().expect("a number"), Ordering::Relaxed);
        }
    };
    std::thread::scope(|scope| {
        // A process walks meanwhile, so that files change while they are fetched.
        let walker = scope.spawn(walk);
        // Also after a failure: otherwise the walker would go on.
        let _ends = SetOnDrop(&ends);
        let mut mapper = Actor::new(0);
        for step in 0..CHANGES {
            let (a, b) = (changes.step(step, &mut mapper), again.step(step, &mut mapper));
            assert!(a == b || walker.is_finished(), "change {step}: {a}, {b}");
            if step % 500 == 0 {
                // The following reads go to the disk, and are therefore fetched.
                let _mounted = mounted.lock().expect("the other thread goes on");
                watched.cold();
                plain.cold();
                assert!(until(|| watcher.status().watched.len() == 1), "{:?}", watcher.status());
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    });
    assert_same(&tree, &other);
    let counted = watcher.counters().now();
    println!("{walks:?} walks, {checked:?} files: {:?} {counted:?}", changes.made);
    assert!(changes.made.len() == 15 && changes.made.values().all(|made| *made > 20), "{:?}", changes.made);
    assert!(checked.into_inner() > (FOLDERS * STILL) as usize, "the test's own setup");
    assert!(counted.content_bytes >= 1 << 20 && counted.used_bytes > 0, "it was at work: {counted:?}");
    drop(watcher);
    watched.cold();
    plain.cold();
    assert_same(&tree, &other);
}

/// Each group of blocks has its part of the inodes. What lies in the last group cannot be read: directories, and
/// inodes to which a directory in another group has links.
#[test]
fn inodes_and_directories_that_a_disk_fails_on_affect_no_others() {
    const LENGTH: usize = 128 << 10;
    let options = ["-q", "-F", "-O", "^flex_bg", "-E", "lazy_itable_init=0,lazy_journal_init=0"];
    let Some(setup) = Setup::of("ext4", &options) else { return };
    let group = |path: &Path| {
        const INODES: u64 = 32 << 10;
        (fs::metadata(path).expect("there").ino() - 1) * 4 / INODES
    };
    let folders: Vec<PathBuf> = (0..40).map(|n| setup.path(&format!("d{n}"))).collect();
    for folder in &folders {
        fs::create_dir(folder).expect("made");
        // Larger ones than those that ext4 gathers in one place.
        (0..4).for_each(|n| write(&folder.join(format!("f{n}")), LENGTH));
    }
    let (bad, good): (Vec<_>, Vec<_>) = folders.iter().partition(|folder| group(folder) == 3);
    assert!(bad.len() > 1 && good.len() > 1, "the test's own setup: {} of {}", bad.len(), folders.len());
    for (n, folder) in bad.iter().enumerate() {
        fs::hard_link(folder.join("f0"), good[0].join(format!("linked{n}"))).expect("linked");
    }
    let linked = good[0].join("linked0");
    let mut read =
        good.iter().flat_map(|folder| (0..4).map(move |n| folder.join(format!("f{n}")))).collect::<Vec<_>>();
    setup.cold();
    read.retain(|path| group(path) < 3 && place(path) < (SIZE / 4 * 3));
    assert!(read.len() > 20, "the test's own setup: {}", read.len());
    setup.cold();
    let length = fs::metadata(&setup.image).expect("there").len();
    assert_eq!(length, SIZE);
    let cut = |to| File::options().write(true).open(&setup.image).and_then(|image| image.set_len(to));
    cut(length / 4 * 3).expect("cut");
    let watcher = setup.watch();
    let mut actor = Actor::new(0);
    assert_eq!(actor.does("list", &setup.point), (folders.len() + 1).to_string());
    let counted = || watcher.counters().now();
    assert!(
        until(|| read.iter().all(|path| resident(path) == Pages(LENGTH as u64 / 4096))),
        "{:?}",
        counted()
    );
    assert!(until(|| counted().unlistable >= bad.len() as u64), "{:?}", counted());
    // The program gets the same errors as without a watcher.
    let failed = format!("error {}", Errno::IO.raw_os_error());
    assert_eq!((actor.does("list", bad[0]), actor.does("read", &linked)), (failed.clone(), failed));
    assert_eq!(actor.does("read", &read[0]), LENGTH.to_string());
    assert!(watcher.is_running() && watcher.status().disks[0].failed_threads.is_empty());
    drop(watcher);
    cut(length).expect("grown");
}

/// What is mounted over a directory above a watched file system waits for its server.
#[test]
fn a_mount_point_below_a_silent_server_is_not_looked_up() {
    struct Hidden(PathBuf, Option<File>);
    impl Drop for Hidden {
        fn drop(&mut self) {
            // Its end fails what waits for it.
            self.1 = None;
            let _ = unmount(&self.0, UnmountFlags::DETACH);
        }
    }
    let Some(setup) = Setup::new() else { return };
    let watcher = setup.watch();
    let watched = || watcher.status().watched.len();
    assert!(until(|| watched() == 1), "{:?}", watcher.status());
    let Ok(fuse) = File::options().read(true).write(true).open("/dev/fuse") else {
        return println!("SKIPPED: there is no FUSE here");
    };
    let above = setup.point.parent().expect("a place").to_owned();
    let options = format!("fd={},rootmode=40000,user_id=0,group_id=0", fuse.as_raw_fd());
    let options = std::ffi::CString::new(options).expect("plain");
    mount("silent", &above, "fuse.silent", MountFlags::empty(), Some(options.as_c_str())).expect("mounted");
    let hidden = Hidden(above, Some(fuse));
    let is_left = || {
        let status = watcher.status();
        status.watched.is_empty() && status.left_alone.iter().any(|it| it.reason.contains("hides it"))
    };
    assert!(until(is_left), "{:?}", watcher.status());
    drop(hidden);
    assert!(until(|| watched() == 1), "{:?}", watcher.status());
    let status = watcher.status();
    assert!(status.age_seconds < 30.0, "{status:?}");
}

#[test]
fn a_file_system_whose_disk_cannot_be_served_is_left_alone_until_it_can() {
    let Some(setup) = Setup::new() else { return };
    let text = foreseek_device::Profile::builtin_text("barracuda-500g").expect("it is built in");
    let profile = setup.image.with_file_name("profile.toml");
    fs::write(&profile, text).expect("written");
    let options = foreseek_watch::Options {
        profile: Some(profile.to_str().expect("plain").to_owned()),
        ..Default::default()
    };
    let watcher = setup.watch_with(options);
    let watched = || watcher.status().watched.len();
    assert!(until(|| watched() == 1), "{:?}", watcher.status());
    setup.unmount();
    assert!(until(|| watched() == 0), "{:?}", watcher.status());
    fs::remove_file(&profile).expect("there");
    setup.mount();
    let says = || {
        let status = watcher.status();
        let left = status.left_alone.iter().find(|it| it.mount == setup.point);
        status.watched.is_empty() && left.is_some_and(|it| it.reason.contains("profile.toml"))
    };
    assert!(until(says), "{:?}", watcher.status());
    setup.unmount();
    fs::write(&profile, text).expect("written");
    setup.mount();
    assert!(until(|| watched() == 1 && watcher.status().disks.len() == 1), "{:?}", watcher.status());
    let tree = setup.path("tree");
    fs::create_dir(&tree).expect("made");
    // It lives until its open was examined: the opens of programs that have ended are left alone.
    let mut actor = Actor::new(0);
    assert_eq!(actor.does("list", &tree), "0");
    assert!(until(|| watcher.counters().now().listed > 0), "{:?}", watcher.counters().now());
}

#[test]
fn all_threads_read_with_the_lowest_ordinary_priority() {
    let Some(setup) = Setup::new() else { return };
    let watcher = setup.watch();
    let threads = || {
        let all = fs::read_dir("/proc/self/task").expect("Linux has it").flatten();
        all.filter_map(|entry| {
            let name = fs::read_to_string(entry.path().join("comm")).ok()?.trim().to_owned();
            let priority =
                Command::new("ionice").arg("-p").arg(entry.file_name()).output().expect("util-linux");
            // One that has ended meanwhile has none.
            let priority = String::from_utf8_lossy(&priority.stdout).trim().to_owned();
            (name.starts_with("watch") && !priority.is_empty()).then_some((name, priority))
        })
        .collect::<Vec<_>>()
    };
    let all_low = || {
        let threads = threads();
        let has = |wanted: &str| threads.iter().any(|(name, _)| name == wanted);
        ["watch", "watch-list", "watch-inodes", "watch-fetch"].into_iter().all(has)
            && threads.iter().all(|(_, priority)| priority == "best-effort: prio 7")
    };
    // A thread that has just begun has the priority of the one that started it.
    assert!(until(all_low), "{:?}", threads());
    drop(watcher);
}

#[test]
fn the_fastest_opens_only_lose_events() {
    let Some(setup) = Setup::new() else { return };
    let trees: Vec<PathBuf> = (0..400).map(|n| setup.path(&format!("d{n}"))).collect();
    trees.iter().for_each(|tree| fs::create_dir(tree).expect("made"));
    let watched = setup.path("later");
    fs::create_dir(&watched).expect("made");
    write(&watched.join("file"), 8192);
    setup.cold();
    let watcher = setup.watch();
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                let mut other_user = Actor::new(NOBODY);
                assert_eq!(other_user.does("spin", &trees[0]), "ok");
                trees.iter().for_each(|tree| assert_eq!(other_user.does("list", tree), "0"));
            });
        }
    });
    let mut actor = Actor::new(0);
    // Events still arrive after the loss.
    let arrives = || {
        actor.does("list", &watched);
        resident(&watched.join("file")) == Pages(2)
    };
    assert!(until(arrives), "{:?}", watcher.counters().now());
    println!("{:?}", watcher.counters().now());
    assert!(watcher.is_running());
}

#[test]
fn two_watchers_do_not_wake_each_other() {
    let Some(setup) = Setup::new() else { return };
    let tree = setup.path("tree");
    fs::create_dir_all(tree.join("below")).expect("made");
    (0..50).for_each(|n| write(&tree.join(format!("below/f{n}")), 8192));
    setup.cold();
    let watchers = [setup.watch(), setup.watch()];
    let mut actor = Actor::new(0);
    assert_eq!(actor.does("list", &tree), "1");
    let listed = || watchers.iter().all(|watcher| watcher.counters().now().listed == 2);
    assert!(until(listed), "{:?}", watchers.each_ref().map(|watcher| watcher.counters().now()));
    assert!(until(|| watchers.iter().all(|watcher| watcher.counters().now().placed == 50)));
    for watcher in &watchers {
        let counted = watcher.counters().now();
        assert_eq!((counted.directories_opened, counted.files_opened), (1, 0), "{counted:?}");
    }
    drop(watchers);
    assert_eq!(setup.try_unmount(), Ok(()));
    assert!(until(|| setup.is_free()));
    setup.mount();
}

/// Backup programs open the directory above the given one, and read nothing else in it.
#[test]
fn a_directory_that_a_program_passes_through_is_not_part_of_its_walk() {
    let Some(setup) = Setup::new() else { return };
    for tree in ["given", "other"] {
        for folder in 0..10 {
            let folder = setup.path(tree).join(format!("d{folder}"));
            fs::create_dir_all(&folder).expect("made");
            (0..20).for_each(|n| write(&folder.join(format!("f{n}")), 16_384));
        }
    }
    for passes in [false, true] {
        setup.cold();
        let options = foreseek_watch::Options { paths: vec![setup.point.clone()], ..Default::default() };
        let watcher = foreseek_watch::Watcher::start(&options).expect("it starts");
        assert!(until(|| watcher.status().watched.len() == 1), "{:?}", watcher.status());
        let mut actor = Actor::new(0);
        let opened = |number| until(|| watcher.counters().now().directories_opened >= number);
        if passes {
            assert_eq!(actor.does("pass", &setup.point), "ok");
        } else {
            assert_eq!(actor.does("list", &setup.point), "3");
        }
        assert!(opened(1), "{:?}", watcher.counters().now());
        let given = setup.path("given");
        assert_eq!(actor.does("list", &given), "10");
        for number in 0..10 {
            let folder = given.join(format!("d{number}"));
            assert_eq!(actor.does("list", &folder), "20");
            assert!(opened(3 + number), "{:?}", watcher.counters().now());
            (0..20).for_each(|n| assert_eq!(actor.does("read", &folder.join(format!("f{n}"))), "16384"));
        }
        let counted = watcher.counters().now();
        assert_eq!(counted.unlistable, u64::from(passes), "{counted:?}");
        let fetched_bytes = (0..10)
            .flat_map(|d| (0..20).map(move |n| format!("other/d{d}/f{n}")))
            .any(|name| resident(&setup.path(&name)) > Pages::ZERO);
        assert!(!(passes && fetched_bytes), "what lies beside the given tree was fetched: {counted:?}");
    }
}

/// A program opens a large directory and lists nothing of it (`fsync`): nothing of it is read. Another one lists it.
#[test]
fn a_large_directory_is_read_once_a_program_has_listed_it() {
    const NAMES: u64 = 8000;
    let Some(setup) = Setup::new() else { return };
    let [small, large] = ["small", "large"].map(|name| setup.path(name));
    let folders: Vec<PathBuf> = (0..8).map(|n| small.join(format!("d{n}"))).collect();
    for folder in &folders {
        fs::create_dir_all(folder).expect("made");
        (0..4).for_each(|n| write(&folder.join(format!("f{n}")), 16_384));
    }
    fs::create_dir(&large).expect("made");
    let name = |n: u64| large.join(format!("{n:060}"));
    (0..NAMES).for_each(|n| write(&name(n), 1));
    assert!(fs::metadata(&large).expect("there").len() > 256 << 10);
    setup.cold();
    let options = foreseek_watch::Options { paths: vec![setup.point.clone()], ..Default::default() };
    let watcher = foreseek_watch::Watcher::start(&options).expect("it starts");
    let mut actor = Actor::new(0);
    assert_eq!(actor.does("list", &setup.point), "3");
    assert_eq!(actor.does("list", &small), "8");
    let (first, rest) = folders.split_at(4);
    first.iter().for_each(|folder| assert_eq!(actor.does("list", folder), "4"));
    assert_eq!(actor.does("pass", &large), "ok");
    // Opens are passed on while the disk reads.
    rest.iter().for_each(|folder| assert_eq!(actor.does("list", folder), "4"));
    assert!(until(|| watcher.counters().now().unlistable > 0), "{:?}", watcher.counters().now());
    assert!(watcher.status().known_entries < NAMES, "{:?}", watcher.status());
    drop((actor, watcher));
    setup.cold();
    let watcher = foreseek_watch::Watcher::start(&options).expect("it starts");
    let mut lister = Actor::new(0);
    assert_eq!(lister.does("list", &large), NAMES.to_string());
    let mut read = 0..NAMES;
    let mut knows = || {
        read.by_ref().take(20).for_each(|n| assert_eq!(lister.does("read", &name(n)), "1"));
        watcher.status().known_entries >= NAMES
    };
    assert!(until(&mut knows), "{:?}", watcher.status());
}

#[test]
fn a_directory_of_more_than_a_million_entries_is_known_in_part_and_its_memory_is_freed() {
    let Some(setup) = Setup::new() else { return };
    let [many, targets, other] = ["many", "targets", "other"].map(|name| setup.path(name));
    for directory in [&many, &targets, &other] {
        fs::create_dir(directory).expect("made");
    }
    (0..20).for_each(|n| write(&other.join(format!("f{n}")), 8192));
    for start in (0..MANY).step_by(LINKS) {
        let target = targets.join(start.to_string());
        write(&target, 8192);
        for n in start..MANY.min(start + LINKS) {
            fs::hard_link(&target, many.join(n.to_string())).expect("linked");
        }
    }
    setup.cold();
    let options = foreseek_watch::Options { paths: vec![setup.point.clone()], ..Default::default() };
    let watcher = foreseek_watch::Watcher::start(&options).expect("it starts");
    let mut actor = Actor::new(0);
    let known = || watcher.status().known_entries;
    // It takes long to list, and a walk without opens would be over.
    let mut knows = || {
        assert_eq!(actor.does("walk", &many), "200");
        std::thread::sleep(Duration::from_secs(1));
        known() == KEPT
    };
    assert!(until(&mut knows) || until(&mut knows), "{:?}", watcher.status());
    // There is room for another user.
    let mut another = Actor::new(NOBODY);
    let both = || {
        // The watcher may be busy with the other walk until this one is over.
        assert_eq!(another.does("walk", &other), "20");
        known() == KEPT + 20 || known() == 20
    };
    assert!(until(both), "{:?}", watcher.status());
    assert_eq!(known(), KEPT + 20, "beside the other walk");
    assert!(until(|| known() == 0), "{:?}", watcher.status());
    assert!(watcher.is_running());
}
