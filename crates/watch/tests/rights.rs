//! Files are read ahead only if the walker could read them: no link is followed, no other mount, no lease
//! broken, no access time changed.
#![allow(clippy::print_stdout, reason = "a test that cannot run says so")]

#[allow(dead_code, reason = "another test uses the rest")]
mod common;

use common::{Actor, Busy, NOBODY, Setup, resident, until, write};
use foreseek_units::Pages;
use foreseek_watch::{Options, Walk, Watcher};
use rustix::fs::{AtFlags, CWD, Timespec, Timestamps, utimensat};
use rustix::mount::{MountFlags, UnmountFlags, mount, mount_bind, mount_remount, unmount};
use std::ffi::OsStr;
use std::fs::{self, Permissions};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, symlink};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, Permissions::from_mode(mode)).expect("ours");
}

#[test]
fn a_directory_that_is_listed_has_its_tree_read_ahead_with_any_names() {
    let Some(setup) = Setup::new() else { return };
    let tree = setup.path("tree");
    let deep = tree.join(OsStr::from_bytes(b"of\n\xff bytes")).join("deep");
    fs::create_dir_all(&deep).expect("made");
    let mut files: Vec<PathBuf> = (0..40).map(|n| tree.join(format!("f{n}"))).collect();
    files.extend(
        [&b"\xfe"[..], b"-n", b"quote\"'\t", b"of two\nlines"].map(|name| deep.join(OsStr::from_bytes(name))),
    );
    files.iter().for_each(|path| write(path, 20_000));
    fs::write(tree.join("empty"), "").expect("written");
    setup.cold();
    let watcher = setup.watch();
    let mut actor = Actor::new(0);
    assert_eq!(actor.does("list", &tree), "42");
    assert!(until(|| files.iter().all(|path| resident(path) == Pages(5))), "{:?}", watcher.status());
    // Pages are in memory a moment before they are counted.
    let bytes = files.len() as u64 * 5 * 4096;
    assert!(until(|| watcher.counters().now().content_bytes >= bytes), "{:?}", watcher.counters().now());
    let counted = watcher.counters().now();
    assert_eq!((counted.listed, counted.unlistable, counted.denied), (3, 0, 0), "{counted:?}");
    assert_eq!(counted.content_bytes, bytes);
    // Its use is noticed, since opens in the directory are reported.
    assert_eq!(actor.does("read", &files[7]), "20000");
    assert!(until(|| watcher.counters().now().used_bytes == 5 * 4096), "{:?}", watcher.counters().now());
    assert_eq!(watcher.counters().now().files_found_read, 1);
    // Reads by this process, which is the watcher's, are no events.
    assert_eq!(watcher.counters().now().files_opened, 1);
}

#[test]
fn nothing_is_read_that_the_walker_could_not_read() {
    let Some(setup) = Setup::new() else { return };
    let tree = setup.path("tree");
    let [open, closed, unsearchable] = ["open", "closed", "unsearchable"].map(|name| tree.join(name));
    for directory in [&open, &closed, &unsearchable] {
        fs::create_dir_all(directory).expect("made");
        write(&directory.join("file"), 8192);
    }
    write(&open.join("private"), 8192);
    set_mode(&open.join("private"), 0o600);
    set_mode(&closed, 0o700);
    // It can be listed; nothing in it can be opened.
    set_mode(&unsearchable, 0o744);
    setup.cold();
    let watcher = setup.watch();
    let mut other_user = Actor::new(NOBODY);
    assert_eq!(other_user.does("list", &tree), "3");
    assert!(until(|| resident(&open.join("file")) == Pages(2)), "{:?}", watcher.counters().now());
    assert!(until(|| watcher.counters().now().denied >= 3), "{:?}", watcher.counters().now());
    for path in [open.join("private"), closed.join("file"), unsearchable.join("file")] {
        assert_eq!(resident(&path), Pages::ZERO, "{}", path.display());
    }
    drop(watcher);
    // Root's walk would read them, but not while the other's walk is recent.
    let watcher = setup.watch();
    assert_eq!(other_user.does("list", &tree), "3");
    // It stays: of a process that has ended nobody knows who it was.
    let mut root = Actor::new(0);
    assert_eq!(root.does("list", &tree), "3");
    assert!(until(|| watcher.counters().now().denied >= 3), "{:?}", watcher.counters().now());
    assert_eq!(resident(&open.join("private")), Pages::ZERO);
    drop(watcher);
    let watcher = setup.watch();
    assert_eq!(root.does("list", &tree), "3");
    let private = [open.join("private"), closed.join("file"), unsearchable.join("file")];
    assert!(
        until(|| private.iter().all(|path| resident(path) == Pages(2))),
        "{:?}",
        watcher.counters().now()
    );
}

