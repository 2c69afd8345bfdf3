//! Fetches of contents, and of directories' blocks.

use super::{Answer, IDLE, Job, Metadata, OPEN, Worker, has_reader};
use crate::file_system::FileSystem;
use crate::reach::Opened;
use foreseek_places::Requests;
use foreseek_seam::FetchId;
use foreseek_storage::{HostFd, reclaimed};
use foreseek_units::{ByteSpan, Bytes, Lba};
use foreseek_walks::{Node, Outcome, Part};
use rustix::io::Errno;
use std::collections::VecDeque;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

/// The time between two looks for deleted ones among them: a look takes some 0.02 ms.
const LET_GO: Duration = Duration::from_millis(10);
/// The time between two looks who else reads while there is nothing to fetch. A look takes 0.05 ms, and what was read
/// ahead is used for longer.
const LOOK: Duration = Duration::from_millis(5);
/// The most of a file that is requested at a time while others read: one call. At its end it may wait for them.
const BESIDE_OTHERS: Bytes = Bytes::kib(256);

impl Worker {
    /// The next job after another one. Until then it looks who else reads: the disk is often idle.
    fn next_job<T>(&self, jobs: &Receiver<T>) -> Result<T, RecvTimeoutError> {
        let begun = Instant::now();
        loop {
            match jobs.recv_timeout(LOOK) {
                Err(RecvTimeoutError::Timeout) if begun.elapsed() < IDLE => self.disk.look(),
                other => return other,
            }
        }
    }

    pub(super) fn fetch_contents_jobs(&self, jobs: &Receiver<Job<Part>>) {
        let mut metadata = Metadata::default();
        let mut worked = false;
        loop {
            let job = if worked { self.next_job(jobs) } else { jobs.recv_timeout(IDLE) };
            self.close_left(&mut metadata);
            match job {
                Ok(Job::Fetch(fetch, parts)) => {
                    worked = true;
                    let (before, others) = (metadata.bytes, reclaimed());
                    let (contents, outcome) = self.request_parts(fetch, &parts, &mut metadata);
                    let blocks = metadata.bytes - before;
                    self.count_reclaimed(others, contents + blocks);
                    self.shared.counters.content_bytes.add(contents.get());
                    self.shared.counters.metadata_bytes.add(blocks.get());
                    self.notify(Answer::Done(fetch, contents + blocks, outcome));
                }
                Ok(Job::CloseLeft) => {}
                Err(RecvTimeoutError::Timeout) => (metadata, worked) = (Metadata::default(), false),
                Err(RecvTimeoutError::Disconnected) => return,
            }
        }
    }

    /// Requests parts of files and blocks of directories; returns how many bytes of files were requested.
    fn request_parts(&self, fetch: FetchId, parts: &[Part], metadata: &mut Metadata) -> (Bytes, Outcome) {
        let mut files = Files::new(self, metadata);
        let mut fetched_bytes = Bytes::ZERO;
        let mut outcome = Outcome::Arrived;
        for part in parts {
            files.let_go();
            let file_system = self.shared.file_system(part.file.node.device);
            let goes_on = |it: &FileSystem| !it.is_left() && !self.is_cancelled(fetch);
            let Some(file_system) = file_system.filter(|it| goes_on(it)) else {
                outcome = Outcome::Partly;
                break;
            };
            let goes_on = || goes_on(&file_system);
            let asked = if self.is_directory(part.file) {
                files.request_directory(&file_system, part, goes_on).map(|()| Bytes::ZERO)
            } else {
                files.request(&file_system, part, goes_on)
            };
            match asked {
                Ok(bytes) => fetched_bytes += bytes,
                Err(Errno::DQUOT) => {
                    self.shared.counters.over_allowance.add(1);
                    outcome = if fetched_bytes.is_zero() { Outcome::Refused } else { Outcome::Partly };
                    break;
                }
                Err(error) => {
                    self.count(error);
                    outcome = Outcome::Partly;
                }
            }
            if !goes_on() {
                outcome = Outcome::Partly;
            }
        }
        (fetched_bytes, outcome)
    }
}

/// A file that the fetching thread has open.
struct Open {
    file_system: Arc<FileSystem>,
    file: Node,
    opened: Opened,
}

/// What the fetching thread has open.
struct Files<'a> {
    worker: &'a Worker,
    metadata: &'a mut Metadata,
    open: VecDeque<Open>,
    requests: Requests,
    /// When deleted ones were let go last.
    looked: Instant,
}

impl<'a> Files<'a> {
    fn new(worker: &'a Worker, metadata: &'a mut Metadata) -> Self {
        let requests = Requests::new(Arc::clone(&worker.disk));
        Self { worker, metadata, open: VecDeque::with_capacity(OPEN), requests, looked: Instant::now() }
    }

    /// Closes what must not stay open: all of file systems that were left, which are in use until then, and from time to time
    /// deleted files.
    fn let_go(&mut self) {
        self.open.retain(|it| !it.file_system.is_left());
        self.worker.close_left(self.metadata);
        if self.looked.elapsed() >= LET_GO {
            // Their blocks are free only then.
            self.open.retain(|it| !is_deleted(&it.opened.fd));
            self.looked = Instant::now();
        }
    }

