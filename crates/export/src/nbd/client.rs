//! A client: what it has asked and what it is to be sent.

use super::{HELD_MOST, REQUESTS_MOST};
use crate::server::{DataReply, DoneReply, Failure, Request, Server};
use foreseek_nbd::{Book, Command, Fault, PART, Part, PartId};
use foreseek_units::Bytes;
use rustix::event::{EventfdFlags, eventfd};
use rustix::io::Errno;
use rustix::net::{SendAncillaryBuffer, SendFlags, sendmsg};
use std::collections::VecDeque;
use std::io::IoSlice;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// What is written where a client wants zeroes with room of their own.
static ZEROES: [u8; PART.get() as usize] = [0; PART.get() as usize];

/// Wakes the thread that waits for a client.
pub(super) struct Bell {
    pub(super) event: OwnedFd,
    rung: Mutex<Vec<u64>>,
}

impl Bell {
    pub(super) fn new() -> rustix::io::Result<Self> {
        let event = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        Ok(Self { event, rung: Mutex::default() })
    }

    pub(super) fn ring(&self, client: u64) {
        self.rung.lock().unwrap_or_else(PoisonError::into_inner).push(client);
        self.wake();
    }

    pub(super) fn wake(&self) {
        // It cannot be full: the counter is taken at each look.
        let _ = rustix::io::write(&self.event, &1u64.to_ne_bytes());
    }

