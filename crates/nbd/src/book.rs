//! The unanswered requests of a connection, and their replies.

use crate::reader::PART;
use crate::wire::{
    CHUNK_DATA, CHUNK_DONE, CHUNK_ERROR, CHUNK_ERROR_OFFSET, Command, Fault, Message, SIMPLE_REPLY,
    STRUCTURED_REPLY,
};
use foreseek_units::{ByteOffset, ByteSpan, Bytes};
use std::collections::HashMap;

/// A client's request, or a part of a write that is still arriving.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    /// The client's number of the request.
    pub cookie: u64,
    /// The command.
    pub command: Command,
    /// Whether the data must be durable before the answer.
    pub fua: bool,
    /// Whether a read is to be answered by one chunk.
    pub whole: bool,
    /// Whether it is the last part of its request.
    pub last: bool,
}

/// Identifies a command to the device for a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PartId(u64, ByteOffset);

/// The result of an answer of the device.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Answered {
    /// The bytes to send.
    pub send: Vec<u8>,
    /// Whether the data of the device's answer are sent after them.
    pub data: bool,
    /// Then the device must be flushed, and the flush answered under this id.
    pub flush: Option<PartId>,
}

/// An unanswered request.
struct Open {
    cookie: u64,
    reply: Reply,
    /// Parts that the device has not answered.
    left: usize,
    /// Bytes that it holds or will return.
    bytes: Bytes,
    /// Whether all its parts have arrived.
    entered: bool,
    fua: bool,
    fault: Option<Fault>,
}

enum Reply {
    /// One number.
    Simple,
    /// The data follow the number: collected from this offset on.
    Data(ByteOffset, Vec<u8>),
    /// A chunk for each part.
    Chunks,
    /// One chunk, collected from this offset on.
    Chunk(ByteOffset, Vec<u8>),
}

/// See the crate's documentation.
#[derive(Default)]
pub struct Book {
    open: HashMap<u64, Open>,
    next: u64,
    bytes: Bytes,
    /// The write with further parts to arrive.
    arriving: Option<u64>,
}

impl Book {
    /// The number of unanswered requests.
    #[must_use]
    pub fn requests(&self) -> usize {
        self.open.len()
    }

    /// Bytes that they hold or will return.
    #[must_use]
    pub fn bytes(&self) -> Bytes {
        self.bytes
    }

    /// Adds a client's request; returns the commands to the device. `structured`: whether reads are answered
    /// by chunks.
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

    /// The device cannot carry out a part's command: `command` takes its place. Returns the commands to the device.
    pub fn replace(&mut self, part: PartId, command: Command) -> Vec<(PartId, Command)> {
        let PartId(number, _) = part;
        let Some(open) = self.open.get_mut(&number) else { return Vec::new() };
        let commands = parts(command);
        open.left = open.left - 1 + commands.len();
        commands.into_iter().map(|(place, command)| (PartId(number, place), command)).collect()
    }

    /// Drops a write whose data will not arrive as a whole, since the connection has ended.
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

    /// The device has answered: a read with exactly the requested bytes, any other command with none.
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

/// The commands to the device, with data in parts of at most [`PART`].
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

/// The head of a chunk with this many bytes of data.
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
