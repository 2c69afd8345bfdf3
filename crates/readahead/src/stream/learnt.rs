//! Learnt depth: fetches as deep as the lengths of past streams make worth while, within a promise.
//!
//! Streams are followed and their lengths learnt by classes ([`crate::learn`]); a fetch is as deep as the
//! [`Plan`] says that costs least for those lengths. No stream costs more than `rho` times what knowing
//! its length would ([`Promise`]), whatever was learnt: competitive prefetching is `rho = 2`.
//!
//! A fetch is made when a page is missing, as the papers' analysis has it, or *early*, while its reader is
//! still busy with what it has: when the promise allows that (the reader wants enough already, even if
//! it stops there), and when it is no likelier that the fetch is for nothing than that the device would
//! have been idle meanwhile ([`Idle`]). So a device with nothing else to do works while its reader
//! computes, and a busy one reads next to nothing in vain.
//!
//! Where a scheduler keeps the device waiting for this reader, at the place where his next fetch begins, that
//! fetch costs no switch. It is then no longer than what the device is given at once ([`Awaited`]): the rest would
//! come after what others have queued, and the device, which waits for its reader, would idle and go twice. Such a
//! fetch is not counted: the promise is about switches and transfers.
//!
//! A remote volume has a latency and no head: each request costs a switch, also the one that goes on. Where a queue sends
//! it one request after the other, a fetch is no longer than a request.
//!
//! Memory bounds it where many read at once: a stream has no more ahead of it than that part of its share of the page
//! cache ([`View::share`](super::View::share)) that lasts until its use ([`Lasting`]), where the kernel has no bound of
//! its own. What was lost in spite of that, or what others have read and memory has given up since, is fetched again
//! from there on as from where the stream stands. A page that a reader has passed over and comes back for is read with
//! his call and no more.
//!
//! A page fault that begins a stream reads around it, as the kernels do and as long as it
//! pays ([`mapped`]): those who map a file go back as well as on (a binary search ends within a window).
//!
//! `learnt-told` is the same with lengths that it was told (by [`Learning::load`]) and learns nothing: what
//! learning is measured against.
//!
//! Limits: what is read in front of a fault is in no promise: half of the kernel's window at most; what lies in memory already
//! counts as consumed, although it cost nothing; what memory lost is not charged, and what a reader passed over
//! and comes back for is not counted; on a remote volume whose requests are far shorter than `CR` a fetch is several requests
//! all the same, since the promise asks for it, and is counted as one switch; the plan reckons
//! with the mean rate of the device and the promise with that of the place. Read-ahead is not
//! cancelled by congestion where a reader waits for it: it is one request with what he needs.

use super::lasting::Lasting;
use super::machine::{Answer, Machine, Streams};
use super::mapped;
use super::parts::Parts;
use super::prefetcher::{Found, Opened, Prefetcher};
use super::view::{Awaited, View};
use crate::depth::{DEPTH_LIMIT, Idle, Plan, Promise, Served, SwitchCost};
use crate::learn::{Classes, Explained, Follower, Learning, LoadError, Loaded, Memory, SCHEME, Step};
use foreseek_seam::{About, Measured};
use foreseek_units::{Bytes, Instant, Lba, Nanos, PAGE_SIZE, PageIndex, PageSpan, Pages, Sectors, Span};
use std::sync::Arc;

/// After how many streams more a class is planned anew; before that, whenever their number has grown
/// by half.
const PLAN_EVERY: u64 = 16;
/// By how much the switch cost may move before plans are made anew.
const SWITCH_TOLERANCE: f64 = 0.1;
/// What a fetch that continues a stream costs beside its transfer, in switches. In the model it is one:
/// the device has been elsewhere. Where it has not (one reader, or a scheduler that waits for him),
/// it is next to none. A half lost nothing to speak of against the better of the two in any load
/// that was tried (docs/learnt-depth.md). The promise reckons with one.
const CONTINUING: f64 = 0.5;
/// The deepest fetch in competitive depths: a switch is a seventeenth of it, so that a longer one gains
/// next to nothing more, keeps all others waiting and takes their memory.
const DEEPEST: f64 = 16.0;
/// How long a file is taken to be where a class is explained that says nothing of it.
const EXPLAINED: Pages = Bytes::mib(64).pages_floor();

/// Makes it.
pub(super) fn build(parts: &Parts<'_>) -> Box<dyn Prefetcher> {
    with(Memory::Fading, parts)
}

