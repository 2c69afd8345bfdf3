//! How much of each file a program reads.
//!
//! No driver sees reads. But what a program reads of a file is in memory afterwards: the beginning of the file up to
//! there, and a little more, since the kernel reads ahead. So the engine examines some of the opened files that were
//! not fetched, or only in part, as it asks for addresses ([`Command::Place`]). It does so once the program has opened
//! [`LATER`] others, and has probably read this one.
//!
//! What is learnt is a life table (Kaplan and Meier 1958) for each program and extension, on powers of two. A file
//! that was read to its end counts up to there, and not as an end: so that large files are not expected to be read in
//! part because small ones are short. Without an end everything is expected to be read. This estimate only makes
//! fetches smaller; the bound does not depend on it.
//!
//! An open earns what is read of the file. Of one that was not fetched only the beginning counts, until files of its class
//! are known to be read further. Otherwise the first pages of large files would pay for fetches of whole ones. The bound
//! depends on that: a program that reads whole files at first and parts of others later is counted too high, until enough
//! of these are examined.

use crate::Command;
use crate::state::{About, Asked, PendingPlace, State};
use crate::tree::{Item, Pieces, flag};
use crate::{Kind, Placed};
use foreseek_units::{Bytes, Nanos, Pages};
use rustc_hash::FxHashMap;

/// A file is examined after so many further opens: each of some threads has read its own by then.
const LATER: u64 = 32;
/// So many are examined at once.
const TOGETHER: usize = 8;
/// Files that wait for that in a walk.
pub(crate) const WAITING_LIMIT: usize = 64;
/// The weight of files that must have reached a cell before they end the estimate there: seven files at first, and later a fifth of
/// all.
const BELIEVED: f32 = 6.0;
/// After so many one of 16 is examined, and of those that were fetched in part one of four: if more of them is read, each
/// costs the program a positioning. Which ones is drawn by their inodes, since extensions may take turns.
const OFTEN: u32 = 32;
const SELDOM_BITS: u32 = 4;
const SELDOM_PART_BITS: u32 = 2;
/// After so many others, an old file counts a third (1/e) of a new one: programs may change what they do.
const MEMORY: f32 = 32.0;
/// What is read of a file with less than this probability is not fetched.
const LIKELY: f32 = 0.25;
/// What is read of a file with less than this probability earns nothing.
const USUAL: f32 = 0.9;
/// What is read of each file that is read at all, as the kernel reads so much ahead: 16 KiB.
const BEGINNING: Pages = Pages(4);
/// Cells of the table: up to 2^18 pages, 1 GiB.
const CELLS: usize = 19;
/// Tables of programs and extensions, 200 bytes each.
const TABLES_LIMIT: usize = 1024;

/// A program and an extension.
pub(crate) type Class = (Option<u64>, u8);

/// An opened file that is to be examined.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ToExamine {
    about: About,
    class: Class,
    /// The clock of its walk at its open.
    pub(crate) opened: u64,
}

/// What is read of the files of a class. The cell `c` stands for more than `2^(c-1)` and up to `2^c` pages.
#[derive(Clone, Debug, Default)]
struct Table {
    /// Weights of the files that were read beyond a cell or ended in it, and of those that ended.
    reached: [f32; CELLS],
    ended: [f32; CELLS],
    /// Files that were examined, also those that taught nothing.
    examined: u32,
}

impl Table {
    /// A file was read up to here; `stopped`: before its end.
    fn read(&mut self, pages: Pages, stopped: bool) {
        for weight in self.reached.iter_mut().chain(&mut self.ended) {
            *weight *= 1.0 - 1.0 / MEMORY;
        }
        let cell = (pages.get().next_power_of_two().trailing_zeros() as usize).min(CELLS - 1);
        let beyond = if stopped { cell + 1 } else { cell };
        self.reached[..beyond].iter_mut().for_each(|weight| *weight += 1.0);
        self.ended[cell] += f32::from(u8::from(stopped));
    }

    /// How much of a file is likely to be read; `None`: all of it.
    fn likely(&self) -> Option<Pages> {
        self.first_cell(|_, beyond| beyond < LIKELY).map(|cell| Pages(1 << cell))
    }

    /// How much is read of nine files in ten; `None`: all of it.
    fn usual(&self) -> Option<Pages> {
        let is_unusual = |reached: f32, beyond: f32| reached < BELIEVED || beyond < USUAL;
        self.first_cell(is_unusual).map(|cell| Pages((1 << cell) / 2))
    }

    /// The first cell for which this holds: by the weight of the files that have reached it, and the part of files that is
    /// read beyond it.
    fn first_cell(&self, holds: impl Fn(f32, f32) -> bool) -> Option<usize> {
        let mut beyond = 1.0;
        self.reached.iter().zip(&self.ended).position(|(reached, ended)| {
            beyond *= if *reached >= BELIEVED { 1.0 - ended / reached } else { 1.0 };
            holds(*reached, beyond)
        })
    }
}

