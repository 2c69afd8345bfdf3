//! Complete fair queueing (Linux 2.6.18 to 2.6.20, `cfq-iosched.c`): the disk's time in slices, one
//! process after the other.
//!
//! Each process has a queue for its synchronous requests; all asynchronous ones share another. A queue is
//! active for a slice. Four of its requests at a time go to the device's list, in the order of an elevator
//! (once a slice the oldest comes first if it has waited too long). When an active queue has no more requests,
//! the disk is kept idle for a short time, in case the process makes another: not for the asynchronous queue,
//! nor for a process that has ended or thinks longer than that, and only 2 ms for one that seeks far. Then the
//! next queue is served. A new queue comes before those that have been served already, one with requests in the
//! device after all others.
//!
//! All processes have the same priority. Limits: metadata requests and priority classes are not modelled. The
//! idle time counts from the end of the process's last request and is never extended (Linux 2.6.20 begins it
//! again whenever another process's request comes, which later kernels do not).

mod own;

use self::own::{Key, Own};
use super::contract::Scheduler;
use super::queue::{at_tick, ticks};
use crate::block::metrics::End;
use crate::block::{Anticipations, Request, RequestId};
use foreseek_seam::ProcessId;
use foreseek_units::{Instant, Lba, SectorSpan, Sectors};
use rustc_hash::FxHashMap;
use std::collections::{BTreeMap, VecDeque};

/// Ticks of a slice: synchronous, asynchronous.
const SLICE: [u64; 2] = [100, 40];
/// Ticks after which a request has waited too long: synchronous, asynchronous.
const EXPIRE: [u64; 2] = [125, 250];
/// The elevator goes back 16 MiB at twice the cost.
const BACK: Sectors = Sectors(32 * 1024);
/// Requests of one queue that go to the device's list at a time.
const QUANTUM: usize = 4;
/// Requests of an asynchronous slice at normal priority: `2 * (2 + 2 * (8 - 1 - 4))`.
const ASYNC_REQUESTS: usize = 16;
/// A device that holds more requests than this orders them itself: idling for a process that seeks gains
/// nothing.
const TAGGED: usize = 4;

/// The list of queues whose requests are in the device; the other lists are this round's and the next's.
const BUSY: usize = 2;

/// The slice of the active queue.
#[derive(Clone, Copy, Debug)]
struct Slice {
    key: Key,
    /// The tick after which it is over; set with its first requests.
    end: Option<u64>,
    served: usize,
    /// The oldest request has been checked and served.
    looked: bool,
    /// It may not end now: the disk is idle for it, or the request that was waited for has come.
    kept: bool,
    /// The disk is idle for it until this tick.
    idle: Option<(u64, Instant)>,
}

/// Complete fair queueing.
#[derive(Clone, Debug, Default)]
pub struct Cfq {
    queues: FxHashMap<Key, Own>,
    /// The queue of each waiting request.
    of: FxHashMap<RequestId, Key>,
    /// Queues with requests, in order: two rounds and the busy ones. New ones come first.
    lists: [BTreeMap<(bool, u64), Key>; 3],
    /// The index of this round's list.
    round: usize,
    places: u64,
    active: Option<Slice>,
    /// The device's list.
    ready: VecDeque<Request>,
    head: Lba,
    in_device: usize,
    tagged: bool,
    outcomes: Anticipations,
}

fn key(request: &Request) -> Key {
    request.synchronous.then_some(request.pid)
}

fn class(key: Key) -> usize {
    usize::from(key.is_none())
}

impl Cfq {
    /// Puts a queue in its place among the others: at the end of the next round, if it has requests.
    fn list(&mut self, key: Key) {
        let Some(own) = self.queues.get_mut(&key) else { return };
        if let Some((list, place)) = own.place.take() {
            self.lists[list].remove(&place);
        }
        if own.queue.is_empty() {
            return;
        }
        let list = if own.in_device > 0 { BUSY } else { 1 - self.round };
        self.places += 1;
        let place = (!own.new, self.places);
        own.place = Some((list, place));
        self.lists[list].insert(place, key);
    }