/// Makes the one that learns nothing.
pub(super) fn told(parts: &Parts<'_>) -> Box<dyn Prefetcher> {
    with(Memory::Told, parts)
}

fn with(memory: Memory, parts: &Parts<'_>) -> Box<dyn Prefetcher> {
    let settings = parts.settings;
    let switch = SwitchCost::new(Arc::clone(parts.costs), settings.averaging, settings.switch_weight);
    let (rho, unseen_hits) = (settings.rho, settings.unseen_hits);
    let (idle, classes) = (Idle::default(), Classes::new(SCHEME, memory));
    let (lasting, around) = (Lasting::default(), settings.window);
    Box::new(Streams::new(Learnt {
        switch,
        idle,
        rho,
        unseen_hits,
        measured: None,
        lasting,
        around,
        classes,
    }))
}

/// The machine.
struct Learnt {
    switch: SwitchCost,
    idle: Idle,
    rho: f64,
    unseen_hits: bool,
    /// What the device costs, where it is measured while it works.
    measured: Option<Measured>,
    lasting: Lasting,
    /// The kernel's own window, which page faults go by.
    around: Pages,
    classes: Classes<Option<Planned>>,
}

/// A plan and what it was made for.
#[derive(Clone, Debug)]
struct Planned {
    plan: Plan,
    seen: u64,
    switch: Nanos,
    end: Pages,
}

/// Where a reader is in one stream.
#[derive(Clone, Debug)]
struct Run {
    follower: Follower,
    /// The page after the last one that was fetched.
    fetched: PageIndex,
    fetches: usize,
    /// How much the stream must be sure to want before the next fetch is made early.
    early: Pages,
    /// Whether its share of memory cut the last fetch.
    cut: bool,
    /// Whether the page after the last one that was touched would be found unseen.
    ends_unseen: bool,
    /// Page faults that found their page, and that did not.
    faults: mapped::Classic,
}

/// No fetch is made early.
const NEVER: Pages = Pages(u64::MAX);

impl Machine for Learnt {
    type Stream = Run;

    fn open(&self, opened: &Opened) -> Run {
        let follower = Follower::new(opened.length);
        let follower = if self.unseen_hits { follower.behind_read_ahead() } else { follower };
        let faults = mapped::Classic::default();
        Run {
            follower,
            fetched: PageIndex::ZERO,
            fetches: 0,
            early: NEVER,
            cut: false,
            ends_unseen: false,
            faults,
        }
    }

    fn describe(&self, run: &mut Run, about: &About<'_>) {
        run.follower.describe(about);
    }

    fn resize(&self, run: &mut Run, length: Pages) {
        run.follower.resize(length);
    }

    fn close(&mut self, run: &mut Run) {
        let unseen = run.ends_unseen;
        run.follower.leave(&mut self.classes, |_| unseen);
    }

    fn touch(&mut self, run: &mut Run, answer: &mut Answer<'_>) {
        let page = answer.page();
        self.measured = answer.view.measured();
        let (view, unseen_hits, fetched) = (answer.view, self.unseen_hits, run.fetched);
        // What was fetched for this stream is told of when it is touched.
        let unseen = |page| unseen_hits && page >= fetched && view.cached(page);
        let step = run.follower.touch(&mut self.classes, page, unseen);
        let began = matches!(step, Step::Began(_));
        if began {
            (run.fetched, run.fetches, run.early, run.cut) = (page, 0, NEVER, false);
        }
        run.ends_unseen = unseen(page.next());
        let around = answer.touch.mapped && run.faults.around(answer.missing());
        let Some(start) = run.follower.start() else { return };
        // The call's pages will be touched, whatever comes after it.
        let asked = Span::at(page, answer.touch.request);
        let sure = asked.end - start;
        if answer.missing() && step == Step::WentBack {
            answer.read(asked, None);
        } else if answer.missing() {
            if page >= run.fetched {
                if run.cut {
                    self.lasting.kept();
                }
            } else if answer.touch.found == Found::Thrashed {
                self.lasting.lost();
            }
            run.fetched = page;
            let least = if began && around { mapped::centred(page, self.around) } else { asked };
            self.fetch(run, start, sure, least, answer);
        } else if sure >= run.early && !answer.view.congested() {
            // What others have fetched may have taken it beyond what was fetched for it.
            run.fetched = run.fetched.max(page);
            let asked = Span::new(run.fetched, asked.end.max(run.fetched));
            self.fetch(run, start, sure, asked, answer);
        }
    }

