//! One block group: its bitmap and its counts.

/// Blocks of a group: what one block of bitmap covers.
pub(super) const BLOCKS: u64 = 8 * 4096;
const WORDS: usize = (BLOCKS / 64) as usize;

/// A group. Its bitmap is made when a block of it is first searched; until then the blocks from `metadata` to
/// `end` are free.
#[derive(Clone, Debug)]
pub(super) struct Group {
    /// Blocks used by metadata, from the start on.
    metadata: u64,
    /// The number of blocks of the group: the last one of a device may be short.
    end: u64,
    pub(super) free_blocks: u64,
    pub(super) free_inodes: u64,
    pub(super) directories: u64,
    used: Option<Box<[u64; WORDS]>>,
}

impl Group {
    pub(super) fn new(metadata: u64, end: u64, inodes: u64) -> Self {
        Self { metadata, end, free_blocks: end - metadata, free_inodes: inodes, directories: 0, used: None }
    }

    /// The first block after the metadata.
    pub(super) fn first(&self) -> u64 {
        self.metadata
    }

    /// The number of its blocks.
    pub(super) fn end(&self) -> u64 {
        self.end
    }

    /// Marks `amount` blocks from `start` on as used.
    pub(super) fn mark(&mut self, start: u64, amount: u64) {
        let used = self.bitmap();
        let mut at = start;
        while at < start + amount {
            let word = (at / 64) as usize;
            let in_word = (64 - at % 64).min(start + amount - at);
            let mask = (u64::MAX >> (64 - in_word)) << (at % 64);
            used[word] |= mask;
            at += in_word;
        }
        self.free_blocks -= amount;
    }

    /// Takes up to `want` blocks in one run: from the first that `grab_block` of ext2 finds, and the free ones
    /// after it. `goal` is 0 if there is no better one.
    pub(super) fn grab(&mut self, goal: u64, want: u64) -> Option<(u64, u64)> {
        let start = self.find(goal)?;
        let length = (self.next_used(start) - start).min(want);
        self.mark(start, length);
        Some((start, length))
    }

    fn find(&mut self, goal: u64) -> Option<u64> {
        if goal < self.end && self.is_free(goal) {
            return Some(goal);
        }
        let window = goal.next_multiple_of(64).min(self.end);
        let mut near = goal;
        if goal > 0 {
            near = self.next_free(goal, window);
            if near < window {
                return Some(near);
            }
        }
        if let Some(byte) = self.free_byte(near) {
            // Back to the beginning of the free run: less than a byte away.
            let mut start = byte;
            while start > 0 && self.is_free(start - 1) {
                start -= 1;
            }
            return Some(start);
        }
        let any = self.next_free(near, self.end);
        (any < self.end).then_some(any)
    }

    fn is_free(&mut self, at: u64) -> bool {
        self.bitmap()[(at / 64) as usize] >> (at % 64) & 1 == 0
    }

    /// The first free block from `from` on, or `end`.
    fn next_free(&mut self, from: u64, end: u64) -> u64 {
        let used = self.bitmap();
        next(from, end, |word| !used[word])
    }

    /// The first used block from `from` on, or the group's end.
    fn next_used(&mut self, from: u64) -> u64 {
        let end = self.end;
        let used = self.bitmap();
        next(from, end, |word| used[word])
    }

    /// The first block of a byte of the bitmap that is entirely free, from the byte of `from` on.
    fn free_byte(&mut self, from: u64) -> Option<u64> {
        let used = self.bitmap();
        (from / 8..BLOCKS / 8)
            .find(|byte| used[(byte / 8) as usize] >> (byte % 8 * 8) & 0xff == 0)
            .map(|byte| byte * 8)
    }

    fn bitmap(&mut self) -> &mut [u64; WORDS] {
        let (metadata, end) = (self.metadata, self.end);
        self.used.get_or_insert_with(|| {
            let mut used = Box::new([0; WORDS]);
            for at in (0..metadata).chain(end..BLOCKS) {
                used[(at / 64) as usize] |= 1 << (at % 64);
            }
            used
        })
    }
}

/// The first set bit of `word` from `from` on, or `end`.
fn next(from: u64, end: u64, word: impl Fn(usize) -> u64) -> u64 {
    let mut at = from;
    while at < end {
        let bits = word((at / 64) as usize) >> (at % 64);
        if bits != 0 {
            return (at + u64::from(bits.trailing_zeros())).min(end);
        }
        at = (at / 64 + 1) * 64;
    }
    end
}
