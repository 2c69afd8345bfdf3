//! Requests in chains: what one process asked for, one after the other, with its think times.
//!
//! The think time before a request is what the trace says of it: a pause, or the time from the end of
//! the process's request before (its time plus its response time, where the trace tells that) to this
//! request. Where it tells no response times, the time between the two requests counts as thought,
//! which is too much by the response. The first request of a process comes as long after the start as
//! it did in the trace. A trace that names no processes is one chain.
//!
//! Requests are read some way ahead, so that a process whose next request lies further on in the
//! trace than others' can go on; one that lies beyond [`WINDOW_LIMIT`] comes late.

use crate::trace::{Record, TraceError, When};
use foreseek_seam::ProcessId;
use foreseek_units::{Instant, Nanos};
use rustc_hash::FxHashMap;
use std::collections::VecDeque;

/// Requests read ahead: some seconds of a busy server, and 4 MiB of memory.
pub const WINDOW_LIMIT: usize = 1 << 16;

/// A request with the time that its process thinks before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Chained {
    /// The request.
    pub record: Record,
    /// Whose chain it is of.
    pub who: ProcessId,
    /// How long after the end of the request before it of its chain (or after the start) it is made.
    pub think: Nanos,
}

/// Gives a trace's requests their chains and think times.
#[derive(Debug, Default)]
pub struct Chains {
    origin: Option<Instant>,
    /// When each chain's last request was over in the trace.
    over: FxHashMap<ProcessId, Instant>,
}

impl Chains {
    /// Before the first request of a trace.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The next request of the trace in its chain.
    pub fn add(&mut self, record: Record) -> Chained {
        let who = record.who.unwrap_or_default();
        let think = match record.at {
            When::After(pause) => pause,
            When::At(at) => {
                let origin = *self.origin.get_or_insert(at);
                let before = self.over.get(&who).copied().unwrap_or(origin);
                let response = record.response.unwrap_or_default();
                self.over.insert(who, Instant(at.get().saturating_add(response.get())));
                at - before
            }
        };
        Chained { record, who, think }
    }
}

/// What a window holds of one chain.
#[derive(Debug, Default)]
struct Chain {
    waiting: VecDeque<Chained>,
    busy: bool,
    /// When its last request was over in the replay.
    over: Instant,
}

/// The part of a trace that is known: which requests may be made, and when.
pub(super) struct Window<T> {
    trace: T,
    chains: Chains,
    known: FxHashMap<ProcessId, Chain>,
    waiting: usize,
    ended: bool,
}

impl<T: Iterator<Item = Result<Record, TraceError>>> Window<T> {
    pub(super) fn new(trace: T) -> Self {
        let known = FxHashMap::default();
        Self { trace, chains: Chains::new(), known, waiting: 0, ended: false }
    }

    /// Reads ahead as far as it may; chains that had nothing to do and now have are told to `ready`
    /// with the time at which their request is due.
    pub(super) fn fill(&mut self, ready: &mut dyn FnMut(Instant, ProcessId)) -> Result<(), TraceError> {
        while !self.ended && self.waiting < WINDOW_LIMIT {
            let Some(record) = self.trace.next().transpose()? else {
                self.ended = true;
                break;
            };
            let chained = self.chains.add(record);
            let chain = self.known.entry(chained.who).or_default();
            if !chain.busy {
                chain.busy = true;
                ready(after(chain.over, chained.think), chained.who);
            }
            chain.waiting.push_back(chained);
            self.waiting += 1;
        }
        Ok(())
    }

    /// The request of a chain that is due.
    pub(super) fn take(&mut self, who: ProcessId) -> Option<Chained> {
        let next = self.known.get_mut(&who)?.waiting.pop_front()?;
        self.waiting -= 1;
        Some(next)
    }

    /// The request of a chain is over; answers when its next one is due, where it is known.
    pub(super) fn over(&mut self, who: ProcessId, at: Instant) -> Option<Instant> {
        let chain = self.known.get_mut(&who)?;
        chain.over = at;
        let next = chain.waiting.front().map(|next| after(at, next.think));
        chain.busy = next.is_some();
        next
    }
}

/// A trace may claim pauses without end.
fn after(at: Instant, think: Nanos) -> Instant {
    Instant(at.get().saturating_add(think.get()))
}
