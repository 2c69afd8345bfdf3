//! Budget fair queueing (Linux 4.12 to 6.x, `bfq-iosched.c`): the disk's service in budgets of sectors, one
//! process after the other.
//!
//! Each process has a queue for its synchronous requests; all asynchronous ones share another, whose sectors
//! count three times. [`fair`] decides which queue is next. The queue in service is served in the order of an
//! elevator (once a service the oldest request comes first if it has waited too long). The service ends when
//! its budget is used up, after 125 ms, or when it has no more requests and none comes while the disk is kept
//! idle for it: 8 ms, or 2 ms for a process that seeks. The reason of the end sets its next budget: four times
//! as much after a used-up budget, twice as much after a timeout, what was needed after the last request, less
//! after an idle time. The largest budget is what the disk transfers in 125 ms (see [`rate`]). A slow process
//! is charged for its time instead of its sectors, so that a process that seeks does not take the disk from
//! those that read.
//!
//! Limits: all weights are equal and none is raised (`low_latency=0`); queues of processes that read together
//! are not merged; no other queue is served during a service (no injection); a small request ends an idle time
//! at once; priorities and control groups are not modelled.

mod fair;
mod own;
mod rate;
mod rules;

use self::fair::{Fair, Stamps};
use self::own::Own;
use self::rate::Rate;
use self::rules::{IDLE, Key, TIMEOUT, charge, key};
use super::contract::Scheduler;
use super::queue::{TICK, at_tick, ticks};
use crate::block::metrics::End;
use crate::block::{Anticipations, Request, RequestId};
use foreseek_seam::ProcessId;
use foreseek_units::{Instant, Lba, Nanos, SectorSpan, Sectors};
use rustc_hash::FxHashMap;

/// Ticks after which a request has waited too long: synchronous, asynchronous.
const EXPIRE: [u64; 2] = [125, 250];
/// Ticks for which the disk is kept idle for a process that seeks; for others [`IDLE`].
const IDLE_SEEKY: u64 = 2;
/// The elevator goes back 16 MiB at twice the cost.
const BACK: Sectors = Sectors(32 * 1024);
/// The smallest budget is this part of the largest.
const LEAST: u64 = 32;
/// A service shorter than this shows nothing of a process's speed.
const BRIEF: Nanos = Nanos::from_millis(20);
/// A device that holds more requests than this orders them itself.
const TAGGED: usize = 3;

/// Why a service ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reason {
    Idle,
    Timeout,
    Exhausted,
    NoMore,
}

/// The queue in service.
#[derive(Clone, Copy, Debug)]
struct Service {
    key: Key,
    stamps: Stamps,
    began: Instant,
    served: Sectors,
    /// The oldest request has been checked and served.
    looked: bool,
    /// Until when the disk is idle for it, since when, and since when others wait for that.
    idle: Option<(u64, Instant, Option<Instant>)>,
}

/// Budget fair queueing.
#[derive(Clone, Debug, Default)]
pub struct Bfq {
    queues: FxHashMap<Key, Own>,
    /// The queue of each waiting request.
    of: FxHashMap<RequestId, Key>,
    fair: Fair,
    rate: Rate,
    service: Option<Service>,
    head: Lba,
    in_device: usize,
    tagged: bool,
    outcomes: Anticipations,
}

impl Bfq {
    /// Ends the service.
    fn expire(&mut self, now: Instant, reason: Reason) {
        let Some(service) = self.service.take() else { return };
        if let Some((_, _, Some(since))) = service.idle {
            let end = if reason == Reason::Idle { End::TimedOut } else { End::GivenUp };
            self.outcomes.ended_by(end, now - since);
        }
        let largest = self.rate.budget();
        let Some(own) = self.queues.get_mut(&service.key) else { return };
        let until = service.idle.map_or(now, |(_, from, _)| from);
        let took = until - service.began;
        let left = own.budget - service.served;
        let slow = match service.key {
            None => false,
            Some(_) if took > BRIEF => service.served < largest / 2,
            Some(_) => own.seeky(),
        };
        let mut service_given = service.served;
        if slow || (reason == Reason::Timeout && left >= own.budget / 3) {
            // Less than a millisecond counts as an idle time.
            let ms = if took < TICK { IDLE } else { took.get() / TICK.get() };
            service_given = service_given.max(largest * ms.min(TIMEOUT) / TIMEOUT);
        }
        self.fair.serve(service_given - service.served);
        own.most = next_budget(own, service.served, reason, largest, service.key.is_some());
        own.refill(self.head, BACK);
        let stamps = self.fair.go_on(service.stamps, service_given, own.budget);
        own.finish = stamps.start;
        if !own.queue.is_empty() {
            own.stamps = Some(stamps);
            self.fair.insert(service.key, stamps);
        }
        self.forget(service.key);
    }

    /// Drops the queue of a process that has ended, when none of its requests is left.
    fn forget(&mut self, key: Key) {
        let serving = self.service.is_some_and(|service| service.key == key);
        if !serving && self.queues.get(&key).is_some_and(|own| own.gone(key)) {
            self.queues.remove(&key);
        }
    }

    /// Ends an idle time that is over.
    fn time_out(&mut self, now: Instant) {
        let idle = self.service.and_then(|service| service.idle);
        if let Some((until, ..)) = idle.filter(|(until, ..)| ticks(now) >= *until) {
            self.expire(at_tick(until), Reason::Idle);
        }
    }

    fn idle_for(&self, key: Key) -> bool {
        self.service.is_some_and(|service| service.idle.is_some() && service.key == key)
    }