/// Root opens directories of a tree, and another user files in one of them: what is read ahead must be permitted to both.
#[test]
fn who_opens_files_in_a_walk_takes_part_in_it() {
    let Some(setup) = Setup::new() else { return };
    let tree = setup.path("tree");
    let [open, closed] = ["open", "closed"].map(|name| tree.join(name));
    for directory in [&open, &closed] {
        fs::create_dir_all(directory).expect("made");
        (0..12).for_each(|n| write(&directory.join(format!("f{n}")), 8192));
    }
    write(&open.join("private"), 8192);
    set_mode(&open.join("private"), 0o600);
    set_mode(&closed, 0o700);
    setup.cold();
    let watcher = setup.watch_files();
    let counted = || watcher.counters().now();
    let mut root = Actor::new(0);
    for (directory, entries) in [(&tree, "2"), (&open, "13"), (&closed, "12")] {
        assert_eq!(root.does("list", directory), entries);
    }
    assert!(until(|| counted().directories_opened == 3), "{:?}", counted());
    drop(root);
    let mut other_user = Actor::new(NOBODY);
    // It also drives the walk from here on.
    for n in 0..10 {
        assert_eq!(other_user.does("read", &open.join(format!("f{n}"))), "8192");
    }
    assert!(until(|| counted().denied >= 2), "{:?}", counted());
    let all = || (0..12).all(|n| resident(&open.join(format!("f{n}"))) == Pages(2));
    assert!(until(all), "{:?}", counted());
    for path in [open.join("private"), closed.join("f0"), closed.join("f11")] {
        assert_eq!(resident(&path), Pages::ZERO, "{}", path.display());
    }
}

/// A user works through a list of files, and root lists a directory above.
#[test]
fn who_lists_a_directory_gives_no_rights_to_a_program_with_a_list_below() {
    let Some(setup) = Setup::new() else { return };
    let top = setup.path("top");
    let open = top.join("open");
    fs::create_dir_all(&open).expect("made");
    let file = |n: u64| open.join(format!("f{n}"));
    (0..20).for_each(|n| write(&file(n), 8192));
    write(&open.join("private"), 8192);
    set_mode(&open.join("private"), 0o600);
    setup.cold();
    let watcher = setup.watch_files();
    let disk = || watcher.status().disks.first().cloned().unwrap_or_default();
    let busy = Busy::on(&setup.device());
    assert!(until(|| disk().all_opens), "{:?}", watcher.status());
    let (mut root, mut other_user) = (Actor::new(0), Actor::new(NOBODY));
    assert_eq!(root.does("list", &top), "1");
    assert!(until(|| watcher.counters().now().directories_opened >= 1), "{:?}", watcher.counters().now());
    assert_eq!(other_user.does("read", &file(0)), "8192");
    assert!(until(|| (0..20).all(|n| resident(&file(n)) == Pages(2))), "{:?}", watcher.counters().now());
    assert!(until(|| watcher.counters().now().denied >= 1), "{:?}", watcher.counters().now());
    assert_eq!(resident(&open.join("private")), Pages::ZERO);
    drop(busy);
}

