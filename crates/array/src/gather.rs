//! Joins writes that lie directly behind one another, so that stripes with parity arrive below whole.
//!
//! The loop device cuts a long write at 1280 KiB or 128 pieces of memory, which may be as little as 512 KiB, and
//! FUSE before Linux 6.13 cuts at 1 MiB what is left. The export over NBD cuts at 1 MiB. The pieces arrive one after
//! the other or side by side. A stripe that lies in two of them would arrive in two writes, and md would read for the
//! parity of each. So a long write that begins or ends within a stripe waits for its neighbours. What has come together
//! goes below as one write.
//!
//! It waits 16 ms at most for each neighbour. After a wait for one that did not come some writes do not wait: one, and
//! twice as many each time, up to 128. That is counted for single writes, and for joined writes by their length.

use foreseek_units::{ByteOffset, ByteSpan, Bytes, Lba, Sectors, Stripes};
use std::collections::HashMap;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// The shortest write that waits.
const LONG: Bytes = Bytes::kib(256);
/// The longest wait for a neighbour. A piece follows in less than 1 ms; a busy machine needs more.
const WAIT: Duration = Duration::from_millis(16);
/// Writes that are as long together wait for nothing more.
const JOINED_MOST: Bytes = Bytes::mib(16);
/// The most writes in a row that do not wait.
const SKIPS_MOST: u32 = 128;
/// The most kinds of groups whose waits are remembered.
const KINDS_MOST: usize = 64;

/// Writes that lie directly behind one another.
pub(crate) type Joined<T> = Vec<(ByteSpan, T)>;

/// See the module's documentation.
pub(crate) struct Gather<T> {
    waiting: Mutex<Waiting<T>>,
    changed: Condvar,
}

impl<T> Gather<T> {
    /// For a device that begins at this sector of an array of these stripes.
    pub(crate) fn new(stripes: &Stripes, origin: Lba) -> Self {
        Self { waiting: Mutex::new(Waiting::new(stripes, origin)), changed: Condvar::new() }
    }

    /// Adds a write. If it has not joined others that wait, [`wait`](Self::wait) is to be called with what is returned.
    pub(crate) fn add(&self, range: ByteSpan, write: T) -> Option<Place<T>> {
        let place = self.waiting().add(range, write);
        if place.is_none() {
            self.changed.notify_all();
        }
        place
    }

    /// Returns the writes that are to be made together, when no neighbour is waited for any more. None if they have
    /// joined others meanwhile.
    pub(crate) fn wait(&self, place: Place<T>) -> Joined<T> {
        let first = match place {
            Place::Alone(range, write) => return vec![(range, write)],
            Place::Group(id) => id,
        };
        let mut waiting = self.waiting();
        loop {
            match waiting.next(first, Instant::now()) {
                Next::Make(writes) => return writes,
                Next::Wait(left) => {
                    let woken = self.changed.wait_timeout(waiting, left);
                    waiting = woken.unwrap_or_else(PoisonError::into_inner).0;
                }
            }
        }
    }

    /// How many whole stripes these writes cover together.
    pub(crate) fn stripes(&self, writes: &Joined<T>) -> u64 {
        let (Some((first, _)), Some((last, _))) = (writes.first(), writes.last()) else { return 0 };
        self.waiting().stripes(ByteSpan::new(first.start, last.end))
    }

    fn waiting(&self) -> MutexGuard<'_, Waiting<T>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A write that has not joined others.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Place<T> {
    /// It waits for nothing.
    Alone(ByteSpan, T),
    /// It is the first of the group with this number.
    Group(u64),
}

/// What the first of a group is to do.
#[derive(Debug, PartialEq, Eq)]
enum Next<T> {
    /// Make these writes; none if they have joined others.
    Make(Joined<T>),
    /// Wait so long, or until the group has changed.
    Wait(Duration),
}

