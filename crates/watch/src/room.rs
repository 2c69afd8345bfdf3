//! The memory of all listings together, bounded in bytes: names may have 255, and several threads list at a time.
//!
//! Who lists takes room before each buffer of entries is read. A listing keeps its room until it is dropped. Where
//! there is none, a directory is not listed.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// The bytes of all listings: a directory of a million files fits while it is read, if their names have some 30 bytes.
pub(crate) const LISTINGS: usize = 128 << 20;

/// How many of [`LISTINGS`] are taken.
#[derive(Debug, Default)]
pub(crate) struct Room(AtomicUsize);

/// A part of it, until it is dropped.
#[derive(Debug)]
pub(crate) struct Taken {
    of: Arc<Room>,
    bytes: usize,
}

impl Taken {
    pub(crate) fn nothing_of(of: &Arc<Room>) -> Self {
        Self { of: of.clone(), bytes: 0 }
    }

    /// Takes what is missing to so many bytes; returns whether there is room.
    pub(crate) fn grow(&mut self, bytes: usize) -> bool {
        let more = bytes.saturating_sub(self.bytes);
        let taken = |taken: usize| taken.checked_add(more).filter(|sum| *sum <= LISTINGS);
        let fits = self.of.0.fetch_update(Relaxed, Relaxed, taken).is_ok();
        if fits {
            self.bytes += more;
        }
        fits
    }

    /// Gives back all but so many bytes.
    pub(crate) fn shrink(&mut self, bytes: usize) {
        let less = self.bytes.saturating_sub(bytes);
        self.of.0.fetch_sub(less, Relaxed);
        self.bytes -= less;
    }
}

impl Drop for Taken {
    fn drop(&mut self) {
        self.shrink(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_together_take_no_more_than_there_is_and_give_it_back() {
        let room = Arc::new(Room::default());
        let [mut one, mut other] = [0; 2].map(|_| Taken::nothing_of(&room));
        assert!(one.grow(LISTINGS / 2) && other.grow(LISTINGS / 2));
        assert!(one.grow(LISTINGS / 4), "it has that");
        assert!(!one.grow(LISTINGS / 2 + 1));
        other.shrink(LISTINGS / 4);
        assert!(one.grow(LISTINGS / 4 * 3) && !other.grow(LISTINGS / 4 + 1));
        drop(one);
        assert!(other.grow(LISTINGS) && !other.grow(usize::MAX));
        drop(other);
        assert_eq!(room.0.load(Relaxed), 0);
    }
}
