//! Short-lived cache of look-ups that take system calls and recur: the program of a thread, the disk of a
//! file system.

use rustc_hash::FxHashMap;
use std::hash::Hash;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// How long an entry is kept: so short that a change is soon noticed, and long enough that a program that
/// opens hundreds of files a second is looked up once.
const REMEMBERED: Duration = Duration::from_secs(1);
/// The most entries: the thousand readers for which a mount is designed.
const MOST: usize = 1024;

/// See the module's documentation.
#[derive(Debug)]
pub(super) struct Remembered<K, V>(Mutex<FxHashMap<K, (Instant, V)>>);

impl<K, V> Default for Remembered<K, V> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<K: Copy + Eq + Hash, V: Clone> Remembered<K, V> {
    /// The cached value, or the one that `look` finds.
    pub(super) fn of(&self, key: K, look: impl FnOnce() -> V) -> V {
        self.at(Instant::now(), key, look)
    }

    /// The same at this time.
    fn at(&self, now: Instant, key: K, look: impl FnOnce() -> V) -> V {
        let all = || self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let known = all().get(&key).filter(|(since, _)| now.duration_since(*since) < REMEMBERED).cloned();
        if let Some((_, value)) = known {
            return value;
        }
        // Two threads that look it up at once do no harm.
        let value = look();
        let mut all = all();
        if all.len() >= MOST {
            all.clear();
        }
        all.insert(key, (now, value.clone()));
        value
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_is_looked_up_once_in_a_while_and_their_number_is_limited() {
        let (remembered, now) = (Remembered::default(), Instant::now());
        let soon = now + REMEMBERED - Duration::from_millis(1);
        assert_eq!((remembered.at(now, 7, || "a"), remembered.at(soon, 7, || "b")), ("a", "a"));
        assert_eq!(remembered.at(now + REMEMBERED, 7, || "c"), "c");
        for key in 0..3 * MOST {
            remembered.of(key, || "d");
        }
        let count = remembered.0.lock().expect("no panic").len();
        assert!((1..=MOST).contains(&count), "{count}");
    }
}