/// A program with a list of files opens them by their paths. It is seen while the disk is busy with small reads, and
/// what is read ahead is what it could list and read itself.
#[test]
fn programs_with_a_list_of_files_are_seen_while_the_disk_seeks() {
    let Some(setup) = Setup::new() else { return };
    let top = setup.path("top");
    let [open, unlisted] = ["open", "unlisted"].map(|name| top.join("tree").join(name));
    let files =
        |directory: &Path| -> Vec<PathBuf> { (0..20).map(|n| directory.join(format!("f{n}"))).collect() };
    for directory in [&open, &unlisted] {
        fs::create_dir_all(directory).expect("made");
        files(directory).iter().for_each(|path| write(path, 8192));
    }
    // Files in it can be opened by their names, and it cannot be listed.
    set_mode(&unlisted, 0o711);
    // One of more than a block, of which look-ups read a part.
    let large = top.join("large");
    fs::create_dir(&large).expect("made");
    (0..3000).for_each(|n| {
        fs::write(large.join(format!("a file with a long name, number {n:05}")), "x").expect("written")
    });
    setup.cold();
    let watcher = setup.watch();
    let mut other_user = Actor::new(NOBODY);
    let disk = || watcher.status().disks.first().cloned().unwrap_or_default();
    assert_eq!(other_user.does("read", &files(&open)[0]), "8192");
    std::thread::sleep(std::time::Duration::from_millis(600));
    assert!(!disk().all_opens);
    assert_eq!(watcher.counters().now().files_opened, 0, "at rest opens of files are not reported");
    let busy = Busy::on(&setup.device());
    assert!(until(|| disk().all_opens), "{:?}", watcher.status());
    assert_eq!(other_user.does("read", &files(&unlisted)[0]), "8192");
    assert!(until(|| watcher.counters().now().denied >= 1), "{:?}", watcher.counters().now());
    assert_eq!(other_user.does("read", &files(&open)[1]), "8192");
    assert!(
        until(|| files(&open).iter().all(|path| resident(path) == Pages(2))),
        "{:?}",
        watcher.counters().now()
    );
    assert_eq!(files(&unlisted).iter().filter(|path| resident(path) != Pages::ZERO).count(), 1);
    let listed = watcher.counters().now();
    assert_eq!(other_user.does("read", &large.join("a file with a long name, number 00007")), "1");
    assert!(
        until(|| watcher.counters().now().unlistable > listed.unlistable),
        "{:?}",
        watcher.counters().now()
    );
    drop(busy);
    assert!(until(|| !disk().all_opens), "{:?}", watcher.status());
    let before = watcher.counters().now();
    assert_eq!(
        other_user.does("read", &top.join("large").join("a file with a long name, number 00001")),
        "1"
    );
    std::thread::sleep(std::time::Duration::from_millis(300));
    assert_eq!(watcher.counters().now().files_opened, before.files_opened, "it is over");
}

/// A user that lists trees and does not read them uses up an allowance of its own.
#[test]
fn what_is_read_for_a_user_and_never_used_is_bounded() {
    const WINDOW: u64 = 16 << 20;
    const LENGTH: u64 = 64 << 10;
    let Some(setup) = Setup::new() else { return };
    let make = |name: &str, files: u64| {
        let directory = setup.path(name);
        fs::create_dir(&directory).expect("made");
        let files: Vec<PathBuf> = (0..files).map(|n| directory.join(format!("f{n}"))).collect();
        files.iter().for_each(|path| write(path, LENGTH as usize));
        (directory, files)
    };
    // Two of them are more than the window.
    let [first, second] = ["first", "second"].map(|name| make(name, 160));
    let [others, third] = ["others", "third"].map(|name| make(name, 40));
    setup.cold();
    let watcher = setup.watch_with(Options { memory_bytes: Some(WINDOW), ..Options::default() });
    let counted = || watcher.counters().now();
    let all_of = |files: &[PathBuf]| files.iter().all(|path| resident(path) == Pages(LENGTH / 4096));
    let mut user = Actor::new(NOBODY);
    assert_eq!(user.does("list", &first.0), "160");
    assert!(until(|| all_of(&first.1)), "{:?}", counted());
    assert_eq!(user.does("list", &second.0), "160");
    assert!(until(|| counted().over_allowance > 0), "{:?}", counted());
    // The bytes of a fetch are counted at its end.
    assert!(until(|| counted().content_bytes >= WINDOW), "{:?}", counted());
    // While the test runs, less than a tenth of the allowance comes back with time.
    let read = counted().content_bytes;
    assert!((WINDOW..WINDOW + WINDOW / 10).contains(&read), "{:?}", counted());
    assert!(!all_of(&second.1));
    // Another user has an allowance of its own.
    let mut other_user = Actor::new(0);
    assert_eq!(other_user.does("list", &others.0), "40");
    assert!(until(|| all_of(&others.1)), "{:?}", counted());
    // What is used comes back at once.
    assert_eq!(user.does("walk", &first.0), "160");
    assert!(until(|| counted().used_bytes >= 160 * LENGTH), "{:?}", counted());
    assert_eq!(user.does("list", &third.0), "40");
    assert!(until(|| all_of(&third.1)), "{:?}", counted());
}