    /// Who has rung.
    pub(super) fn take(&self) -> Vec<u64> {
        let _ = rustix::io::read(&self.event, &mut [0; 8]);
        std::mem::take(&mut *self.rung.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// What several threads change.
#[derive(Default)]
struct Side {
    book: Book,
    /// What the socket has not taken yet.
    out: VecDeque<u8>,
    /// Whether the client is not read until it has taken replies.
    paused: bool,
    /// Whether it has said all that it will.
    leaving: bool,
    broken: bool,
}

impl Side {
    fn is_full(&self) -> bool {
        let held = self.book.bytes() + Bytes(self.out.len() as u64);
        self.book.requests() >= REQUESTS_MOST || held >= HELD_MOST
    }

    fn is_idle(&self) -> bool {
        self.broken || self.book.requests() == 0 && self.out.is_empty()
    }
}

/// See the module's documentation.
pub(super) struct Client {
    pub(super) number: u64,
    pub(super) socket: OwnedFd,
    /// Who it is, for people.
    pub(super) peer: String,
    pub(super) bell: Arc<Bell>,
    side: Mutex<Side>,
}

impl Client {
    pub(super) fn new(number: u64, socket: OwnedFd, peer: String, bell: Arc<Bell>) -> Self {
        Self { number, socket, peer, bell, side: Mutex::default() }
    }

    fn side(&self) -> MutexGuard<'_, Side> {
        self.side.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sends what the socket did not take before; whether the client may be read. Where not, its thread is woken when it may.
    pub(super) fn may_be_read(&self) -> bool {
        let mut side = self.side();
        self.push(&mut side);
        side.paused = side.is_full();
        !(side.paused || side.broken || side.leaving)
    }

    /// Nothing more comes; its thread is woken when everything is answered.
    pub(super) fn leave(&self) {
        let mut side = self.side();
        side.leaving = true;
        side.book.abandon();
    }

    /// Whether the connection can be closed.
    pub(super) fn is_over(&self) -> bool {
        let side = self.side();
        side.broken || side.leaving && side.is_idle()
    }

    /// No reply is sent any more.
    pub(super) fn break_off(&self) {
        self.side().broken = true;
    }

    pub(super) fn send(&self, bytes: &[u8]) {
        self.send_in(&mut self.side(), bytes, &[]);
    }

    /// Asks the server for a part of a request.
    pub(super) fn ask(self: &Arc<Self>, server: &Arc<dyn Server>, part: Part, structured: bool) {
        let asked = self.side().book.enter(part, structured);
        for (part, command) in asked {
            self.ask_part(server, part, &command);
        }
    }

    fn ask_part(self: &Arc<Self>, server: &Arc<dyn Server>, part: PartId, command: &Command) {
        let (client, again) = (Arc::clone(self), Arc::clone(server));
        // What is answered where the server does not do it.
        let done = |unsupported: Result<(), Failure>| {
            let (client, again) = (Arc::clone(self), Arc::clone(server));
            DoneReply::call(move |answer| {
                let answer = if answer == Err(Failure::Unsupported) { unsupported } else { answer };
                client.answer(&again, part, answer.map(|()| &[][..]));
            })
        };
        let failing = || done(Err(Failure::Unsupported));
        server.serve(match command {
            Command::Read(range) => Request::Read {
                range: *range,
                reply: DataReply::call(move |answer| client.answer(&again, part, answer)),
            },
            Command::Cache(range) => Request::Read {
                range: *range,
                reply: DataReply::call(move |answer| client.answer(&again, part, answer.map(|_| &[][..]))),
            },
            Command::Write(range, data) => Request::Write { range: *range, data, reply: failing() },
            Command::Zero { range, allocated: true } => {
                let data = &ZEROES[..range.len().get() as usize];
                Request::Write { range: *range, data, reply: failing() }
            }
            Command::Zero { range, allocated: false } => Request::Discard { range: *range, reply: failing() },
            // Room that cannot be given back is kept.
            Command::Trim(range) => Request::Discard { range: *range, reply: done(Ok(())) },
            Command::Flush => Request::Flush { reply: failing() },
        });
    }

    fn answer(self: &Arc<Self>, server: &Arc<dyn Server>, part: PartId, answer: Result<&[u8], Failure>) {
        let (flush, wake) = {
            let mut side = self.side();
            let answered = side.book.answered(part, answer.map_err(fault));
            let data = if answered.data { answer.unwrap_or_default() } else { &[] };
            self.send_in(&mut side, &answered.send, data);
            let wake = side.paused && !side.is_full() || side.leaving && side.is_idle();
            (answered.flush, wake)
        };
        if let Some(part) = flush {
            self.ask_part(server, part, &Command::Flush);
        }
        if wake {
            self.bell.ring(self.number);
        }
    }

    /// Sends both, one after the other, or keeps what the socket does not take.
    fn send_in(&self, side: &mut Side, head: &[u8], data: &[u8]) {
        if side.broken {
            return;
        }
        let sent = if side.out.is_empty() { self.try_send(head, data) } else { Ok(0) };
        match sent {
            Ok(sent) => {
                side.out.extend(&head[sent.min(head.len())..]);
                side.out.extend(&data[sent.saturating_sub(head.len())..]);
            }
            Err(_) => self.give_up(side),
        }
    }

    /// Sends what the socket takes of what is kept.
    fn push(&self, side: &mut Side) {
        while !side.out.is_empty() {
            let (first, second) = side.out.as_slices();
            match self.try_send(first, second) {
                Ok(0) => return,
                Ok(sent) => drop(side.out.drain(..sent)),
                Err(_) => self.give_up(side),
            }
        }
    }

    /// Nobody is there to be answered.
    fn give_up(&self, side: &mut Side) {
        side.broken = true;
        side.out.clear();
        self.bell.ring(self.number);
    }

    /// How much the socket takes now.
    fn try_send(&self, head: &[u8], data: &[u8]) -> rustix::io::Result<usize> {
        let slices = [IoSlice::new(head), IoSlice::new(data)];
        let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
        loop {
            match sendmsg(&self.socket, &slices, &mut SendAncillaryBuffer::default(), flags) {
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return Ok(0),
                sent => return sent,
            }
        }
    }
}

fn fault(failure: Failure) -> Fault {
    match failure {
        Failure::Io => Fault::Io,
        Failure::NoSpace => Fault::NoSpace,
        Failure::Unsupported => Fault::Unsupported,
    }
}
