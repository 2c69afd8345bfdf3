//! Naive models of the two-window kernels, to check the machines against: each rule of the reference is one
//! statement, and nothing is shared with the machines.

use crate::testing::{Window, reading};
use crate::{Congestion, Kernel, Settings};
use foreseek_units::Pages;
use proptest::prelude::*;
use std::collections::BTreeSet;

/// Pages of the file; no touch goes beyond.
const LENGTH: i64 = 3000;
const MAX: i64 = 32;

/// A reader of one file under Linux 2.6.3 or 2.6.10, stock, with the congestion rule of 2.6.11, or with none.
struct Model {
    averaging: bool,
    rule: Congestion,
    cached: BTreeSet<i64>,
    congested: bool,
    // The current window is [start, start + size), the ahead window likewise; -1: there is none.
    start: i64,
    size: i64,
    ahead_start: i64,
    ahead_size: i64,
    /// Size of the window to come; 0: nothing was read yet, -1: off.
    next: i64,
    last: i64,
    hits: i64,
    average: i64,
    windows: Vec<Window>,
}

impl Model {
    fn new(averaging: bool, rule: Congestion) -> Self {
        Self {
            averaging,
            rule,
            cached: BTreeSet::new(),
            congested: false,
            start: 0,
            size: 0,
            ahead_start: -1,
            ahead_size: 0,
            next: 0,
            last: 0,
            hits: 0,
            average: MAX / 2,
            windows: Vec::new(),
        }
    }

    /// Reads the missing pages of a window; returns how many they were.
    fn read(&mut self, start: i64, size: i64) -> usize {
        let end = (start + size).min(LENGTH);
        let missing = (start..end).filter(|page| !self.cached.contains(page)).count();
        if missing > 0 {
            self.windows.push((start as u64, (end - start) as u64));
            self.cached.extend(start..end);
        }
        missing
    }

    fn read_current(&mut self, start: i64, size: i64) -> usize {
        let cancelled = self.congested && self.rule == Congestion::Stock;
        if cancelled { 0 } else { self.read(start, size) }
    }

    fn shrink_if_nothing(&mut self, read: usize, before: i64) {
        if read > 0 {
            return;
        }
        if before > 1 {
            self.next = before - 1;
            if self.ahead_start >= 0 {
                self.ahead_size = self.next;
            }
        } else {
            (self.next, self.size) = (-1, 0);
        }
    }

    fn expected(&self) -> i64 {
        if self.hits > self.average { (self.hits + self.average + 1) / 2 } else { self.average }
    }

    fn touch(&mut self, page: i64) {
        self.look_ahead(page);
        if self.cached.contains(&page) {
            return;
        }
        if self.next == -1 {
            self.size = if page == self.last + 1 { self.size + 1 } else { (self.size - 1).max(0) };
            self.last = page;
            if self.size >= MAX {
                (self.start, self.next, self.size, self.ahead_start) = (page - MAX, MAX, MAX, -1);
                self.average = MAX / 2;
            }
        } else {
            self.next = (self.next - 3).max(4);
        }
        self.read(page, 1);
    }

    fn look_ahead(&mut self, page: i64) {
        let before = self.next;
        if before == -1 || (page == self.last && before != 0) {
            return;
        }
        if before == 0 {
            (self.next, self.hits, self.last) = (MAX / 2, 1, page);
            (self.start, self.size) = (page, self.next);
            self.read_current(page, self.next);
            return;
        }
        let previous = std::mem::replace(&mut self.last, page);
        if page >= self.start && page <= self.start + self.size {
            self.next += 2;
            self.hits += i64::from(self.hits <= 2 * MAX);
        } else {
            self.next -= 2;
            self.average = (self.average + i64::from(self.average < self.hits) + self.hits) / 2;
            self.hits = 1;
        }
        self.next = self.next.min(MAX);
        if self.next <= 0 {
            (self.next, self.size) = (-1, 0);
        } else if page >= self.start && page < self.start + self.size {
            if self.ahead_start < 0 && (!self.averaging || self.expected() > MAX) {
                if self.congested && self.rule == Congestion::CancelsAhead {
                    return;
                }
                (self.ahead_start, self.ahead_size) = (self.start + self.size, self.next);
                let cancelled = self.congested && self.rule == Congestion::Stock;
                let read = if cancelled { 0 } else { self.read(self.ahead_start, self.ahead_size) };
                self.shrink_if_nothing(read, before);
            }
        } else if page == self.ahead_start {
            (self.start, self.size, self.ahead_start) = (self.ahead_start, self.ahead_size, -1);
        } else {
            let within = previous >= self.start && previous < self.start + self.size;
            let goes_on = previous + 1 == page && page == self.start + self.size;
            if self.averaging {
                self.next = self.expected().min(MAX);
            } else if within && !goes_on {
                self.next = previous + 1 - self.start;
            }
            (self.start, self.size, self.ahead_start) = (page, self.next, -1);
            let read = self.read_current(page, self.next);
            self.shrink_if_nothing(read, before);
        }
    }
}