    /// Ends the active slice.
    fn expire(&mut self, now: Instant, end: End) {
        let Some(slice) = self.active.take() else { return };
        if let Some((_, since)) = slice.idle {
            self.outcomes.ended_by(end, now - since);
        }
        if let Some(own) = self.queues.get_mut(&slice.key) {
            own.new = false;
        }
        self.list(slice.key);
        self.forget(slice.key);
    }

    /// Drops the queue of a process that has ended, when none of its requests is left.
    fn forget(&mut self, key: Key) {
        let active = self.active.is_some_and(|slice| slice.key == key);
        if !active && self.queues.get(&key).is_some_and(|own| own.gone(key)) {
            self.queues.remove(&key);
        }
    }

    /// Ends an idle time that is over.
    fn time_out(&mut self, now: Instant) {
        let idle = self.active.and_then(|slice| slice.idle);
        if let Some((until, _)) = idle.filter(|(until, _)| ticks(now) >= *until) {
            self.expire(at_tick(until), End::TimedOut);
        }
    }

    fn idle_for(&self, key: Key) -> bool {
        self.active.is_some_and(|slice| slice.idle.is_some() && slice.key == key)
    }

    /// Keeps the disk idle for the active queue, if that pays.
    fn idle(&mut self, now: Instant) -> bool {
        let Some(slice) = &mut self.active else { return false };
        let own = self.queues.get(&slice.key).filter(|own| own.running && own.idles);
        let Some(own) = own.filter(|own| ticks(now) < own.idle_until()) else { return false };
        slice.idle.get_or_insert((own.idle_until(), now));
        slice.kept = true;
        true
    }

    /// The queue whose turn it is, if one may be served now.
    fn select(&mut self, now: Instant) -> Option<Key> {
        if let Some(slice) = self.active {
            let over = !slice.kept && slice.end.is_some_and(|end| ticks(now) > end);
            let own = self.queues.get(&slice.key).filter(|_| !over);
            if own.is_some_and(|own| !own.queue.is_empty()) {
                return Some(slice.key);
            }
            if own.is_some_and(|own| own.in_device > 0) || (!over && slice.key.is_some() && self.idle(now)) {
                return None;
            }
            self.expire(now, End::GivenUp);
        }
        if self.lists[self.round].is_empty() {
            self.round = 1 - self.round;
        }
        let (_, key) =
            self.lists[self.round].first_key_value().or_else(|| self.lists[BUSY].first_key_value())?;
        let key = *key;
        self.active = Some(Slice { key, end: None, served: 0, looked: false, kept: false, idle: None });
        Some(key)
    }

    /// The active queue's next request: its oldest if that has waited too long, once a slice.
    fn next_of(&mut self, now: Instant, key: Key) -> Option<RequestId> {
        let queue = &self.queues.get(&key)?.queue;
        let oldest = queue.oldest()?;
        if let Some(slice) = &mut self.active
            && !slice.looked
            && ticks(now) > oldest.expires
        {
            slice.looked = true;
            return Some(oldest.request.id);
        }
        queue.elevator(self.head, BACK).map(|entry| entry.request.id)
    }

    fn take(&mut self, now: Instant, key: Key) -> Option<Request> {
        let id = self.next_of(now, key)?;
        let own = self.queues.get_mut(&key)?;
        let request = own.queue.remove(id)?.request;
        own.in_device += 1;
        self.of.remove(&id);
        self.head = request.range.end;
        Some(request)
    }