    /// Requests a part for as long as `goes_on` says so; returns how many bytes were requested.
    ///
    /// # Errors
    /// EDQUOT if the user's allowance is used up; otherwise the error of the open or the first request.
    fn request(
        &mut self,
        file_system: &Arc<FileSystem>,
        part: &Part,
        goes_on: impl Fn() -> bool,
    ) -> Result<Bytes, Errno> {
        let call = file_system.volume.backing.call_length();
        let shared = self.worker.shared.clone();
        let user = self.opened(file_system, part)?.0.user;
        let (allowance, now) = (shared.allowance(), Instant::now());
        if !shared.unused().may_read(user, allowance, now) {
            return Err(Errno::DQUOT);
        }
        let whole = part.pages.bytes();
        let mut asked = Bytes::ZERO;
        while asked < whole.len() && goes_on() {
            // The one before may have waited for others.
            self.let_go();
            let (_, rest) = whole.split(whole.start + asked);
            let (piece, _) = rest.split(rest.start + self.at_once(call));
            let place = part.lba + asked.sectors_ceil();
            let request = |opened: &Opened, requests: &mut Requests| {
                let fd = HostFd::new(opened.fd.as_raw_fd()).ok_or(Errno::BADF)?;
                requests.will_need(fd, piece, call, Some(place))
            };
            match self.opened(file_system, part).and_then(|(opened, requests)| request(opened, requests)) {
                Err(error) if asked.is_zero() => return Err(error),
                Ok(bytes) if bytes == piece.len() => asked += bytes,
                last => {
                    asked += last.unwrap_or_default();
                    break;
                }
            }
        }
        shared.unused().read(user, part.file.node, asked, allowance, now);
        Ok(asked)
    }

    /// The most that is requested at a time.
    fn at_once(&self, call: Bytes) -> Bytes {
        if self.worker.disk.others_read() { call.min(BESIDE_OTHERS) } else { call }
    }

    /// A file, which is open from then on, and the requests in which its parts go out.
    fn opened(
        &mut self,
        file_system: &Arc<FileSystem>,
        part: &Part,
    ) -> Result<(&Opened, &mut Requests), Errno> {
        let file = part.file.node;
        let at = match self.open.iter().rposition(|known| known.file == file) {
            Some(at) => at,
            None => {
                let reach = self.worker.shared.reach(file_system);
                let opened = reach.files(part.file.directory, &[file]).pop().unwrap_or(Err(Errno::STALE))?;
                if self.open.len() >= OPEN {
                    self.open.pop_front();
                }
                self.open.push_back(Open { file_system: Arc::clone(file_system), file, opened });
                self.open.len() - 1
            }
        };
        Ok((&self.open[at].opened, &mut self.requests))
    }

    /// Requests blocks of a directory for as long as `goes_on` says so.
    fn request_directory(
        &mut self,
        file_system: &FileSystem,
        part: &Part,
        goes_on: impl Fn() -> bool,
    ) -> Result<(), Errno> {
        self.requests.send();
        // Checks that it is still there, and may be listed.
        self.worker.shared.reach(file_system).directory(part.file)?;
        let start = file_system.volume.backing.start;
        let at = Lba(part.lba.get().checked_sub(start.get()).ok_or(Errno::INVAL)?);
        let call = file_system.volume.backing.call_length();
        let mut rest = ByteSpan::at(at.offset(), part.pages.len().bytes());
        while !rest.is_empty() && goes_on() && has_reader(self.metadata, file_system) {
            self.let_go();
            let (piece, after) = rest.split(rest.start + self.at_once(call));
            self.metadata.prefetch(file_system.number, vec![piece]);
            rest = after;
        }
        Ok(())
    }
}

