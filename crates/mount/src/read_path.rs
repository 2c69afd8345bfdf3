//! The interface between the file system and its read path.
//!
//! The kernel requests only pages that it does not have, and pages of its own read-ahead; it keeps what it
//! got (`FOPEN_KEEP_CACHE`). A [`ReadPath`] therefore sees misses, possibly out of order.
//!
//! Rules for both sides:
//!
//! - *A read is answered once*, from any thread, at once or later, by consuming its [`Answer`]. A dropped
//!   answer is EIO.
//! - *A change is reported after the backing file has it and before it is acknowledged.* A read that was
//!   requested before may be answered with either state; a later one must see the change.
//! - *No call blocks the caller on the device*: `read` is called in the threads that receive requests.
//!   [`Plain`](crate::Plain) breaks this rule, for comparisons.

use crate::{LearntState, ReadStatus};
use foreseek_seam::{ObjectId, ProcessId, StreamId};
use foreseek_units::{ByteSpan, Bytes};
use rustix::fs::Stat;
use rustix::io::Errno;
use std::cell::RefCell;
use std::fmt;
use std::fs::File;
use std::sync::Arc;

/// Answers the reads of a mount.
pub trait ReadPath: Send + Sync {
    /// Called before a file is opened for reading. Returns whether to read it without this path, since
    /// prefetching does not pay.
    fn steps_aside(&self) -> bool {
        false
    }

    /// A file was opened for reading. Returns the stream for its reads.
    fn opened(&self, opened: OpenedFile) -> StreamId;

    /// Whether to inspect the call in which the reader of these bytes, a whole window or more, waits.
    fn asks_for_call(&self, _: StreamId, _: ByteSpan) -> bool {
        false
    }

    /// Answers a read; a range that ends past the end of the file gets a short answer.
    fn read(&self, read: ReadRequest, answer: Answer);

    /// The last descriptor of an opened file was closed; no read of the stream follows.
    fn closed(&self, stream: StreamId);

    /// Bytes of a file have changed.
    fn changed(&self, change: Change);

    /// What it has learnt, to be saved; `None` for one that learns nothing.
    fn learnt(&self) -> Option<LearntState> {
        None
    }

    /// Its state and counters, for `--status`.
    fn status(&self) -> ReadStatus;

    /// No call follows. Reads in progress are answered or dropped, threads end.
    fn stop(&self);
}

/// A file that was opened for reading.
#[derive(Clone, Debug)]
pub struct OpenedFile {
    /// The file: the same for every open as long as it exists. The version shows if another file reuses the
    /// number.
    pub object: ObjectId,
    /// The state in which it was opened. If it is not the last one reported for the object, another program
    /// has changed the file, and nothing known about it holds.
    pub version: Version,
    /// The backing file, open for reading (and possibly writing), without `O_DIRECT`.
    pub file: Arc<File>,
    /// The thread that opened it.
    pub pid: ProcessId,
    /// Whether it was opened for writing as well.
    pub writes: bool,
}

/// The times of a file's last change, and its length. Equal versions have equal contents, except for changes
/// within one tick of the file system's clock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Version {
    /// `st_mtim`, in seconds and nanoseconds.
    pub modified: (i64, u32),
    /// `st_ctim`; it shows a change whose modification time was set back.
    pub changed: (i64, u32),
    /// The length.
    pub length: Bytes,
}

impl Version {
    /// The version by a file's attributes.
    #[must_use]
    pub fn of(stat: &Stat) -> Self {
        Self {
            modified: (stat.st_mtime, stat.st_mtime_nsec as u32),
            changed: (stat.st_ctime, stat.st_ctime_nsec as u32),
            length: Bytes(u64::try_from(stat.st_size).unwrap_or(0)),
        }
    }
}

/// A read to be answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadRequest {
    /// Its stream.
    pub stream: StreamId,
    /// Its bytes; not empty.
    pub range: ByteSpan,
    /// The thread that reads.
    pub pid: ProcessId,
    /// The call of which it is a part, if that is longer and known.
    pub call: Option<ByteSpan>,
}

/// A change of a file's bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Change {
    /// The file.
    pub object: ObjectId,
    /// The changed bytes; `None` for all.
    pub range: Option<ByteSpan>,
    /// The new version of the file, including its length.
    pub version: Version,
}

type Taker = Box<dyn FnOnce(Result<&[u8], Errno>) + Send>;

/// The destination of a read's answer.
pub struct Answer(Interface);

enum Interface {
    Fuse(fuser::ReplyData),
    Call(Option<Taker>),
}

thread_local! {
    /// Joins an answer's parts. It grows to the largest request, 1 MiB, in each answering thread.
    static JOINED: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

impl Answer {
    /// Calls `taker` with the answer, for tests.
    pub fn call(taker: impl FnOnce(Result<&[u8], Errno>) + Send + 'static) -> Self {
        Self(Interface::Call(Some(Box::new(taker))))
    }

    /// Answers with the requested bytes; fewer only where the file ends.
    pub fn data(mut self, data: &[u8]) {
        match self.disarm() {
            Interface::Fuse(reply) => reply.data(data),
            Interface::Call(taker) => taker.into_iter().for_each(|taker| taker(Ok(data))),
        }
    }

    /// The same with bytes in several pieces.
    pub fn parts(self, parts: &[&[u8]]) {
        if let [whole] = parts {
            return self.data(whole);
        }
        JOINED.with_borrow_mut(|joined| {
            joined.clear();
            parts.iter().for_each(|part| joined.extend_from_slice(part));
            self.data(joined);
        });
    }

    /// Answers with an error.
    pub fn fail(mut self, errno: Errno) {
        match self.disarm() {
            Interface::Fuse(reply) => reply.error(fuser::Errno::from_i32(errno.raw_os_error())),
            Interface::Call(taker) => taker.into_iter().for_each(|taker| taker(Err(errno))),
        }
    }

    fn disarm(&mut self) -> Interface {
        std::mem::replace(&mut self.0, Interface::Call(None))
    }
}

impl From<fuser::ReplyData> for Answer {
    fn from(reply: fuser::ReplyData) -> Self {
        Self(Interface::Fuse(reply))
    }
}

impl Drop for Answer {
    fn drop(&mut self) {
        if let Interface::Call(taker) = &mut self.0 {
            taker.take().into_iter().for_each(|taker| taker(Err(Errno::IO)));
        }
    }
}

impl fmt::Debug for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Answer")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::channel;

    #[test]
    fn parts_arrive_joined_and_a_dropped_answer_fails() {
        let (to, from) = channel();
        let answer = || {
            let to = to.clone();
            Answer::call(move |answer| to.send(answer.map(<[u8]>::to_vec)).expect("received"))
        };
        answer().parts(&[b"ab", b"", b"c"]);
        answer().parts(&[]);
        answer().data(b"d");
        answer().fail(Errno::NOSPC);
        drop(answer());
        drop(to);
        let received: Vec<_> = from.iter().collect();
        let data = |text: &str| Ok(text.as_bytes().to_vec());
        assert_eq!(received, [data("abc"), data(""), data("d"), Err(Errno::NOSPC), Err(Errno::IO)]);
    }
}
