//! The progress of the program that reads a tree.
//!
//! *As root* by fanotify: files that programs close, in any order. A closed file counts as used, unless a process of this
//! program closed it: a watcher reads ahead of the command as well. Such a process is known by its name. Limit: one that has
//! ended before its first event is read counts.
//! *Otherwise* by the command's own count of bytes read (`rchar` of `/proc/PID/io`, with its descendants),
//! taken as a position in the expected order of reading. If that count does not grow (a program that maps its
//! files), residency is checked: a batch that was not fetched and has pages in memory that were not there before has
//! been reached.
//!
//! Limits: reads from pipes and other files are part of the count. Programs that skip files, or holes of sparse files
//! (grep, cp), seem slower than they are, and profit less. Holes are part of a file's length, since other programs read
//! them: without them such a program would seem ahead of where it is, and data that waits would be pushed out.

use crate::addresses::Piece;
use crate::tree::Tree;
use crate::window::Window;
use foreseek_storage::fanotify::CloseWatch;
use foreseek_storage::{HostFd, Residency, name_of};
use foreseek_units::Bytes;
use rustc_hash::{FxHashMap, FxHashSet};
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// The most times that events are taken in one look, with 64 or more each: twice what the kernel queues.
const ROUNDS: usize = 512;
/// The names of this program's processes that read ahead. What the server of a mount reads is a use by its programs.
const PROGRAMS: [&[u8]; 2] = [b"foreseek", b"foreseek-watch"];
/// How long the count of bytes read may stay the same before residency is checked.
const STILL: Duration = Duration::from_millis(500);

/// Descendants of the command whose count is read: each costs three small files of `/proc`.
const DESCENDANTS: usize = 256;

/// How many files of a batch are checked for residency.
const PROBED: usize = 4;

/// The files and their batches.
#[derive(Debug)]
pub(crate) struct ReadOrder<'a> {
    /// The files.
    pub(crate) tree: &'a Tree,
    /// The files in the order in which they will be read.
    pub(crate) order: &'a [u32],
    /// The batch of each file, by its number in the tree.
    pub(crate) batch_of: &'a [u32],
    /// The bytes to fetch of each file, by its number in the tree.
    pub(crate) bytes_of: &'a [Bytes],
    /// The size of each file, by its number in the tree.
    pub(crate) sizes: &'a [Bytes],
    /// The pieces of each batch, which were not in memory.
    pub(crate) pieces: &'a [Vec<Piece>],
    /// The files that programs were seen to close.
    pub(crate) used: &'a Used,
}

/// Processes with the name of this program.
#[derive(Debug, Default)]
struct OwnProcesses {
    /// Those that were seen: one that has ended has events in the queue.
    seen: FxHashSet<u32>,
    /// Which were looked up since [`Self::forget`].
    known: FxHashMap<u32, bool>,
}

impl OwnProcesses {
    fn has(&mut self, process: u32) -> bool {
        let seen = &mut self.seen;
        *self.known.entry(process).or_insert_with(|| {
            let name = name_of(process);
            match name.as_deref() {
                Some(name) if PROGRAMS.contains(&name) || process == std::process::id() => {
                    seen.insert(process)
                }
                Some(_) => seen.remove(&process),
                None => false,
            };
            seen.contains(&process)
        })
    }

    /// From now on they are looked up anew: the number of a process may be another one's.
    fn forget(&mut self) {
        self.known.clear();
    }
}

/// The files that programs were seen to close, by their numbers in the tree. Threads share it.
#[derive(Debug)]
pub(crate) struct Used(Vec<AtomicBool>);

impl Used {
    /// None of so many files.
    pub(crate) fn none_of(files: usize) -> Self {
        Self((0..files).map(|_| AtomicBool::new(false)).collect())
    }

    pub(crate) fn has(&self, file: u32) -> bool {
        self.0[file as usize].load(Ordering::Relaxed)
    }

    /// Adds a file; returns whether it is new.
    fn add(&self, file: u32) -> bool {
        !self.0[file as usize].swap(true, Ordering::Relaxed)
    }
}

