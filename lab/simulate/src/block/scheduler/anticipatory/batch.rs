//! Batches of one direction: how long they last, and how many writes make one.
//!
//! The scheduler wants a write batch to take a set time, but can only count requests: the disk takes writes
//! into its buffer and writes them later. So it counts, measures how long the batch has taken when the first
//! read after it completes, and adjusts the count.

pub(super) const SYNC: usize = 0;
pub(super) const ASYNC: usize = 1;

/// The state of the batch.
#[derive(Clone, Copy, Debug)]
pub(super) struct Batch {
    /// Its direction.
    pub(super) side: usize,
    /// The direction has changed and requests of the old batch are still in the device: nothing is dispatched.
    pub(super) changed: bool,
    /// A read batch without a completed request: its time has not begun.
    pub(super) new: bool,
    /// The tick after which it may end.
    expires: u64,
    /// The requests of a write batch.
    writes: u64,
    /// How many of this one are left.
    pub(super) writes_left: u64,
    /// The write batch lacked requests, or no read waited for its end: its time shows nothing.
    pub(super) idled: bool,
    lengths: [u64; 2],
}

impl Batch {
    pub(super) fn new(lengths: [u64; 2]) -> Self {
        // A first guess: 10 ms a write.
        let writes = (lengths[ASYNC] / 10).max(2);
        let expires = lengths[SYNC];
        Self {
            side: SYNC,
            changed: false,
            new: false,
            expires,
            writes,
            writes_left: 0,
            idled: false,
            lengths,
        }
    }

    pub(super) fn expired(&self, tick: u64) -> bool {
        let late = tick > self.expires;
        !self.changed && !self.new && (late || (self.side == ASYNC && self.writes_left == 0))
    }

    /// Only reads wait: the batch may go on.
    pub(super) fn prolong(&mut self, tick: u64) {
        self.expires = tick + self.lengths[SYNC];
    }

    pub(super) fn turn_to_reads(&mut self) {
        self.changed |= self.side == ASYNC;
        self.side = SYNC;
    }

    pub(super) fn turn_to_writes(&mut self) {
        if self.side == SYNC {
            self.changed = true;
            self.new = false;
        }
        self.side = ASYNC;
        self.writes_left = self.writes;
        self.idled = false;
    }

    /// The old batch's requests are complete.
    pub(super) fn begin(&mut self, tick: u64) {
        self.changed = false;
        match self.side {
            SYNC => self.new = true,
            _ => self.expires = tick + self.lengths[ASYNC],
        }
    }

    /// The first read of a new read batch is complete: its time begins, and that of the writes before it is
    /// known.
    pub(super) fn first_over(&mut self, tick: u64) {
        self.adjust_writes(tick);
        self.new = false;
        self.prolong(tick);
    }

    fn adjust_writes(&mut self, tick: u64) {
        let wanted = self.lengths[ASYNC];
        let took = (tick + wanted).saturating_sub(self.expires);
        if took > wanted && !self.idled {
            self.writes = if took > wanted * 3 { self.writes / 2 } else { self.writes - 1 };
        } else if took < wanted && self.writes_left == 0 {
            self.writes = if wanted > took * 3 { self.writes.saturating_mul(2) } else { self.writes + 1 };
        }
        self.writes = self.writes.max(1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The write count after a write batch that began at tick 1000, with `left` unserved writes, whose first
    /// following read was complete at `end`.
    fn count(end: u64, left: u64) -> u64 {
        let mut batch = Batch::new([500, 125]);
        assert_eq!(batch.writes, 12);
        batch.turn_to_writes();
        batch.begin(1000);
        batch.writes_left = left;
        batch.turn_to_reads();
        batch.first_over(end);
        batch.writes
    }

    #[test]
    fn the_count_of_writes_follows_the_time_that_they_took() {
        assert_eq!(count(1126, 0), 11);
        assert_eq!(count(1376, 0), 6);
        assert_eq!(count(1124, 0), 13);
        assert_eq!(count(1041, 0), 24);
        assert_eq!(count(1125, 0), 12);
        // It ended before its count was used up: its short time shows nothing.
        assert_eq!(count(1041, 3), 12);
    }

    #[test]
    fn a_batch_ends_after_its_time_or_its_writes_and_not_while_it_is_new() {
        let mut batch = Batch::new([250, 62]);
        assert!(!batch.expired(250) && batch.expired(251));
        batch.turn_to_writes();
        assert!(!batch.expired(251), "the reads are not over");
        batch.begin(300);
        assert!(!batch.expired(362) && batch.expired(363));
        batch.writes_left = 0;
        assert!(batch.expired(300));
        batch.turn_to_reads();
        batch.begin(400);
        assert!(!batch.expired(5000), "no read is over yet");
        batch.first_over(420);
        assert!(!batch.expired(670) && batch.expired(671));
    }
}
