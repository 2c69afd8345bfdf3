//! Which threads have run or ended since the last check, from `/proc`.
//!
//! A thread's `schedstat` counts how often it was scheduled: a change means that it ran. On kernels without
//! these counts (`CONFIG_SCHED_INFO` off), the processor time in `stat` is used, in ticks of some
//! milliseconds. Reading a file costs about 6 us, so a [`sample`](ProcessWatch::sample) checks a bounded
//! number of threads, and the next continues where it ended.
//!
//! Limits: if an id is reused between two checks, the new thread counts as the old one, which has run. A
//! thread of another pid namespace has the id 0 in FUSE requests and is not watched.

use crate::small_file;
use std::collections::HashMap;
use std::path::{Path, PathBuf};

/// Threads watched at a time: several times the thousand readers that a mount is made for. A new one replaces
/// the one that was checked longest ago.
pub const WATCHED_MOST: usize = 8192;

/// What has happened to a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Activity {
    /// It has run.
    Ran,
    /// It has ended.
    Ended,
}

/// The watched threads.
#[derive(Debug)]
pub struct ProcessWatch {
    proc: PathBuf,
    watched: Vec<Watched>,
    index_of: HashMap<u32, usize>,
    next: usize,
}

#[derive(Clone, Copy, Debug)]
struct Watched {
    thread: u32,
    /// Its count when it was last checked; `None` before that.
    count: Option<u64>,
}

impl Default for ProcessWatch {
    fn default() -> Self {
        Self::within(PathBuf::from("/proc"))
    }
}

impl ProcessWatch {
    fn within(proc: PathBuf) -> Self {
        Self { proc, watched: Vec::new(), index_of: HashMap::new(), next: 0 }
    }

    /// Watches a thread from now on, by its id in `/proc`.
    pub fn watch(&mut self, thread: u32) {
        if thread == 0 || self.index_of.contains_key(&thread) {
            return;
        }
        let new = Watched { thread, count: None };
        if self.watched.len() < WATCHED_MOST {
            self.index_of.insert(thread, self.watched.len());
            self.watched.push(new);
            return;
        }
        // The next to be checked is the one that was checked longest ago.
        let at = self.next % WATCHED_MOST;
        self.index_of.remove(&self.watched[at].thread);
        self.index_of.insert(thread, at);
        self.watched[at] = new;
        self.next = at + 1;
    }

    /// How many threads are watched.
    #[must_use]
    pub fn watched(&self) -> usize {
        self.watched.len()
    }

    /// Checks up to `most` threads, those checked longest ago first, and reports those that have run or
    /// ended. An ended thread is no longer watched.
    pub fn sample(&mut self, most: usize, mut report: impl FnMut(u32, Activity)) {
        for _ in 0..most.min(self.watched.len()) {
            if self.next >= self.watched.len() {
                self.next = 0;
            }
            let Some(Watched { thread, count }) = self.watched.get(self.next).copied() else { return };
            match count_of(&self.proc, thread) {
                None => {
                    self.forget(self.next);
                    report(thread, Activity::Ended);
                }
                now => {
                    if count.is_some() && count != now {
                        report(thread, Activity::Ran);
                    }
                    self.watched[self.next].count = now;
                    self.next += 1;
                }
            }
        }
    }

    fn forget(&mut self, at: usize) {
        let gone = self.watched.swap_remove(at);
        self.index_of.remove(&gone.thread);
        if let Some(moved) = self.watched.get(at) {
            self.index_of.insert(moved.thread, at);
        }
    }
}

/// A count that rises whenever the thread runs; `None` where the thread has ended.
fn count_of(proc: &Path, thread: u32) -> Option<u64> {
    let folder = proc.join(thread.to_string());
    let slices = |text: String| text.split_ascii_whitespace().nth(2)?.parse().ok();
    // It reads "0 0 0" on a kernel that does not count.
    let counted = small_file::read(&folder.join("schedstat")).and_then(slices).filter(|slices| *slices > 0);
    counted.or_else(|| ticks(&small_file::read(&folder.join("stat"))?))
}