#[test]
fn no_link_is_followed_and_no_mount_is_crossed() {
    let Some(setup) = Setup::new() else { return };
    let (tree, outside) = (setup.path("tree"), setup.path("outside"));
    for directory in [&tree.join("covered"), &tree.join("bound"), &outside] {
        fs::create_dir_all(directory).expect("made");
        write(&directory.join("file"), 8192);
    }
    write(&tree.join("plain"), 8192);
    symlink(&outside, tree.join("link")).expect("linked");
    symlink(outside.join("file"), tree.join("link to file")).expect("linked");
    symlink("..", tree.join("loop")).expect("linked");
    setup.cold();
    mount("none", tree.join("covered"), "tmpfs", MountFlags::empty(), Some(c"size=1m")).expect("mounted");
    mount_bind(&outside, tree.join("bound")).expect("mounted");
    let watcher = setup.watch();
    let mut actor = Actor::new(0);
    assert_eq!(actor.does("list", &tree), "6");
    assert!(until(|| resident(&tree.join("plain")) == Pages(2)), "{:?}", watcher.counters().now());
    assert_eq!(resident(&outside.join("file")), Pages::ZERO);
    // A directory on which something is mounted is not listed, nor are the files that it hides.
    assert_eq!(watcher.counters().now().listed, 1);
    assert_eq!(actor.does("list", &tree.join("bound")), "1");
    // Through the bind mount it is the same file system, and is noticed.
    assert!(until(|| resident(&outside.join("file")) == Pages(2)), "{:?}", watcher.counters().now());
    for name in ["covered", "bound"] {
        unmount(tree.join(name), UnmountFlags::empty()).expect("unmounted");
        assert_eq!(resident(&tree.join(name).join("file")), Pages::ZERO, "{name}");
    }
}

#[test]
fn a_loop_of_links_and_bind_mounts_ends() {
    let Some(setup) = Setup::new() else { return };
    let tree = setup.path("tree");
    let deep = tree.join("a/b");
    fs::create_dir_all(deep.join("again")).expect("made");
    for directory in [&tree, &tree.join("a"), &deep] {
        write(&directory.join("file"), 8192);
        symlink(&tree, directory.join("link")).expect("linked");
        symlink("link to itself", directory.join("link to itself")).expect("linked");
    }
    let files = [tree.join("file"), tree.join("a/file"), deep.join("file")];
    setup.cold();
    mount_bind(&tree, deep.join("again")).expect("mounted");
    let watcher = setup.watch();
    let mut actor = Actor::new(0);
    let mut loops = tree.clone();
    // Round and round: through the mount, through the link below it, and so on.
    for round in 0..8 {
        loops.push(if round % 2 == 0 { "a/b/again" } else { "link" });
        assert_eq!(actor.does("list", &loops), "4");
    }
    let all = || files.iter().all(|path| resident(path) == Pages(2));
    assert!(until(all), "{:?}", watcher.counters().now());
    let status = watcher.status();
    unmount(deep.join("again"), UnmountFlags::empty()).expect("unmounted");
    // Each directory is one, on whatever path it was reached. The mount in it hides the fourth.
    assert!(status.known_directories <= 3 && status.counted.listed <= 8 * 3, "{status:?}");
}

