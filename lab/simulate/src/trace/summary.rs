//! A summary of a trace.

use super::record::{Record, TARGETS_LIMIT, TraceTarget, When};
use super::{Format, Reader, TraceError};
use foreseek_device::Op;
use foreseek_units::{Bytes, Instant, Nanos};
use std::collections::{BTreeMap, BTreeSet};
use std::io::BufRead;

/// The most processes that are counted.
const PROCESSES_LIMIT: usize = 1 << 16;

/// Records between two calls of `progress`: some milliseconds of parsing.
const PROGRESS: u64 = 1 << 14;

/// The requests to one device or file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TargetSummary {
    /// The target.
    pub target: TraceTarget,
    /// Its name, if the trace has names.
    pub name: Option<String>,
    /// Requests to it.
    pub requests: u64,
    /// Their end: the least size of the target.
    pub end: Bytes,
}

/// A trace in numbers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Summary {
    /// Its file.
    pub file: String,
    /// Its format.
    pub format: Format,
    /// Reads.
    pub reads: u64,
    /// Writes.
    pub writes: u64,
    /// Flushes.
    pub flushes: u64,
    /// Bytes read.
    pub read: Bytes,
    /// Bytes written.
    pub written: Bytes,
    /// The longest request.
    pub longest: Bytes,
    /// Reads and writes that begin where the one before at the same target ended.
    pub sequential: u64,
    /// The earliest and the latest time, if the trace has times.
    pub times: Option<(Instant, Instant)>,
    /// Requests that are earlier than the one before them.
    pub disordered: u64,
    /// Pauses after the completion of requests, summed, if the trace has them.
    pub paused: Nanos,
    /// Requests with response times.
    pub responses: u64,
    /// The sum of those.
    pub responded: Nanos,
    /// Processes, if the trace has them; counted up to 65,536.
    pub processes: usize,
    /// The devices and files, in order of their numbers.
    pub targets: Vec<TargetSummary>,
}

impl Summary {
    /// Reads a trace to its end. `progress` is called with the number of requests now and then.
    ///
    /// # Errors
    /// The trace cannot be read, is malformed, holds no request, or names too many devices.
    pub fn of(mut reader: Reader<impl BufRead>, progress: &mut dyn FnMut(u64)) -> Result<Self, TraceError> {
        let mut summary = Self::empty(reader.file(), reader.format());
        let mut targets: BTreeMap<TraceTarget, (u64, u64)> = BTreeMap::new();
        let mut ends: BTreeMap<TraceTarget, u64> = BTreeMap::new();
        let mut processes = BTreeSet::new();
        let mut last = None;
        while let Some(record) = reader.next_record()? {
            summary.count(&record, &mut last);
            if !targets.contains_key(&record.target) && targets.len() == TARGETS_LIMIT {
                return Err(TraceError::Places { file: summary.file, limit: TARGETS_LIMIT });
            }
            let target = targets.entry(record.target).or_default();
            target.0 += 1;
            target.1 = target.1.max(record.range.end.get());
            if record.op != Op::Flush {
                let end = ends.insert(record.target, record.range.end.get());
                summary.sequential += u64::from(end == Some(record.range.start.get()));
            }
            if let Some(pid) = record.pid
                && processes.len() < PROCESSES_LIMIT
            {
                processes.insert(pid);
            }
            if summary.requests().is_multiple_of(PROGRESS) {
                progress(summary.requests());
            }
        }
        if summary.requests() == 0 {
            return Err(TraceError::Empty { file: summary.file });
        }
        summary.processes = processes.len();
        let name = |target: &TraceTarget| match target {
            TraceTarget::File(number) => reader.name(*number).map(str::to_owned),
            TraceTarget::Device(_) => None,
        };
        summary.targets = targets
            .iter()
            .map(|(target, (requests, end))| TargetSummary {
                target: *target,
                name: name(target),
                requests: *requests,
                end: Bytes(*end),
            })
            .collect();
        Ok(summary)
    }

    fn empty(file: &str, format: Format) -> Self {
        Self {
            file: file.to_owned(),
            format,
            reads: 0,
            writes: 0,
            flushes: 0,
            read: Bytes::ZERO,
            written: Bytes::ZERO,
            longest: Bytes::ZERO,
            sequential: 0,
            times: None,
            disordered: 0,
            paused: Nanos::ZERO,
            responses: 0,
            responded: Nanos::ZERO,
            processes: 0,
            targets: Vec::new(),
        }
    }

    fn count(&mut self, record: &Record, last: &mut Option<Instant>) {
        let length = record.range.len();
        // Sums saturate: a trace may contain any lengths and times.
        let add = |sum: &mut u64, more: u64| *sum = sum.saturating_add(more);
        match record.op {
            Op::Read => {
                self.reads += 1;
                add(&mut self.read.0, length.get());
            }
            Op::Write => {
                self.writes += 1;
                add(&mut self.written.0, length.get());
            }
            Op::Flush => self.flushes += 1,
        }
        self.longest = self.longest.max(length);
        match record.at {
            When::At(at) => {
                let (first, latest) = self.times.unwrap_or((at, at));
                self.times = Some((first.min(at), latest.max(at)));
                self.disordered += u64::from(last.is_some_and(|last| at < last));
                *last = Some(at);
            }
            When::After(pause) => add(&mut self.paused.0, pause.get()),
        }
        if let Some(response) = record.response {
            self.responses += 1;
            add(&mut self.responded.0, response.get());
        }
    }

    /// Reads, writes and flushes.
    #[must_use]
    pub fn requests(&self) -> u64 {
        self.reads + self.writes + self.flushes
    }

    /// From the earliest to the latest time, if the trace has times.
    #[must_use]
    pub fn duration(&self) -> Option<Nanos> {
        self.times.map(|(first, last)| last - first)
    }

    /// The mean response time, if there are any.
    #[must_use]
    pub fn mean_response(&self) -> Option<Nanos> {
        self.responded.get().checked_div(self.responses).map(Nanos)
    }
}
