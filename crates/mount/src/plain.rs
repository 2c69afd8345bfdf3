//! Reads without prefetching: a `pread` of the backing file, in the thread that got the request.
//!
//! This is the plain pass-through for comparisons with the prefetching mount, and for tests of the file
//! system itself. A call that the kernel splits into windows is requested as a whole. It blocks the thread
//! that got the request on the device.

use crate::read_path::{Answer, Change, OpenedFile, ReadPath, ReadRequest};
use crate::status::ReadStatus;
use foreseek_readahead::serving::Calls;
use foreseek_seam::StreamId;
use foreseek_units::{ByteSpan, Bytes};
use rustix::fs::{Advice, fadvise};
use rustix::io::{Errno, ReadWriteFlags};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::IoSliceMut;
use std::num::NonZeroU64;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

/// See the module's documentation.
#[derive(Debug, Default)]
pub struct Plain {
    files: RwLock<BTreeMap<u64, Arc<Opened>>>,
    opened: AtomicU64,
    reads: AtomicU64,
    read_bytes: AtomicU64,
    failed: AtomicU64,
    calls: AtomicU64,
}

/// An open file, and the calls of its readers.
#[derive(Debug)]
struct Opened {
    file: Arc<File>,
    calls: Mutex<Calls>,
}

impl Opened {
    fn calls(&self) -> MutexGuard<'_, Calls> {
        self.calls.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

thread_local! {
    /// The bytes read; it grows to the largest request in each thread.
    static BUFFER: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

impl Plain {
    fn file(&self, stream: StreamId) -> Option<Arc<Opened>> {
        self.files.read().unwrap_or_else(PoisonError::into_inner).get(&stream.0).cloned()
    }

    /// A call that arrives in parts is requested as one, as it would be in the source.
    fn pass_call_on(&self, file: &Opened, read: &ReadRequest) {
        let pages = read.range.pages();
        let mut calls = file.calls();
        read.call.iter().for_each(|call| calls.add(call.pages()));
        let end = calls.read(pages).end;
        drop(calls);
        if read.call.is_some() {
            self.calls.fetch_add(1, Relaxed);
            let length = NonZeroU64::new((end - pages.start).bytes().get());
            // Pages requested twice are then in memory, or in flight.
            let _ = fadvise(&*file.file, pages.start.offset().get(), length, Advice::WillNeed);
        }
    }
}

impl ReadPath for Plain {
    fn opened(&self, opened: OpenedFile) -> StreamId {
        let stream = StreamId(self.opened.fetch_add(1, Relaxed));
        let file = Opened { file: opened.file, calls: Mutex::default() };
        self.files.write().unwrap_or_else(PoisonError::into_inner).insert(stream.0, file.into());
        stream
    }

    fn asks_for_call(&self, stream: StreamId, range: ByteSpan) -> bool {
        self.file(stream).is_some_and(|file| file.calls().is_asked(range.pages()))
    }

    fn read(&self, read: ReadRequest, answer: Answer) {
        self.reads.fetch_add(1, Relaxed);
        let Some(file) = self.file(read.stream) else { return answer.fail(Errno::BADF) };
        self.pass_call_on(&file, &read);
        match answer_from(&file.file, read.range, answer) {
            Ok(got) => self.read_bytes.fetch_add(got.get(), Relaxed),
            Err(_) => self.failed.fetch_add(1, Relaxed),
        };
    }

    fn closed(&self, stream: StreamId) {
        self.files.write().unwrap_or_else(PoisonError::into_inner).remove(&stream.0);
    }

    fn changed(&self, _: Change) {}

    fn status(&self) -> ReadStatus {
        ReadStatus {
            policy: "plain".to_owned(),
            streams_open: self.files.read().unwrap_or_else(PoisonError::into_inner).len() as u64,
            reads: self.reads.load(Relaxed),
            read_bytes: self.read_bytes.load(Relaxed),
            fetched_bytes: self.read_bytes.load(Relaxed),
            failed: self.failed.load(Relaxed),
            calls: self.calls.load(Relaxed),
            ..ReadStatus::default()
        }
    }

    fn stop(&self) {}
}

/// Answers a read from the file; returns how much it read.
pub(crate) fn answer_from(file: &File, range: ByteSpan, answer: Answer) -> Result<Bytes, Errno> {
    BUFFER.with_borrow_mut(|buffer| {
        let length = range.len().get() as usize;
        if buffer.len() < length {
            buffer.resize(length, 0);
        }
        let got = fill(file, &mut buffer[..length], range.start.get(), ReadWriteFlags::empty());
        match got {
            Ok(got) => answer.data(&buffer[..got]),
            Err(errno) => answer.fail(errno),
        }
        got.map(|got| Bytes(got as u64))
    })
}

/// Reads until the buffer is full or the file ends. An error after some bytes fails the whole read: the
/// kernel takes a short answer for the end of the file, and after an error reads again, page by page.
pub(crate) fn fill(
    file: &File,
    buffer: &mut [u8],
    offset: u64,
    flags: ReadWriteFlags,
) -> Result<usize, Errno> {
    let mut got = 0;
    while got < buffer.len() {
        let into = &mut [IoSliceMut::new(&mut buffer[got..])];
        match rustix::io::preadv2(file, into, offset + got as u64, flags) {
            Ok(0) => break,
            Ok(read) => got += read,
            Err(Errno::INTR) => {}
            Err(errno) => return Err(errno),
        }
    }
    Ok(got)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Version;
    use foreseek_seam::{ObjectId, ProcessId};
    use foreseek_units::ByteOffset;
    use std::io::Write;
    use std::sync::mpsc::channel;

    #[test]
    fn a_read_is_what_the_file_holds_and_short_at_its_end() {
        let mut file = tempfile::tempfile().expect("a file");
        file.write_all(b"0123456789").expect("written");
        let plain = Plain::default();
        let opened = OpenedFile {
            object: ObjectId(1),
            version: Version::default(),
            file: file.into(),
            pid: ProcessId(1),
            writes: false,
        };
        let stream = plain.opened(opened);
        let read = |start, length| {
            let (to, from) = channel();
            let range = ByteSpan::at(ByteOffset(start), Bytes(length));
            let answer = Answer::call(move |answer| to.send(answer.map(<[u8]>::to_vec)).expect("received"));
            plain.read(ReadRequest { stream, range, pid: ProcessId(1), call: None }, answer);
            from.recv().expect("an answer")
        };
        assert_eq!(read(2, 3), Ok(b"234".to_vec()));
        assert_eq!(read(8, 100), Ok(b"89".to_vec()));
        assert_eq!(read(50, 1), Ok(Vec::new()));
        plain.closed(stream);
        assert_eq!(read(0, 1), Err(Errno::BADF));
    }
}
