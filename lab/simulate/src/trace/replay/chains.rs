//! Requests in chains: those of one process, one after the other, with its think times.
//!
//! The think time before a request is taken from the trace: a pause, or the time from the end of the process's
//! request before (its time plus its response time, if recorded) to this request. Without response times the
//! time between the two requests counts as think time, which is too long by the response time. The first
//! request of a process comes as long after the start as in the trace. A trace without processes is one chain.
//!
//! Requests are read some way ahead, so that a process whose next request lies further on in the trace than
//! others' can continue; one beyond [`WINDOW_LIMIT`] comes late.

use crate::trace::{Record, TraceError, When};
use foreseek_seam::ProcessId;
use foreseek_units::{Instant, Nanos};
use rustc_hash::FxHashMap;
use std::collections::VecDeque;

/// Requests read ahead: some seconds of a busy server, and 4 MiB of memory.
pub const WINDOW_LIMIT: usize = 1 << 16;

/// A request with its process's think time before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Chained {
    /// The request.
    pub record: Record,
    /// The process of its chain.
    pub pid: ProcessId,
    /// The time between the completion of the chain's request before (or the start) and this one.
    pub think: Nanos,
}

/// Assigns a trace's requests to chains, with think times.
#[derive(Debug, Default)]
pub struct Chains {
    origin: Option<Instant>,
    /// When each chain's last request was complete in the trace.
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
        let pid = record.pid.unwrap_or_default();
        let think = match record.at {
            When::After(pause) => pause,
            When::At(at) => {
                let origin = *self.origin.get_or_insert(at);
                let before = self.over.get(&pid).copied().unwrap_or(origin);
                let response = record.response.unwrap_or_default();
                self.over.insert(pid, Instant(at.get().saturating_add(response.get())));
                at - before
            }
        };
        Chained { record, pid, think }
    }
}

/// The part of one chain in a window.
#[derive(Debug, Default)]
struct Chain {
    waiting: VecDeque<Chained>,
    busy: bool,
    /// When its last request was complete in the replay.
    over: Instant,
}

/// The known part of a trace: which requests may be made, and when.
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

    /// Reads ahead as far as allowed. Chains that had nothing to do and now have are reported to `ready` with
    /// the time at which their request is due.
    pub(super) fn fill(&mut self, ready: &mut dyn FnMut(Instant, ProcessId)) -> Result<(), TraceError> {
        while !self.ended && self.waiting < WINDOW_LIMIT {
            let Some(record) = self.trace.next().transpose()? else {
                self.ended = true;
                break;
            };
            let chained = self.chains.add(record);
            let chain = self.known.entry(chained.pid).or_default();
            if !chain.busy {
                chain.busy = true;
                ready(after(chain.over, chained.think), chained.pid);
            }
            chain.waiting.push_back(chained);
            self.waiting += 1;
        }
        Ok(())
    }

    /// The request of a chain that is due.
    pub(super) fn take(&mut self, pid: ProcessId) -> Option<Chained> {
        let next = self.known.get_mut(&pid)?.waiting.pop_front()?;
        self.waiting -= 1;
        Some(next)
    }

    /// A chain's request is complete; returns when its next one is due, if that is known.
    pub(super) fn over(&mut self, pid: ProcessId, at: Instant) -> Option<Instant> {
        let chain = self.known.get_mut(&pid)?;
        chain.over = at;
        let next = chain.waiting.front().map(|next| after(at, next.think));
        chain.busy = next.is_some();
        next
    }
}

/// A trace may contain endless pauses.
fn after(at: Instant, think: Nanos) -> Instant {
    Instant(at.get().saturating_add(think.get()))
}
