//! The end of a fetch: its pages arrive in full, in part, or not at all.

use super::flight::{Fetch, Progress};
use super::reads::Ticket;
use super::state::ServingEngine;
use crate::depth::Visit;
use crate::stream::Served;
use foreseek_cache::{Mark, Process};
use foreseek_seam::objects::{PageKey, Slot};
use foreseek_seam::{FetchId, FetchOutcome, FrameId, ObjectId, ProcessId, Refusal, StreamId, Urgency};
use foreseek_units::{Lba, Nanos, PageIndex, PageSpan, Pages, SectorSpan, Span};

/// Sectors beyond any device. Pages whose address is unknown are mapped there, object by object.
const NOWHERE: u64 = 1 << 62;

/// How long to wait after a driver refused a fetch because it was busy, unless another fetch ends before. It
/// is short against the positioning time of a disk.
const BUSY_PAUSE: Nanos = Nanos::from_millis(1);

impl ServingEngine {
    /// A fetch has ended.
    pub(super) fn done(&mut self, id: FetchId, got: Pages, outcome: FetchOutcome) {
        let Some(fetch) = self.checks.some(self.flight.end(self.now, id)) else { return };
        self.pause = None;
        let failed = outcome == FetchOutcome::Failed;
        let from_device = outcome != FetchOutcome::FromMemory;
        if from_device {
            let way = fetch.progress.way.filter(|_| !self.flight.is_crowded() && !self.settings.overlapping);
            self.pace.ended(fetch.progress.issued, self.now, fetch.range.len(), way);
        }
        let came = Span::at(fetch.range.start, got).intersection(fetch.range);
        if failed || came != fetch.range {
            self.stats.failed_fetches += u64::from(failed);
        } else if from_device {
            self.learn(&fetch);
        }
        self.arrive(id, &fetch, came);
        self.settle_waiters(id, fetch, came, failed);
    }

    /// The driver refused a fetch.
    pub(super) fn refused(&mut self, id: FetchId, why: Refusal) {
        if why == Refusal::Busy {
            self.flight.put_back(id);
            self.pause = Some(self.now + BUSY_PAUSE);
            return;
        }
        let Some(fetch) = self.checks.some(self.flight.end(self.now, id)) else { return };
        self.stats.failed_fetches += 1;
        let nothing = Span::new(fetch.range.start, fetch.range.start);
        self.arrive(id, &fetch, nothing);
        self.settle_waiters(id, fetch, nothing, true);
    }

    /// Learns the device's costs from a whole fetch.
    fn learn(&mut self, fetch: &Fetch) {
        let Some(issued) = self.checks.some(fetch.progress.issued) else { return };
        let object = self.objects.find(fetch.object).map(|slot| self.objects.get(slot));
        let known = object.and_then(|object| object.lba(fetch.range.start));
        let nowhere = || {
            Lba(NOWHERE | fetch.object.0.wrapping_mul(1 << 40) >> 2)
                + (fetch.range.start - PageIndex::ZERO).sectors()
        };
        let range = SectorSpan::at(known.unwrap_or_else(nowhere), fetch.range.len().sectors());
        let alone = !self.flight.is_crowded();
        self.learner.completed(Visit { issued, completed: self.now, range, alone });
        if known.is_some() {
            self.prefetcher.served(self.now, Served { from: self.head, range });
            self.head = range.end;
        }
    }

    /// Moves the pages that arrived into the prefetch cache, or to the reads that take them over. The others
    /// are forgotten.
    fn arrive(&mut self, id: FetchId, fetch: &Fetch, came: PageSpan) {
        let mark = Mark { process: Process(fetch.pid.0), at: fetch.asked };
        for (page, frame) in fetch.range.iter().zip(&fetch.frames) {
            let key = PageKey::within(fetch.slot, page);
            if came.contains(page) {
                self.frames.fill(*frame);
            }
            // A page that was fetched for one read alone, or that a change has overtaken, is not shared.
            let flying = if fetch.alone { None } else { self.table.ended(&key, id) };
            match flying {
                Some(flying) if came.contains(page) && flying.claimed => self.delivered(key),
                Some(flying) if came.contains(page) => {
                    if let Some(before) = self.table.keep(key, flying.held, mark) {
                        self.checks.broken();
                        self.unkeep(fetch.slot, 1);
                        self.frames.release(before.frame);
                    }
                    continue;
                }
                Some(_) => self.unkeep(fetch.slot, 1),
                None => {}
            }
            self.frames.release(*frame);
        }
    }