/// What is known of all classes.
#[derive(Clone, Debug, Default)]
pub(crate) struct Parts {
    /// The table, and the estimate in use.
    tables: FxHashMap<Class, (Table, Option<Pages>)>,
}

impl Parts {
    /// How much of a file of this class is likely to be read; `None`: all of it.
    fn likely(&self, class: Class) -> Option<Pages> {
        self.tables.get(&class).and_then(|(_, used)| *used)
    }

    /// How much of a file of this class counts as read when it is opened; `None`: all of it.
    fn usual(&self, class: Class) -> Option<Pages> {
        let known = self.tables.get(&class).map_or(Some(BEGINNING), |(table, _)| table.usual());
        known.map(|known| known.max(BEGINNING))
    }

    /// Whether this file is to be examined.
    fn is_wanted(&self, class: Class, inode: u64, is_part: bool) -> bool {
        let examined = self.tables.get(&class).map_or(0, |(table, _)| table.examined);
        let drawn = inode.wrapping_mul(0x9e37_79b9_7f4a_7c15).leading_zeros();
        examined < OFTEN || drawn >= if is_part { SELDOM_PART_BITS } else { SELDOM_BITS }
    }

    /// A file was examined.
    fn examined(&mut self, class: Class) {
        if self.tables.len() >= TABLES_LIMIT && !self.tables.contains_key(&class) {
            self.tables.clear();
        }
        let (table, _) = self.tables.entry(class).or_default();
        table.examined = table.examined.saturating_add(1);
    }

    /// A file was read up to here; `stopped`: before its end. Returns whether the estimate in use is another one now. It
    /// grows at once, and shrinks to less than half: the next power of two is no news.
    fn read(&mut self, class: Class, pages: Pages, stopped: bool) -> bool {
        self.examined(class);
        let Some((table, used)) = self.tables.get_mut(&class) else { return false };
        table.read(pages, stopped);
        let size = |pages: Option<Pages>| pages.map_or(u64::MAX, Pages::get);
        let (old, new) = (size(*used), size(table.likely()));
        let is_other = new > old || new < old / 2;
        if is_other {
            *used = table.likely();
        }
        is_other
    }
}

impl State {
    /// The program that opened the last file of a walk, with this extension.
    fn class_of(&self, at: usize, extension: u8) -> Class {
        (self.walks[at].as_ref().and_then(|walk| walk.reading_program()), extension)
    }

    /// The most that is fetched of a file with this extension.
    pub(crate) fn limit(&self, at: usize, extension: u8) -> Bytes {
        let likely = self.parts.likely(self.class_of(at, extension));
        likely.map_or(Bytes(u64::MAX), Pages::bytes).min(self.settings.file_limit)
    }

    /// The missing pieces of an entry that count as read when it is used: what was fetched for it, and of other files what is
    /// usual.
    pub(crate) fn read_pieces(&self, at: usize, about: About) -> Pieces {
        let Some(item) = self.tree.item(about.directory, about.entry) else { return Pieces::default() };
        let usual = (item.kind == Kind::File && !item.is(flag::FETCHED))
            .then(|| self.parts.usual(self.class_of(at, item.class)))
            .flatten();
        Pieces::of(self.tree.pieces(item), usual.map_or(Bytes(u64::MAX), Pages::bytes))
    }

    /// A program opened a file whose entry was in this state: it may be one to examine.
    pub(crate) fn will_examine(&mut self, at: usize, about: About, item: &Item) {
        let is_whole = item.is(flag::FETCHED) && !item.is(flag::PART);
        let class = self.class_of(at, item.class);
        let Some(walk) = &mut self.walks[at] else { return };
        let has_room = walk.to_examine.len() < WAITING_LIMIT;
        if !is_whole
            && !item.is(flag::RESIDENT)
            && has_room
            && self.parts.is_wanted(class, item.inode, item.is(flag::FETCHED))
        {
            walk.to_examine.push_back(ToExamine { about, class, opened: walk.clock });
        }
    }

    /// Requests that opened files are examined, some at a time, and one request after the other.
    pub(crate) fn examine(&mut self, at: usize) {
        let Some(walk) = &mut self.walks[at] else { return };
        let last = walk.to_examine.get(TOGETHER - 1);
        if walk.quiet.is_some() || walk.examining > 0 || last.is_none_or(|it| it.opened + LATER > walk.clock)
        {
            return;
        }
        let due: Vec<ToExamine> = walk.to_examine.drain(..TOGETHER).collect();
        let mut files = Vec::with_capacity(due.len());
        for ToExamine { about, class, .. } in due {
            let name = self.name(about).filter(|name| !self.asked.contains_key(&name.node));
            if let Some(name) = name {
                self.asked.insert(name.node, PendingPlace { walk: at, about, asked: Asked::Opened(class) });
                files.push(name);
            }
        }
        if !files.is_empty() {
            if let Some(walk) = &mut self.walks[at] {
                walk.examining = files.len() as u32;
            }
            files.sort_unstable();
            self.outbox.push_back(Command::Place { files });
        }
    }