/// Writes that wait together.
struct Group<T> {
    id: u64,
    range: ByteSpan,
    /// In the order of their places; at least one.
    writes: Joined<T>,
    /// It does not wait, since no neighbour came to others like it.
    skips: bool,
    /// The end of the wait for the next neighbour, which begins when its first asks for it.
    until: Option<Instant>,
}

impl<T> Group<T> {
    /// Its length, if several writes have come together.
    fn kind(&self) -> Option<Bytes> {
        (self.writes.len() > 1).then(|| self.range.len())
    }
}

/// The writes that wait; without threads and clocks.
struct Waiting<T> {
    /// The length of a stripe, where whole stripes save reads.
    stripe: Option<Bytes>,
    origin: Bytes,
    groups: Vec<Group<T>>,
    /// The next group's.
    id: u64,
    /// By [`Group::kind`].
    skips: HashMap<Option<Bytes>, Skips>,
}

/// How often writes do not wait.
#[derive(Default)]
struct Skips {
    /// How many of the next ones do not.
    left: u32,
    /// How many did not after the last one to which no neighbour came.
    all: u32,
}

impl<T> Waiting<T> {
    fn new(stripes: &Stripes, origin: Lba) -> Self {
        let stripe = (stripes.level.parities() > 0).then(|| stripes.row_sectors().bytes());
        let origin = Sectors(origin.get()).bytes();
        Self { stripe, origin, groups: Vec::new(), id: 0, skips: HashMap::new() }
    }

    /// Adds a write; `None` if it has joined others.
    fn add(&mut self, range: ByteSpan, write: T) -> Option<Place<T>> {
        let before = self.take_out(|group| group.range.end == range.start);
        let behind = self.take_out(|group| range.end == group.range.start);
        let Some(first) = before.as_ref().or(behind.as_ref()) else { return Some(self.begin(range, write)) };
        let (id, kind) = (first.id, first.kind());
        if let Some(Skips { left, all }) = self.skips.get_mut(&kind) {
            // A neighbour has come.
            (*left, *all) = (0, *all / 2);
        }
        let writes = |group: Option<Group<T>>| group.map(|group| group.writes).unwrap_or_default();
        let mut joined = writes(before);
        joined.push((range, write));
        joined.extend(writes(behind));
        let range = ByteSpan::new(joined[0].0.start, joined[joined.len() - 1].0.end);
        let mut group = Group { id, range, writes: joined, skips: false, until: None };
        group.skips = self.skips(group.kind());
        self.groups.push(group);
        None
    }

    /// A write without neighbours.
    fn begin(&mut self, range: ByteSpan, write: T) -> Place<T> {
        let group = Group { id: self.id, range, writes: Vec::new(), skips: false, until: None };
        if !self.expects(&group) || self.skips(None) {
            return Place::Alone(range, write);
        }
        self.id += 1;
        self.groups.push(Group { writes: vec![(range, write)], ..group });
        Place::Group(self.id - 1)
    }

    /// Whether one of this kind does not wait.
    fn skips(&mut self, kind: Option<Bytes>) -> bool {
        let Some(skips) = self.skips.get_mut(&kind).filter(|skips| skips.left > 0) else { return false };
        skips.left -= 1;
        true
    }

    /// What the first of a group is to do now.
    fn next(&mut self, id: u64, now: Instant) -> Next<T> {
        let Some(at) = self.groups.iter().position(|group| group.id == id) else {
            return Next::Make(Vec::new());
        };
        if !self.expects(&self.groups[at]) {
            return Next::Make(self.take(id));
        }
        let until = *self.groups[at].until.get_or_insert(now + WAIT);
        match until.saturating_duration_since(now) {
            Duration::ZERO => Next::Make(self.give_up(id)),
            left => Next::Wait(left),
        }
    }

    /// The whole stripes in this range; none where they save no reads.
    fn stripes(&self, range: ByteSpan) -> u64 {
        self.stripe.map_or(0, |stripe| {
            let (start, end) = (range.start.get() + self.origin.get(), range.end.get() + self.origin.get());
            (end / stripe.get()).saturating_sub(start.div_ceil(stripe.get()))
        })
    }