    /// Gives the result of a fetch to the reads that waited for it.
    fn settle_waiters(&mut self, id: FetchId, fetch: Fetch, came: PageSpan, failed: bool) {
        let Fetch { range, frames, waiters, alone, urgency, .. } = fetch;
        // A failed read ahead is weak evidence about its pages: the block layer may have merged it with a
        // read of a bad sector beside them. Only a demand read is retried without its neighbours.
        let own = alone || (waiters.len() == 1 && urgency == Urgency::Demand);
        for ticket in waiters {
            let Some(read) = self.checks.some(self.reads.get_mut(ticket)) else { continue };
            let lacks = read.lacks(Span::new(came.end, range.end), range, &frames);
            match lacks.first() {
                None => {}
                Some(first) if !failed => read.end = read.end.min(first.start),
                // A fetch of only the read's own pages is not retried.
                Some(_) if own && read.pages.covers(range) => read.error = Some(id),
                Some(_) => read.failed.extend(lacks),
            }
            let Some(left) = self.checks.some(read.outstanding.checked_sub(1)) else { continue };
            read.outstanding = left;
            if read.outstanding == 0 {
                self.settle(ticket);
            }
        }
    }

    /// All fetches of a read have ended: it is answered, or its failed pages are fetched for it alone.
    fn settle(&mut self, ticket: Ticket) {
        let Some(read) = self.checks.some(self.reads.get_mut(ticket)) else { return };
        let failed = if read.error.is_some() { Vec::new() } else { std::mem::take(&mut read.failed) };
        if failed.is_empty() {
            self.ready.push_back(ticket);
            return;
        }
        let (stream, slot, object, pid) = (read.stream, read.slot, read.object, read.pid);
        let frames: Vec<_> = failed.iter().map(|range| (*range, read.frames_of(*range).to_vec())).collect();
        let mut outstanding = 0;
        for (range, frames) in frames {
            let mut start = range.start;
            // Another read that lacks the same pages may have had them fetched into the same frames, or may
            // be about to.
            let states = frames.into_iter().map(|frame| {
                let state = match self.flight.fills(frame) {
                    Some(fetch) => Lack::Coming(fetch),
                    None if self.frames.is_filled(frame) => Lack::Fetched,
                    None => Lack::Missing,
                };
                (frame, state)
            });
            let states: Vec<(FrameId, Lack)> = states.collect();
            for run in states.chunk_by(|one, next| one.1 == next.1) {
                let range = Span::at(start, Pages(run.len() as u64));
                start = range.end;
                outstanding += match run[0].1 {
                    Lack::Fetched => 0,
                    Lack::Coming(fetch) => u32::from(self.flight.join(fetch, ticket)),
                    Lack::Missing => {
                        let frames = run.iter().map(|one| one.0).collect();
                        self.fetch_alone(ticket, SingleFetch { stream, slot, object, pid, range }, frames);
                        1
                    }
                };
            }
        }
        match self.reads.get_mut(ticket) {
            Some(read) if outstanding > 0 => read.outstanding = outstanding,
            _ => self.ready.push_back(ticket),
        }
    }

    fn fetch_alone(&mut self, ticket: Ticket, single: SingleFetch, frames: Vec<FrameId>) {
        let SingleFetch { stream, slot, object, pid, range } = single;
        frames.iter().for_each(|frame| self.frames.hold(*frame));
        self.flight.ask(Fetch {
            stream,
            slot,
            object,
            range,
            frames,
            urgency: Urgency::Demand,
            follows: false,
            at_end: false,
            alone: true,
            waiters: vec![ticket],
            pid,
            ahead: Pages::ZERO,
            asked: self.now,
            progress: Progress::default(),
        });
    }
}

/// The state of a page that a failed fetch did not bring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Lack {
    Missing,
    /// It is being fetched for another read alone.
    Coming(FetchId),
    /// It has been fetched for another read alone.
    Fetched,
}

/// A fetch for one read alone.
struct SingleFetch {
    stream: StreamId,
    slot: Slot,
    object: ObjectId,
    pid: ProcessId,
    range: PageSpan,
}