#[test]
fn a_file_under_a_lease_is_not_opened() {
    let Some(setup) = Setup::new() else { return };
    let tree = setup.path("tree");
    fs::create_dir(&tree).expect("made");
    write(&tree.join("leased"), 8192);
    write(&tree.join("plain"), 8192);
    setup.cold();
    let mut holder = Actor::new(0);
    assert_eq!(holder.does("lease", &tree.join("leased")), "ok");
    let watcher = setup.watch();
    let mut actor = Actor::new(0);
    assert_eq!(actor.does("list", &tree), "2");
    assert!(until(|| resident(&tree.join("plain")) == Pages(2)), "{:?}", watcher.counters().now());
    assert!(until(|| watcher.counters().now().leased >= 1), "{:?}", watcher.counters().now());
    assert_eq!(holder.does("leased", &tree), "True");
}

#[test]
fn no_access_time_changes() {
    let Some(setup) = Setup::new() else { return };
    let tree = setup.path("tree");
    fs::create_dir_all(tree.join("below")).expect("made");
    let paths = [tree.join("file"), tree.join("below"), tree.join("below/file")];
    write(&paths[0], 8192);
    write(&paths[2], 8192);
    setup.cold();
    let flags = MountFlags::STRICTATIME;
    mount_remount(&setup.point, flags, "").expect("remounted");
    let old = Timespec { tv_sec: 1000, tv_nsec: 5 };
    for path in &paths {
        let times = Timestamps { last_access: old, last_modification: old };
        utimensat(CWD, path, &times, AtFlags::empty()).expect("set");
    }
    let watcher = setup.watch();
    let mut actor = Actor::new(NOBODY);
    assert_eq!(actor.does("list", &tree), "2");
    let read = || watcher.counters().now().content_bytes >= 4 * 4096;
    assert!(until(read), "{:?}", watcher.counters().now());
    for path in &paths {
        assert_eq!(fs::metadata(path).expect("there").atime(), 1000, "{}", path.display());
    }
    // Checks the test's setup: a read would have changed it.
    fs::read(&paths[0]).expect("read");
    assert!(fs::metadata(&paths[0]).expect("there").atime() > 1000);
}

/// A tree on a watched disk, and an overlay of it and a layer above. Half of the directories are in both.
struct Layers {
    setup: Setup,
    /// The files of the lower layer, as programs read them. That is not their order on the disk.
    files: Vec<PathBuf>,
    /// What mounts the overlay.
    mount: String,
}

impl Layers {
    const DIRECTORIES: usize = 6;
    const FILES: usize = 50;
    const LENGTH: usize = 16_384;
    /// The first files are in directories that are in both layers.
    const IN_BOTH: usize = Self::DIRECTORIES / 2 * Self::FILES;

    /// `None`, with a message, if the machine does not allow it. The upper layer belongs to a user.
    fn new(user: u32, options: &str) -> Option<Self> {
        let setup = Setup::new()?;
        let [lower, upper, work, merged] = ["lower", "upper", "work", "merged"].map(|name| setup.path(name));
        let above = (0..Self::DIRECTORIES / 2).map(|n| upper.join(format!("d{n}")));
        let owned: Vec<PathBuf> = [&upper, &work].into_iter().cloned().chain(above).collect();
        let below = (0..Self::DIRECTORIES).map(|n| lower.join(format!("d{n}")));
        for directory in owned.iter().cloned().chain(below).chain([merged.clone()]) {
            fs::create_dir_all(&directory).expect("made");
        }
        owned.iter().for_each(|path| chown(path, Some(user), Some(user)).expect("ours"));
        let all = Self::DIRECTORIES * Self::FILES;
        let path = |n: usize| lower.join(format!("d{}/f{:02}", n / Self::FILES, n % Self::FILES));
        (0..all).for_each(|n| write(&path(n * 7919 % all), Self::LENGTH));
        let mount = format!(
            "mount -t overlay none {} -o {options}lowerdir={},upperdir={},workdir={}",
            merged.display(),
            lower.display(),
            upper.display(),
            work.display()
        );
        Some(Self { files: (0..all).map(path).collect(), mount, setup })
    }

