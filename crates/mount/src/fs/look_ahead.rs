//! Looks up the inodes of a listing with attributes in the order of their numbers.
//!
//! Such a listing (`readdirplus`) looks each name up in the order of the directory. On ext4 that is the order
//! of hashes: a random place on the disk for each. Once one of these look-ups has waited for the disk, the
//! following names of the same reply are looked up in the order of inode numbers. On most file systems that
//! is the order of the disk. Once one of those waits as well, several threads look up the rest. The look-ups
//! of the listing then find the inodes in memory. They and the reply keep the order of the directory, since
//! the kernel continues by its offsets.
//!
//! If all inodes are in memory this costs a reading of the clock for each name. An error here is ignored: the
//! look-up of that name meets it again.
//!
//! Limits: the size of a reply is not known beforehand. It is learnt from the last reply that was full. Until
//! then, and for a program with larger replies, as much is looked up again as the reply has so far. Names
//! that are looked up beyond a reply are in the next one, if the program reads on.

use std::ffi::OsStr;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::thread::{Builder, scope};
use std::time::{Duration, Instant};

/// A look-up that takes at least this long has waited for a disk. One in memory takes at most a tenth of it,
/// an access to a disk that seeks ten times as long.
const WAITED: Duration = Duration::from_micros(100);
/// Threads that help with one reply, beside the one that replies: as many requests as give a drive's queue
/// most of its benefit.
const TOGETHER: usize = 7;
/// The least number of names for each of them: a thread costs some tens of microseconds.
const EACH: usize = 16;
/// Threads that help with all replies at once.
const HELPERS: usize = 4 * TOGETHER;
/// The stack of a helper: it makes one system call after the other.
const STACK: usize = 128 << 10;
/// The least size of a reply: a page.
const LEAST_ROOM: usize = 4 << 10;
/// The bytes before each name in a reply (`FUSE_NAME_OFFSET_DIRENTPLUS`).
const HEADER: usize = 152;

/// See the module's documentation.
#[derive(Debug)]
pub(crate) struct LookAhead {
    /// Bytes of the last reply that was full.
    room: AtomicUsize,
    /// Threads that help now.
    helpers: AtomicUsize,
}

impl Default for LookAhead {
    fn default() -> Self {
        Self { room: AtomicUsize::new(LEAST_ROOM), helpers: AtomicUsize::new(0) }
    }
}

/// A reply in progress.
#[derive(Debug)]
pub(crate) struct Reply<'a> {
    of: &'a LookAhead,
    /// Bytes of its names.
    bytes: usize,
    /// Names that follow and were looked up.
    ahead: usize,
}

impl LookAhead {
    /// Begins a reply.
    pub(crate) fn reply(&self) -> Reply<'_> {
        Reply { of: self, bytes: 0, ahead: 0 }
    }

    /// Looks names up in the order of their inode numbers. `look` returns whether it waited for the disk.
    fn look<'a>(&self, mut names: Vec<(u64, &'a OsStr)>, look: impl Fn(&'a OsStr) -> bool + Sync) {
        names.sort_unstable_by_key(|(number, _)| *number);
        // Often one block holds the inodes of all names, and is now in memory.
        let Some(first) = names.iter().position(|(_, name)| look(name)) else { return };
        let rest = &names[first + 1..];
        let next = AtomicUsize::new(0);
        let work = || {
            while let Some((_, name)) = rest.get(next.fetch_add(1, Relaxed)) {
                look(name);
            }
        };
        let wanted = TOGETHER.min(rest.len() / EACH);
        let before = self.helpers.fetch_add(wanted, Relaxed);
        let helpers = wanted.min(HELPERS.saturating_sub(before));
        scope(|scope| {
            for _ in 0..helpers {
                // If a thread cannot be started, the others do all the work.
                let _ = Builder::new().name("look-ahead".into()).stack_size(STACK).spawn_scoped(scope, work);
            }
            work();
        });
        self.helpers.fetch_sub(wanted, Relaxed);
    }
}

impl Reply<'_> {
    /// A name of the reply was looked up in this time. If that waited for the disk, looks up the names that
    /// follow.
    pub(crate) fn looked_up<'a>(
        &mut self,
        took: Duration,
        following: impl Iterator<Item = (u64, &'a OsStr)>,
        look: impl Fn(&'a OsStr) + Sync,
    ) {
        if self.ahead > 0 {
            self.ahead -= 1;
        } else if took >= WAITED {
            let mut room = self.of.room.load(Relaxed).saturating_sub(self.bytes).max(self.bytes);
            let fits = |(_, name): &(u64, &OsStr)| {
                let length = length(name);
                let fits = length <= room;
                room = room.saturating_sub(length);
                fits
            };
            let names: Vec<_> = following.take_while(fits).collect();
            self.ahead = names.len();
            self.of.look(names, |name| {
                let begun = Instant::now();
                look(name);
                begun.elapsed() >= WAITED
            });
        }
    }

    /// A name was added to the reply, or had no room there.
    pub(crate) fn took(&mut self, name: &OsStr, full: bool) {
        if full {
            self.of.room.store(self.bytes.max(LEAST_ROOM), Relaxed);
        } else {
            self.bytes += length(name);
        }
    }
}

