//! Future events, in order of time and, at one time, in the order in which they were added.

use foreseek_units::Instant;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// A future event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Event {
    /// A processor continues with its process, or takes another.
    Run(u32),
    /// A process's sleep is over.
    Wake(u32),
    /// A request of the clients arrives.
    Arrive,
    /// Write-back looks for old dirty pages.
    Flush,
    /// Page replacement has asked for a call.
    Reclaim,
    /// Balancing continues after its nap.
    Balance,
    /// The mount's server continues after a pause.
    Serve,
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

/// The future events. There are at most a few for each process, so that no bound is needed.
#[derive(Debug, Default)]
pub(super) struct Events {
    heap: BinaryHeap<Reverse<Arranged>>,
    sequence: u64,
    /// How many of them are [`Event::Reclaim`], which alone makes no process continue.
    ticks: usize,
}

impl Events {
    pub(super) fn arrange(&mut self, at: Instant, event: Event) {
        self.ticks += usize::from(event == Event::Reclaim);
        self.heap.push(Reverse(Arranged { at, sequence: self.sequence, event }));
        self.sequence += 1;
    }

    /// The time of the first.
    pub(super) fn next(&self) -> Option<Instant> {
        self.heap.peek().map(|Reverse(first)| first.at)
    }

    /// Takes the first.
    pub(super) fn take(&mut self) -> Option<Event> {
        let event = self.heap.pop().map(|Reverse(first)| first.event)?;
        self.ticks -= usize::from(event == Event::Reclaim);
        Some(event)
    }

    /// Whether no future event could make a process continue.
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
