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
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

/// The time between two looks for deleted ones among them: a look takes some 0.02 ms.
const LET_GO: Duration = Duration::from_millis(10);
/// The time between two looks who else reads while there is nothing to fetch. A look takes 0.05 ms, and what was read
/// ahead is used for longer.
const LOOK: Duration = Duration::from_millis(5);

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
        let requests = Requests::new(Arc::clone(&self.disk));
        let open = VecDeque::with_capacity(OPEN);
        let mut files = Files { worker: self, open, requests, looked: Instant::now() };
        let mut fetched_bytes = Bytes::ZERO;
        let mut outcome = Outcome::Arrived;
        for part in parts {
            let file_system = self.shared.file_system(part.file.node.device);
            let Some(file_system) = file_system.filter(|it| !it.is_left() && !self.is_cancelled(fetch))
            else {
                outcome = Outcome::Partly;
                break;
            };
            let asked = if self.is_directory(part.file) {
                files.requests.send();
                self.request_directory(&file_system, part, metadata).map(|()| Bytes::ZERO)
            } else {
                files.request(&file_system, part)
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
        }
        (fetched_bytes, outcome)
    }

    fn request_directory(
        &self,
        file_system: &FileSystem,
        part: &Part,
        metadata: &mut Metadata,
    ) -> Result<(), Errno> {
        // Checks that it is still there, and may be listed.
        self.shared.reach(file_system).directory(part.file)?;
        let start = file_system.volume.backing.start;
        let at = Lba(part.lba.get().checked_sub(start.get()).ok_or(Errno::INVAL)?);
        if has_reader(metadata, file_system) {
            metadata.prefetch(file_system.number, vec![ByteSpan::at(at.offset(), part.pages.len().bytes())]);
        }
        Ok(())
    }
}

/// The files that the fetching thread has open.
struct Files<'a> {
    worker: &'a Worker,
    open: VecDeque<(Node, Opened)>,
    requests: Requests,
    /// When deleted ones were let go last.
    looked: Instant,
}

impl Files<'_> {
    /// Requests a part; returns how many bytes were requested.
    ///
    /// # Errors
    /// EDQUOT if the user's allowance is used up; otherwise the error of the open or the request.
    fn request(&mut self, file_system: &FileSystem, part: &Part) -> Result<Bytes, Errno> {
        if self.looked.elapsed() >= LET_GO {
            let_go(&mut self.open);
            self.looked = Instant::now();
        }
        let call = file_system.volume.backing.call_length();
        let shared = self.worker.shared.clone();
        let opened = self.opened(file_system, part)?;
        let (user, fd) = (opened.user, HostFd::new(opened.fd.as_raw_fd()).ok_or(Errno::BADF)?);
        let (allowance, now) = (shared.allowance(), Instant::now());
        if !shared.unused().may_read(user, allowance, now) {
            return Err(Errno::DQUOT);
        }
        let asked = self.requests.will_need(fd, part.pages.bytes(), call, Some(part.lba))?;
        shared.unused().read(user, part.file.node, asked, allowance, now);
        Ok(asked)
    }

    fn opened(&mut self, file_system: &FileSystem, part: &Part) -> Result<&Opened, Errno> {
        let file = part.file.node;
        if let Some(at) = self.open.iter().rposition(|(known, _)| *known == file) {
            return Ok(&self.open[at].1);
        }
        let reach = self.worker.shared.reach(file_system);
        let opened = reach.files(part.file.directory, &[file]).pop().unwrap_or(Err(Errno::STALE))?;
        if self.open.len() >= OPEN {
            self.open.pop_front();
        }
        self.open.push_back((file, opened));
        self.open.back().map(|(_, opened)| opened).ok_or(Errno::BADF)
    }
}

/// Closes deleted files: their blocks are free only then.
fn let_go(open: &mut VecDeque<(Node, Opened)>) {
    open.retain(|(_, file)| rustix::fs::fstat(&file.fd).is_ok_and(|stat| stat.st_nlink > 0));
}

#[cfg(test)]
mod tests {
    use super::*;
    use foreseek_walks::DeviceNo;
    use std::fs::{self, File};

    #[test]
    fn files_that_are_deleted_while_they_are_open_are_let_go() {
        let place = tempfile::tempdir().unwrap();
        let paths = ["kept", "deleted", "linked"].map(|name| place.path().join(name));
        let opened = |(number, path): (u64, &std::path::PathBuf)| {
            fs::write(path, "text").unwrap();
            let fd = std::os::fd::OwnedFd::from(File::open(path).unwrap());
            let stat = rustix::fs::fstat(&fd).unwrap();
            (Node { device: DeviceNo(0), inode: number }, Opened { fd, stat, user: 0 })
        };
        let mut open: VecDeque<(Node, Opened)> = (0..).zip(&paths).map(opened).collect();
        fs::remove_file(&paths[1]).unwrap();
        fs::hard_link(&paths[2], place.path().join("another")).unwrap();
        fs::remove_file(&paths[2]).unwrap();
        let_go(&mut open);
        assert_eq!(open.iter().map(|(node, _)| node.inode).collect::<Vec<_>>(), [0, 2]);
    }
}