fn is_deleted(file: &OwnedFd) -> bool {
    rustix::fs::fstat(file).is_ok_and(|stat| stat.st_nlink == 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_disk::{TestDisk, until};
    use foreseek_storage::{Credentials, FileHandle};
    use foreseek_units::{PageIndex, PageSpan};
    use foreseek_walks::{InDirectory, ListCondition};
    use std::cell::Cell;
    use std::fs::{self, File};
    use std::os::fd::AsFd;
    use std::path::{Path, PathBuf};
    use std::sync::Mutex;
    use std::sync::mpsc::channel;

    #[test]
    fn files_that_are_deleted_while_they_are_open_are_known() {
        let place = tempfile::tempdir().unwrap();
        let paths = ["kept", "deleted", "linked"].map(|name| place.path().join(name));
        let open = paths.each_ref().map(|path| {
            fs::write(path, "text").unwrap();
            OwnedFd::from(File::open(path).unwrap())
        });
        fs::remove_file(&paths[1]).unwrap();
        fs::hard_link(&paths[2], place.path().join("another")).unwrap();
        fs::remove_file(&paths[2]).unwrap();
        assert_eq!(open.each_ref().map(is_deleted), [false, true, false]);
    }

    /// A file system with a directory of which all is known, the directory, and its files.
    fn known(worker: &Worker, file_system: &Arc<FileSystem>, place: &Path) -> (Node, Vec<Part>) {
        let node = |path: &Path| file_system.node(rustix::fs::stat(path).unwrap().st_ino);
        let directory = node(place);
        let handle = FileHandle::of(File::open(place).unwrap().as_fd()).unwrap();
        let own = Arc::new(Credentials::of(std::process::id()).unwrap());
        worker.shared.directories.opened(directory, handle, None, own, Instant::now());
        worker.list(InDirectory { node: directory, directory }, ListCondition::Always, &Mutex::default());
        let part = |entry: fs::DirEntry| {
            let pages = PageSpan::at(PageIndex(0), Bytes(entry.metadata().unwrap().len()).pages_ceil());
            Part { file: InDirectory { node: node(&entry.path()), directory }, pages, lba: Lba(1 << 20) }
        };
        (directory, fs::read_dir(place).unwrap().map(|entry| part(entry.unwrap())).collect())
    }

    fn make(disk: &TestDisk, files: usize, length: usize) -> PathBuf {
        let place = disk.point.join("tree");
        fs::create_dir(&place).unwrap();
        (0..files).for_each(|n| fs::write(place.join(n.to_string()), vec![7; length]).unwrap());
        disk.cold();
        place
    }

    #[test]
    fn what_is_open_of_a_file_system_that_is_left_is_closed_before_more_is_requested_of_another() {
        let (Some(left), Some(stays)) = (TestDisk::new(true), TestDisk::new(true)) else { return };
        let places = [&left, &stays].map(|disk| make(disk, 6, 200 << 10));
        let (one, other) = (left.file_system(0), stays.file_system(1));
        let worker = Worker::for_tests(&[&one, &other], channel().0);
        let (_, of_one) = known(&worker, &one, &places[0]);
        let (_, of_other) = known(&worker, &other, &places[1]);
        let mut metadata = Metadata::default();
        assert!(has_reader(&mut metadata, &one));
        let mut files = Files::new(&worker, &mut metadata);
        for part in &of_one {
            assert_eq!(files.request(&one, part, || true), Ok(Bytes::kib(200)));
        }
        assert_eq!(files.request(&other, &of_other[0], || true), Ok(Bytes::kib(200)));
        left.unmount();
        one.leave();
        assert!(!left.is_free(), "its files are open");
        // Within a part, too: it may wait for others.
        let looks = Cell::new(0);
        let goes_on = || {
            looks.set(looks.get() + 1);
            assert!(looks.get() == 1 || until(|| left.is_free()), "its device stays in use");
            true
        };
        let long = Part { pages: PageSpan::at(PageIndex(0), Bytes::mib(8).pages_ceil()), ..of_other[1] };
        files.request(&other, &long, goes_on).unwrap();
        assert!(looks.get() > 1, "{looks:?}");
        let still_open: Vec<Node> = files.open.iter().map(|it| it.file).collect();
        assert_eq!(still_open, [of_other[0].file.node, of_other[1].file.node]);
        // Nothing is opened there any more, and the fetch ends.
        assert_eq!(files.request(&one, &of_one[0], || true), Err(Errno::STALE));
        drop(files);
        let parts = [of_other[2], of_one[0], of_other[3]];
        let fetched = worker.request_parts(FetchId(1), &parts, &mut metadata);
        assert_eq!(fetched, (Bytes::kib(200), Outcome::Partly));
    }

    #[test]
    fn a_fetch_that_is_cancelled_ends_within_a_file_and_within_a_directory() {
        const LENGTH: usize = 6 << 20;
        let Some(disk) = TestDisk::new(true) else { return };
        let place = make(&disk, 1, LENGTH);
        let file_system = disk.file_system(0);
        let worker = Worker::for_tests(&[&file_system], channel().0);
        let (directory, parts) = known(&worker, &file_system, &place);
        let mut metadata = Metadata::default();
        let mut files = Files::new(&worker, &mut metadata);
        let call = file_system.volume.backing.call_length();
        let looks = Cell::new(0);
        let twice = || looks.replace(looks.get() + 1) < 2;
        assert!(call * 2 < Bytes(LENGTH as u64), "{call}");
        assert_eq!(files.request(&file_system, &parts[0], twice), Ok(call * 2));
        let blocks = Part { file: InDirectory { node: directory, directory }, ..parts[0] };
        files.request_directory(&file_system, &blocks, || false).unwrap();
        assert_eq!(files.metadata.bytes, Bytes::ZERO);
        looks.set(0);
        files.request_directory(&file_system, &blocks, twice).unwrap();
        assert_eq!(files.metadata.bytes, call * 2);
        drop(files);
        worker.cancelled.lock().unwrap().insert(FetchId(7));
        let fetched = worker.request_parts(FetchId(7), &parts, &mut metadata);
        assert_eq!(fetched, (Bytes::ZERO, Outcome::Partly));
    }
}