    /// A program of root in a container with mounts and processes of its own. The overlay is its root.
    fn program(&self) -> Option<Actor> {
        self.contained(0, &[], &self.mount)
    }

    /// One that these options of `unshare` describe as well, where this command mounts what becomes its root. `None`, with a
    /// message, if the machine does not allow it.
    fn contained(&self, user: u32, options: &[&str], mount: &str) -> Option<Actor> {
        let mut unshare = Command::new("unshare");
        unshare.args(["--mount", "--pid", "--fork", "--kill-child"]).args(options).uid(user).gid(user);
        let Some(mut program) = Actor::contained(&mut unshare, mount) else {
            println!("SKIPPED: no such container can be made: {options:?}, {mount}");
            return None;
        };
        assert_eq!(program.does("enter", &self.setup.path("merged")), "ok");
        Some(program)
    }

    /// A file of the lower layer as the program sees it.
    fn seen(&self, path: &Path) -> PathBuf {
        Path::new("/").join(path.strip_prefix(self.setup.path("lower")).expect("a lower one"))
    }

    /// The program reads on from file `from`, one after the other, until `holds`; returns what the next one would be.
    fn read(&self, program: &mut Actor, from: usize, mut holds: impl FnMut(usize) -> bool) -> usize {
        let mut next = from;
        while next < self.files.len() && !holds(next) {
            let file = self.seen(&self.files[next]);
            if next.is_multiple_of(Self::FILES) {
                assert_eq!(
                    program.does("list", file.parent().expect("a directory")),
                    Self::FILES.to_string()
                );
            }
            let read = program.does("read", &file);
            let is_private = fs::metadata(&self.files[next]).expect("there").mode() & 0o077 == 0;
            let expected = if is_private { "error 13".to_owned() } else { Self::LENGTH.to_string() };
            assert_eq!(read, expected, "{}", file.display());
            // Slower than a disk, so that it pays to read ahead.
            std::thread::sleep(Duration::from_millis(8));
            next += 1;
        }
        next
    }

    /// The program keeps each directory open, once it has listed it.
    fn hold(&self, program: &mut Actor) {
        for n in 0..Self::DIRECTORIES {
            let directory = Path::new("/").join(format!("d{n}"));
            assert_eq!(program.does("hold", &directory), Self::FILES.to_string());
        }
    }

    /// The program walks through all of it. What is read ahead of it lies in the lower layer.
    fn is_read_ahead(&self, watcher: &Watcher, program: &mut Actor) {
        let (counted, lower) = (|| watcher.counters().now(), self.setup.path("lower"));
        assert_eq!(program.does("list", Path::new("/")), Self::DIRECTORIES.to_string());
        let next = self.read(program, 0, |next| self.ahead(next) > 0);
        assert!((8..self.files.len()).contains(&next), "{next}: {:?}", watcher.status());
        assert_eq!(self.read(program, next, |_| false), self.files.len());
        let most = self.files.len() as u64;
        assert!(until(|| counted().files_opened > most / 2), "{:?}", counted());
        assert!(until(|| counted().files_found_read > most / 2), "{:?}", counted());
        let walks = || watcher.status().disks.first().map(|disk| disk.walks.clone()).unwrap_or_default();
        let is_it =
            |walk: &Walk| walk.path.as_ref() == Some(&lower) && walk.files > most / 2 && walk.used > 0;
        assert!(until(|| walks().iter().any(is_it)), "{:?}", watcher.status());
    }

