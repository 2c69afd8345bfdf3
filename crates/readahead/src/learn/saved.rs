//! The text format of what was learnt: one line for each class, one for each cell of its life table.
//!
//! ```text
//! foreseek-learnt 1
//! class size=10 start=yes kind=c program=cc1 longest=1733 seen=129
//! cell 8 128.4 127.1
//! ```
//!
//! A cell's numbers are the weights of the streams that reached it and of those that ended in it. `longest`
//! is the length of the longest file, in pages. Names are percent-encoded; a feature that the class does not
//! have is left out.
//!
//! No text, whatever its source, makes memory unbounded, causes a panic, or breaks the bound of the policy
//! that uses it. Classes of a scheme that is not in use are counted and left out.

use super::class::{Common, NAME_LIMIT, SCHEME};
use super::classes::{CLASSES_LIMIT, Classes};
use super::lengths::{Lengths, Retention, Table};
use crate::depth::grid::CELLS;
use foreseek_seam::percent;
use foreseek_units::{PAGE_SIZE, Pages};
use std::fmt::Write;
use std::str::FromStr;

/// The version of the text that is written, and the only one that is read.
pub const FORMAT: u32 = 1;
/// The longest text that is read: four times the size of the largest table.
pub const TEXT_LIMIT: usize = 16 << 20;
/// The beginning of the first line.
const MAGIC: &str = "foreseek-learnt";
/// The largest number of streams that is read for a class.
const SEEN_LIMIT: u64 = 1 << 40;
/// The longest file that is read, in pages: the largest file length in bytes.
const FILE_LIMIT: u64 = u64::MAX / PAGE_SIZE;

/// The classes that were loaded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Loaded {
    /// Classes that were loaded.
    pub classes: usize,
    /// Classes with other features than those in use.
    pub left_out: usize,
}

/// Why a text cannot be loaded.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("what was learnt cannot be read, line {line}: {reason}; delete the file to begin anew")]
pub struct LoadError {
    /// The line, counted from one.
    pub line: usize,
    /// What is wrong with it.
    pub reason: String,
}

/// Checks a text before it is loaded, as a policy with classes by [`SCHEME`] would load it.
///
/// # Errors
/// As [`Classes::load`].
pub fn check(text: &str) -> Result<Loaded, LoadError> {
    Classes::<()>::new(SCHEME, Retention::Fading).load(text)
}

impl<K: Default> Classes<K> {
    /// Everything learnt.
    #[must_use]
    pub fn save(&self) -> String {
        let mut text = format!("{MAGIC} {FORMAT}\n");
        for class in self.iter().filter(|class| class.lengths.seen() > 0) {
            write_class(&mut text, &class.common, class.longest, class.lengths.seen());
            for cell in 0..CELLS {
                let (exposed, ended) = class.lengths.table().weights(cell);
                if exposed > 0.0 {
                    // Writing to a String cannot fail.
                    let _ = writeln!(text, "cell {cell} {exposed} {ended}");
                }
            }
        }
        text
    }

    /// Loads saved text, in place of what is known of the same classes.
    ///
    /// # Errors
    /// The text is not in the format of [`Classes::save`]. The lines before the wrong one are kept.
    pub fn load(&mut self, text: &str) -> Result<Loaded, LoadError> {
        if text.len() > TEXT_LIMIT {
            return Err(LoadError { line: 1, reason: format!("the text is longer than {TEXT_LIMIT} bytes") });
        }
        let mut loaded = Loaded::default();
        let mut open: Option<SavedClass> = None;
        let outcome = self.read(text, &mut open, &mut loaded);
        if let Some(read) = open {
            self.put(read, &mut loaded);
        }
        outcome.map(|()| loaded)
    }

