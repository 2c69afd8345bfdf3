//! The interface between a block device's server and the sources of its requests.

use foreseek_units::ByteSpan;
use std::fmt;

pub use fuser::Errno;

/// Answers a block device's requests.
///
/// [`serve`](Server::serve) is called from several threads at once and blocks one of them: a server that
/// takes long to answer keeps the reply and returns, unless [others](DataReply::leaves_others) take requests
/// meanwhile. Every request lies within the device. A reply is
/// consumed when it is used; one that is dropped answers EIO.
pub trait Server: Send + Sync + 'static {
    /// Takes a request.
    fn serve(&self, request: Request<'_>);
}

/// A request to a block device.
#[derive(Debug)]
pub enum Request<'a> {
    /// Answer with these bytes.
    Read {
        /// The bytes to read.
        range: ByteSpan,
        /// Takes exactly as many bytes.
        reply: DataReply,
    },
    /// Store these bytes; answer once a later read would return them.
    Write {
        /// The bytes to write.
        range: ByteSpan,
        /// The data; borrowed from the receiving thread until `serve` returns.
        data: &'a [u8],
        /// Takes the result.
        reply: DoneReply,
    },
    /// Answer once all previously answered writes are durable.
    Flush {
        /// Takes the result.
        reply: DoneReply,
    },
    /// Discard these bytes: they read as zero from now on.
    Discard {
        /// The bytes to discard.
        range: ByteSpan,
        /// Takes the result.
        reply: DoneReply,
    },
}

/// Why a request failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// The medium cannot be read or written there.
    Io,
    /// There is no space to store it.
    NoSpace,
    /// The server does not support the request.
    Unsupported,
}

impl From<Failure> for Errno {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::Io => Self::EIO,
            Failure::NoSpace => Self::ENOSPC,
            Failure::Unsupported => Self::EOPNOTSUPP,
        }
    }
}

type DataTaker = Box<dyn FnOnce(Result<&[u8], Failure>) + Send>;
type DoneTaker = Box<dyn FnOnce(Result<(), Failure>) + Send>;

/// Sends the answer to a read.
pub struct DataReply(DataTarget);

enum DataTarget {
    Fuse(fuser::ReplyData),
    Call(Option<DataTaker>),
}

impl DataReply {
    pub(crate) fn fuse(reply: fuser::ReplyData) -> Self {
        Self(DataTarget::Fuse(reply))
    }

    /// Calls `taker` with the answer: for interfaces other than FUSE, and for tests.
    pub fn call(taker: impl FnOnce(Result<&[u8], Failure>) + Send + 'static) -> Self {
        Self(DataTarget::Call(Some(Box::new(taker))))
    }

    /// Whether other threads take this client's requests while the one that passed the request is blocked.
    #[must_use]
    pub fn leaves_others(&self) -> bool {
        matches!(self.0, DataTarget::Fuse(_))
    }

    /// Answers with the requested bytes.
    pub fn data(mut self, data: &[u8]) {
        match self.disarm() {
            DataTarget::Fuse(reply) => reply.data(data),
            DataTarget::Call(taker) => taker.into_iter().for_each(|taker| taker(Ok(data))),
        }
    }

    /// Answers with an error.
    pub fn fail(mut self, failure: Failure) {
        match self.disarm() {
            DataTarget::Fuse(reply) => reply.error(failure.into()),
            DataTarget::Call(taker) => taker.into_iter().for_each(|taker| taker(Err(failure))),
        }
    }

    fn disarm(&mut self) -> DataTarget {
        std::mem::replace(&mut self.0, DataTarget::Call(None))
    }
}

impl Drop for DataReply {
    fn drop(&mut self) {
        if let DataTarget::Call(taker) = &mut self.0 {
            taker.take().into_iter().for_each(|taker| taker(Err(Failure::Io)));
        }
    }
}

impl fmt::Debug for DataReply {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("DataReply")
    }
}

/// Sends the answer to a write, flush or discard.
pub struct DoneReply(DoneTarget);

enum DoneTarget {
    Written(fuser::ReplyWrite, u32),
    Empty(fuser::ReplyEmpty),
    Call(Option<DoneTaker>),
}

impl DoneReply {
    pub(crate) fn written(reply: fuser::ReplyWrite, size: u32) -> Self {
        Self(DoneTarget::Written(reply, size))
    }

    pub(crate) fn empty(reply: fuser::ReplyEmpty) -> Self {
        Self(DoneTarget::Empty(reply))
    }

    /// Calls `taker` with the answer: for interfaces other than FUSE, and for tests.
    pub fn call(taker: impl FnOnce(Result<(), Failure>) + Send + 'static) -> Self {
        Self(DoneTarget::Call(Some(Box::new(taker))))
    }

    /// Answers with a result.
    pub fn end(mut self, result: Result<(), Failure>) {
        match (self.disarm(), result) {
            (DoneTarget::Written(reply, size), Ok(())) => reply.written(size),
            (DoneTarget::Written(reply, _), Err(failure)) => reply.error(failure.into()),
            (DoneTarget::Empty(reply), Ok(())) => reply.ok(),
            (DoneTarget::Empty(reply), Err(failure)) => reply.error(failure.into()),
            (DoneTarget::Call(taker), result) => taker.into_iter().for_each(|taker| taker(result)),
        }
    }

    fn disarm(&mut self) -> DoneTarget {
        std::mem::replace(&mut self.0, DoneTarget::Call(None))
    }
}

impl Drop for DoneReply {
    fn drop(&mut self) {
        if let DoneTarget::Call(taker) = &mut self.0 {
            taker.take().into_iter().for_each(|taker| taker(Err(Failure::Io)));
        }
    }
}

impl fmt::Debug for DoneReply {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("DoneReply")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::channel;

    #[test]
    fn an_answer_arrives_once() {
        let (to, from) = channel();
        let again = to.clone();
        DataReply::call(move |answer| to.send(answer.map(<[u8]>::to_vec)).expect("heard")).data(b"abc");
        assert_eq!(from.recv(), Ok(Ok(b"abc".to_vec())));
        DataReply::call(move |answer| again.send(answer.map(<[u8]>::to_vec)).expect("heard"))
            .fail(Failure::NoSpace);
        assert_eq!(from.iter().collect::<Vec<_>>(), [Err(Failure::NoSpace)]);
    }

    #[test]
    fn a_reply_that_is_dropped_fails_the_request() {
        let (to, from) = channel();
        let other = to.clone();
        drop(DataReply::call(move |answer| to.send(answer.map(|_| ())).expect("heard")));
        drop(DoneReply::call(move |answer| other.send(answer).expect("heard")));
        assert_eq!(from.iter().collect::<Vec<_>>(), [Err(Failure::Io), Err(Failure::Io)]);
    }
}