/// See the module's documentation.
#[derive(Debug)]
pub(crate) struct Follower<'a> {
    read_order: ReadOrder<'a>,
    by: Means,
    /// The number of used files.
    count: u64,
}

#[derive(Debug)]
enum Means {
    Closes {
        watch: CloseWatch,
        /// The files by volume and inode.
        sorted: Vec<u32>,
        own: OwnProcesses,
    },
    Account {
        process: u32,
        /// The files of the order before this one are used.
        next: usize,
        /// The sum of their sizes.
        passed: Bytes,
        /// The time of the last growth of the count, or of the last look while a batch was fetched; and its largest value.
        moved: (Instant, Bytes),
    },
}

impl<'a> Follower<'a> {
    /// A follower by closes, watched on the file systems of a tree.
    #[must_use]
    pub(crate) fn by_closes(read_order: ReadOrder<'a>, watch: CloseWatch) -> Self {
        let files = read_order.tree.files();
        let mut sorted: Vec<u32> = (0..files.len() as u32).collect();
        sorted.sort_unstable_by_key(|index| (files[*index as usize].volume, files[*index as usize].inode));
        Self::new(read_order, Means::Closes { watch, sorted, own: OwnProcesses::default() })
    }

    /// A follower by the read count of a process and its descendants.
    #[must_use]
    pub(crate) fn by_account(read_order: ReadOrder<'a>, process: u32) -> Self {
        let moved = (Instant::now(), Bytes::ZERO);
        Self::new(read_order, Means::Account { process, next: 0, passed: Bytes::ZERO, moved })
    }

    fn new(read_order: ReadOrder<'a>, by: Means) -> Self {
        Self { read_order, by, count: 0 }
    }

    /// The number of used files.
    #[must_use]
    pub(crate) fn used(&self) -> u64 {
        self.count
    }

    /// How often events were lost.
    #[must_use]
    pub(crate) fn overflows(&self) -> u64 {
        match &self.by {
            Means::Closes { watch, .. } => watch.overflows(),
            Means::Account { .. } => 0,
        }
    }

    /// Updates the window with the program's progress. `fetching`: whether a batch is being fetched, which brings pages
    /// into memory that show nothing about the program.
    pub(crate) fn look(&mut self, window: &mut Window, fetching: bool) {
        let (read_order, count) = (&self.read_order, &mut self.count);
        let mut use_file = |file: u32| {
            *count += 1;
            window.used(read_order.batch_of[file as usize] as usize, read_order.bytes_of[file as usize]);
        };
        match &mut self.by {
            Means::Closes { watch, sorted, own } => {
                let files = read_order.tree.files();
                own.forget();
                let mut take = || {
                    watch.take(|closed| {
                        let Some(volume) = read_order.tree.volumes.find(closed.device) else { return };
                        let key = |index: &u32| (files[*index as usize].volume, files[*index as usize].inode);
                        let begin = sorted.partition_point(|index| key(index) < (volume, closed.inode));
                        let mut links = sorted[begin..]
                            .iter()
                            .take_while(|index| key(index) == (volume, closed.inode))
                            .peekable();
                        if links.peek().is_some() && !own.has(closed.process) {
                            links
                                .filter(|index| read_order.used.add(**index))
                                .for_each(|index| use_file(*index));
                        }
                    })
                };
                // Others may close files faster than they are taken, and the command's end is to be seen.
                for _ in 0..ROUNDS {
                    if !take() {
                        break;
                    }
                }
            }
            Means::Account { process, next, passed, moved } => {
                let read = bytes_read(*process);
                while let Some(file) = read_order.order.get(*next) {
                    let size = read_order.sizes[*file as usize];
                    if *passed + size > read {
                        break;
                    }
                    use_file(*file);
                    *passed += size;
                    *next += 1;
                }
                if read > moved.1 || fetching {
                    *moved = (Instant::now(), read.max(moved.1));
                } else if moved.0.elapsed() > STILL {
                    moved.0 = Instant::now();
                    self.probe(window);
                }
            }
        }
    }