    fn read(
        &mut self,
        text: &str,
        open: &mut Option<SavedClass>,
        loaded: &mut Loaded,
    ) -> Result<(), LoadError> {
        for (number, line) in text.lines().enumerate() {
            let wrong = |reason| LoadError { line: number + 1, reason };
            match line.split_once(' ') {
                _ if number == 0 => format(line).map_err(wrong)?,
                Some(("class", rest)) => {
                    let next = class(rest).map_err(wrong)?;
                    if let Some(read) = open.replace(next) {
                        self.put(read, loaded);
                    }
                    if loaded.classes + loaded.left_out >= CLASSES_LIMIT {
                        *open = None;
                        return Err(wrong(format!("more than {CLASSES_LIMIT} classes")));
                    }
                }
                Some(("cell", rest)) => {
                    let read = open.as_mut().ok_or_else(|| wrong("a cell before any class".to_owned()))?;
                    read.cells.push(cell(rest).map_err(wrong)?);
                    if read.cells.len() > CELLS {
                        return Err(wrong(format!("a class of more than {CELLS} cells")));
                    }
                }
                _ if line.is_empty() => {}
                _ => return Err(wrong("neither a class nor a cell".to_owned())),
            }
        }
        if text.is_empty() { Err(LoadError { line: 1, reason: "it is empty".to_owned() }) } else { Ok(()) }
    }

    fn put(&mut self, read: SavedClass, loaded: &mut Loaded) {
        let SavedClass { common, longest, seen, cells } = read;
        if common.level(self.scheme()).is_none() {
            loaded.left_out += 1;
            return;
        }
        loaded.classes += 1;
        let lengths = Lengths::restored(self.retention(), seen, Table::of(cells));
        self.restore(common, longest, lengths);
    }
}

/// A class as it is being read.
struct SavedClass {
    common: Common,
    longest: Pages,
    seen: u64,
    cells: Vec<(usize, f64, f64)>,
}

fn write_class(text: &mut String, common: &Common, longest: Pages, seen: u64) {
    text.push_str("class");
    let Common { size, start, kind, directory, program } = common;
    let name = |name: &Option<Box<str>>| name.as_deref().map(percent::encoded);
    let fields = [
        ("size", size.map(|size| size.to_string())),
        ("start", start.map(|start| if start { "yes" } else { "no" }.to_owned())),
        ("kind", name(kind)),
        ("directory", name(directory)),
        ("program", name(program)),
        ("longest", Some(longest.get().to_string())),
        ("seen", Some(seen.to_string())),
    ];
    for (key, value) in fields {
        if let Some(value) = value {
            let _ = write!(text, " {key}={value}");
        }
    }
    text.push('\n');
}

fn format(line: &str) -> Result<(), String> {
    match line.strip_prefix(MAGIC).map(str::trim) {
        Some(version) if version == FORMAT.to_string() => Ok(()),
        Some(version) => Err(format!("its format is '{version}', this version reads {FORMAT}")),
        None => Err(format!("the first line should read '{MAGIC} {FORMAT}'")),
    }
}

fn class(rest: &str) -> Result<SavedClass, String> {
    let mut read = SavedClass { common: Common::default(), longest: Pages::ZERO, seen: 0, cells: Vec::new() };
    let common = &mut read.common;
    for field in rest.split_ascii_whitespace() {
        let (key, value) = field.split_once('=').ok_or_else(|| format!("'{field}' has no value"))?;
        match key {
            "size" => common.size = Some(number::<u32>(value)?.min(u64::BITS - 1)),
            "start" if value == "yes" => common.start = Some(true),
            "start" if value == "no" => common.start = Some(false),
            "kind" => common.kind = Some(decoded(value)?),
            "directory" => common.directory = Some(decoded(value)?),
            "program" => common.program = Some(decoded(value)?),
            "longest" => read.longest = Pages(number::<u64>(value)?.min(FILE_LIMIT)),
            "seen" => read.seen = number::<u64>(value)?.min(SEEN_LIMIT),
            _ => return Err(format!("'{field}' is nothing that a class has")),
        }
    }
    Ok(read)
}

fn cell(rest: &str) -> Result<(usize, f64, f64), String> {
    let mut fields = rest.split_ascii_whitespace();
    let mut next = || fields.next().ok_or_else(|| "a cell has three numbers".to_owned());
    Ok((number(next()?)?, number(next()?)?, number(next()?)?))
}

fn number<T: FromStr>(text: &str) -> Result<T, String> {
    text.parse().map_err(|_| format!("'{text}' is no number"))
}

