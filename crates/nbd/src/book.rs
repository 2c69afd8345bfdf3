//! The requests of a connection that are not answered, and their replies.

use crate::reader::PART;
use crate::wire::{
    CHUNK_DATA, CHUNK_DONE, CHUNK_ERROR, CHUNK_ERROR_OFFSET, Command, Fault, Message, SIMPLE_REPLY,
    STRUCTURED_REPLY,
};
use foreseek_units::{ByteOffset, ByteSpan, Bytes};
use std::collections::HashMap;

/// A request of a client, or a part of a write that still arrives.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    /// The client's number of the request.
    pub cookie: u64,
    /// What is asked.
    pub command: Command,
    /// Whether what it stores is to be durable when it is answered.
    pub fua: bool,
    /// Whether a read is to be answered by one chunk.
    pub whole: bool,
    /// Whether nothing more comes of this request.
    pub last: bool,
}

/// Something that the device is to do for a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PartId(u64, ByteOffset);

/// What comes of an answer of the device.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Answered {
    /// To be sent.
    pub send: Vec<u8>,
    /// Whether the data that the device has answered with are to be sent after it.
    pub data: bool,
    /// Then the device is to be asked for a flush, which is answered under this number.
    pub flush: Option<PartId>,
}

/// A request that is not answered.
struct Open {
    cookie: u64,
    reply: Reply,
    /// Parts that the device has not answered.
    left: usize,
    /// Bytes that it holds or will answer with.
    bytes: Bytes,
    /// Whether all its parts are here.
    entered: bool,
    fua: bool,
    fault: Option<Fault>,
}

enum Reply {
    /// One number.
    Simple,
    /// The data follow the number: collected from this place on.
    Data(ByteOffset, Vec<u8>),
    /// A chunk for each part.
    Chunks,
    /// One chunk, collected from this place on.
    Chunk(ByteOffset, Vec<u8>),
}

/// See the crate's documentation.
#[derive(Default)]
pub struct Book {
    open: HashMap<u64, Open>,
    next: u64,
    bytes: Bytes,
    /// The write whose further parts arrive.
    arriving: Option<u64>,
}

impl Book {
    /// Requests that are not answered.
    #[must_use]
    pub fn requests(&self) -> usize {
        self.open.len()
    }

    /// Bytes that these hold or will answer with.
    #[must_use]
    pub fn bytes(&self) -> Bytes {
        self.bytes
    }

    /// Enters what a client asks; what the device is to do for it. `structured`: whether reads are answered by chunks.
    pub fn enter(&mut self, part: Part, structured: bool) -> Vec<(PartId, Command)> {
        let Part { cookie, command, fua, whole, last } = part;
        let bytes = match &command {
            Command::Read(range) | Command::Write(range, _) => range.len(),
            _ => Bytes::ZERO,
        };
        let reply = match &command {
            Command::Read(range) if structured && whole => Reply::Chunk(range.start, Vec::new()),
            Command::Read(_) if structured => Reply::Chunks,
            Command::Read(range) => Reply::Data(range.start, Vec::new()),
            _ => Reply::Simple,
        };
        let commands = parts(command);
        let number = self.arriving.take().unwrap_or_else(|| {
            let number = self.next;
            self.next += 1;
            let stores = matches!(
                commands.first(),
                Some((_, Command::Write(..) | Command::Zero { .. } | Command::Trim(_)))
            );
            let fua = fua && stores;
            let fresh = Open { cookie, reply, left: 0, bytes: Bytes::ZERO, entered: false, fua, fault: None };
            self.open.insert(number, fresh);
            number
        });
        if !last {
            self.arriving = Some(number);
        }
        self.bytes += bytes;
        if let Some(open) = self.open.get_mut(&number) {
            open.left += commands.len();
            open.bytes += bytes;
            open.entered = last;
        }
        commands.into_iter().map(|(place, command)| (PartId(number, place), command)).collect()
    }

    /// Forgets a write whose data do not come to their end, since nothing more is heard of the client.
    pub fn abandon(&mut self) {
        if let Some(open) = self.arriving.take().and_then(|number| self.open.remove(&number)) {
            self.bytes -= open.bytes;
        }
    }

    /// The reply to a request that is refused.
    #[must_use]
    pub fn refuse(cookie: u64, read: bool, fault: Fault, structured: bool) -> Vec<u8> {
        if read && structured { error_chunk(cookie, fault, None, true) } else { simple(cookie, fault as u32) }
    }

