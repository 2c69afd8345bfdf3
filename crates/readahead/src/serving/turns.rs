//! Turns of readers in sequence at a device with one head.
//!
//! A disk with long runs of several readers in its queue serves a piece of each in turn, whichever it reaches
//! sooner, and pays positioning for each piece. So readers in sequence take turns:
//!
//! - A stream reads *in sequence* after [`STEADY`] visits, each of which went on where the last one ended, promptly:
//!   before that was read, or within the patience after it.
//! - While a stream has its turn, fetches of other streams in sequence wait. All other fetches go at once:
//!   short reads and readers that jump wait for nobody.
//! - A turn ends after 100 to 250 ms, if others wait: all have one in [`ROUND`]. It ends before where the stream has no
//!   fetch left and does not ask for the next one within the patience (anticipatory scheduling).
//!
//! Only up to [`FEW`] readers take turns. A disk that has one fetch of each of many readers to choose from saves more by
//! its choice than it loses.
//!
//! The patience is half of the positioning time, and no more than a 16th of what the stream has transferred. So a wait
//! for a short stream that does not go on costs next to nothing. For a stream that has reached the end of its file nobody waits. A reader
//! that came too late is not waited for until it has been prompt again, [`STEADY`] times.
//!
//! The stream that has its turn while others wait has few fetches in flight, as a
//! [single reader](super::flight#a-single-reader) has, and one at first. A disk that has all of a long run in its queue
//! begins with the part that it reaches soonest, and returns for the parts in front of it.
//!
//! An array, a remote volume or flash serves several requests at once: there nobody waits. Without a profile, a device
//! counts as a disk from a positioning time of [`DISK`] on.
//!
//! Sources: anticipatory scheduling (Iyer and Druschel, SOSP 2001); the time slice of CFQ (`slice_sync`,
//! block/cfq-iosched.c of Linux 2.6.18).

use super::flight::Fetch;
use super::pace::{LEAST, SLACK};
use foreseek_seam::{Measured, ObjectId, StreamId};
use foreseek_units::{Instant, Nanos, PageIndex, Pages};
use rustc_hash::FxHashMap;

/// How long all turns of the streams in sequence take together, and a single one at least and at most. With two
/// readers a disk's positioning is then 3 % of the time; CFQ's slice of 100 ms makes it 8 %.
const ROUND: Nanos = Nanos::from_secs(1);
const SLICE: Nanos = Nanos::from_millis(100);
const LONG_SLICE: Nanos = Nanos::from_millis(250);
/// Visits in sequence that make a stream wait for others, and others for it.
const STEADY: u32 = 2;
/// The most active streams that take turns.
const FEW: usize = 8;
/// A stream is waited for at most this part of the time that its transfer took.
const PART_OF_TRANSFER: u64 = 16;
/// The least positioning time of a disk; flash takes a tenth of it.
const DISK: Nanos = Nanos::from_millis(1);

/// How far a stream reads in sequence.
#[derive(Clone, Copy, Debug)]
struct Sequence {
    /// The end of the fetch that was requested last.
    end: (ObjectId, PageIndex),
    /// Prompt visits in sequence, up to [`STEADY`].
    steady: u32,
    /// Fetches that were requested and have not ended, and how many of them are in flight.
    open: usize,
    in_flight: usize,
    /// Pages in flight.
    pages: Pages,
    /// Pages since it began.
    length: Pages,
    /// Whether it has reached the end of its object.
    at_end: bool,
    /// When a fetch ended last.
    ended: Instant,
}

impl Sequence {
    fn begins(start: (ObjectId, PageIndex), now: Instant) -> Self {
        let (pages, length) = (Pages::ZERO, Pages::ZERO);
        Self { end: start, steady: 0, open: 0, in_flight: 0, pages, length, at_end: false, ended: now }
    }

    fn is_steady(&self) -> bool {
        self.steady >= STEADY
    }
}

/// The stream that has its turn.
#[derive(Clone, Copy, Debug)]
struct Turn {
    stream: StreamId,
    /// When it ends, if others wait.
    until: Instant,
    /// Whether a fetch of it has ended.
    begun: bool,
}

/// See the module's documentation.
#[derive(Debug)]
pub(super) struct Turns {
    one_head: bool,
    costs: Measured,
    /// Active streams.
    readers: usize,
    /// This many pages in flight keep the device reading.
    enough: Pages,
    streams: FxHashMap<StreamId, Sequence>,
    turn: Option<Turn>,
}

impl Turns {
    /// `one_head`: the device serves one request at a time.
    pub(super) fn new(one_head: bool, costs: Measured) -> Self {
        Self { one_head, costs, readers: 0, enough: Pages::ZERO, streams: FxHashMap::default(), turn: None }
    }

    /// Sets the costs of the device.
    pub(super) fn learnt(&mut self, costs: Measured) {
        self.costs = costs;
        self.enough = costs.rate.in_time(SLACK).pages_floor();
    }

    /// Sets the number of active streams.
    pub(super) fn read_by(&mut self, readers: usize) {
        self.readers = readers;
    }

