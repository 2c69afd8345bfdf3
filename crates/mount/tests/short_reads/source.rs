//! A file system whose reads come short before the end of the file: by a few bytes, to a single page, to one
//! byte, or to nothing but EINTR. Some pages cannot be read, and the file may be shortened.
//!
//! A seed and the number of the read choose each answer: a run is repeatable as far as the order of reads is
//! the same. It serves in threads of the test itself, which maps nothing of it.

use super::common::Random;
use super::common::one_file::{Served, Shape};
use fuser::{
    Errno, FileHandle, Filesystem, FopenFlags, INodeNo, LockOwner, MountOption, OpenFlags, ReplyAttr,
    ReplyData, ReplyEntry, ReplyOpen, ReplyXattr, Request,
};
use std::ffi::OsStr;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Mutex};

pub(crate) const PAGE: usize = 4096;
/// One in this many answers is EINTR: never as many in a row as are retried.
const INTERRUPTED_ONE_IN: u64 = 32;

/// How the file can be read without the page cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Direct {
    /// With `O_DIRECT`, as on most file systems.
    Taken,
    /// Opening with `O_DIRECT` is refused.
    Refused,
}

/// The contents of the file, and its bad pages. The test and the file system share it.
#[derive(Debug)]
pub(crate) struct Contents {
    pub(crate) bytes: Vec<u8>,
    /// Pages that cannot be read.
    pub(crate) bad: Vec<usize>,
    /// Its current length, and how often it was shortened.
    length: Mutex<(usize, u32)>,
}

impl Contents {
    pub(crate) fn new(length: usize, bad: &[usize]) -> Arc<Self> {
        let byte = |at: usize| (at / PAGE * 37 + at % 249) as u8;
        let bytes = (0..length).map(byte).collect();
        Arc::new(Self { bytes, bad: bad.to_vec(), length: Mutex::new((length, 0)) })
    }

    pub(crate) fn length(&self) -> usize {
        self.state().0
    }

    /// Shortens the file.
    pub(crate) fn shorten(&self, length: usize) {
        let mut state = self.length.lock().expect("no panic");
        *state = (length, state.1 + 1);
    }

    fn state(&self) -> (usize, u32) {
        *self.length.lock().expect("no panic")
    }
}

/// The file system; it is unmounted when dropped.
pub(crate) struct ShortSource {
    served: Served,
    pub(crate) answers: Arc<Answers>,
}

/// Counters of its answers.
#[derive(Debug, Default)]
pub(crate) struct Answers {
    pub(crate) reads: AtomicU64,
    pub(crate) short: AtomicU64,
    pub(crate) interrupted: AtomicU64,
    pub(crate) failed: AtomicU64,
}

impl ShortSource {
    pub(crate) fn mount(point: &Path, contents: &Arc<Contents>, direct: Direct, seed: u64) -> Self {
        let answers = Arc::new(Answers::default());
        let server = Server { contents: Arc::clone(contents), direct, seed, answers: Arc::clone(&answers) };
        let served = Served::mount(server, point, "short", &[MountOption::RO]);
        Self { served, answers }
    }

    /// Unmounts it.
    pub(crate) fn end(&mut self) {
        self.served.end();
    }
}

struct Server {
    contents: Arc<Contents>,
    direct: Direct,
    seed: u64,
    answers: Arc<Answers>,
}

/// The answer to a read.
enum Given {
    Bytes(usize),
    Interrupted,
    Failed,
}

impl Server {
    fn shape(&self) -> Shape {
        let (length, changes) = self.contents.state();
        Shape { length: length as u64, changes: u64::from(changes) }
    }

    /// How much of a read of `there` bytes is returned; they begin at `offset`.
    fn given(&self, offset: usize, there: usize) -> Given {
        let number = self.answers.reads.fetch_add(1, SeqCst);
        let mut random = Random(self.seed ^ number.wrapping_mul(0x9E37_79B9));
        let pages = offset / PAGE..(offset + there).div_ceil(PAGE);
        let bad = self.contents.bad.iter().filter(|bad| pages.contains(bad)).min();
        // As on a disk: the bytes before the bad page may have arrived or not.
        if let Some(bad) = bad {
            let before = (bad * PAGE).saturating_sub(offset);
            if before == 0 || random.below(2) == 0 {
                return Given::Failed;
            }
            return Given::Bytes(before - random.below(before.min(3) as u64) as usize);
        }
        if random.below(INTERRUPTED_ONE_IN) == 0 {
            return Given::Interrupted;
        }
        let most = there as u64;
        let least = u64::from(there > 0);
        Given::Bytes(match random.below(6) {
            // Around a multiple of the page.
            0 => {
                let pages = random.below(most / PAGE as u64 + 1) * PAGE as u64;
                (pages + 1).saturating_sub(random.below(3)).clamp(least, most)
            }
            1 => (most - random.below(2)).max(least),
            2 => least.max(random.below(most + 1)),
            3 => least,
            _ => most,
        } as usize)
    }
}

impl Filesystem for Server {
    fn lookup(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        self.shape().look_up(parent, name, reply);
    }

    fn getattr(&self, _: &Request, node: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        self.shape().stat(node, reply);
    }

    fn open(&self, _: &Request, _: INodeNo, flags: OpenFlags, reply: ReplyOpen) {
        if self.direct == Direct::Refused && flags.0 & libc::O_DIRECT != 0 {
            return reply.error(Errno::EINVAL);
        }
        // So that answers arrive unchanged.
        reply.opened(FileHandle(0), FopenFlags::FOPEN_DIRECT_IO);
    }

    fn getxattr(&self, _: &Request, _: INodeNo, _: &OsStr, _: u32, reply: ReplyXattr) {
        reply.error(Errno::ENOSYS);
    }

    fn read(
        &self,
        _: &Request,
        _: INodeNo,
        _: FileHandle,
        offset: u64,
        size: u32,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyData,
    ) {
        let offset = offset as usize;
        let there = self.contents.length().saturating_sub(offset).min(size as usize);
        if there == 0 {
            return reply.data(&[]);
        }
        match self.given(offset, there) {
            Given::Bytes(length) => {
                self.answers.short.fetch_add(u64::from(length < there), SeqCst);
                reply.data(&self.contents.bytes[offset..offset + length]);
            }
            Given::Interrupted => {
                self.answers.interrupted.fetch_add(1, SeqCst);
                reply.error(Errno::EINTR);
            }
            Given::Failed => {
                self.answers.failed.fetch_add(1, SeqCst);
                reply.error(Errno::EIO);
            }
        }
    }
}
