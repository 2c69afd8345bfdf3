//! The prefetch cache against a naive model: the rules of TR-840 section 4.1 on plain vectors.

use foreseek_cache::{Activity, Evicted, Mark, PrefetchCache, Process, Reason};
use foreseek_units::{Instant, Nanos, Pages};
use proptest::prelude::*;

const OPPORTUNITY: Nanos = Nanos(3);

fn mark(process: u32, at: u64) -> Mark {
    Mark { process: Process(process), at: Instant(at) }
}

/// A cache with the pages 0, 1, ... of these processes, prefetched at time 10, when all processes ran.
fn with(processes: &[u32]) -> (PrefetchCache<u32, char>, Activity) {
    let (mut cache, mut activity) = (PrefetchCache::new(OPPORTUNITY), Activity::new());
    for (page, process) in (0..).zip(processes) {
        cache.insert(page, 'a', mark(*process, 10), false);
        activity.ran(Process(*process), Instant(10));
    }
    (cache, activity)
}

fn evicted(cache: &mut PrefetchCache<u32, char>, activity: &Activity) -> Option<(u32, Reason)> {
    cache.evict(activity).map(|Evicted { key, reason, .. }| (key, reason))
}

#[test]
fn a_page_whose_process_has_ended_goes_at_once() {
    let (mut cache, mut activity) = with(&[1, 2]);
    activity.exited(Process(2));
    // Page 0 is older, but gets its second chance.
    assert_eq!(evicted(&mut cache, &activity), Some((1, Reason::Ended)));
    assert_eq!(evicted(&mut cache, &activity), Some((0, Reason::Again)));
    assert_eq!(evicted(&mut cache, &activity), None);
}

#[test]
fn a_process_that_has_run_since_has_had_its_opportunity() {
    let (mut cache, mut activity) = with(&[1, 2]);
    activity.ran(Process(1), Instant(10) + OPPORTUNITY);
    activity.ran(Process(2), Instant(11) + OPPORTUNITY);
    assert_eq!(evicted(&mut cache, &activity), Some((1, Reason::Passed)));
}

#[test]
fn a_second_chance_is_the_last() {
    let (mut cache, activity) = with(&[1, 1]);
    assert_eq!(evicted(&mut cache, &activity), Some((0, Reason::Again)));
    // Both have had their chance; a page that is inserted now has one.
    cache.insert(7, 'a', mark(1, 20), false);
    assert_eq!(evicted(&mut cache, &activity), Some((1, Reason::Again)));
    assert_eq!(evicted(&mut cache, &activity), Some((7, Reason::Again)));
}

#[test]
fn a_held_page_stays_and_is_the_oldest_again_when_it_is_released() {
    let (mut cache, activity) = with(&[1, 1, 1]);
    assert!(cache.hold(&0) && cache.is_held(&0));
    assert_eq!(evicted(&mut cache, &activity), Some((1, Reason::Again)));
    assert!(cache.release(&0) && !cache.is_held(&0));
    // It still has its second chance, which makes it the youngest.
    assert_eq!(evicted(&mut cache, &activity), Some((2, Reason::Again)));
    cache.hold(&0);
    assert_eq!(evicted(&mut cache, &activity), None);
    assert_eq!(cache.take(&0), Some('a'));
    assert!(!cache.hold(&0) && !cache.release(&0));
}

#[test]
fn above_the_ceiling_and_no_further() {
    let (mut cache, activity) = with(&[1; 10]);
    let mut gone = 0;
    while cache.evict_above(Pages(4), &activity).is_some() {
        gone += 1;
    }
    assert_eq!((gone, cache.len()), (6, Pages(4)));
}

#[test]
fn values_need_not_be_copied() {
    let mut cache = PrefetchCache::new(Nanos::ZERO);
    cache.insert((1, 2), vec![1u8], mark(1, 0), true);
    cache.get_mut(&(1, 2)).expect("it is there").push(2);
    assert_eq!(cache.get(&(1, 2)), Some(&vec![1, 2]));
    assert_eq!(cache.insert((1, 2), Vec::new(), mark(1, 0), false), Some(vec![1, 2]));
    assert_eq!(cache.len(), Pages(1));
}