    /// A fetch is requested.
    pub(super) fn asked(&mut self, now: Instant, fetch: &Fetch) {
        if !self.one_head || self.costs.positioning < DISK {
            self.streams.remove(&fetch.stream);
            return;
        }
        let (start, end) = ((fetch.object, fetch.range.start), (fetch.object, fetch.range.end));
        let patience = self.streams.get(&fetch.stream).map_or(Nanos::ZERO, |stream| self.patience(stream));
        let stream = self.streams.entry(fetch.stream).or_insert_with(|| Sequence::begins(start, now));
        let prompt = stream.open > 0 || now - stream.ended <= patience;
        if stream.end != start {
            (stream.steady, stream.length) = (0, Pages::ZERO);
        } else if !prompt {
            stream.steady = 0;
        } else if !fetch.follows {
            stream.steady = (stream.steady + 1).min(STEADY);
        }
        stream.length += fetch.range.len();
        stream.at_end = fetch.at_end;
        stream.end = end;
        stream.open += 1;
    }

    /// A fetch is handed to the driver.
    pub(super) fn issued(&mut self, now: Instant, stream: StreamId, pages: Pages) {
        let Some(sequence) = self.streams.get_mut(&stream) else { return };
        sequence.in_flight += 1;
        sequence.pages += pages;
        if sequence.is_steady() && self.readers <= FEW {
            let goes_on = self.turn.filter(|turn| turn.stream == stream && now < turn.until);
            let until = now + self.slice();
            self.turn = Some(goes_on.unwrap_or(Turn { stream, until, begun: false }));
        }
    }

    /// The driver did not take a fetch.
    pub(super) fn returned(&mut self, stream: StreamId, pages: Pages) {
        if let Some(sequence) = self.streams.get_mut(&stream) {
            sequence.in_flight = sequence.in_flight.saturating_sub(1);
            sequence.pages -= pages;
        }
    }

    /// A fetch that was in flight has ended.
    pub(super) fn ended(&mut self, now: Instant, stream: StreamId, pages: Pages) {
        self.returned(stream, pages);
        self.cancelled(stream);
        if let Some(turn) = self.turn.as_mut().filter(|turn| turn.stream == stream) {
            turn.begun = true;
        }
        if let Some(sequence) = self.streams.get_mut(&stream) {
            sequence.ended = now;
        }
    }

    /// A queued fetch was cancelled.
    pub(super) fn cancelled(&mut self, stream: StreamId) {
        if let Some(sequence) = self.streams.get_mut(&stream) {
            sequence.open = sequence.open.saturating_sub(1);
        }
    }

    /// A stream is closed: what it still waits for goes at once.
    pub(super) fn closed(&mut self, stream: StreamId) {
        self.streams.remove(&stream);
        self.turn = self.turn.filter(|turn| turn.stream != stream);
    }

    /// Whether a fetch may be handed to the driver.
    pub(super) fn may_go(&self, now: Instant, fetch: &Fetch) -> bool {
        let sequence =
            self.streams.get(&fetch.stream).filter(|sequence| sequence.is_steady() && !fetch.alone);
        let turn = self.turn.filter(|_| self.readers <= FEW);
        let (Some(sequence), Some(turn)) = (sequence, turn) else { return true };
        if turn.stream != fetch.stream {
            return self.is_over(&turn, now);
        }
        let most = if turn.begun { LEAST } else { 1 };
        let has_room = sequence.in_flight < most || turn.begun && sequence.pages < self.enough;
        has_room && now < turn.until || !self.others_wait(turn.stream)
    }

    /// When a turn ends although nothing happens, at the latest.
    pub(super) fn ends(&self) -> Option<Instant> {
        let turn = self.turn.filter(|_| self.readers <= FEW)?;
        let sequence = self.streams.get(&turn.stream)?;
        let ends = || sequence.ended + self.patience(sequence);
        (sequence.open == 0 && self.others_wait(turn.stream)).then(ends)
    }

    fn is_over(&self, turn: &Turn, now: Instant) -> bool {
        let Some(sequence) = self.streams.get(&turn.stream) else { return true };
        let is_late = sequence.open == 0 && now >= sequence.ended + self.patience(sequence);
        let is_used_up = sequence.in_flight == 0 && now >= turn.until;
        is_late || is_used_up || !sequence.is_steady()
    }

    /// How long a stream is waited for that has no fetch left.
    fn patience(&self, stream: &Sequence) -> Nanos {
        if stream.at_end {
            return Nanos::ZERO;
        }
        let transferred = self.costs.rate.time_for(stream.length.bytes());
        Nanos((self.costs.positioning.0 / 2).min(transferred.0 / PART_OF_TRANSFER))
    }

    /// How long a turn that begins now may take.
    fn slice(&self) -> Nanos {
        let busy = |sequence: &&Sequence| sequence.is_steady() && sequence.open > 0;
        let streams = self.streams.values().filter(busy).count() as u64;
        Nanos(ROUND.0 / streams.max(1)).clamp(SLICE, LONG_SLICE)
    }

    /// Whether other streams in sequence have fetches queued.
    fn others_wait(&self, than: StreamId) -> bool {
        let waits = |(stream, sequence): (&StreamId, &Sequence)| {
            *stream != than && sequence.is_steady() && sequence.open > sequence.in_flight
        };
        self.streams.iter().any(waits)
    }
}