    /// Checks whether a batch that was not fetched has pages in memory: then the program has reached it.
    fn probe(&self, window: &mut Window) {
        let Some(batch) = window.unfetched() else { return };
        let read_order = &self.read_order;
        let mut files = read_order.order.iter().filter(|file| {
            read_order.batch_of[**file as usize] as usize == batch
                && !read_order.bytes_of[**file as usize].is_zero()
        });
        let pieces = |file: u32| read_order.pieces[batch].iter().filter(move |piece| piece.file == file);
        if files.by_ref().take(PROBED).any(|file| pieces(*file).any(|it| is_in_memory(read_order.tree, it))) {
            window.reached(batch);
        }
    }
}

/// Whether any page of a piece is in memory.
fn is_in_memory(tree: &Tree, piece: &Piece) -> bool {
    let Ok((fd, _)) = tree.open(&tree.files()[piece.file as usize]) else { return false };
    let Some(fd) = HostFd::new(fd.as_raw_fd()) else { return false };
    let mut runs = Vec::new();
    Residency::of(fd).runs(fd, piece.pages, &mut runs) && !runs.is_empty()
}

/// The bytes that a process and its descendants have read, including those that have ended.
fn bytes_read(process: u32) -> Bytes {
    let io = |process| std::fs::read_to_string(format!("/proc/{process}/io")).unwrap_or_default();
    with_descendants(process).into_iter().map(|process| read_in(&io(process))).sum()
}

/// A process and its descendants, [`DESCENDANTS`] at most.
#[must_use]
pub(crate) fn with_descendants(process: u32) -> Vec<u32> {
    let mut waiting = vec![process];
    let mut all = Vec::new();
    while let Some(process) = waiting.pop().filter(|_| all.len() < DESCENDANTS) {
        all.push(process);
        let threads = std::fs::read_dir(format!("/proc/{process}/task"));
        for thread in threads.into_iter().flatten().flatten() {
            let children = std::fs::read_to_string(thread.path().join("children")).unwrap_or_default();
            waiting.extend(children.split_whitespace().filter_map(|child| child.parse::<u32>().ok()));
        }
    }
    all
}

fn read_in(io: &str) -> Bytes {
    let value = io.lines().find_map(|line| line.strip_prefix("rchar: ")?.trim().parse().ok());
    Bytes(value.unwrap_or(0))
}

#[cfg(test)]
#[allow(clippy::print_stdout, reason = "a test that cannot run says so")]
mod tests {
    use super::*;
    use crate::tree::{Limits, Reading};
    use crate::{Halt, Progress, Work};
    use foreseek_places::Metadata;
    use foreseek_storage::cachestat;
    use foreseek_units::{PageIndex, PageSpan, Pages};
    use rustix::fs::{Advice, fadvise};
    use std::fs::File;
    use std::os::unix::fs::FileExt;