    /// The next request of the queue in service: its oldest if that has waited too long, once.
    fn next_of(&mut self, now: Instant) -> Option<Request> {
        let service = self.service.as_mut()?;
        let queue = &self.queues.get(&service.key)?.queue;
        let oldest = queue.oldest()?;
        if !service.looked && ticks(now) > oldest.expires {
            service.looked = true;
            return Some(oldest.request);
        }
        queue.elevator(self.head, BACK).map(|entry| entry.request)
    }

    /// The request that the queue in service gets next, or why its service ends; `None` if the disk is to stay
    /// idle.
    fn within(&mut self, now: Instant, service: Service) -> Result<Option<Request>, Reason> {
        let Some(own) = self.queues.get(&service.key) else { return Err(Reason::NoMore) };
        let (budget, in_device) = (own.budget, own.in_device);
        let (empty, idles) = (own.queue.is_empty(), own.idles(service.key, self.tagged));
        let left = budget - service.served;
        let late = ticks(now) - ticks(service.began) >= TIMEOUT;
        if late && (service.idle.is_none() || left >= budget / 3) && !(empty && idles) {
            return Err(Reason::Timeout);
        }
        match self.next_of(now) {
            // A request that has grown beyond a whole budget is served nevertheless.
            Some(next) if charge(&next) <= left || service.served.is_zero() => Ok(Some(next)),
            Some(_) => Err(Reason::Exhausted),
            None if service.idle.is_some() || (in_device > 0 && idles) => Ok(None),
            None => Err(Reason::NoMore),
        }
    }

    fn choose(&mut self, now: Instant) -> Option<Request> {
        if let Some(service) = self.service {
            match self.within(now, service) {
                Ok(next) => return next,
                Err(reason) => self.expire(now, reason),
            }
        }
        let (key, stamps) = self.fair.take()?;
        if let Some(own) = self.queues.get_mut(&key) {
            own.stamps = None;
        }
        self.rate.gave();
        self.service =
            Some(Service { key, stamps, began: now, served: Sectors::ZERO, looked: false, idle: None });
        self.next_of(now)
    }

    fn send(&mut self, now: Instant, request: &Request) {
        if let Some(own) = self.queues.get_mut(&key(request)) {
            own.queue.remove(request.id);
            own.in_device += 1;
        }
        self.of.remove(&request.id);
        let cost = charge(request);
        if let Some(service) = &mut self.service {
            service.served += cost;
        }
        self.fair.serve(cost);
        self.rate.dispatched(now, request, self.in_device);
        self.head = request.range.end;
        self.in_device += 1;
        self.tagged |= self.in_device > TAGGED;
    }
}

/// The budget of a queue's next service, by how this service ended.
fn next_budget(own: &Own, served: Sectors, reason: Reason, largest: Sectors, synchronous: bool) -> Sectors {
    let least = largest / LEAST;
    if !synchronous {
        return largest;
    }
    let budget = match reason {
        Reason::Idle if own.in_device > 0 => own.most * 2,
        Reason::Idle if own.most > least * 5 => own.most - least * 4,
        Reason::Idle => least,
        Reason::Timeout => own.most * 2,
        Reason::Exhausted => own.most * 4,
        Reason::NoMore => served.max(least),
    };
    budget.min(largest)
}

impl Scheduler for Bfq {
    fn add(&mut self, now: Instant, request: Request) {
        self.time_out(now);
        let (key, tick) = (key(&request), ticks(now));
        let largest = self.rate.budget();
        let own = self.queues.entry(key).or_insert_with(|| Own::new(tick, largest));
        own.running = true;
        own.asks(tick, &request);
        own.queue.insert(request, tick + EXPIRE[usize::from(key.is_none())]);
        self.of.insert(request.id, key);
        if let Some(service) = self.service.as_mut().filter(|service| service.key == key) {
            if let Some((_, _, Some(since))) = service.idle.take() {
                self.outcomes.ended_by(End::Met, now - since);
            }
        } else if own.stamps.is_none() {
            own.refill(self.head, BACK);
            let stamps = self.fair.wake(own.finish, own.budget);
            own.stamps = Some(stamps);
            self.fair.insert(key, stamps);
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
        if self.of.is_empty() {
            return None;
        }
        let request = self.choose(now);
        match &request {
            Some(request) => self.send(now, request),
            None => {
                if let Some((_, _, since)) = self.service.as_mut().and_then(|service| service.idle.as_mut()) {
                    since.get_or_insert(now);
                }
            }
        }
        request
    }

    fn completed(&mut self, now: Instant, request: &Request, _whole: bool) {
        self.time_out(now);
        self.in_device -= 1;
        self.rate.last_end = now;
        let key = key(request);
        let Some(own) = self.queues.get_mut(&key) else { return };
        own.over(ticks(now));
        let idle = own.queue.is_empty() && own.in_device == 0 && own.idles(key, self.tagged);
        let long = if own.seeky() { IDLE_SEEKY } else { IDLE };
        if let Some(service) = self.service.as_mut().filter(|service| service.key == key && idle) {
            service.idle = Some((ticks(now) + long, now, None));
        }
        self.forget(key);
    }

    fn exited(&mut self, now: Instant, pid: ProcessId) {
        self.time_out(now);
        let key = Some(pid);
        if let Some(own) = self.queues.get_mut(&key) {
            own.running = false;
        }
        if self.idle_for(key) {
            self.expire(now, Reason::NoMore);
        }
        self.forget(key);
    }

    fn deadline(&self) -> Option<Instant> {
        let idle = self.service.and_then(|service| service.idle);
        idle.filter(|_| !self.of.is_empty()).map(|(until, ..)| at_tick(until))
    }

    fn waiting(&self) -> usize {
        self.of.len()
    }

    fn awaits(&self, pid: ProcessId) -> bool {
        self.idle_for(Some(pid))
    }

    fn anticipations(&self) -> Anticipations {
        self.outcomes
    }
}