/// Processor time from `stat`; `None` for a thread that has ended, zombies included.
fn ticks(stat: &str) -> Option<u64> {
    // The name may contain spaces and parentheses.
    let mut fields = stat.rsplit_once(')')?.1.split_ascii_whitespace();
    let state = fields.next()?;
    let user: u64 = fields.nth(10)?.parse().ok()?;
    let system: u64 = fields.next()?.parse().ok()?;
    (!matches!(state, "Z" | "X")).then_some(user + system)
}

/// The user who began a process (real user id). It waits for nobody, whatever the process does.
#[must_use]
pub fn user_of(process: u32) -> Option<u32> {
    let status = status(&Path::new("/proc").join(process.to_string()))?;
    field(&status, "Uid:")?.split_ascii_whitespace().next()?.parse().ok()
}

/// The name of a process (`comm`); `None` if it is gone. It waits for nobody, whatever the process does.
#[must_use]
pub fn name_of(process: u32) -> Option<Vec<u8>> {
    let name = small_file::read_bytes(Path::new(&format!("/proc/{process}/comm"))).ok()?;
    Some(name.trim_ascii_end().to_vec())
}

/// The text of `status` in the folder of a process or thread. Its name may have any bytes, but no line of its own.
fn status(folder: &Path) -> Option<String> {
    let bytes = small_file::read_bytes(&folder.join("status")).ok()?;
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

fn field<'a>(status: &'a str, name: &str) -> Option<&'a str> {
    status.lines().find_map(|line| line.strip_prefix(name)).map(str::trim)
}

/// How many threads of a process wait for a disk (state D), of the first `most` ones. It waits for nobody: `stat`, which is
/// shorter, is not shown while a process begins another program.
#[must_use]
pub fn waiting_threads(process: u32, most: usize) -> usize {
    waiting_within(Path::new("/proc"), process, most)
}