    /// How many of the files from this one on are in memory.
    fn ahead(&self, from: usize) -> usize {
        self.files[from..].iter().filter(|path| resident(path) > Pages::ZERO).count()
    }
}

#[test]
fn what_a_program_reads_through_an_overlay_in_a_container_is_read_ahead() {
    let Some(layers) = Layers::new(0, "") else { return };
    layers.setup.cold();
    let watcher = layers.setup.watch_as_users_do();
    let Some(mut program) = layers.program() else { return };
    layers.is_read_ahead(&watcher, &mut program);
}

#[test]
fn what_a_program_reads_through_a_bind_mount_in_a_container_is_read_ahead() {
    let Some(layers) = Layers::new(0, "") else { return };
    layers.setup.cold();
    let watcher = layers.setup.watch_as_users_do();
    let [lower, merged] = ["lower", "merged"].map(|name| layers.setup.path(name));
    let bind = format!("mount --bind {} {}", lower.display(), merged.display());
    let Some(mut program) = layers.contained(0, &[], &bind) else { return };
    layers.is_read_ahead(&watcher, &mut program);
}

/// It is root in there, and another user outside.
#[test]
fn what_is_read_ahead_of_root_in_a_user_namespace_is_what_its_user_may_read() {
    let Some(layers) = Layers::new(NOBODY, "userxattr,") else { return };
    let private = || layers.files.iter().step_by(10);
    private().for_each(|path| set_mode(path, 0o600));
    layers.setup.cold();
    let watcher = layers.setup.watch_as_users_do();
    let options = ["--user", "--map-root-user"];
    let Some(mut program) = layers.contained(NOBODY, &options, &layers.mount) else { return };
    layers.is_read_ahead(&watcher, &mut program);
    let counted = watcher.counters().now();
    assert!(counted.denied as usize >= private().count() / 2, "{counted:?}");
    for path in private() {
        assert_eq!(resident(path), Pages::ZERO, "{}", path.display());
    }
}

/// An overlay keeps the listing of a directory that is in both layers for as long as a program has it open. Another
/// program that lists it opens the upper directory alone.
#[test]
fn a_directory_whose_listing_an_overlay_keeps_is_known_from_its_first_listing() {
    let Some(layers) = Layers::new(0, "") else { return };
    layers.setup.cold();
    let watcher = layers.setup.watch_as_users_do();
    let Some(mut program) = layers.program() else { return };
    layers.hold(&mut program);
    let next = layers.read(&mut program, 0, |next| layers.ahead(next) > 0);
    assert!(next < Layers::IN_BOTH, "{:?}", watcher.status());
}

#[test]
fn a_program_is_seen_as_one_with_a_list_where_an_overlay_kept_listings_from_earlier() {
    let Some(layers) = Layers::new(0, "") else { return };
    layers.setup.cold();
    let Some(mut program) = layers.program() else { return };
    layers.hold(&mut program);
    let watcher = layers.setup.watch_as_users_do();
    let counted = || watcher.counters().now();
    let disk = || watcher.status().disks.first().cloned().unwrap_or_default();
    layers.read(&mut program, 0, |next| next == Layers::FILES);
    if disk().all_opens {
        println!("SKIPPED in part: this disk is busy with a small read each 8 ms");
    } else {
        // The open is that of the upper directory.
        assert_eq!((counted().directories_opened, counted().files_opened), (1, 0), "{:?}", watcher.status());
        assert_eq!(layers.ahead(Layers::FILES), 0, "{:?}", watcher.status());
    }
    let busy = Busy::on(&layers.setup.device());
    assert!(until(|| disk().all_opens), "{:?}", watcher.status());
    let next = layers.read(&mut program, Layers::FILES, |next| layers.ahead(next) > 0);
    assert!(next < Layers::IN_BOTH, "{:?}", watcher.status());
    let has_list = |walk: &Walk| walk.has_list && walk.path == Some(layers.setup.path("lower/d1"));
    assert!(until(|| disk().walks.iter().any(has_list)), "{:?}", watcher.status());
    drop(busy);
}