/// Bytes of a name in a reply.
fn length(name: &OsStr) -> usize {
    (HEADER + name.len()).next_multiple_of(8)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ffi::OsString;
    use std::sync::Mutex;

    /// Names with inode numbers, which are in another order than the names.
    fn names(count: u64) -> Vec<(u64, OsString)> {
        (0..count).map(|name| (name * 7919 % 1009, OsString::from(format!("{name:05}")))).collect()
    }

    fn of(names: &[(u64, OsString)]) -> impl Iterator<Item = (u64, &OsStr)> {
        names.iter().map(|(number, name)| (*number, name.as_os_str()))
    }

    #[test]
    fn no_thread_helps_where_no_further_name_waits_for_the_disk() {
        let (names, seen) = (names(500), Mutex::new(Vec::new()));
        let all = LookAhead::default();
        all.look(of(&names).collect(), |_| {
            seen.lock().unwrap().push(std::thread::current().id());
            false
        });
        assert_eq!(seen.into_inner().unwrap(), vec![std::thread::current().id(); 500]);
    }

    /// How many names were looked up after one that took this long.
    fn looked_at(reply: &mut Reply<'_>, took: Duration, names: &[(u64, OsString)]) -> usize {
        let count = AtomicUsize::new(0);
        reply.looked_up(took, of(names), |_| {
            count.fetch_add(1, Relaxed);
        });
        count.into_inner()
    }

    #[test]
    fn names_are_looked_up_in_the_order_of_inode_numbers() {
        let (names, seen) = (names(500), Mutex::new(Vec::new()));
        let all = LookAhead::default();
        // No helper is left.
        all.helpers.store(HELPERS, Relaxed);
        all.look(of(&names).collect(), |name| {
            seen.lock().unwrap().push(name.to_owned());
            true
        });
        let mut expected = names.clone();
        expected.sort();
        let expected: Vec<_> = expected.into_iter().map(|(_, name)| name).collect();
        assert_eq!(seen.into_inner().unwrap(), expected);
    }

    #[test]
    fn with_helpers_each_is_looked_up_once() {
        let (names, seen) = (names(500), Mutex::new(Vec::new()));
        let all = LookAhead::default();
        all.look(of(&names).collect(), |name| {
            seen.lock().unwrap().push(name.to_owned());
            name.as_encoded_bytes().ends_with(b"7")
        });
        let mut seen = seen.into_inner().unwrap();
        seen.sort();
        assert!(seen.iter().eq(names.iter().map(|(_, name)| name)));
        assert_eq!(all.helpers.load(Relaxed), 0);
        all.look(Vec::new(), |_| unreachable!("there is none"));
    }

    #[test]
    fn no_look_ups_are_added_where_none_waited() {
        let (all, names) = (LookAhead::default(), names(100));
        let mut reply = all.reply();
        for at in 0..names.len() {
            assert_eq!(looked_at(&mut reply, WAITED / 2, &names[at + 1..]), 0);
            reply.took(&names[at].1, false);
        }
    }

    #[test]
    fn as_much_is_looked_up_as_a_reply_holds() {
        let (all, names) = (LookAhead::default(), names(1000));
        let each = length(&names[0].1);
        let mut reply = all.reply();
        let first = LEAST_ROOM / each;
        assert_eq!(looked_at(&mut reply, WAITED, &names[1..]), first);
        for at in 0..first {
            reply.took(&names[at].1, false);
            assert_eq!(looked_at(&mut reply, WAITED, &names[at + 2..]), 0, "these were looked at");
        }
        // More than that fits: as much again, and so on.
        reply.took(&names[first].1, false);
        assert_eq!(looked_at(&mut reply, WAITED, &names[first + 2..]), first + 1);
        names[first + 1..200].iter().for_each(|(_, name)| reply.took(name, false));
        reply.took(&names[200].1, true);
        // The next reply begins with the size that the kernel takes.
        assert_eq!(looked_at(&mut all.reply(), WAITED, &names[200..]), 200);
        assert_eq!(looked_at(&mut all.reply(), WAITED, &names[990..]), 10, "there are no more");
    }
}