#[test]
fn a_range_that_is_longer_than_the_cache_is_not_walked() {
    let (mut cache, _) = with(&[1; 3]);
    let keys = (0..1000u32).map(|_| -> u32 { panic!("three pages are fewer to look at") });
    let mut gone = Vec::new();
    cache.take_all(keys, |key| *key > 0, |key, _| gone.push(key));
    assert_eq!((gone, cache.len()), (vec![1, 2], Pages(1)));
}

#[derive(Clone, Copy, Debug)]
struct Page {
    key: u32,
    value: u32,
    mark: Option<(u32, u64)>,
    held: bool,
}

/// The rules, one page after the other. `aside` has the held pages that reclaim has met.
#[derive(Default)]
struct Model {
    queue: Vec<Page>,
    aside: Vec<Page>,
    ran: Vec<(u32, u64)>,
}

impl Model {
    fn get(&mut self, key: u32) -> Option<&mut Page> {
        self.queue.iter_mut().chain(&mut self.aside).find(|page| page.key == key)
    }

    fn take(&mut self, key: u32) -> Option<u32> {
        let value = self.get(key).map(|page| page.value);
        self.queue.retain(|page| page.key != key);
        self.aside.retain(|page| page.key != key);
        value
    }

    fn release(&mut self, key: u32) {
        if let Some(page) = self.get(key) {
            page.held = false;
        }
        if let Some(at) = self.aside.iter().position(|page| page.key == key) {
            let page = self.aside.remove(at);
            self.queue.insert(0, page);
        }
    }

    fn evict(&mut self) -> Option<(u32, u32, Reason)> {
        while !self.queue.is_empty() {
            let mut page = self.queue.remove(0);
            if page.held {
                self.aside.push(page);
                continue;
            }
            let reason = match page.mark {
                None => Reason::Again,
                Some((process, at)) => match self.ran.iter().find(|one| one.0 == process) {
                    None => Reason::Ended,
                    Some((_, last)) if *last > at + OPPORTUNITY.get() => Reason::Passed,
                    Some(_) => {
                        page.mark = None;
                        self.queue.push(page);
                        continue;
                    }
                },
            };
            return Some((page.key, page.value, reason));
        }
        None
    }
}

proptest! {
    #[test]
    fn it_is_the_model(ops in proptest::collection::vec((0..12u8, 0..16u32, 0..4u32), 0..300)) {
        let (mut cache, mut activity) = (PrefetchCache::new(OPPORTUNITY), Activity::new());
        let mut model = Model::default();
        for ((op, key, process), now) in ops.into_iter().zip(1u64..) {
            match op {
                0..4 => {
                    let held = op == 0;
                    let before = cache.insert(key, now as u32, mark(process, now), held);
                    prop_assert_eq!(before, model.take(key));
                    model.queue.push(Page { key, value: now as u32, mark: Some((process, now)), held });
                }
                4 | 5 => prop_assert_eq!(cache.take(&key), model.take(key)),
                6 => {
                    prop_assert_eq!(cache.hold(&key), model.get(key).is_some());
                    if let Some(page) = model.get(key) {
                        page.held = true;
                    }
                }
                7 => {
                    prop_assert_eq!(cache.release(&key), model.get(key).is_some());
                    model.release(key);
                }
                8 => {
                    activity.ran(Process(process), Instant(now));
                    model.ran.retain(|one| one.0 != process);
                    model.ran.push((process, now));
                }
                9 => {
                    activity.exited(Process(process));
                    model.ran.retain(|one| one.0 != process);
                }
                10 => {
                    let evicted = cache.evict(&activity).map(|one| (one.key, one.value, one.reason));
                    prop_assert_eq!(evicted, model.evict());
                }
                // A range, longer or shorter than the cache.
                _ => {
                    let range = key..key + process * 5;
                    let mut gone = Vec::new();
                    let within = |key: &u32| range.contains(key);
                    cache.take_all(range.clone(), within, |key, value| gone.push((key, value)));
                    let taken = range.clone().filter_map(|key| Some((key, model.take(key)?)));
                    let expected: Vec<(u32, u32)> = taken.collect();
                    gone.sort_unstable();
                    prop_assert_eq!(gone, expected);
                }
            }
            prop_assert_eq!(cache.len().get() as usize, model.queue.len() + model.aside.len());
            let page = model.get(key).copied();
            prop_assert_eq!(cache.get(&key).copied(), page.map(|page| page.value));
            prop_assert_eq!(cache.is_held(&key), page.is_some_and(|page| page.held));
            prop_assert_eq!(cache.contains(&key), page.is_some());
        }
    }
}
