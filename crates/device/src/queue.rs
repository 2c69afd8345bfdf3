//! The disk's queue: waiting requests, and the order in which they are chosen.

use crate::geometry::TrackAddress;
use crate::io::{Io, Op};
use foreseek_units::{Instant, Nanos};

/// The order in which a device serves its waiting requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Queue {
    /// Shortest positioning time first, with [`PASSED_OVER_LIMIT`]: native command queueing.
    #[default]
    Sptf,
    /// Shortest seek time first, with the same limit: rotation does not count. Among equally near requests
    /// the older goes first. The manual of a drive of 2002 describes it ("in order to minimize seek time
    /// between commands", Ultrastar 146Z10, section 11.4).
    Sstf,
    /// In order of arrival.
    Fifo,
}

/// A request that the head has passed over this many times for each position in the queue is served next,
/// however near others are. Nearest-access choice alone can starve a request for ever. A request among random
/// ones is passed over about once for each position, with independent odds each time. Eight times is
/// therefore so rare that the order stays nearest-first, and no request waits longer than eight fillings of
/// the queue take. (A limit in seconds would turn a deep queue of large requests, each of which has to wait
/// for seconds, into arrival order.)
pub const PASSED_OVER_LIMIT: u64 = 8;

/// A request in the queue.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Waiting {
    pub(crate) io: Io,
    /// Order of arrival.
    pub(crate) sequence: u64,
    pub(crate) arrived: Instant,
    /// The number of requests that the head had served at its arrival.
    pub(crate) served_before: u64,
    /// When the controller has processed it.
    pub(crate) ready: Instant,
    /// Whether the disk has handled it since.
    pub(crate) seen: bool,
    /// The position of its first sector.
    pub(crate) address: TrackAddress,
    /// When its first sector passes in the sequential pass.
    pub(crate) passes: Nanos,
    /// Whether it is a write that the cache holds and that is done for the host.
    pub(crate) cached: bool,
}

impl Waiting {
    /// Whether it waits for the head.
    pub(crate) fn wants_head(&self) -> bool {
        self.seen && self.io.op != Op::Flush
    }
}

/// The parameters of the choice.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Choice {
    pub(crate) queue: Queue,
    /// The number of requests that the head has served.
    pub(crate) served: u64,
    /// How often it may pass over a request.
    pub(crate) pass_over: u64,
    /// When the end of the access before passes in the sequential pass.
    pub(crate) behind: Nanos,
    /// One revolution.
    pub(crate) rotation_period: Nanos,
    /// Whether cached writes are chosen as well.
    pub(crate) destage: bool,
}

/// A request follows the one before if its data pass within this many revolutions behind it.
const FOLLOWING_ROTATIONS: u64 = 2;
/// A following request is chosen unless another's data pass earlier by this part of a revolution. Without
/// this rule an ascending pass over scattered sectors breaks at each end of a track. A request of the track
/// after the next may come a sector earlier than the next track's first. The head would go there, and return
/// revolutions later for all skipped requests.
const FOLLOWING_PART: u64 = 4;

/// Chooses the request that the head serves next: its index in `waiting`. `cost` returns the time until a
/// request's data begin to pass.
pub(crate) fn choose(
    choice: Choice,
    waiting: &[Waiting],
    mut cost: impl FnMut(&Waiting) -> Nanos,
) -> Option<usize> {
    let may_go = |one: &Waiting| one.wants_head() && (choice.destage || !one.cached);
    let candidates = || waiting.iter().enumerate().filter(|(_, one)| may_go(one));
    let (oldest, first) = candidates().min_by_key(|(_, one)| one.sequence)?;
    if choice.queue == Queue::Fifo || choice.served - first.served_before >= choice.pass_over {
        return Some(oldest);
    }
    let following = choice.behind..=choice.behind + choice.rotation_period * FOLLOWING_ROTATIONS;
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
    let next = next.filter(|next| next.cost <= nearest.cost + choice.rotation_period / FOLLOWING_PART);
    Some(next.unwrap_or(nearest).at)
}

#[derive(Clone, Copy, Debug)]
struct Candidate {
    at: usize,
    cost: Nanos,
    passes: Nanos,
    sequence: u64,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::io::IoId;
    use foreseek_units::SectorSpan;

    fn waiting(sequence: u64, passes: u64) -> Waiting {
        Waiting {
            io: Io { id: IoId(sequence), op: Op::Read, range: SectorSpan::default() },
            sequence,
            arrived: Instant::ZERO,
            served_before: sequence,
            ready: Instant::ZERO,
            seen: true,
            address: TrackAddress::default(),
            passes: Nanos(passes),
            cached: false,
        }
    }

    const CHOICE: Choice = Choice {
        queue: Queue::Sptf,
        served: 10,
        pass_over: 100,
        behind: Nanos(1_000_000),
        rotation_period: Nanos(8_000),
        destage: true,
    };

    /// Costs by sequence number.
    fn chosen(choice: Choice, waiting: &[Waiting], costs: &[u64]) -> Option<u64> {
        let at = choose(choice, waiting, |one| Nanos(costs[one.sequence as usize]))?;
        Some(waiting[at].sequence)
    }

    #[test]
    fn the_nearest_is_chosen_and_among_equals_the_oldest() {
        let queue = [waiting(2, 0), waiting(0, 0), waiting(1, 0)];
        assert_eq!(chosen(CHOICE, &queue, &[5, 3, 9]), Some(1));
        assert_eq!(chosen(CHOICE, &queue, &[5, 5, 5]), Some(0));
        assert_eq!(chosen(Choice { queue: Queue::Fifo, ..CHOICE }, &queue, &[5, 3, 1]), Some(0));
    }

    #[test]
    fn a_following_request_is_chosen_within_a_quarter_revolution() {
        let queue = [waiting(0, 9_000_000), waiting(1, 1_010_000), waiting(2, 1_005_000)];
        assert_eq!(chosen(CHOICE, &queue, &[100, 300, 2_100]), Some(2));
        assert_eq!(chosen(CHOICE, &queue, &[100, 300, 2_101]), Some(0));
        // Behind the access before, or more than two turns ahead of it, none follows.
        let queue = [waiting(0, 9_000_000), waiting(1, 999_999), waiting(2, 1_016_001)];
        assert_eq!(chosen(CHOICE, &queue, &[100, 101, 101]), Some(0));
    }

    #[test]
    fn a_request_passed_over_too_often_is_next() {
        let queue = [waiting(0, 0), waiting(1, 0)];
        let served = |served| Choice { served, ..CHOICE };
        assert_eq!(chosen(served(99), &queue, &[9, 1]), Some(1));
        assert_eq!(chosen(served(100), &queue, &[9, 1]), Some(0));
    }

    #[test]
    fn flushes_and_commands_that_are_not_ready_do_not_want_the_head() {
        let mut flush = waiting(0, 0);
        flush.io.op = Op::Flush;
        let unseen = Waiting { seen: false, ..waiting(1, 0) };
        assert_eq!(chosen(CHOICE, &[flush, unseen], &[1, 1]), None);
        assert_eq!(chosen(CHOICE, &[flush, unseen, waiting(2, 0)], &[1, 1, 9]), Some(2));
    }
}