fn waiting_within(proc: &Path, process: u32, most: usize) -> usize {
    let threads = std::fs::read_dir(proc.join(process.to_string()).join("task")).into_iter().flatten();
    let waits = |status: &str| field(status, "State:").is_some_and(|state| state.starts_with('D'));
    threads
        .flatten()
        .take(most)
        .filter(|thread| status(&thread.path()).is_some_and(|status| waits(&status)))
        .count()
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Proc(tempfile::TempDir);

    impl Proc {
        fn new() -> Self {
            Self(tempfile::tempdir().expect("a writable directory"))
        }

        fn write(&self, thread: u32, file: &str, text: &str) {
            let folder = self.0.path().join(thread.to_string());
            std::fs::create_dir_all(&folder).expect("a folder");
            std::fs::write(folder.join(file), text).expect("room");
        }

        fn remove(&self, thread: u32) {
            std::fs::remove_dir_all(self.0.path().join(thread.to_string())).expect("it was there");
        }

        fn watch(&self) -> ProcessWatch {
            ProcessWatch::within(self.0.path().to_owned())
        }
    }

    fn sampled(watch: &mut ProcessWatch, most: usize) -> Vec<(u32, Activity)> {
        let mut found = Vec::new();
        watch.sample(most, |thread, activity| found.push((thread, activity)));
        found
    }

    #[test]
    fn a_scheduled_thread_has_run_and_a_missing_one_has_ended() {
        let proc = Proc::new();
        proc.write(7, "schedstat", "100 200 3\n");
        proc.write(8, "schedstat", "100 200 3\n");
        let mut watch = proc.watch();
        [7, 8, 7, 0].into_iter().for_each(|thread| watch.watch(thread));
        assert_eq!(watch.watched(), 2);
        assert_eq!(sampled(&mut watch, 9), []);
        proc.write(8, "schedstat", "100 200 4\n");
        assert_eq!(sampled(&mut watch, 9), [(8, Activity::Ran)]);
        assert_eq!(sampled(&mut watch, 9), []);
        proc.remove(7);
        assert_eq!(sampled(&mut watch, 9), [(7, Activity::Ended)]);
        assert_eq!(sampled(&mut watch, 9), []);
        assert_eq!(watch.watched(), 1);
    }

    #[test]
    fn without_counts_the_processor_time_is_used_and_a_zombie_has_ended() {
        let proc = Proc::new();
        let stat = |state: &str, ticks: u32| {
            format!("9 (a) b) {state} 1 2 3 4 5 6 7 8 9 10 {ticks} 5 0 0 20 0 1 0 99 1 2\n")
        };
        proc.write(9, "schedstat", "0 0 0\n");
        proc.write(9, "stat", &stat("S", 10));
        let mut watch = proc.watch();
        watch.watch(9);
        assert_eq!(sampled(&mut watch, 1), []);
        proc.write(9, "stat", &stat("R", 11));
        assert_eq!(sampled(&mut watch, 1), [(9, Activity::Ran)]);
        proc.write(9, "stat", &stat("Z", 11));
        assert_eq!(sampled(&mut watch, 1), [(9, Activity::Ended)]);
    }

    #[test]
    fn threads_that_wait_for_a_disk_are_counted() {
        let proc = Proc::new();
        assert_eq!(waiting_within(proc.0.path(), 7, 9), 0, "the process is gone");
        for (thread, state) in [(7, "D"), (8, "S"), (9, "D")] {
            let folder = proc.0.path().join("7/task").join(thread.to_string());
            std::fs::create_dir_all(&folder).expect("a folder");
            let text = format!("Name:\t\\nState:\tD\nState:\t{state} (any)\nUid:\t7\t8\n");
            std::fs::write(folder.join("status"), [&b"\xff"[..], text.as_bytes()].concat()).expect("room");
        }
        assert_eq!(user_of(std::process::id()), Some(rustix::process::getuid().as_raw()));
        assert_eq!(waiting_within(proc.0.path(), 7, 9), 2);
        assert_eq!(waiting_within(proc.0.path(), 7, 0), 0);
    }

    #[test]
    fn a_sample_is_bounded_and_the_next_continues() {
        let proc = Proc::new();
        let mut watch = proc.watch();
        for thread in 1..=5 {
            proc.write(thread, "schedstat", "1 1 1\n");
            watch.watch(thread);
        }
        sampled(&mut watch, 5);
        (1..=5).for_each(|thread| proc.write(thread, "schedstat", "1 1 2\n"));
        let mut seen: Vec<u32> = Vec::new();
        for _ in 0..3 {
            let found = sampled(&mut watch, 2);
            assert!(found.len() <= 2);
            seen.extend(found.iter().map(|(thread, _)| *thread));
        }
        seen.sort_unstable();
        assert_eq!(seen, [1, 2, 3, 4, 5]);
    }

    #[test]
    fn the_number_of_watched_threads_is_bounded() {
        let proc = Proc::new();
        let mut watch = proc.watch();
        (1..=WATCHED_MOST as u32 + 100).for_each(|thread| watch.watch(thread));
        assert_eq!((watch.watched(), watch.index_of.len()), (WATCHED_MOST, WATCHED_MOST));
        for (at, watched) in watch.watched.iter().enumerate() {
            assert_eq!(watch.index_of[&watched.thread], at);
        }
    }

    #[test]
    fn this_thread_runs_and_another_ends() {
        let mut watch = ProcessWatch::default();
        let me = rustix::thread::gettid().as_raw_nonzero().get() as u32;
        let other = std::thread::spawn(|| rustix::thread::gettid().as_raw_nonzero().get() as u32);
        let other = other.join().expect("no panic");
        watch.watch(me);
        sampled(&mut watch, 8);
        std::thread::sleep(std::time::Duration::from_millis(20));
        assert_eq!(sampled(&mut watch, 8), [(me, Activity::Ran)]);
        watch.watch(other);
        // A thread exists for a moment after it was joined.
        let ended = (0..500).any(|_| {
            std::thread::sleep(std::time::Duration::from_millis(2));
            sampled(&mut watch, 8).contains(&(other, Activity::Ended))
        });
        assert!(ended);
    }
}
