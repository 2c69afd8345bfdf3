//! Private memory of a handler beside its buffer, as the papers' handlers have 1 MB each (TR-840 section 5.1).
//!
//! It is in memory from the beginning, counts against the readers' memory group, and is written to at each
//! request, so that it is never the memory that has been idle for longest.

use foreseek_units::{Bytes, PAGE_SIZE};
use std::hint::black_box;

/// See the module's documentation.
#[derive(Debug)]
pub(super) struct PrivateMemory(Vec<u8>);

impl PrivateMemory {
    /// This much memory, every page of which has been written to.
    pub(super) fn new(size: Bytes) -> Self {
        // Zeroes would be shared pages that nothing has written to.
        Self(vec![1; size.get() as usize])
    }

    /// Writes to every page.
    pub(super) fn touch(&mut self) {
        black_box(&mut self.0).iter_mut().step_by(PAGE_SIZE as usize).for_each(|byte| *byte ^= 1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_page_is_touched() {
        let mut memory = PrivateMemory::new(Bytes(3 * PAGE_SIZE + 1));
        let untouched = memory.0.clone();
        memory.touch();
        let page = PAGE_SIZE as usize;
        let touched: Vec<usize> = (0..untouched.len()).filter(|at| memory.0[*at] != untouched[*at]).collect();
        assert_eq!(touched, [0, page, 2 * page, 3 * page]);
        PrivateMemory::new(Bytes::ZERO).touch();
    }
}
