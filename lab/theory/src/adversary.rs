//! The lower bound of 2, executed: where to end a stream so that an online rule pays for it.
//!
//! EuroSys'07 section 4.2 proves by contradiction that no rule that does not know the stream's length is better
//! than 2-competitive. The proof is a construction: end the stream right after the data of a fetch, when the
//! next fetch has just been made. Here it runs against a sequence of depths ([`against`]) and against any
//! policy as a black box ([`against_policy`]).
//!
//! The number of fetches to try is bounded more sharply than in the paper. Let `D(k)` be the data of the first
//! `k` fetches over `CR`. Suppose that the stream that ends right after `D(k - 1)` costs less than `2 - e`
//! times its optimum for every `k` up to `K`: `k + D(k) < (2 - e)(1 + D(k - 1))`. With the lag `L(k) = k -
//! D(k)` this is `L(k) > e k + (2 - e) L(k - 1)`. By induction `L(k) >= e (2^k - 1)` as long as `e 2^(k - 1) <=
//! 1`. Each fetch reads something, so that `L(k) < L(k - 1) + 1`. With the first inequality that gives `L(k -
//! 1) < (1 - e k) / (1 - e)`. For `k = ceil(log2(1 / e)) + 1` both contradict each other. So within that many
//! fetches ([`fetches_needed`]) one ending costs at least `2 - e`.
//!
//! `docs/internals/theory.md` has the proof step by step.

use crate::{Model, Worst};
use foreseek_readahead::depth::Depths;
use foreseek_readahead::stream::{Ahead, Found, Opened, Prefetcher, Touch, View};
use foreseek_seam::{ObjectId, ProcessId, StreamId};
use foreseek_units::{Bytes, Instant, Lba, PageIndex, PageSpan, Pages, Position, Span};

/// Longest stream that is tried against a policy: 1 GiB. Competitive prefetch sizes are below 64 MiB, and ten
/// such fetches are enough for an `e` of a thousandth.
pub const LENGTH_LIMIT: Pages = Bytes::gib(1).pages_floor();

/// Within how many fetches some ending costs at least `2 - epsilon` times the optimum, for
/// `epsilon` above 0 and up to 1.
#[must_use]
pub fn fetches_needed(epsilon: f64) -> usize {
    (1.0 / epsilon.clamp(f64::MIN_POSITIVE, 1.0)).log2().ceil() as usize + 1
}

/// The ending that costs a sequence of depths most, within [`fetches_needed`] fetches: at least `2 - epsilon`.
/// The stream is longer than [`Worst::length`] by an arbitrarily small amount.
#[must_use]
pub fn against(depths: &Depths, model: &Model, epsilon: f64) -> Worst {
    model.worst(depths, fetches_needed(epsilon))
}

/// What an adversary found against a policy.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Ending {
    /// The stream's length: its last page is only begun.
    pub length: Bytes,
    /// How many fetches the policy made for it.
    pub fetches: usize,
    /// How much they read.
    pub fetched: Pages,
    /// What they cost over the optimum.
    pub ratio: f64,
}

/// The ending that costs a policy most.
///
/// The policy sees a reader of single pages, in sequence from the first page of a large object, on an idle disk
/// with enough memory. What it reads ahead is there when it is touched. The stream may end after each page, of
/// which it has used the first byte. Ranges from one touch that follow one another count as one fetch, as a
/// block layer merges them. Pages up to `longest` are tried, and at most [`LENGTH_LIMIT`].
pub fn against_policy(policy: &mut dyn Prefetcher, model: &Model, longest: Pages) -> Ending {
    let mut reader = Reader::new();
    policy.opened(Instant::ZERO, reader.opened());
    let mut worst = Ending { length: Bytes::ZERO, fetches: 0, fetched: Pages::ZERO, ratio: 0.0 };
    for page in (0..longest.min(LENGTH_LIMIT).get()).map(PageIndex) {
        let made = reader.fetches;
        reader.touch(policy, page);
        if reader.fetches == made {
            // No more fetches than at the page before, and a longer optimum: the ratio is lower.
            continue;
        }
        let length = Bytes(page.offset().get() + 1);
        let cost = model.cost(reader.fetches, reader.fetched.bytes().get() as f64);
        let ratio = cost / model.optimum(length.get() as f64);
        if ratio > worst.ratio {
            worst = Ending { length, fetches: reader.fetches, fetched: reader.fetched, ratio };
        }
    }
    policy.closed(Instant::ZERO, STREAM);
    worst
}

const STREAM: StreamId = StreamId(0);

/// A sequential reader and what was fetched for it.
struct Reader {
    /// Fetched so far: one piece from the first page on, for a sequential stream.
    held: PageSpan,
    fetches: usize,
    fetched: Pages,
    markers: Vec<PageIndex>,
    answers: Vec<Ahead>,
}

impl Reader {
    fn new() -> Self {
        let held = Span::new(PageIndex::ZERO, PageIndex::ZERO);
        Self { held, fetches: 0, fetched: Pages::ZERO, markers: Vec::new(), answers: Vec::new() }
    }

    fn opened(&self) -> Opened {
        let (object, pid) = (ObjectId(0), ProcessId(0));
        Opened { stream: STREAM, object, pid, length: LENGTH_LIMIT * 2, announced: None }
    }

    fn touch(&mut self, policy: &mut dyn Prefetcher, page: PageIndex) {
        let found = if self.held.contains(page) { Found::Hit } else { Found::Miss };
        let marker = self.markers.contains(&page);
        self.markers.retain(|at| *at > page);
        let request = Pages(1);
        let touch = Touch { stream: STREAM, page, request, first: true, mapped: false, found, marker };
        let mut answers = std::mem::take(&mut self.answers);
        policy.touch(Instant::ZERO, touch, &Sight(self.held), &mut answers);
        let mut end = None;
        for ahead in answers.drain(..) {
            let fresh = Span::new(ahead.range.start.max(self.held.end), ahead.range.end);
            if fresh.is_empty() {
                continue;
            }
            self.fetches += usize::from(end != Some(fresh.start));
            self.fetched += fresh.len();
            self.held.end = fresh.end;
            self.markers.extend(ahead.marker);
            end = Some(fresh.end);
        }
        self.answers = answers;
    }
}

/// What the policy sees: what was fetched, on an idle disk.
struct Sight(PageSpan);

impl View for Sight {
    fn cached(&self, page: PageIndex) -> bool {
        self.0.contains(page)
    }

    fn congested(&self) -> bool {
        false
    }

    fn lba(&self, page: PageIndex) -> Option<Lba> {
        Some(Lba::ZERO.after(Pages(page.get()).sectors()))
    }
}