    #[cfg(test)]
    fn group(&self, id: u64) -> Option<&Group<T>> {
        self.groups.iter().find(|group| group.id == id)
    }

    /// Whether a stripe has begun in front of these writes or goes on behind them, and the neighbour with its rest
    /// is likely to come.
    fn expects(&self, group: &Group<T>) -> bool {
        let length = group.range.len();
        let is_whole = !self.is_within_stripe(group.range.start) && !self.is_within_stripe(group.range.end);
        !group.skips && !is_whole && (LONG..JOINED_MOST).contains(&length)
    }

    fn is_within_stripe(&self, at: ByteOffset) -> bool {
        self.stripe.is_some_and(|stripe| !(at.get() + self.origin.get()).is_multiple_of(stripe.get()))
    }

    fn take_out(&mut self, is_it: impl Fn(&Group<T>) -> bool) -> Option<Group<T>> {
        let at = self.groups.iter().position(is_it)?;
        Some(self.groups.swap_remove(at))
    }

    /// Takes a group out: nothing is added to it any more.
    fn take(&mut self, id: u64) -> Joined<T> {
        self.take_out(|group| group.id == id).map(|group| group.writes).unwrap_or_default()
    }

    /// Takes out a group to which no neighbour came.
    fn give_up(&mut self, id: u64) -> Joined<T> {
        let Some(group) = self.take_out(|group| group.id == id) else { return Vec::new() };
        if self.skips.len() == KINDS_MOST {
            self.skips.clear();
        }
        let skips = self.skips.entry(group.kind()).or_default();
        skips.all = (2 * skips.all).clamp(1, SKIPS_MOST);
        skips.left = skips.all;
        group.writes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use foreseek_units::Level;
    use proptest::prelude::*;

    const KIB: u64 = 1 << 10;

    /// Four strips of 512 KiB and their parity: a stripe of 2 MiB.
    fn waiting(level: Level) -> Waiting<u64> {
        Waiting::new(&Stripes { level, members: 5, strip: Sectors(1024) }, Lba::ZERO)
    }

    fn span(start_kib: u64, end_kib: u64) -> ByteSpan {
        ByteSpan::new(ByteOffset(start_kib * KIB), ByteOffset(end_kib * KIB))
    }

    /// Adds these writes, in KiB, and expects one group that is complete after the last one.
    fn are_joined(waiting: &mut Waiting<u64>, writes: &[(u64, u64)]) {
        let Some(Place::Group(group)) = waiting.add(span(writes[0].0, writes[0].1), writes[0].0) else {
            panic!("the first does not wait");
        };
        for (start, end) in &writes[1..] {
            assert!(waiting.expects(waiting.group(group).expect("it waits")), "before {start}");
            assert_eq!(waiting.add(span(*start, *end), *start), None, "{start}");
        }
        assert!(!waiting.expects(waiting.group(group).expect("it waits")), "{writes:?}");
        let mut sorted: Vec<_> = writes.iter().map(|(start, end)| (span(*start, *end), *start)).collect();
        sorted.sort_by_key(|(range, _)| range.start);
        assert_eq!(waiting.take(group), sorted);
        assert!(waiting.groups.is_empty());
    }

    #[test]
    fn the_pieces_of_a_stripe_are_joined_in_any_order() {
        let mut waiting = waiting(Level::Raid5);
        are_joined(&mut waiting, &[(0, 1280), (1280, 2048)]);
        are_joined(&mut waiting, &[(3328, 4096), (2048, 3328)]);
        // 128 single pages at a time.
        are_joined(&mut waiting, &[(6144, 7168), (7168, 7424), (7424, 8192)]);
        are_joined(&mut waiting, &[(4096, 4608), (4608, 5120), (5120, 5632), (5632, 6144)]);
        are_joined(&mut waiting, &[(5632, 6144), (5120, 5632), (4608, 5120), (4096, 4608)]);
        // As the export over NBD cuts.
        are_joined(&mut waiting, &[(8192, 9216), (9216, 10240)]);
        // Four MiB.
        are_joined(&mut waiting, &[(0, 1280), (1280, 2560), (2560, 3840), (3840, 4096)]);
    }

    #[test]
    fn what_is_whole_or_short_waits_for_nothing() {
        let mut raid5 = waiting(Level::Raid5);
        for range in [span(0, 2048), span(2048, 6144), span(64, 128), span(0, 4), span(0, 200)] {
            assert_eq!(raid5.add(range, 1), Some(Place::Alone(range, 1)), "{range:?}");
        }
        let range = span(0, 1280);
        assert_eq!(waiting(Level::Raid0).add(range, 1), Some(Place::Alone(range, 1)));
    }

    #[test]
    fn a_stripe_begins_at_the_arrays_origin() {
        let stripes = Stripes { level: Level::Raid5, members: 5, strip: Sectors(1024) };
        let mut waiting = Waiting::new(&stripes, Lba(2048));
        let stripe = span(1024, 1024 + 2048);
        assert_eq!(waiting.add(stripe, 1), Some(Place::Alone(stripe, 1)));
        assert_eq!(
            waiting.add(span(0, 1024), 2),
            Some(Place::Group(0)),
            "the stripe has begun in front of it"
        );
    }

    #[test]
    fn a_write_between_two_groups_joins_both() {
        let mut waiting = waiting(Level::Raid5);
        assert_eq!(waiting.add(span(0, 1280), 0), Some(Place::Group(0)));
        assert_eq!(waiting.add(span(2560, 3840), 2), Some(Place::Group(1)));
        assert_eq!(waiting.add(span(1280, 2560), 1), None);
        assert!(waiting.group(1).is_none());
        let taken: Vec<_> = waiting.take(0).into_iter().map(|(_, write)| write).collect();
        assert_eq!(taken, [0, 1, 2]);
        assert!(waiting.take(1).is_empty());
    }

    #[test]
    fn writes_of_one_length_together_are_soon_not_waited_behind() {
        let mut waiting = waiting(Level::Raid5);
        let mut waited = 0;
        for number in 0..1000_u64 {
            let start = number * 2048;
            let Some(Place::Group(group)) = waiting.add(span(start, start + 1024), 0) else {
                panic!("it waits")
            };
            waiting.add(span(start + 1024, start + 1536), 1);
            let waits = waiting.expects(waiting.group(group).expect("it is there"));
            let joined = if waits { waiting.give_up(group) } else { waiting.take(group) };
            assert_eq!(joined.len(), 2);
            waited += u32::from(waits);
        }
        assert_eq!(waited, 14);
    }

    #[test]
    fn little_is_remembered() {
        let mut waiting = waiting(Level::Raid5);
        for number in 0..1000_u64 {
            let start = number * 4096;
            let Some(Place::Group(group)) = waiting.add(span(start, start + 1024), 0) else {
                panic!("it waits")
            };
            waiting.add(span(start + 1024, start + 1540 + number), 1);
            waiting.give_up(group);
            assert!(waiting.skips.len() <= KINDS_MOST);
        }
    }

    #[test]
    fn waits_for_what_does_not_come_become_rare() {
        let mut waiting = waiting(Level::Raid5);
        let (mut waited, mut since, mut longest) = (0, 0, 0);
        for number in 0..1000_u64 {
            // 1 MiB at a time, each after the last is over.
            match waiting.add(span(number * 1024, (number + 1) * 1024), number) {
                Some(Place::Group(group)) => {
                    assert_eq!(waiting.give_up(group).len(), 1);
                    (waited, since) = (waited + 1, 0);
                }
                Some(Place::Alone(..)) => since += 1,
                None => panic!("nothing waits"),
            }
            longest = longest.max(since);
        }
        assert_eq!(longest, SKIPS_MOST);
        assert_eq!(waited, 14);
        // One whose neighbour comes ends that.
        waiting.skips.get_mut(&None).expect("remembered").left = 0;
        are_joined(&mut waiting, &[(0, 1280), (1280, 2048)]);
        are_joined(&mut waiting, &[(0, 1280), (1280, 2048)]);
    }

    #[test]
    fn no_group_grows_without_bound() {
        let mut waiting = waiting(Level::Raid5);
        let Some(Place::Group(group)) = waiting.add(span(1024, 2304), 0) else { panic!("it waits") };
        let mut end = 2304;
        while waiting.expects(waiting.group(group).expect("it waits")) {
            waiting.add(span(end, end + 1280), end);
            end += 1280;
        }
        assert!(waiting.take(group).len() <= 16 * 1024 / 1280 + 1);
    }

    /// A stripe in pieces whose next one comes when the wait is almost over, again and again. The first asks at
    /// once, then whenever something has changed, and when its time has come.
    #[test]
    fn pieces_within_the_wait_are_always_joined() {
        let (start, almost) = (Instant::now(), WAIT - Duration::from_nanos(1));
        let mut waiting = waiting(Level::Raid5);
        for stripe in 0..1000_u64 {
            let from = stripe * 2048;
            let cuts: &[u64] = if stripe % 2 == 0 { &[0, 1280, 2048] } else { &[0, 512, 1024, 1536, 2048] };
            let pieces: Vec<_> = cuts.windows(2).map(|cut| span(from + cut[0], from + cut[1])).collect();
            let mut now = start + Duration::from_secs(stripe);
            let Some(Place::Group(group)) = waiting.add(pieces[0], 0) else { panic!("it waits") };
            for (number, piece) in (0..).zip(&pieces).skip(1) {
                assert_eq!(waiting.next(group, now), Next::Wait(WAIT));
                now += almost;
                assert_eq!(waiting.next(group, now), Next::Wait(WAIT - almost), "asked in vain");
                assert_eq!(waiting.add(*piece, number), None);
            }
            let all = pieces.into_iter().zip(0..).collect();
            assert_eq!(waiting.next(group, now), Next::Make(all));
            assert_eq!(waiting.next(group, now), Next::Make(Vec::new()), "made once");
        }
    }

    #[test]
    fn a_piece_that_comes_when_the_wait_is_over_is_made_by_itself() {
        let mut waiting = waiting(Level::Raid5);
        let now = Instant::now();
        let Some(Place::Group(group)) = waiting.add(span(0, 1280), 0) else { panic!("it waits") };
        assert_eq!(waiting.next(group, now), Next::Wait(WAIT));
        assert_eq!(waiting.next(group, now + WAIT), Next::Make(vec![(span(0, 1280), 0)]));
        let rest = span(1280, 2048);
        assert_eq!(waiting.add(rest, 1), Some(Place::Alone(rest, 1)), "one was waited for in vain");
    }

    #[test]
    fn whole_stripes_are_counted_from_the_arrays_origin() {
        let stripes = Stripes { level: Level::Raid5, members: 5, strip: Sectors(1024) };
        let gather = Gather::new(&stripes, Lba(2048));
        let count =
            |cuts: &[u64]| gather.stripes(&cuts.windows(2).map(|cut| (span(cut[0], cut[1]), ())).collect());
        assert_eq!(count(&[1024, 2304, 3072]), 1);
        assert_eq!(count(&[0, 1024, 3072, 6000]), 2);
        assert_eq!(count(&[1028, 3072]), 0);
        assert_eq!(count(&[]), 0);
        let raid0 = Gather::new(&Stripes { level: Level::Raid0, ..stripes }, Lba::ZERO);
        assert_eq!(raid0.stripes(&vec![(span(0, 8192), ())]), 0);
    }

    /// Pieces of 256 KiB and how they wait: for each its number, and that of its group.
    #[derive(Default)]
    struct Naive(std::collections::BTreeMap<u64, (u64, u64)>);

    impl Naive {
        fn of(&self, group: u64) -> Vec<(u64, u64)> {
            let all = self.0.iter().filter(|(_, (_, of))| *of == group);
            all.map(|(at, (number, _))| (*at, *number)).collect()
        }

        /// Whether a group of these pieces waits: a stripe has eight.
        fn expects(pieces: &[(u64, u64)]) -> bool {
            let (Some((first, _)), Some((last, _))) = (pieces.first(), pieces.last()) else { return false };
            (first % 8 != 0 || (last + 1) % 8 != 0) && pieces.len() < 64
        }

        /// Adds a piece; the group that it begins.
        fn add(&mut self, at: u64, number: u64, next: u64) -> Option<u64> {
            let group = |at: Option<u64>| at.and_then(|at| self.0.get(&at)).map(|(_, group)| *group);
            let (before, behind) = (group(at.checked_sub(1)), group(Some(at + 1)));
            let joined = before.or(behind);
            self.0.insert(at, (number, joined.unwrap_or(next)));
            self.0.values_mut().filter(|(_, group)| Some(*group) == behind).for_each(|(_, group)| {
                *group = joined.unwrap_or(*group);
            });
            joined.is_none().then_some(next)
        }
    }

    proptest! {
        /// Pieces in any order, some of them taken out before their stripe is complete.
        #[test]
        fn groups_are_those_of_the_naive_model(ops in proptest::collection::vec((0..8u8, 0..100u64), 0..300)) {
            let (mut waiting, mut naive) = (waiting(Level::Raid5), Naive::default());
            let mut groups = 0;
            for (number, (op, at)) in ops.into_iter().enumerate() {
                if op == 0 {
                    let group = at % (groups + 1);
                    let taken = naive.of(group);
                    naive.0.retain(|_, (_, of)| *of != group);
                    let taken: Vec<_> = taken.into_iter().map(|(at, number)| (span(at * 256, at * 256 + 256), number)).collect();
                    prop_assert_eq!(waiting.take(group), taken);
                } else if !naive.0.contains_key(&at) {
                    let begun = naive.add(at, number as u64, groups);
                    groups += u64::from(begun.is_some());
                    prop_assert_eq!(waiting.add(span(at * 256, at * 256 + 256), number as u64), begun.map(Place::Group));
                }
                for group in 0..groups {
                    let pieces = naive.of(group);
                    let expects = waiting.group(group).map(|group| waiting.expects(group));
                    prop_assert_eq!(expects, (!pieces.is_empty()).then(|| Naive::expects(&pieces)));
                }
            }
        }
    }

    /// Threads that add the pieces of stripes: each piece is made once, in whole stripes as far as they come in time.
    #[test]
    fn each_write_is_made_once() {
        let gather =
            Gather::new(&Stripes { level: Level::Raid5, members: 5, strip: Sectors(1024) }, Lba::ZERO);
        let made = Mutex::new(Vec::new());
        std::thread::scope(|scope| {
            for thread in 0..4_u64 {
                let (gather, made) = (&gather, &made);
                scope.spawn(move || {
                    for stripe in 0..32_u64 {
                        let start = stripe * 2048;
                        let cuts = [start, start + 640, start + 1280, start + 1664, start + 2048];
                        let range = span(cuts[thread as usize], cuts[thread as usize + 1]);
                        let joined = gather
                            .add(range, (stripe, thread))
                            .map_or_else(Vec::new, |place| gather.wait(place));
                        for pair in joined.windows(2) {
                            assert_eq!(pair[0].0.end, pair[1].0.start);
                        }
                        made.lock().expect("unharmed").extend(joined.into_iter().map(|(_, write)| write));
                    }
                });
            }
        });
        let mut made = made.into_inner().expect("unharmed");
        made.sort_unstable();
        let all: Vec<_> = (0..32).flat_map(|stripe| (0..4).map(move |thread| (stripe, thread))).collect();
        assert_eq!(made, all);
    }
}
