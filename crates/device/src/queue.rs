//! The disk's queue: requests that wait, and in which order they are chosen.

use crate::geometry::Place;
use crate::io::{Io, Op};
use foreseek_units::{Instant, Nanos};

/// How a device chooses among the requests that wait in it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Queue {
    /// Shortest positioning time first, with [`PASSED_OVER_LIMIT`]: native command queueing.
    #[default]
    Sptf,
    /// In order of arrival.
    Fifo,
}

/// A request that the head has passed over so many times for each place in the queue is served next,
/// whatever is nearer. Nearest-access choice by itself can starve a request for ever. A request among
/// random ones is passed over about once for each place, and with the odds of a coin tossed anew each
/// time: eight times is so rare that the order stays nearest-first, and no request waits longer than
/// eight fillings of the queue take. (A limit in seconds would turn a deep queue of large requests,
/// each of which has to wait for seconds, into arrival order.)
pub const PASSED_OVER_LIMIT: u64 = 8;

/// A request in the queue.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Waiting {
    pub(crate) io: Io,
    /// Order of arrival.
    pub(crate) sequence: u64,
    pub(crate) arrived: Instant,
    /// How many requests the head had served when it arrived.
    pub(crate) served_before: u64,
    /// When the controller has understood it.
    pub(crate) ready: Instant,
    /// Whether the disk has looked at it since.
    pub(crate) seen: bool,
    /// Where its first sector lies.
    pub(crate) place: Place,
    /// When its first sector passes in the sequential pass.
    pub(crate) passes: Nanos,
}

impl Waiting {
    /// Whether it waits for the head.
    pub(crate) fn wants_head(&self) -> bool {
        self.seen && self.io.op != Op::Flush
    }
}

/// What the choice depends on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Choice {
    pub(crate) queue: Queue,
    /// How many requests the head has served.
    pub(crate) served: u64,
    /// How many times it may pass over a request.
    pub(crate) pass_over: u64,
    /// When the end of the access before passes in the sequential pass.
    pub(crate) behind: Nanos,
    /// One revolution.
    pub(crate) turn: Nanos,
}

/// A request counts as following the one before if its data pass within so many turns behind it.
const FOLLOWING_TURNS: u64 = 2;
/// A following request is chosen unless another's data pass earlier by this part of a turn. Without
/// this rule an ascending pass over scattered sectors falls apart at each end of a track: a request
/// of the track after the next may come by a sector earlier than the next track's first, the head
/// goes there, and has to come back turns later for all that it left out.
const FOLLOWING_PART: u64 = 4;

/// Chooses the request that the head serves next: its position in `waiting`. `cost` is asked for the
/// time until a request's data begin to pass.
pub(crate) fn choose(
    choice: Choice,
    waiting: &[Waiting],
    mut cost: impl FnMut(&Waiting) -> Nanos,
) -> Option<usize> {
    let candidates = || waiting.iter().enumerate().filter(|(_, one)| one.wants_head());
    let (oldest, first) = candidates().min_by_key(|(_, one)| one.sequence)?;
    if choice.queue == Queue::Fifo || choice.served - first.served_before >= choice.pass_over {
        return Some(oldest);
    }
    let following = choice.behind..=choice.behind + choice.turn * FOLLOWING_TURNS;
    let (mut nearest, mut next): (Option<Candidate>, Option<Candidate>) = (None, None);
    for (at, one) in candidates() {
        let candidate = Candidate { at, cost: cost(one), passes: one.passes, sequence: one.sequence };
        if nearest.is_none_or(|best| (candidate.cost, one.sequence) < (best.cost, best.sequence)) {
            nearest = Some(candidate);
        }
        let follows = following.contains(&one.passes);
        if follows && next.is_none_or(|best| (one.passes, one.sequence) < (best.passes, best.sequence)) {
            next = Some(candidate);
        }
    }
    let nearest = nearest?;
    let next = next.filter(|next| next.cost <= nearest.cost + choice.turn / FOLLOWING_PART);
    Some(next.unwrap_or(nearest).at)
}

#[derive(Clone, Copy, Debug)]
struct Candidate {
    at: usize,
    cost: Nanos,
    passes: Nanos,
    sequence: u64,
}