    /// Moves requests of the active queue to the device's list, in ascending order from the head.
    fn fill(&mut self, now: Instant, key: Key) {
        let from = self.head;
        for _ in 0..QUANTUM {
            let Some(request) = self.take(now, key) else { break };
            self.ready.push_back(request);
        }
        let start = |request: &Request| request.range.start;
        self.ready.make_contiguous().sort_by_key(|one| (start(one) < from, start(one)));
        self.head = self.ready.back().map_or(self.head, |last| last.range.end);
        let served = self.ready.len();
        let Some(slice) = &mut self.active else { return };
        slice.kept = false;
        slice.served += served;
        slice.end.get_or_insert(ticks(now) + SLICE[class(key)]);
        let used_up = key.is_none() && slice.served >= ASYNC_REQUESTS;
        let own = self.queues.get(&key);
        if used_up || own.is_none_or(|own| !own.idles) {
            self.expire(now, End::GivenUp);
        } else if own.is_some_and(|own| own.queue.is_empty()) {
            self.list(key);
        }
    }
}

impl Scheduler for Cfq {
    fn add(&mut self, now: Instant, request: Request) {
        self.time_out(now);
        let (key, tick) = (key(&request), ticks(now));
        let own = self.queues.entry(key).or_insert_with(|| Own::new(tick));
        if key.is_some() && !own.running {
            // A new process has the number of an ended one.
            own.renew(tick);
        }
        if key.is_some() {
            own.asks(tick, &request, self.tagged);
        }
        own.queue.insert(request, tick + EXPIRE[class(key)]);
        let unlisted = own.place.is_none();
        self.of.insert(request.id, key);
        if unlisted {
            self.list(key);
        }
        if key.is_none() && self.idle_for(Some(request.pid)) {
            // The process that is waited for writes instead.
            self.expire(now, End::GivenUp);
        } else if let Some(slice) = self.active.as_mut().filter(|slice| slice.key == key)
            && let Some((_, since)) = slice.idle.take()
        {
            self.outcomes.ended_by(End::Met, now - since);
        }
    }

    fn may_merge(&self, id: RequestId, with: &Request) -> bool {
        self.of.get(&id) == Some(&key(with))
    }

    fn grown(&mut self, _now: Instant, id: RequestId, range: SectorSpan) {
        if let Some(own) = self.of.get(&id).and_then(|key| self.queues.get_mut(key)) {
            own.queue.grow(id, range);
        }
    }

    fn absorbed(&mut self, _now: Instant, kept: RequestId, gone: RequestId, range: SectorSpan) {
        if let Some(own) = self.of.remove(&gone).and_then(|key| self.queues.get_mut(&key)) {
            own.queue.absorb(kept, gone, range);
        }
    }

    fn dispatch(&mut self, now: Instant) -> Option<Request> {
        self.time_out(now);
        if self.ready.is_empty()
            && !self.of.is_empty()
            && let Some(key) = self.select(now)
        {
            self.fill(now, key);
        }
        let request = self.ready.pop_front()?;
        self.in_device += 1;
        self.tagged |= self.in_device > TAGGED;
        Some(request)
    }

    fn completed(&mut self, now: Instant, request: &Request, _whole: bool) {
        self.time_out(now);
        self.in_device -= 1;
        let (key, tick) = (key(request), ticks(now));
        let Some(own) = self.queues.get_mut(&key) else { return };
        own.in_device -= 1;
        own.last_end = tick;
        let free = own.in_device == 0;
        let over = |slice: &Slice| slice.key == key && slice.end.is_some_and(|end| tick > end);
        if self.active.as_ref().is_some_and(over) {
            self.expire(now, End::GivenUp);
        } else if free {
            self.list(key);
        }
        self.forget(key);
    }

    fn exited(&mut self, now: Instant, pid: ProcessId) {
        self.time_out(now);
        let key = Some(pid);
        if let Some(own) = self.queues.get_mut(&key) {
            own.running = false;
        }
        if self.active.is_some_and(|slice| slice.key == key) {
            self.expire(now, End::GivenUp);
        }
        self.forget(key);
    }

    fn deadline(&self) -> Option<Instant> {
        self.active.and_then(|slice| slice.idle).map(|(until, _)| at_tick(until))
    }

    fn waiting(&self) -> usize {
        self.of.len() + self.ready.len()
    }

    fn awaits(&self, pid: ProcessId) -> bool {
        self.idle_for(Some(pid))
    }

    fn anticipations(&self) -> Anticipations {
        self.outcomes
    }
}