    /// For a program whose reads are not counted, since it maps its files.
    #[test]
    fn a_batch_is_reached_when_what_was_missing_of_it_is_in_memory() {
        let folder = tempfile::tempdir_in("/var/tmp").unwrap();
        let file = |name| {
            let path = folder.path().join(name);
            std::fs::write(&path, [1; 16 * 4096]).unwrap();
            let file = File::open(path).unwrap();
            file.sync_all().unwrap();
            fadvise(&file, 0, None, Advice::DontNeed).unwrap();
            // Reads bring in no other pages.
            fadvise(&file, 0, None, Advice::Random).unwrap();
            file
        };
        let files = ["a", "b", "c"].map(file);
        let (stop, progress) = (Halt::default(), |_: Progress<'_>| ());
        let work = Work { stop: &stop, progress: &progress };
        let tree =
            Tree::list(&[folder.path().into()], Limits::default(), &mut Metadata::default(), &work).unwrap();
        let order = tree.in_order_of(Reading::Name);
        let half = Pages(8).bytes();
        let piece =
            |at: usize| Piece { file: order[at], pages: PageSpan::at(PageIndex(8), Pages(8)), lba: None };
        // The first halves were in memory before.
        let pieces = [vec![piece(0)], vec![piece(1), piece(2)]];
        let mut batch_of = vec![1; 3];
        batch_of[order[0] as usize] = 0;
        let used = Used::none_of(order.len());
        let read_order = ReadOrder {
            tree: &tree,
            order: &order,
            batch_of: &batch_of,
            bytes_of: &[half; 3],
            sizes: &[half * 2; 3],
            pieces: &pieces,
            used: &used,
        };
        let mut window = Window::new(half * 2, [half, half * 2]);
        window.fetched(0, half);
        let mut buffer = [0; 4096];
        files[1].read_exact_at(&mut buffer, 0).unwrap();
        let cached = |file: &File| {
            let fd = HostFd::new(file.as_raw_fd()).unwrap();
            cachestat(fd, PageSpan::at(PageIndex::ZERO, Pages(16)))
        };
        if files.each_ref().map(cached) != [Ok(Pages(0)), Ok(Pages(1)), Ok(Pages(0))] {
            println!("SKIPPED: pages of /var/tmp do not come and go alone");
            return;
        }
        let follower = Follower::by_account(read_order, std::process::id());
        follower.probe(&mut window);
        assert_eq!(window.reader(), 0);
        files[2].read_exact_at(&mut buffer, half.get()).unwrap();
        follower.probe(&mut window);
        assert_eq!(window.reader(), 1);
    }

    /// A process that ends with the test.
    struct Ended(std::process::Child);

    impl Drop for Ended {
        fn drop(&mut self) {
            let _ = self.0.kill();
            let _ = self.0.wait();
        }
    }

    /// Pages that come while a batch is fetched show nothing.
    #[test]
    fn a_batch_that_is_being_fetched_is_not_looked_at() {
        let folder = tempfile::tempdir_in("/var/tmp").unwrap();
        ["a", "b"].iter().for_each(|name| std::fs::write(folder.path().join(name), [1; 4096]).unwrap());
        let (stop, progress) = (Halt::default(), |_: Progress<'_>| ());
        let work = Work { stop: &stop, progress: &progress };
        let tree =
            Tree::list(&[folder.path().into()], Limits::default(), &mut Metadata::default(), &work).unwrap();
        let order = tree.in_order_of(Reading::Name);
        let page = Pages(1).bytes();
        // Both were just written, and are in memory.
        let pieces = [0, 1].map(|at: usize| {
            vec![Piece { file: order[at], pages: PageSpan::at(PageIndex(0), Pages(1)), lba: None }]
        });
        let mut batch_of = vec![1; 2];
        batch_of[order[0] as usize] = 0;
        let used = Used::none_of(order.len());
        let read_order = ReadOrder {
            tree: &tree,
            order: &order,
            batch_of: &batch_of,
            bytes_of: &[page; 2],
            sizes: &[page; 2],
            pieces: &pieces,
            used: &used,
        };
        let mut window = Window::new(page * 2, [page, page]);
        window.fetched(0, page);
        // It reads nothing.
        let child = Ended(std::process::Command::new("sleep").arg("60").spawn().unwrap());
        let mut follower = Follower::by_account(read_order, child.0.id());
        // What it reads to start is counted.
        std::thread::sleep(STILL);
        follower.look(&mut window, false);
        for (fetching, reader) in [(true, 0), (false, 1)] {
            std::thread::sleep(STILL + Duration::from_millis(100));
            follower.look(&mut window, fetching);
            assert_eq!(window.reader(), reader, "{fetching}");
        }
    }

    #[test]
    fn the_account_counts_reads_of_a_process_and_its_children() {
        assert_eq!(read_in("rchar: 12\nwchar: 5\n"), Bytes(12));
        assert_eq!(read_in("nothing"), Bytes::ZERO);
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("file");
        std::fs::write(&path, vec![1; 3_000_000]).unwrap();
        let script = "cat \"$1\" > /dev/null; cat \"$1\" > /dev/null; echo read; read line";
        let mut command = std::process::Command::new("sh");
        command.args(["-c", script, "sh"]).arg(&path);
        command.stdin(std::process::Stdio::piped()).stdout(std::process::Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut line = String::new();
        let mut out = std::io::BufReader::new(child.stdout.take().unwrap());
        std::io::BufRead::read_line(&mut out, &mut line).unwrap();
        let read = bytes_read(child.id());
        drop(child.stdin.take());
        child.wait().unwrap();
        assert!(read >= Bytes(6_000_000), "{read:?}");
    }
}
