//! The seam between the file system and what answers its reads.
//!
//! The kernel asks only for pages that it does not have, and for what it reads ahead itself; what
//! it was given it keeps (`FOPEN_KEEP_CACHE`). So a [`ReadPath`] sees misses, possibly out of order.
//!
//! Rules that both sides keep:
//!
//! - *A read is answered once*, from any thread, at once or later, by consuming its [`Answer`].
//!   One that is dropped answers EIO.
//! - *A change is told after the backing file has it and before it is acknowledged.* A read that
//!   was asked before it may be answered with either; one that is asked afterwards must see it.
//! - *Nothing blocks the caller on the device*: `read` is called in the threads that take requests.
//!   [`Plain`](crate::Plain) breaks this rule and is the measure of what keeping it gains.

use crate::{LearntState, ReadStatus};
use foreseek_seam::{ObjectId, ProcessId, StreamId};
use foreseek_units::{ByteSpan, Bytes};
use rustix::fs::Stat;
use rustix::io::Errno;
use std::cell::RefCell;
use std::fmt;
use std::fs::File;
use std::sync::Arc;

/// What answers reads.
pub trait ReadPath: Send + Sync {
    /// A file is about to be opened for reading: whether it is to be read past this, as prefetching does not pay.
    fn steps_aside(&self) -> bool {
        false
    }

    /// A file was opened for reading. Answers the stream that its reads will bear.
    fn opened(&self, opened: OpenedFile) -> StreamId;

    /// Whether it is worth a look at the call in which the reader of these bytes, a whole window or more, waits.
    fn asks_for_call(&self, _: StreamId, _: ByteSpan) -> bool {
        false
    }

    /// Answers a read; a range that ends past the end of the file is answered short.
    fn read(&self, read: ReadRequest, answer: Answer);

    /// The last descriptor of an opened file was closed; no read of the stream follows.
    fn closed(&self, stream: StreamId);

    /// Bytes of a file changed.
    fn changed(&self, change: Change);

    /// What it has learnt, to outlive it; `None` for one that learns nothing.
    fn learnt(&self) -> Option<LearntState> {
        None
    }

    /// What it has done, for `--status`.
    fn status(&self) -> ReadStatus;

    /// No call follows; what is under way is answered or dropped, threads end.
    fn stop(&self);
}

/// A file that was opened for reading.
#[derive(Clone, Debug)]
pub struct OpenedFile {
    /// Which: the same for every open of the file as long as it exists, its reuse by another file
    /// shows in the version.
    pub object: ObjectId,
    /// The state in which it was opened. Where it is not the one last told of the object, the file
    /// was changed by others: nothing known of it holds.
    pub version: Version,
    /// The backing file, open for reading (maybe for writing too), without `O_DIRECT`.
    pub file: Arc<File>,
    /// The thread that opened it.
    pub who: ProcessId,
}

/// When and to what length a file was changed last: where two are equal, so are the contents, but
/// for changes within one tick of the file system's clock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Version {
    /// `st_mtim`, in seconds and nanoseconds.
    pub modified: (i64, u32),
    /// `st_ctim`; it betrays a change whose modification time was set back.
    pub changed: (i64, u32),
    /// The length.
    pub length: Bytes,
}

impl Version {
    /// The version that a file's attributes tell.
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
    /// Of which stream.
    pub stream: StreamId,
    /// Which bytes; not empty.
    pub range: ByteSpan,
    /// The thread that reads.
    pub who: ProcessId,
    /// The call of which it is a part, where that is longer and known.
    pub call: Option<ByteSpan>,
}

/// A change of a file's bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Change {
    /// Of which file.
    pub object: ObjectId,
    /// Which bytes; `None` for all.
    pub range: Option<ByteSpan>,
    /// The file's version from now on, and with it its length.
    pub version: Version,
}

type Taker = Box<dyn FnOnce(Result<&[u8], Errno>) + Send>;

/// Where the answer to a read goes.
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
    /// Calls `taker` with the answer: for tests.
    pub fn call(taker: impl FnOnce(Result<&[u8], Errno>) + Send + 'static) -> Self {
        Self(Interface::Call(Some(Box::new(taker))))
    }

    /// Answers with the bytes asked for; fewer only where the file ends.
    pub fn data(mut self, data: &[u8]) {
        match self.disarm() {
            Interface::Fuse(reply) => reply.data(data),
            Interface::Call(taker) => taker.into_iter().for_each(|taker| taker(Ok(data))),
        }
    }

    /// The same with bytes that lie in several places.
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

    /// Answers that it failed.
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
            Answer::call(move |answer| to.send(answer.map(<[u8]>::to_vec)).expect("heard"))
        };
        answer().parts(&[b"ab", b"", b"c"]);
        answer().parts(&[]);
        answer().data(b"d");
        answer().fail(Errno::NOSPC);
        drop(answer());
        drop(to);
        let heard: Vec<_> = from.iter().collect();
        let data = |text: &str| Ok(text.as_bytes().to_vec());
        assert_eq!(heard, [data("abc"), data(""), data("d"), Err(Errno::NOSPC), Err(Errno::IO)]);
    }
}
