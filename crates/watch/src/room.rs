//! The memory of all listings together, bounded in bytes: names may have 255, and several threads list at a time.
//!
//! Before each buffer of entries is read, room for it is taken: for that of the users who drive the walk with the
//! least room taken. A listing keeps its room until it is dropped. A user may take a [share](share_left). Where that is used up, a
//! directory is not listed.

use foreseek_walks::share_left;
use rustc_hash::FxHashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The bytes of all listings. A single user gets 128 MiB: a directory of a million files fits while it is read, if their
/// names have some 30 bytes.
pub(crate) const LISTINGS: usize = 160 << 20;

/// How many of [`LISTINGS`] are taken.
#[derive(Debug, Default)]
pub(crate) struct Room(Mutex<Sums>);

#[derive(Debug, Default)]
struct Sums {
    all: usize,
    by_user: FxHashMap<u32, usize>,
}

impl Sums {
    fn of(&self, user: u32) -> usize {
        self.by_user.get(&user).copied().unwrap_or_default()
    }
}

impl Room {
    fn sums(&self) -> MutexGuard<'_, Sums> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A part of it for a user, until it is dropped.
#[derive(Debug)]
pub(crate) struct Taken {
    of: Arc<Room>,
    user: u32,
    bytes: usize,
}

impl Taken {
    /// Nothing yet, for the one of these users with the least room taken.
    pub(crate) fn nothing_of(of: &Arc<Room>, users: impl Iterator<Item = u32>) -> Self {
        let sums = of.sums();
        let user = users.min_by_key(|user| sums.of(*user)).unwrap_or_default();
        drop(sums);
        Self { of: of.clone(), user, bytes: 0 }
    }

    /// Takes what is missing to so many bytes; returns whether there is room.
    pub(crate) fn grow(&mut self, bytes: usize) -> bool {
        let more = bytes.saturating_sub(self.bytes);
        let mut sums = self.of.sums();
        let own = sums.of(self.user);
        let fits = more as u64 <= share_left(own as u64, sums.all as u64, LISTINGS as u64);
        if fits && more > 0 {
            sums.all += more;
            sums.by_user.insert(self.user, own + more);
            self.bytes += more;
        }
        fits
    }

    /// Gives back all but so many bytes.
    pub(crate) fn shrink(&mut self, bytes: usize) {
        let less = self.bytes.saturating_sub(bytes);
        self.bytes -= less;
        let mut sums = self.of.sums();
        sums.all = sums.all.saturating_sub(less);
        let own = sums.of(self.user).saturating_sub(less);
        if own > 0 {
            sums.by_user.insert(self.user, own);
        } else {
            sums.by_user.remove(&self.user);
        }
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

    const MIB: usize = 1 << 20;

    #[test]
    fn a_user_takes_no_more_than_its_share_and_gives_it_back() {
        let room = Arc::new(Room::default());
        let [mut one, mut other] = [0; 2].map(|_| Taken::nothing_of(&room, [5].into_iter()));
        assert!(one.grow(64 * MIB) && other.grow(64 * MIB));
        assert!(one.grow(32 * MIB), "it has that");
        assert!(!one.grow(64 * MIB + 1));
        other.shrink(32 * MIB);
        assert!(one.grow(96 * MIB) && !other.grow(32 * MIB + 1));
        drop(one);
        assert!(other.grow(128 * MIB) && !other.grow(usize::MAX));
        drop(other);
        let sums = room.sums();
        assert!(sums.all == 0 && sums.by_user.is_empty());
    }

    #[test]
    fn another_user_finds_room() {
        let room = Arc::new(Room::default());
        let [mut first, mut second, mut third] =
            [1, 2, 3].map(|user| Taken::nothing_of(&room, [user].into_iter()));
        assert!(first.grow(128 * MIB) && !first.grow(128 * MIB + 1));
        assert!(second.grow(25 * MIB) && !second.grow(26 * MIB));
        assert!(third.grow(5 * MIB) && !third.grow(6 * MIB));
        assert!(!first.grow(128 * MIB + 1) && first.grow(128 * MIB));
        assert_eq!(Taken::nothing_of(&room, [1, 2, 3].into_iter()).user, 3);
        drop(first);
        assert!(second.grow(100 * MIB));
    }
}
