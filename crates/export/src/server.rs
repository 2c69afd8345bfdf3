//! The seam between a block device's server and the interface by which requests come in.

use foreseek_units::ByteSpan;
use std::fmt;

pub use fuser::Errno;

/// Answers a block device's requests.
///
/// [`serve`](Server::serve) is called from several threads at once, and a call holds up one of
/// them: a server whose answer takes long keeps the reply and returns. Every request lies within
/// the device and every reply is used at most once, by being consumed; one that is dropped
/// answers EIO.
pub trait Server: Send + Sync + 'static {
    /// Takes a request.
    fn serve(&self, request: Request<'_>);
}

/// A request to a block device.
#[derive(Debug)]
pub enum Request<'a> {
    /// Answer with these bytes.
    Read {
        /// Which.
        range: ByteSpan,
        /// Takes exactly as many bytes.
        reply: DataReply,
    },
    /// Store these bytes; answer when a later read would see them.
    Write {
        /// Where.
        range: ByteSpan,
        /// What; borrowed from the receiving thread until `serve` returns.
        data: &'a [u8],
        /// Takes the end.
        reply: DoneReply,
    },
    /// Answer when all writes that were answered before are durable.
    Flush {
        /// Takes the end.
        reply: DoneReply,
    },
    /// Forget these bytes: they read as zero from now on.
    Discard {
        /// Which.
        range: ByteSpan,
        /// Takes the end.
        reply: DoneReply,
    },
}

/// Why a request failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// The medium cannot read or write there.
    Io,
    /// There is no room to store it.
    NoSpace,
    /// The server does not do this.
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

/// Where the answer to a read goes.
pub struct DataReply(DataDoor);

enum DataDoor {
    Fuse(fuser::ReplyData),
    Call(Option<DataTaker>),
}

impl DataReply {
    pub(crate) fn fuse(reply: fuser::ReplyData) -> Self {
        Self(DataDoor::Fuse(reply))
    }

    /// Calls `taker` with the answer: for interfaces other than FUSE, and for tests.
    pub fn call(taker: impl FnOnce(Result<&[u8], Failure>) + Send + 'static) -> Self {
        Self(DataDoor::Call(Some(Box::new(taker))))
    }

    /// Answers with the bytes asked for.
    pub fn data(mut self, data: &[u8]) {
        match self.disarm() {
            DataDoor::Fuse(reply) => reply.data(data),
            DataDoor::Call(taker) => taker.into_iter().for_each(|taker| taker(Ok(data))),
        }
    }

    /// Answers that it failed.
    pub fn fail(mut self, failure: Failure) {
        match self.disarm() {
            DataDoor::Fuse(reply) => reply.error(failure.into()),
            DataDoor::Call(taker) => taker.into_iter().for_each(|taker| taker(Err(failure))),
        }
    }

    fn disarm(&mut self) -> DataDoor {
        std::mem::replace(&mut self.0, DataDoor::Call(None))
    }
}

impl Drop for DataReply {
    fn drop(&mut self) {
        if let DataDoor::Call(taker) = &mut self.0 {
            taker.take().into_iter().for_each(|taker| taker(Err(Failure::Io)));
        }
    }
}

impl fmt::Debug for DataReply {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("DataReply")
    }
}

/// Where the answer to a write, flush or discard goes.
pub struct DoneReply(DoneDoor);

enum DoneDoor {
    Written(fuser::ReplyWrite, u32),
    Empty(fuser::ReplyEmpty),
    Call(Option<DoneTaker>),
}

impl DoneReply {
    pub(crate) fn written(reply: fuser::ReplyWrite, size: u32) -> Self {
        Self(DoneDoor::Written(reply, size))
    }

    pub(crate) fn empty(reply: fuser::ReplyEmpty) -> Self {
        Self(DoneDoor::Empty(reply))
    }

    /// Calls `taker` with the answer: for interfaces other than FUSE, and for tests.
    pub fn call(taker: impl FnOnce(Result<(), Failure>) + Send + 'static) -> Self {
        Self(DoneDoor::Call(Some(Box::new(taker))))
    }

    /// Answers.
    pub fn end(mut self, result: Result<(), Failure>) {
        match (self.disarm(), result) {
            (DoneDoor::Written(reply, size), Ok(())) => reply.written(size),
            (DoneDoor::Written(reply, _), Err(failure)) => reply.error(failure.into()),
            (DoneDoor::Empty(reply), Ok(())) => reply.ok(),
            (DoneDoor::Empty(reply), Err(failure)) => reply.error(failure.into()),
            (DoneDoor::Call(taker), result) => taker.into_iter().for_each(|taker| taker(result)),
        }
    }

    fn disarm(&mut self) -> DoneDoor {
        std::mem::replace(&mut self.0, DoneDoor::Call(None))
    }
}

impl Drop for DoneReply {
    fn drop(&mut self) {
        if let DoneDoor::Call(taker) = &mut self.0 {
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