fn decoded(text: &str) -> Result<Box<str>, String> {
    let name = percent::decoded(text).ok_or_else(|| format!("'{text}' is no name"))?;
    if name.len() > NAME_LIMIT {
        return Err(format!("a name is longer than {NAME_LIMIT} bytes"));
    }
    Ok(name.into_boxed_str())
}

#[cfg(test)]
mod tests {
    use super::super::Follower;
    use super::*;
    use foreseek_seam::StreamInfo;
    use foreseek_units::PageIndex;
    use proptest::prelude::*;

    fn taught(names: &[String], streams: u64) -> Classes<()> {
        let mut classes = Classes::new(SCHEME, Retention::Fading);
        for n in 0..streams {
            let name = &names[n as usize % names.len()];
            let mut follower = Follower::new(Pages(300 + n % 5 * 1000));
            follower.describe(&StreamInfo { kind: name, directory: "/a b", program: "p%" });
            for page in (n % 3..n % 3 + 1 + n * 37 % 200).map(PageIndex) {
                follower.touch(&mut classes, page, |_| false);
            }
            follower.leave(&mut classes, |_| false);
        }
        classes
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(32))]

        #[test]
        fn what_is_saved_is_loaded_again(names in prop::collection::vec(".{0,12}", 1..6), streams in 1..60u64) {
            let text = taught(&names, streams).save();
            let mut other: Classes<()> = Classes::new(SCHEME, Retention::Fading);
            let loaded = other.load(&text).expect("what was saved");
            prop_assert_eq!(loaded.left_out, 0);
            prop_assert_eq!(other.save(), text);
        }

        #[test]
        fn no_text_causes_a_panic_or_unbounded_memory(
            lines in prop::collection::vec(
                prop_oneof![
                    "class( size=[0-9]{1,12}| start=(yes|no|x)| kind=[a-z%0-9]{0,6}| longest=[0-9]{1,22}| seen=[0-9]{1,22}){0,4}",
                    "cell [0-9]{1,3} (-?[0-9.e]{1,8}|nan|inf) (-?[0-9.e]{1,8}|nan|inf)",
                    ".{0,20}",
                ], 0..30),
        ) {
            let text = format!("{MAGIC} {FORMAT}\n{}", lines.join("\n"));
            let mut classes: Classes<()> = Classes::new(SCHEME, Retention::Fading);
            let _ = classes.load(&text);
            let survival = classes.survival_of(classes.iter().next().expect("the one that holds all"));
            prop_assert!((0..2000).all(|x| (0.0..=1.0).contains(&survival.beyond(Pages(x)))));
        }
    }

    #[test]
    fn an_error_names_its_line_and_the_lines_before_are_kept() {
        for (text, line, reason) in [
            ("", 1, "empty"),
            ("foreseek-learnt 9", 1, "its format is '9', this version reads 1"),
            ("# a comment", 1, "the first line should read 'foreseek-learnt 1'"),
            ("foreseek-learnt 1\ncell 1 2 3", 2, "a cell before any class"),
            ("foreseek-learnt 1\nclass seen=2\ncell 1 2", 3, "a cell has three numbers"),
            ("foreseek-learnt 1\nclass colour=red", 2, "'colour=red' is nothing that a class has"),
            ("foreseek-learnt 1\nclass kind=%zz", 2, "'%zz' is no name"),
            ("foreseek-learnt 1\nclass seen=5\nwhat", 3, "neither a class nor a cell"),
        ] {
            let mut classes: Classes<()> = Classes::new(SCHEME, Retention::Fading);
            let error = classes.load(text).expect_err(text);
            assert_eq!(error.line, line, "{text}");
            assert!(error.to_string().contains(reason), "{error}");
            assert_eq!(
                classes.iter().next().map(|all| all.lengths.seen()),
                Some(if text.contains("seen=5") {
                    5
                } else if text.contains("seen=2") {
                    2
                } else {
                    0
                }),
                "{text}"
            );
        }
    }

    #[test]
    fn classes_of_another_scheme_are_left_out() {
        let text = "foreseek-learnt 1\nclass directory=/a seen=3\nclass seen=7\n";
        let mut classes: Classes<()> = Classes::new(SCHEME, Retention::Fading);
        assert_eq!(classes.load(text), Ok(Loaded { classes: 1, left_out: 1 }));
    }
}
