//! A file that was passed through and is opened otherwise, by two programs at once, one of which writes: no
//! read after the write returns what was there before.
//!
//! The source is a file system of ours ([`HoldingSource`]), which keeps the mount's requests waiting: so the
//! steps come in one order each time.
#![allow(clippy::print_stdout, reason = "a test that cannot run says so")]

mod common;

use common::one_file::{FILE, Served, Shape};
use common::{TestMount, mounted_with, wait_for};
use foreseek_mount::{Policy, client};
use fuser::{
    Errno, FileHandle, Filesystem, FopenFlags, INodeNo, LockOwner, OpenFlags, ReplyAttr, ReplyData,
    ReplyEntry, ReplyOpen, ReplyWrite, ReplyXattr, Request, WriteFlags,
};
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{Read, Write};
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread::{JoinHandle, spawn};

/// More than a small file, which is not passed through.
const LENGTH: usize = 256 << 10;
const OLD: u8 = 1;
const NEW: u8 = 2;

/// The file of the source, and the requests that wait. The test and the file system share it.
#[derive(Default)]
struct State {
    bytes: Vec<u8>,
    changes: u64,
    /// Whether the next request of its kind waits.
    holds: Holds,
    held: Held,
}

/// Kinds of requests: an open with `O_DIRECT`, with which the mount reads, and a write.
#[derive(Default)]
struct Holds {
    open: bool,
    write: bool,
}

type Answer = Box<dyn FnOnce(&mut State) + Send>;

#[derive(Default)]
struct Held {
    open: Option<Answer>,
    write: Option<Answer>,
}

#[derive(Clone, Default)]
struct Shared(Arc<Mutex<State>>);

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().expect("no panic")
    }

    /// Answers a request that waits.
    fn answer(&self, which: fn(&mut Held) -> &mut Option<Answer>) {
        let mut state = self.state();
        let answer = which(&mut state.held).take();
        answer.into_iter().for_each(|answer| answer(&mut state));
    }
}

struct Server(Shared);

impl Server {
    fn shape(&self) -> Shape {
        let state = self.0.state();
        Shape { length: state.bytes.len() as u64, changes: state.changes }
    }
}

impl Filesystem for Server {
    fn lookup(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        self.shape().look_up(parent, name, reply);
    }

    fn getattr(&self, _: &Request, node: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        self.shape().stat(node, reply);
    }

    fn getxattr(&self, _: &Request, _: INodeNo, _: &OsStr, _: u32, reply: ReplyXattr) {
        reply.error(Errno::ENOSYS);
    }

    fn open(&self, _: &Request, _: INodeNo, flags: OpenFlags, reply: ReplyOpen) {
        // What is written is nowhere before it is written here.
        let writes = flags.0 & libc::O_ACCMODE == libc::O_WRONLY;
        let opened = if writes { FopenFlags::FOPEN_DIRECT_IO } else { FopenFlags::FOPEN_KEEP_CACHE };
        let answer = move || reply.opened(FileHandle(0), opened);
        let mut state = self.0.state();
        if flags.0 & libc::O_DIRECT != 0 && std::mem::take(&mut state.holds.open) {
            state.held.open = Some(Box::new(|_| answer()));
        } else {
            answer();
        }
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
        let state = self.0.state();
        let rest = state.bytes.get(offset as usize..).unwrap_or_default();
        reply.data(&rest[..rest.len().min(size as usize)]);
    }

    fn write(
        &self,
        _: &Request,
        _: INodeNo,
        _: FileHandle,
        offset: u64,
        data: &[u8],
        _: WriteFlags,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        let (at, data) = (offset as usize, data.to_vec());
        let write = move |state: &mut State| {
            state.bytes[at..at + data.len()].copy_from_slice(&data);
            state.changes += 1;
            reply.written(data.len() as u32);
        };
        let mut state = self.0.state();
        if std::mem::take(&mut state.holds.write) {
            state.held.write = Some(Box::new(write));
        } else {
            write(&mut state);
        }
    }
}

/// A file system with one file. Its mount is to be removed before it.
struct HoldingSource {
    shared: Shared,
    served: Served,
}

impl HoldingSource {
    fn mount(point: &Path) -> Self {
        let shared = Shared::default();
        shared.state().bytes = vec![OLD; LENGTH];
        let served = Served::mount(Server(shared.clone()), point, "holding", &[]);
        Self { shared, served }
    }
}

/// The mount is removed before its source.
struct Both {
    mount: TestMount,
    source: HoldingSource,
}

impl Drop for Both {
    fn drop(&mut self) {
        self.source.shared.answer(|held| &mut held.open);
        self.source.shared.answer(|held| &mut held.write);
        if let Err(error) = client::unmount(&self.mount.point) {
            println!("unmount: {error}");
        }
        self.source.served.end();
    }
}

/// A mount with passthrough, if that is possible.
fn both() -> Option<Both> {
    let mut source = None;
    let mount = mounted_with(Policy::ADAPTIVE, |options| {
        options.passthrough = true;
        source = Some(HoldingSource::mount(&options.source));
    })?;
    let both = Both { mount, source: source? };
    let passthrough = client::status(&both.mount.point).expect("status").passthrough.expect("it is wanted");
    if let Some(unavailable) = passthrough.unavailable {
        println!("SKIPPED: {unavailable}");
        return None;
    }
    Some(both)
}

fn end<T>(what: &str, thread: JoinHandle<T>) -> T {
    wait_for(what, || thread.is_finished());
    thread.join().expect("no panic")
}

#[test]
fn a_late_answer_to_an_open_brings_back_nothing_old() {
    let Some(both) = both() else { return };
    let (point, shared) = (both.mount.point.clone(), both.source.shared.clone());
    let path = point.join(FILE);
    let status = || client::status(&point).expect("status");
    // It is passed through, since it is in memory.
    assert_eq!(fs::read(both.mount.source.join(FILE)).expect("read"), vec![OLD; LENGTH]);
    assert_eq!(fs::read(&path).expect("read"), vec![OLD; LENGTH]);
    assert_eq!(status().passthrough.expect("it is wanted").opens, 1);
    wait_for("the close", || status().files_open == 0);
    // The first open through the page cache of the mount; its answer waits.
    shared.state().holds.open = true;
    let reader = spawn({
        let path = path.clone();
        move || {
            let mut file = File::options().read(true).write(true).open(path).expect("opened");
            let mut bytes = Vec::new();
            file.read_to_end(&mut bytes).map(|_| bytes).expect("read")
        }
    });
    wait_for("the open to be held", || shared.state().held.open.is_some());
    // Another one, and a write of it, which waits on its way to the source.
    shared.state().holds.write = true;
    let writer = spawn({
        let path = path.clone();
        move || {
            let mut file = File::options().write(true).open(path).expect("opened");
            // In memory: where the kernel meets a missing page of it, it locks what it has copied until the
            // write ends, and readers wait.
            let new = vec![NEW; LENGTH];
            file.write_all(&new).expect("written");
        }
    });
    wait_for("the write to be held", || shared.state().held.write.is_some());
    // The first reader gets what was there before or what is written.
    shared.answer(|held| &mut held.open);
    let read = end("the first reader", reader);
    assert!(read == vec![OLD; LENGTH] || read == vec![NEW; LENGTH], "{} bytes", read.len());
    shared.answer(|held| &mut held.write);
    end("the writer", writer);
    let read = fs::read(&path).expect("read");
    assert!(
        read == vec![NEW; LENGTH],
        "old bytes after the write: {}",
        read.iter().filter(|byte| **byte == OLD).count()
    );
}
