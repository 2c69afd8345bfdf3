//! What was looked up a moment ago, for what takes system calls and is asked again and again: the program of a
//! thread, the disk of a file system.

use rustc_hash::FxHashMap;
use std::hash::Hash;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// For how long: so briefly that who has changed is soon seen, and long enough that who opens
/// hundreds of files a second is looked at once.
const REMEMBERED: Duration = Duration::from_secs(1);
/// How many are remembered: the thousand readers that a mount is made for.
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
    /// What is remembered of this one, or what `look` finds.
    pub(super) fn of(&self, key: K, look: impl FnOnce() -> V) -> V {
        let now = Instant::now();
        let all = || self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let known = all().get(&key).filter(|(since, _)| now.duration_since(*since) < REMEMBERED).cloned();
        if let Some((_, value)) = known {
            return value;
        }
        // Two that look at once do no harm.
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
    fn one_is_looked_at_once_in_a_while_and_no_more_are_remembered_than_may_be() {
        let remembered = Remembered::default();
        assert_eq!((remembered.of(7, || "a"), remembered.of(7, || "b")), ("a", "a"));
        std::thread::sleep(REMEMBERED);
        assert_eq!(remembered.of(7, || "c"), "c");
        for key in 0..3 * MOST {
            remembered.of(key, || "d");
        }
        let count = remembered.0.lock().expect("no panic").len();
        assert!((1..=MOST).contains(&count), "{count}");
    }
}