    /// An opened file was examined. Returns whether another part of such files is to be fetched from now on.
    pub(crate) fn examined(&mut self, at: usize, class: Class, file: &Placed<'_>) -> bool {
        if let Some(walk) = &mut self.walks[at] {
            walk.examining = walk.examining.saturating_sub(1);
        }
        let end = file.length.pages_ceil();
        let read = file.missing.iter().map(|it| Pages(it.page.get())).min().unwrap_or(end).min(end);
        // What was read may have left memory again, and some programs see to that.
        if !file.residency_known || file.resident.is_zero() || read.is_zero() {
            self.parts.examined(class);
            return false;
        }
        self.parts.read(class, read, read < end)
    }

    /// Another part of a walk's files with this extension is to be fetched: of those whose addresses are known, and that
    /// were not fetched yet. What did not pay may pay now.
    pub(crate) fn apply_limit(&mut self, at: usize, extension: u8) {
        let limit = self.limit(at, extension);
        if let Some(walk) = &mut self.walks[at] {
            (walk.next_cost, walk.in_vain) = (Nanos::ZERO, false);
        }
        let all = self.walks[at].as_ref().map_or_else(Vec::new, |walk| walk.all.clone());
        for key in all {
            for entry in 0..self.tree.get(key).map_or(0, |directory| directory.items.len() as u32) {
                let Some(item) = self.tree.item(key, entry).copied() else { continue };
                let is_left = item.is(flag::PLACED) && !item.is(flag::OPENED | flag::PASSED | flag::FETCHED);
                if item.kind != Kind::File || item.class != extension || !is_left {
                    continue;
                }
                let pieces = self.tree.take_pieces(key, entry);
                let end = pieces.0.last().map_or(Bytes::ZERO, |it| Pages((it.page + it.pages).get()).bytes());
                if item.is(flag::PART) && end < limit {
                    // More of it is wanted than is known.
                    self.tree.item_mut(key, entry).into_iter().for_each(Item::forget_place);
                } else {
                    self.tree.keep_part(key, entry, &pieces.0, limit);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CLASS: Class = (Some(1), 2);

    #[test]
    fn the_part_that_is_read_is_learnt_and_unlearnt() {
        let mut parts = Parts::default();
        for seen in 1..=7 {
            assert_eq!(parts.likely(CLASS), None, "before {seen}");
            assert_eq!(parts.read(CLASS, Pages(4), true), seen == 7);
        }
        assert_eq!(parts.likely(CLASS), Some(Pages(4)));
        assert!((0..64).filter(|_| parts.read(CLASS, Pages(40), true)).count() > 0);
        assert_eq!(parts.likely(CLASS), Some(Pages(64)));
        assert!((0..64).any(|_| parts.read(CLASS, Pages(4000), false)));
        assert_eq!(parts.likely(CLASS), None);
        assert_eq!(parts.likely((Some(7), 2)), None, "of another program");
    }

    #[test]
    fn a_file_counts_as_read_as_far_as_others_were() {
        let mut parts = Parts::default();
        let read = |parts: &mut Parts, files: u64, pages: fn(u64) -> (Pages, bool)| {
            for (pages, stopped) in (0..files).map(pages) {
                parts.read(CLASS, pages, stopped);
            }
        };
        assert_eq!(parts.usual(CLASS), Some(BEGINNING));
        // Files of 64 pages are read to their end, and say nothing of longer ones.
        read(&mut parts, 6, |_| (Pages(64), false));
        assert_eq!(parts.usual(CLASS), Some(BEGINNING), "they are too few");
        read(&mut parts, 6, |_| (Pages(64), false));
        assert_eq!(parts.usual(CLASS), Some(Pages(32)));
        // One in five is read to its tenth page alone.
        read(&mut parts, 64, |at| if at % 5 == 0 { (Pages(10), true) } else { (Pages(64), false) });
        assert_eq!((parts.usual(CLASS), parts.likely(CLASS)), (Some(Pages(8)), None));
        assert_eq!(parts.usual((Some(7), 2)), Some(BEGINNING), "of another program");
    }

    #[test]
    fn small_files_that_are_read_to_their_end_say_nothing_of_large_ones() {
        let mut parts = Parts::default();
        assert!(!(0..1000).any(|length| parts.read(CLASS, Pages(1 + length % 3), false)));
        assert_eq!(parts.likely(CLASS), None);
        // Nor does a single large one.
        assert!(!parts.read(CLASS, Pages(4), true));
        assert_eq!(parts.likely(CLASS), None);
        // A few of them are large, and read in part.
        let learnt = (0..100).any(|at| parts.read(CLASS, Pages(1 + at % 8), at % 8 > 3));
        assert!(learnt && parts.likely(CLASS).is_some_and(|likely| likely >= Pages(8)));
    }

    #[test]
    fn tables_are_bounded() {
        let mut parts = Parts::default();
        for program in 0..3000 {
            parts.read((Some(program), 0), Pages(1), true);
        }
        assert!(parts.tables.len() <= TABLES_LIMIT);
    }
}
