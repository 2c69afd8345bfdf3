//! A client: its requests in flight and the replies that are to be sent to it.

use super::{HELD_MOST, REQUESTS_MOST};
use crate::server::{DataReply, DoneReply, Failure, Request, Server};
use foreseek_nbd::{Book, Command, Fault, PART, Part, PartId};
use foreseek_units::{ByteSpan, Bytes};
use rustix::event::{EventfdFlags, eventfd};
use rustix::io::Errno;
use rustix::net::{SendAncillaryBuffer, SendFlags, sendmsg};
use std::collections::VecDeque;
use std::io::IoSlice;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Written where a client wants zeroes in allocated space, or the server cannot free space.
static ZEROES: [u8; PART.get() as usize] = [0; PART.get() as usize];

/// Wakes the thread that serves some clients.
pub(super) struct Waker {
    pub(super) event: OwnedFd,
    pending: Mutex<Vec<u64>>,
}

impl Waker {
    pub(super) fn new() -> rustix::io::Result<Self> {
        let event = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        Ok(Self { event, pending: Mutex::default() })
    }

    pub(super) fn wake_for(&self, client: u64) {
        self.pending.lock().unwrap_or_else(PoisonError::into_inner).push(client);
        self.wake();
    }

    pub(super) fn wake(&self) {
        // The counter cannot overflow: it is reset at each wake-up.
        let _ = rustix::io::write(&self.event, &1u64.to_ne_bytes());
    }

    /// The clients that the thread was woken for.
    pub(super) fn take(&self) -> Vec<u64> {
        let _ = rustix::io::read(&self.event, &mut [0; 8]);
        std::mem::take(&mut *self.pending.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// The state that several threads change.
#[derive(Default)]
struct ClientState {
    book: Book,
    /// Bytes that the socket has not accepted yet.
    out: VecDeque<u8>,
    /// Whether reading from the client is paused until it has accepted replies.
    paused: bool,
    /// Zeroes for which the server could free no space: to be written.
    unfreed: Vec<(PartId, ByteSpan)>,
    /// Whether there have been such: all zeroes are written at once then.
    writes_zeroes: bool,
    /// Whether the client sends no more requests.
    input_ended: bool,
    broken: bool,
}

impl ClientState {
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
    /// The client's name in messages.
    pub(super) peer: String,
    pub(super) waker: Arc<Waker>,
    state: Mutex<ClientState>,
}

impl Client {
    pub(super) fn new(number: u64, socket: OwnedFd, peer: String, waker: Arc<Waker>) -> Self {
        Self { number, socket, peer, waker, state: Mutex::default() }
    }

    fn state(&self) -> MutexGuard<'_, ClientState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sends what the socket did not accept before. Returns whether the client may be read; if not, its
    /// thread is woken once it may.
    pub(super) fn may_be_read(&self) -> bool {
        let mut state = self.state();
        self.push(&mut state);
        state.paused = state.is_full();
        !(state.paused || state.broken || state.input_ended)
    }

    /// The client sends no more requests; its thread is woken when all are answered.
    pub(super) fn end_input(&self) {
        let mut state = self.state();
        state.input_ended = true;
        state.book.abandon();
    }

    /// Whether the connection can be closed.
    pub(super) fn is_over(&self) -> bool {
        let state = self.state();
        state.broken || state.input_ended && state.is_idle()
    }

    /// Sends no more replies.
    pub(super) fn disconnect(&self) {
        self.state().broken = true;
    }

    pub(super) fn send(&self, bytes: &[u8]) {
        self.send_in(&mut self.state(), bytes, &[]);
    }

    /// Passes a part of a request to the server.
    pub(super) fn request(self: &Arc<Self>, server: &Arc<dyn Server>, mut part: Part, structured: bool) {
        let commands = {
            let mut state = self.state();
            if let Command::Zero { allocated, .. } = &mut part.command {
                *allocated |= state.writes_zeroes;
            }
            state.book.enter(part, structured)
        };
        for (part, command) in commands {
            self.request_part(server, part, &command);
        }
    }

    /// Has the server write the zeroes for which it could free no space. Called by the client's thread alone: a
    /// thread that answers may be one that a write waits for.
    pub(super) fn write_zeroes(self: &Arc<Self>, server: &Arc<dyn Server>) {
        let unfreed = std::mem::take(&mut self.state().unfreed);
        for (part, range) in unfreed {
            let commands = self.state().book.replace(part, Command::Zero { range, allocated: true });
            for (part, command) in commands {
                self.request_part(server, part, &command);
            }
        }
    }

    fn write_zeroes_later(&self, part: PartId, range: ByteSpan) {
        let mut state = self.state();
        state.writes_zeroes = true;
        state.unfreed.push((part, range));
        drop(state);
        self.waker.wake_for(self.number);
    }

    fn request_part(self: &Arc<Self>, server: &Arc<dyn Server>, part: PartId, command: &Command) {
        let (client, again) = (Arc::clone(self), Arc::clone(server));
        // The answer if the server does not support the request.
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
            Command::Zero { range, allocated: false } => {
                let range = *range;
                let reply = DoneReply::call(move |answer| match answer {
                    Err(Failure::Unsupported) => client.write_zeroes_later(part, range),
                    answer => client.answer(&again, part, answer.map(|()| &[][..])),
                });
                Request::Discard { range, reply }
            }
            // Space that cannot be freed is kept.
            Command::Trim(range) => Request::Discard { range: *range, reply: done(Ok(())) },
            Command::Flush => Request::Flush { reply: failing() },
        });
    }

    fn answer(self: &Arc<Self>, server: &Arc<dyn Server>, part: PartId, answer: Result<&[u8], Failure>) {
        let (flush, wake) = {
            let mut state = self.state();
            let answered = state.book.answered(part, answer.map_err(fault));
            let data = if answered.data { answer.unwrap_or_default() } else { &[] };
            self.send_in(&mut state, &answered.send, data);
            let wake = state.paused && !state.is_full() || state.input_ended && state.is_idle();
            (answered.flush, wake)
        };
        if let Some(part) = flush {
            self.request_part(server, part, &Command::Flush);
        }
        if wake {
            self.waker.wake_for(self.number);
        }
    }

    /// Sends both, one after the other, and keeps what the socket does not accept.
    fn send_in(&self, state: &mut ClientState, head: &[u8], data: &[u8]) {
        if state.broken {
            return;
        }
        let sent = if state.out.is_empty() { self.try_send(head, data) } else { Ok(0) };
        match sent {
            Ok(sent) => {
                state.out.extend(&head[sent.min(head.len())..]);
                state.out.extend(&data[sent.saturating_sub(head.len())..]);
            }
            Err(_) => self.fail(state),
        }
    }

    /// Sends kept bytes, as far as the socket accepts them.
    fn push(&self, state: &mut ClientState) {
        while !state.out.is_empty() {
            let (first, second) = state.out.as_slices();
            match self.try_send(first, second) {
                Ok(0) => return,
                Ok(sent) => drop(state.out.drain(..sent)),
                Err(_) => self.fail(state),
            }
        }
    }

    /// The client is gone.
    fn fail(&self, state: &mut ClientState) {
        state.broken = true;
        state.out.clear();
        self.waker.wake_for(self.number);
    }

    /// Sends without waiting. Returns how much the socket accepted.
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