#[derive(Clone, Debug)]
enum Op {
    Call(u64, u64),
    GoOn(u64),
    Evict(u64, u64),
    Cached(u64, u64),
    Congested(bool),
    /// Single pages far apart, which turn read-ahead off.
    Scatter(u64),
}

fn ops() -> impl Strategy<Value = Vec<Op>> {
    let op = prop_oneof![
        3 => (0..2500u64, 1..40u64).prop_map(|(page, pages)| Op::Call(page, pages)),
        9 => (1..60u64).prop_map(Op::GoOn),
        2 => (0..2500u64, 1..80u64).prop_map(|(page, pages)| Op::Evict(page, pages)),
        1 => (0..2500u64, 1..80u64).prop_map(|(page, pages)| Op::Cached(page, pages)),
        2 => any::<bool>().prop_map(Op::Congested),
        2 => (0..40u64).prop_map(Op::Scatter),
    ];
    proptest::collection::vec(op, 1..40)
}

fn compare(kernel: Kernel, congestion: Congestion, ops: &[Op]) {
    let averaging = kernel == Kernel::Linux2_6_10;
    let mut settings = Settings { congestion, ..Settings::default() };
    settings.stream.window = Pages(MAX as u64);
    let mut world = reading(kernel.name(), &settings, LENGTH as u64);
    let mut model = Model::new(averaging, congestion);
    let mut at = 0;
    for op in ops {
        match *op {
            Op::Call(page, _) => at = page,
            Op::Evict(page, pages) => {
                // Pages around the reader.
                let from = (at + page % 64).saturating_sub(16);
                world.evict(from..from + pages);
                (from..from + pages).for_each(|page| _ = model.cached.remove(&(page as i64)));
            }
            Op::Cached(page, pages) => {
                let from = at + page % 64;
                let to = (from + pages).min(LENGTH as u64);
                world.memory.cached.extend(from..to);
                model.cached.extend(from as i64..to as i64);
            }
            Op::Congested(congested) => {
                (world.memory.congested, model.congested) = (congested, congested);
            }
            Op::GoOn(_) | Op::Scatter(_) => {}
        }
        let mut call = |start: u64, pages: u64| {
            let pages = pages.min((LENGTH as u64).saturating_sub(start));
            let windows = world.call(start, pages);
            (start..start + pages).for_each(|page| model.touch(page as i64));
            assert_eq!(windows, model.windows, "a call of {pages} at {start}, {kernel:?}, {congestion}");
            model.windows.clear();
            start + pages
        };
        match *op {
            Op::Call(_, pages) | Op::GoOn(pages) => at = call(at, pages),
            Op::Scatter(from) => (0..8).for_each(|n| at = call((from + n * 397) % 2900, 1)),
            _ => {}
        }
    }
}

/// The rules that kernels have had; the remaining one is known from TR-840's text only.
fn modelled() -> impl Strategy<Value = Congestion> {
    proptest::sample::select(vec![Congestion::Stock, Congestion::CancelsAhead, Congestion::Ignored])
}

proptest! {
    #[test]
    fn linux_2_6_3_does_as_its_model(ops in ops(), rule in modelled()) {
        compare(Kernel::Linux2_6_3, rule, &ops);
    }

    #[test]
    fn linux_2_6_10_does_as_its_model(ops in ops(), rule in modelled()) {
        compare(Kernel::Linux2_6_10, rule, &ops);
    }
}