    /// The device has answered: a read with exactly the bytes asked for, all else with none.
    pub fn answered(&mut self, part: PartId, answer: Result<&[u8], Fault>) -> Answered {
        let PartId(number, place) = part;
        let Some(open) = self.open.get_mut(&number) else { return Answered::default() };
        open.left -= 1;
        let over = open.entered && open.left == 0;
        let fault = answer.err();
        open.fault = open.fault.or(fault);
        let mut answered = Answered::default();
        match (&mut open.reply, answer) {
            (Reply::Chunks, Ok(data)) => {
                answered.send = data_chunk(open.cookie, place, data.len(), over);
                answered.data = true;
            }
            (Reply::Chunks, Err(fault)) => {
                answered.send = error_chunk(open.cookie, fault, Some(place), over);
            }
            (Reply::Data(start, data) | Reply::Chunk(start, data), Ok(more)) => {
                // Parts may be answered in any order.
                let from = (place - *start).get() as usize;
                data.resize(data.len().max(from + more.len()), 0);
                data[from..from + more.len()].copy_from_slice(more);
            }
            _ => {}
        }
        if !over {
            return answered;
        }
        if open.fua && open.fault.is_none() {
            open.fua = false;
            open.left = 1;
            answered.flush = Some(part);
            return answered;
        }
        let Some(open) = self.open.remove(&number) else { return answered };
        self.bytes -= open.bytes;
        match (open.reply, open.fault) {
            (Reply::Chunks, _) => {}
            (Reply::Simple, fault) => answered.send = simple(open.cookie, fault.map_or(0, |it| it as u32)),
            (Reply::Data(..), Some(fault)) => answered.send = simple(open.cookie, fault as u32),
            (Reply::Data(_, data), None) => answered.send = [simple(open.cookie, 0), data].concat(),
            (Reply::Chunk(..), Some(fault)) => {
                answered.send = error_chunk(open.cookie, fault, None, true);
            }
            (Reply::Chunk(start, data), None) => {
                answered.send = [data_chunk(open.cookie, start, data.len(), true), data].concat();
            }
        }
        answered
    }
}

/// What the device is asked, in parts of at most [`PART`] where data move.
fn parts(command: Command) -> Vec<(ByteOffset, Command)> {
    let cut = |range: ByteSpan, make: fn(ByteSpan) -> Command| {
        let mut rest = range;
        std::iter::from_fn(move || {
            let (now, later) = rest.split(rest.start + rest.len().min(PART));
            rest = later;
            (!now.is_empty()).then(|| (now.start, make(now)))
        })
        .collect()
    };
    match command {
        Command::Read(range) => cut(range, Command::Read),
        Command::Cache(range) => cut(range, Command::Cache),
        Command::Zero { range, allocated: true } => {
            cut(range, |range| Command::Zero { range, allocated: true })
        }
        Command::Write(range, _) | Command::Zero { range, .. } | Command::Trim(range) => {
            vec![(range.start, command)]
        }
        Command::Flush => vec![(ByteOffset(0), Command::Flush)],
    }
}

fn simple(cookie: u64, error: u32) -> Vec<u8> {
    Message::new().u32(SIMPLE_REPLY).u32(error).u64(cookie).0
}

fn chunk(cookie: u64, kind: u16, length: usize, done: bool) -> Message {
    let flags = if done { CHUNK_DONE } else { 0 };
    Message::new().u32(STRUCTURED_REPLY).u16(flags).u16(kind).u64(cookie).u32(length as u32)
}

/// The head of a chunk of so many bytes of data.
fn data_chunk(cookie: u64, place: ByteOffset, length: usize, done: bool) -> Vec<u8> {
    chunk(cookie, CHUNK_DATA, length + 8, done).u64(place.get()).0
}

fn error_chunk(cookie: u64, fault: Fault, place: Option<ByteOffset>, done: bool) -> Vec<u8> {
    let (error, no_message) = (fault as u32, 0);
    match place {
        Some(place) => {
            let head = chunk(cookie, CHUNK_ERROR_OFFSET, 14, done);
            head.u32(error).u16(no_message).u64(place.get()).0
        }
        None => chunk(cookie, CHUNK_ERROR, 6, done).u32(error).u16(no_message).0,
    }
}
