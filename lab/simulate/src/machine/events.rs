//! What is to happen, in order of time and, at one time, in the order in which it was arranged.

use foreseek_units::Instant;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Something that happens at its time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Event {
    /// A processor goes on with its process, or looks for another.
    Run(u32),
    /// A process's sleep is over.
    Wake(u32),
    /// A request of the clients arrives.
    Arrive,
    /// Write-back looks for old dirty pages.
    Flush,
    /// Page replacement has asked to be called.
    Reclaim,
    /// Balancing goes on after its nap.
    Balance,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Arranged {
    at: Instant,
    sequence: u64,
    event: Event,
}

impl Ord for Arranged {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.at, self.sequence).cmp(&(other.at, other.sequence))
    }
}

impl PartialOrd for Arranged {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

/// The events to come. There are never more than a few a process, so that it needs no bound.
#[derive(Debug, Default)]
pub(super) struct Events {
    heap: BinaryHeap<Reverse<Arranged>>,
    sequence: u64,
    /// How many of them are [`Event::Reclaim`], which alone gets nobody further.
    ticks: usize,
}

impl Events {
    pub(super) fn arrange(&mut self, at: Instant, event: Event) {
        self.ticks += usize::from(event == Event::Reclaim);
        self.heap.push(Reverse(Arranged { at, sequence: self.sequence, event }));
        self.sequence += 1;
    }

    /// When the first is.
    pub(super) fn next(&self) -> Option<Instant> {
        self.heap.peek().map(|Reverse(first)| first.at)
    }

    /// Takes the first.
    pub(super) fn take(&mut self) -> Option<Event> {
        let event = self.heap.pop().map(|Reverse(first)| first.event)?;
        self.ticks -= usize::from(event == Event::Reclaim);
        Some(event)
    }

    /// Whether nothing is to come that could get a process further.
    pub(super) fn only_ticks(&self) -> bool {
        self.ticks == self.heap.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_come_by_time_then_in_the_order_of_their_arrangement() {
        let mut events = Events::default();
        for (at, event) in [(5, Event::Wake(1)), (3, Event::Flush), (5, Event::Run(0)), (3, Event::Arrive)] {
            events.arrange(Instant(at), event);
        }
        assert_eq!(events.next(), Some(Instant(3)));
        let order: Vec<Event> = std::iter::from_fn(|| events.take()).collect();
        assert_eq!(order, [Event::Flush, Event::Arrive, Event::Wake(1), Event::Run(0)]);
    }
}