    fn served(&mut self, now: Instant, served: Served) {
        let costs = self.costs(Some(served.range.start));
        let gap = (served.range.start - served.from).bytes();
        let switched = served.range.start < served.from || gap > costs.gap();
        let going = match self.measured {
            _ if !switched => Nanos::ZERO,
            Some(measured) => measured.switch,
            None => {
                let costs = self.switch.costs();
                costs.seek_time(served.from.distance(served.range.start)) + costs.half_turn()
            }
        };
        self.idle.served(now, going + costs.rate.time_for(served.range.len().bytes()));
        if switched {
            self.switch.served(served);
        }
    }

    fn learning(&mut self) -> Option<&mut dyn Learning> {
        Some(self)
    }
}

impl Learnt {
    /// Fetches from where the last fetch ended on, for a stream that is sure to want so much, and what is to be
    /// read at the least.
    fn fetch(
        &mut self,
        run: &mut Run,
        start: PageIndex,
        sure: Pages,
        least: PageSpan,
        answer: &mut Answer<'_>,
    ) {
        let (from, fetched) = (run.fetched, run.fetched - start);
        let place = answer.view.place(from);
        let costs = self.costs(place);
        let promise = Promise::new(self.rho, unit(costs));
        let each = self.each(answer.view);
        let wish = self.wish(run, fetched, each);
        let depth = promise.nearest(wish, run.fetches, fetched, sure);
        let ahead = from - answer.page();
        let bound = answer.view.bound().or_else(|| Some(self.lasting.of(answer.view.share()?)));
        let room = bound.map_or(depth, |bound| (bound - ahead).max(Pages(1)));
        let cut = answer.view.bound().is_none() && room < depth;
        let window = Span::new(from.min(least.start), (from + depth.min(room)).max(least.end));
        let room = seamless(answer.view, place, costs).filter(|_| each.is_none() && run.fetches > 0);
        let room = room.filter(|room| *room < window.len());
        let window = room.map_or(window, |room| Span::at(from, room));
        let reads = answer.read(window, None);
        run.fetched = window.end;
        run.fetches += usize::from(reads && room.is_none());
        run.cut = cut && room.is_none();
        run.early = self.early(run, start, promise, answer.end(), each);
    }

    /// When the next fetch may be made early.
    fn early(
        &mut self,
        run: &Run,
        start: PageIndex,
        promise: Promise,
        end: PageIndex,
        each: Option<Pages>,
    ) -> Pages {
        let (fetched, left) = (run.fetched - start, end - run.fetched);
        let doubt = self.idle.share();
        if left.is_zero() {
            return NEVER;
        }
        let depth = self.wish(run, fetched, each).min(left);
        promise.sure(run.fetches, fetched, depth).max(self.plan(run).certain(fetched, doubt))
    }

    /// How much to fetch next for a stream of which so much was fetched; `each`: [`Learnt::each`].
    fn wish(&mut self, run: &Run, fetched: Pages, each: Option<Pages>) -> Pages {
        let deepest = Pages((self.promise().unit() * DEEPEST) as u64).clamp(Pages(1), DEPTH_LIMIT);
        let deepest = each.map_or(deepest, |longest| deepest.min(longest));
        self.plan(run).wish(run.fetches, fetched).min(deepest)
    }

    /// The longest request, where each costs a switch wherever it begins.
    fn each(&self, view: &dyn View) -> Option<Pages> {
        let goes_on = self.switch.costs().seek_time(Sectors::ZERO);
        view.request().filter(|_| !goes_on.is_zero())
    }

    /// What the device costs at a place, or on average where none is known.
    fn costs(&self, place: Option<Lba>) -> Measured {
        self.measured.unwrap_or_else(|| {
            let (switch, costs) = (self.switch.estimate(), self.switch.costs());
            let rate = place.map_or_else(|| costs.mean_rate(), |place| costs.rate_at(place));
            Measured { switch, rate }
        })
    }

    /// The promise at the device's mean rate.
    fn promise(&self) -> Promise {
        Promise::new(self.rho, unit(self.costs(None)))
    }

    /// The plan for streams like this one, made anew where it has grown old.
    fn plan(&mut self, run: &Run) -> &Plan {
        let (switch, promise, length) = (self.costs(None).switch, self.promise(), run.follower.length());
        let chain = run.follower.chain().copied().unwrap_or_default();
        // The longest file of the class so far: in a shorter one the end cuts the last fetch.
        let end = self.classes.longest(&chain).max(length);
        let (kept, seen) = self.classes.kept(&chain);
        let old = kept.take().filter(|old| old.serves(seen, switch, length));
        let planned = old.unwrap_or_else(|| {
            let plan = Plan::solve(self.classes.survival(&chain), promise, end, CONTINUING);
            Planned { plan, seen, switch, end }
        });
        &self.classes.kept(&chain).0.insert(planned).plan
    }
}

