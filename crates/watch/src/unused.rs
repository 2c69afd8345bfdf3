//! The bytes that were read for each user and never used.
//!
//! Each user has an allowance. Bytes read for a user's walk are taken from it, and are returned when their file
//! is opened by any user. The rest is returned over time, the whole allowance in [`REFILL`]. A user that walks
//! trees without reading them can therefore make the daemon read one allowance, and then one more in each such
//! time.
//!
//! Bounds: [`USERS`] users; beyond, the one with the most left is forgotten. [`FILES`] files that wait to be
//! used; beyond, the oldest of the user with the most count as never used.

use foreseek_units::Bytes;
use foreseek_walks::Node;
use rustc_hash::FxHashMap;
use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// The time in which a whole allowance is returned.
const REFILL: Duration = Duration::from_secs(600);
/// Users with an account: more than walk trees on one machine within the time of a refill.
const USERS: usize = 1024;
/// Files that were read and are not used yet: 64 bytes each, 16 MiB in all.
const FILES: usize = 256 * 1024;

/// See the module's documentation.
#[derive(Debug, Default)]
pub(crate) struct Unused {
    owed: FxHashMap<u32, (Bytes, Instant)>,
    waiting: FxHashMap<Node, (u32, Bytes)>,
    /// The waiting files of each user, and others that were used meanwhile, the oldest first.
    order: FxHashMap<u32, VecDeque<Node>>,
    ordered: usize,
}

impl Unused {
    /// Whether a user has any allowance left.
    pub(crate) fn may_read(&mut self, user: u32, allowance: Bytes, now: Instant) -> bool {
        self.refill(user, allowance, now) < allowance
    }

    /// Bytes of a file were read for a user.
    pub(crate) fn read(&mut self, user: u32, file: Node, bytes: Bytes, allowance: Bytes, now: Instant) {
        let owed = self.refill(user, allowance, now) + bytes;
        if self.owed.len() >= USERS && !self.owed.contains_key(&user) {
            let least =
                self.owed.iter().min_by_key(|(user, (owed, _))| (*owed, **user)).map(|(user, _)| *user);
            least.map(|user| self.owed.remove(&user));
        }
        self.owed.insert(user, (owed, now));
        match self.waiting.get_mut(&file) {
            Some((known, sum)) if *known == user => *sum += bytes,
            _ => {
                self.order.entry(user).or_default().push_back(file);
                self.ordered += 1;
                self.waiting.insert(file, (user, bytes));
            }
        }
        while self.ordered > FILES {
            self.give_one_up();
        }
    }

    /// The oldest file of the user with the most counts as never used.
    fn give_one_up(&mut self) {
        let Some((user, files)) = self.order.iter_mut().max_by_key(|(user, files)| (files.len(), **user))
        else {
            return;
        };
        self.ordered -= 1;
        let oldest = files.pop_front().filter(|it| self.waiting.get(it).is_some_and(|it| it.0 == *user));
        oldest.map(|file| self.waiting.remove(&file));
    }

    /// A file was opened; returns how many unused bytes had been read of it.
    pub(crate) fn used(&mut self, file: Node) -> Option<Bytes> {
        // Its entry in the order stays, and is skipped later.
        let (user, bytes) = self.waiting.remove(&file)?;
        if let Some((owed, _)) = self.owed.get_mut(&user) {
            *owed = owed.saturating_sub(bytes);
        }
        if self.ordered > 2 * self.waiting.len() + 64 {
            self.order.retain(|user, files| {
                files.retain(|file| self.waiting.get(file).is_some_and(|it| it.0 == *user));
                !files.is_empty()
            });
            self.ordered = self.order.values().map(VecDeque::len).sum();
        }
        Some(bytes)
    }

    fn refill(&mut self, user: u32, allowance: Bytes, now: Instant) -> Bytes {
        let Some((owed, since)) = self.owed.get_mut(&user) else { return Bytes::ZERO };
        let part = now.duration_since(*since).as_secs_f64() / REFILL.as_secs_f64();
        let back = Bytes((allowance.get() as f64 * part.min(1.0)) as u64);
        // A time so short that nothing is returned still counts later.
        if !back.is_zero() {
            *owed = owed.saturating_sub(back);
            *since = now;
        }
        *owed
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use foreseek_walks::DeviceNo;

    fn file(inode: u64) -> Node {
        Node { device: DeviceNo(1), inode }
    }

    #[test]
    fn used_bytes_are_returned_at_once_and_the_rest_over_time() {
        let (mut unused, now, allowance) = (Unused::default(), Instant::now(), Bytes(1000));
        for number in 0..10 {
            assert!(unused.may_read(5, allowance, now));
            unused.read(5, file(number), Bytes(100), allowance, now);
        }
        assert!(!unused.may_read(5, allowance, now));
        assert!(unused.may_read(6, allowance, now), "another user");
        assert_eq!(unused.used(file(3)), Some(Bytes(100)));
        assert_eq!(unused.used(file(3)), None);
        assert!(unused.may_read(5, allowance, now));
        unused.read(5, file(11), Bytes(500), allowance, now);
        assert!(!unused.may_read(5, allowance, now + REFILL / 4));
        assert!(unused.may_read(5, allowance, now + REFILL / 2));
    }

    #[test]
    fn frequent_checks_do_not_speed_up_the_refill() {
        let (mut unused, now, allowance) = (Unused::default(), Instant::now(), Bytes(1_000_000_000));
        unused.read(5, file(1), Bytes(2_000_000_000), allowance, now);
        let mut at = now;
        while at < now + REFILL {
            assert!(!unused.may_read(5, allowance, at));
            at += Duration::from_millis(250);
        }
        assert!(unused.may_read(5, allowance, now + REFILL + Duration::from_secs(5)));
    }

    #[test]
    fn many_files_and_users_are_bounded() {
        let (mut unused, now) = (Unused::default(), Instant::now());
        let lists = |unused: &Unused| unused.order.values().map(VecDeque::len).sum::<usize>();
        for number in 0..FILES as u64 + 10 {
            unused.read(number as u32 % 4000, file(number), Bytes(1), Bytes(9), now);
        }
        assert!(lists(&unused) <= FILES && unused.waiting.len() <= FILES && unused.owed.len() <= USERS);
        assert_eq!(lists(&unused), unused.ordered);
        for number in 0..FILES as u64 + 10 {
            unused.used(file(number));
        }
        assert!(unused.waiting.is_empty() && unused.ordered <= 64 && lists(&unused) == unused.ordered);
    }

    #[test]
    fn files_of_the_user_with_the_most_are_given_up_first() {
        let (mut unused, now) = (Unused::default(), Instant::now());
        for number in 0..10 {
            unused.read(5, file(number), Bytes(1), Bytes(9), now);
        }
        for number in 10..FILES as u64 + 10 {
            unused.read(6, file(number), Bytes(1), Bytes(9), now);
        }
        assert_eq!(unused.used(file(10)), None);
        assert_eq!(unused.used(file(20)), Some(Bytes(1)));
        assert!((0..10).all(|number| unused.used(file(number)) == Some(Bytes(1))));
    }
}
