//! Extensions of files, and the common behaviour of programs: how many files their walks open.
//!
//! The number of files that a walk has yet to open is learnt like the lengths of streams, with Kaplan and
//! Meier's estimate. A walk that reached the end of its tree counts as censored ([`Lengths`]). There is a class
//! for each program. The estimates can only make fetches smaller; the bound does not depend on them.

use foreseek_readahead::learn::Lengths;
use foreseek_seam::ProcessId;
use foreseek_units::Pages;
use rustc_hash::{FxHashMap, FxHasher};
use std::hash::Hasher;

/// Extensions with their own class; the others share one. Source trees have some dozens.
pub(crate) const CLASSES_LIMIT: usize = 256;
/// The longest extension. A longer one is a part of a name, and so is one with a character that no extension has (the
/// flags of a mail have `,` and `:`). Such files have the class of those without extension.
const EXTENSION_LIMIT: usize = 16;
/// Programs whose walks are remembered, 3 KiB each.
const PROGRAMS_LIMIT: usize = 64;
/// Processes whose program and user are remembered.
const PROCESSES_LIMIT: usize = 4096;
/// Walks that a program needs before its estimate is used.
const BELIEVED: u64 = 8;
/// Files expected with less than this probability are not fetched.
const LIKELY: f64 = 0.25;

/// The estimates.
#[derive(Clone, Debug, Default)]
pub(crate) struct Classes {
    extensions: FxHashMap<u64, u8>,
    /// Program and user.
    processes: FxHashMap<ProcessId, (u64, u32)>,
    walks: FxHashMap<u64, Lengths>,
}

fn hash(bytes: &[u8]) -> u64 {
    let mut hasher = FxHasher::default();
    hasher.write(bytes);
    hasher.finish()
}

impl Classes {
    /// The class of a file's name.
    pub(crate) fn of_name(&mut self, name: &[u8]) -> u8 {
        let dot = name.iter().rposition(|byte| *byte == b'.').filter(|at| *at > 0);
        let extension = dot.map_or(&[][..], |at| &name[at + 1..]);
        let is_one = extension.len() <= EXTENSION_LIMIT
            && extension.iter().all(|byte| byte.is_ascii_alphanumeric() || b"+-_~".contains(byte));
        let extension = if is_one { extension } else { &[] };
        let next = self.extensions.len() + 1;
        match self.extensions.get(&hash(extension)) {
            Some(class) => *class,
            None if next < CLASSES_LIMIT => {
                self.extensions.insert(hash(extension), next as u8);
                next as u8
            }
            None => 0,
        }
    }

    /// No walk is under way, so that no class is in use. If there is none left, all begin anew. Returns whether they do:
    /// what was learnt of them is about others then.
    pub(crate) fn renew(&mut self) -> bool {
        let is_full = self.extensions.len() + 1 >= CLASSES_LIMIT;
        if is_full {
            self.extensions.clear();
        }
        is_full
    }

    /// Sets the program and the user of a process.
    pub(crate) fn runs(&mut self, pid: ProcessId, user: u32, name: &[u8]) {
        if self.processes.len() >= PROCESSES_LIMIT {
            self.processes.clear();
        }
        self.processes.insert(pid, (hash(name), user));
    }

    /// A process ended.
    pub(crate) fn exited(&mut self, pid: ProcessId) {
        self.processes.remove(&pid);
    }

    /// The class of a process.
    pub(crate) fn program(&self, pid: ProcessId) -> Option<u64> {
        self.processes.get(&pid).map(|known| known.0)
    }

    /// The user of a process.
    pub(crate) fn user(&self, pid: ProcessId) -> Option<u32> {
        self.processes.get(&pid).map(|known| known.1)
    }

    /// A walk is over after `files` files; `stopped`: it stopped before the end of its tree.
    pub(crate) fn walked(&mut self, program: Option<u64>, files: u64, stopped: bool) {
        let Some(program) = program.filter(|_| files > 0) else { return };
        if !self.walks.contains_key(&program) && self.walks.len() >= PROGRAMS_LIMIT {
            self.walks.clear();
        }
        self.walks.entry(program).or_default().stream(Pages(files), stopped);
    }

    /// How many more files a walk of a program is likely to open after this many.
    pub(crate) fn more(&self, program: Option<u64>, files: u64) -> u64 {
        program.and_then(|program| self.walks.get(&program)).map_or(u64::MAX, |walks| likely(walks, files))
    }
}

/// How far beyond a length they are likely to go.
fn likely(lengths: &Lengths, from: u64) -> u64 {
    if lengths.seen() < BELIEVED {
        return u64::MAX;
    }
    let survival = lengths.survival();
    let enough = survival.beyond(Pages(from)) * LIKELY;
    let mut most = from;
    let mut step = 1;
    while most < 1 << 18 {
        if survival.beyond(Pages(most + step)) < enough {
            break;
        }
        most += step;
        step = (most - from).max(1);
    }
    if most >= 1 << 18 { u64::MAX } else { (most + step - from).max(1) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn walks_of_a_program_that_stops_early_are_expected_to_stop() {
        let mut classes = Classes::default();
        classes.runs(ProcessId(1), 0, b"head");
        classes.runs(ProcessId(2), 1000, b"tar");
        let (head, tar) = (classes.program(ProcessId(1)), classes.program(ProcessId(2)));
        assert_eq!(classes.more(head, 8), u64::MAX, "no estimate yet");
        for _ in 0..40 {
            classes.walked(head, 10, true);
            classes.walked(tar, 5000, false);
        }
        assert!(classes.more(head, 8) <= 16, "{}", classes.more(head, 8));
        assert!(classes.more(tar, 8) >= 4000, "{}", classes.more(tar, 8));
        assert_eq!(classes.more(None, 8), u64::MAX);
        assert_eq!([1, 2, 3].map(|pid| classes.user(ProcessId(pid))), [Some(0), Some(1000), None]);
    }

    #[test]
    fn extensions_are_classes_and_the_rest_is_one() {
        let mut classes = Classes::default();
        let c = classes.of_name(b"main.c");
        assert_eq!(classes.of_name(b"other.c"), c);
        assert_ne!(classes.of_name(b"main.h"), c);
        assert_eq!(classes.of_name(b"Makefile"), classes.of_name(b".config"));
        for at in 0..1000 {
            classes.of_name(format!("file.{at}").as_bytes());
        }
        assert_eq!(classes.of_name(b"file.999"), 0);
        assert!(classes.renew() && classes.of_name(b"file.999") != 0 && !classes.renew());
    }

    #[test]
    fn names_of_mails_take_no_classes() {
        let mut classes = Classes::default();
        for mail in 0..1000 {
            classes.of_name(format!("1700000000.M{mail}P1.host,S={mail}:2,S").as_bytes());
            classes.of_name(format!("notes.of the {mail}th day").as_bytes());
        }
        assert_ne!(classes.of_name(b"main.c"), 0);
        assert_eq!(classes.of_name(b"1700000000.M5P1.host,S=5:2,"), classes.of_name(b"Makefile"));
    }
}