/// `CR` in pages.
fn unit(costs: Measured) -> f64 {
    costs.rate.as_bytes_per_second() * costs.switch.as_secs_f64() / PAGE_SIZE as f64
}

/// How much of a fetch from this place on costs no switch, if any: the device stands there and waits.
fn seamless(view: &dyn View, place: Option<Lba>, costs: Measured) -> Option<Pages> {
    let (Awaited { at, room }, place) = (view.awaited()?, place?);
    (place >= at && (place - at).bytes() <= costs.gap()).then_some(room)
}

impl Learning for Learnt {
    fn save(&self) -> String {
        self.classes.save()
    }

    fn load(&mut self, text: &str) -> Result<Loaded, LoadError> {
        self.classes.load(text)
    }

    fn explain(&self, limit: usize) -> Vec<Explained> {
        self.classes.explain(self.promise(), EXPLAINED, CONTINUING, limit)
    }

    fn classes(&self) -> usize {
        self.classes.count()
    }
}

impl Planned {
    fn serves(&self, seen: u64, switch: Nanos, length: Pages) -> bool {
        let drift = switch.get().abs_diff(self.switch.get()) as f64;
        seen.abs_diff(self.seen) < PLAN_EVERY.min(self.seen / 2 + 1)
            && drift <= self.switch.get() as f64 * SWITCH_TOLERANCE
            && length <= self.end
    }
}

#[cfg(test)]
mod tests {
    use crate::stream::testing::World;
    use crate::stream::{Awaited, Settings};
    use foreseek_units::{Lba, Pages};

    /// Cold: half of slow start's first step, twice as much again, and more as it goes on.
    #[test]
    fn golden_a_cold_start_on_the_393_kb_drive() {
        let windows = World::new("learnt", &Settings::default(), 1000).pages(0..700);
        assert_eq!(windows, [(0, 8), (8, 24), (32, 64), (96, 96), (192, 128), (320, 192), (512, 256)]);
    }

    /// 95.2 pages, rounded up: what is above the line by the rounding doubles with each fetch.
    #[test]
    fn golden_with_a_bound_of_two_every_fetch_is_the_competitive_depth() {
        let settings = Settings { rho: 2.0, ..Settings::default() };
        let windows = World::new("learnt", &settings, 1000).pages(0..390);
        assert_eq!(windows, [(0, 96), (96, 96), (192, 98), (290, 100)]);
    }

    #[test]
    fn golden_a_small_gap_is_read_through_and_a_large_one_begins_anew() {
        let mut world = World::new("learnt", &Settings::default(), 9000);
        let windows = world.pages((0..200).step_by(8));
        assert_eq!(windows, [(0, 8), (8, 24), (32, 64), (96, 96), (192, 128)]);
        assert_eq!(world.pages([4000]), [(4000, 24)], "one stream has gone far");
    }

    /// Both streams have used up a fetch of 8 pages. For the first the device waits where that ended, and takes 40
    /// pages there; for the second it waits elsewhere.
    #[test]
    fn golden_a_fetch_for_which_the_device_waits_is_no_longer_than_it_takes_at_once() {
        let read = |at: u64, room: u64| {
            let mut world = World::new("learnt", &Settings::default(), 1000);
            world.memory.place = Some(Lba(0));
            assert_eq!(world.pages(0..8), [(0, 8)]);
            world.memory.awaited = Some(Awaited { at: Lba(at * 8), room: Pages(room) });
            world.pages([8])[0]
        };
        assert_eq!((read(8, 16), read(8, 40), read(300, 16)), ((8, 16), (8, 24), (8, 24)));
        assert_eq!((read(4, 16), read(9, 16)), ((8, 16), (8, 24)), "a gap ahead passes under the head");
    }

    /// What costs no switch is not counted: it goes on as after one fetch of 40 pages. After nine of them the promise
    /// would have it make up for 400.
    #[test]
    fn golden_fetches_that_cost_no_switch_are_not_counted() {
        let mut world = World::new("learnt", &Settings::default(), 1000);
        world.memory.place = Some(Lba(0));
        assert_eq!(world.pages(0..8), [(0, 8)]);
        let mut windows = Vec::new();
        for page in (8..40).step_by(4) {
            world.memory.awaited = Some(Awaited { at: Lba(page * 8), room: Pages(4) });
            windows.extend(world.pages(page..page + 4));
        }
        assert!(windows.iter().all(|window| window.1 == 4) && windows.len() == 8, "{windows:?}");
        world.memory.awaited = None;
        assert_eq!(world.pages([40]), [(40, 56)]);
    }

    /// Half of it at first; the kernel's own bound goes before it. The papers' policies know nothing of it.
    #[test]
    fn golden_no_more_is_ahead_than_a_part_of_what_memory_has_for_a_stream() {
        let deepest = |policy: &str, share: u64, bound: Option<u64>| {
            let mut world = World::new(policy, &Settings::default(), 1000);
            (world.memory.share, world.memory.bound) = (Some(Pages(share)), bound.map(Pages));
            world.pages(0..700).iter().map(|window| window.1).max()
        };
        assert_eq!((deepest("learnt", 40, None), deepest("learnt", 40, Some(30))), (Some(20), Some(30)));
        assert_eq!(deepest("learnt", 1, None), Some(1));
        assert_eq!(deepest("competitive", 40, None), deepest("competitive", 4000, None));
    }

    /// Each request has the whole latency there; a disk's has none that goes on.
    #[test]
    fn golden_where_each_request_costs_a_switch_a_fetch_is_one_of_them() {
        let deepest = |device: &str, request: Option<u64>| {
            let mut world = World::on(device, "learnt", 1000);
            world.memory.request = request.map(Pages);
            world.pages(0..700).iter().map(|window| window.1).max()
        };
        assert_eq!(deepest("network-volume", Some(40)), Some(40));
        assert!(deepest("network-volume", None) > Some(100), "requests go side by side");
        assert_eq!(deepest("ibm-36g-37", Some(40)), deepest("ibm-36g-37", None));
    }

    /// Of 56 pages ahead a dozen are lost.
    #[test]
    fn golden_what_was_lost_is_fetched_from_there_on() {
        let mut world = World::new("learnt", &Settings::default(), 1000);
        assert_eq!(world.pages(0..40), [(0, 8), (8, 24), (32, 64)]);
        world.evict(40..52);
        assert_eq!(world.pages(40..136), [(40, 96)], "in one fetch");
    }

    /// Two hundred fetches of fifty pages and more are kept; then one is lost, fetched again in two.
    #[test]
    fn golden_what_lasts_lets_more_be_ahead_and_a_loss_less_once() {
        let mut world = World::new("learnt", &Settings::default(), 100_000);
        world.memory.share = Some(Pages(100));
        let sizes = |windows: &[(u64, u64)]| windows.iter().map(|window| window.1).collect::<Vec<_>>();
        let windows = world.pages(0..11_000);
        assert_eq!(sizes(&windows[4..7]), [50, 50, 50]);
        let next = windows.last().map_or(0, |(start, pages)| start + pages);
        world.pages(11_000..next);
        assert_eq!(world.pages([next]), [(next, 55)]);
        world.evict(next + 10..next + 50);
        world.memory.share = Some(Pages(40));
        assert_eq!(sizes(&world.pages(next + 1..next + 50)), [22, 22]);
        world.memory.share = Some(Pages(100));
        assert_eq!(sizes(&world.pages(next + 50..next + 56)), [54], "less by a fortieth, once");
    }

    /// The reader leaves out 24 pages and comes back for them.
    #[test]
    fn golden_who_goes_back_gets_what_he_asks_for() {
        let mut world = World::new("learnt", &Settings::default(), 1000);
        assert_eq!(world.pages(0..8), [(0, 8)]);
        assert_eq!(world.call(32, 8), [(32, 48)]);
        assert_eq!(world.call(16, 8), [(16, 8)]);
        assert_eq!(world.pages(40..80), [], "what is ahead of it is untouched");
    }

    #[test]
    fn golden_a_fault_that_begins_a_stream_reads_around_it() {
        let mut world = World::new("learnt", &Settings::default(), 9000);
        assert_eq!(world.faults([1000]), [(984, 32)]);
        assert_eq!(world.faults([1001, 999, 984, 1015]), []);
        assert_eq!(world.faults([1016])[0].0, 1016, "the stream goes on");
        // What is read around is not used: no longer than a hundred times.
        let faults = (0..110).map(|n| 2000 + n * 56);
        let around = faults.filter(|page| world.faults([*page])[0].0 < *page).count();
        assert!((100..=110).contains(&around), "{around}");
    }
}
