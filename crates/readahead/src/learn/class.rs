//! Classes of streams that are expected to have similar lengths.
//!
//! A class is defined by features that its streams share:
//!
//! - the length of the file, in octaves;
//! - whether the stream began at the file's start;
//! - the file's kind (its extension) and its directory;
//! - the program that reads.
//!
//! A [`Scheme`] lists sets of features from the coarsest to the finest. A stream belongs to one class of each
//! set. A fine class with few streams leans on the coarser one.

use foreseek_seam::StreamInfo;
use foreseek_units::Pages;
use std::fmt;
use std::hash::{Hash, Hasher};

/// Bytes of a name that are compared. Of a longer name the end is kept, since directories differ there.
pub(super) const NAME_LIMIT: usize = 96;

/// A copy of [`StreamInfo`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Known {
    kind: Box<str>,
    directory: Box<str>,
    program: Box<str>,
}

impl Known {
    pub(super) fn of(about: &StreamInfo<'_>) -> Self {
        let cut = |name: &str| {
            let least = name.len().saturating_sub(NAME_LIMIT);
            let from = (least..=name.len()).find(|at| name.is_char_boundary(*at)).unwrap_or(least);
            Box::from(&name[from..])
        };
        Self { kind: cut(about.kind), directory: cut(about.directory), program: cut(about.program) }
    }
}

/// A feature by which classes are formed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Feature {
    /// The file's length, in octaves of pages.
    Size,
    /// Whether the stream began at the file's first page.
    Start,
    /// The file's kind.
    Kind,
    /// Its directory.
    Directory,
    /// The program.
    Program,
}

/// Sets of features, from the coarsest to the finest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scheme(
    /// At most [`LEVELS_LIMIT`] sets; the first is empty, so that one class holds all streams.
    pub &'static [&'static [Feature]],
);

/// The most sets of a scheme: each costs a look-up for every stream and a table for every class.
pub const LEVELS_LIMIT: usize = 5;

/// The features of classes, chosen by `foreseek lab reproduce --adaptive` (docs/internals/adaptive-depth.md).
///
/// - A file's length and the start of a stream pay, the program a little.
/// - The directory costs more streams for learning than it gains: it is for experiments only.
/// - No workload tried in virtual time gives kinds; a mount does. Without a kind, that class is the same as
///   the one above it.
pub const SCHEME: Scheme = Scheme(&[
    &[],
    &[Feature::Size, Feature::Start],
    &[Feature::Size, Feature::Start, Feature::Kind],
    &[Feature::Size, Feature::Start, Feature::Kind, Feature::Program],
]);

/// The features that the streams of a class share; `None` where they may differ.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Common {
    /// Octave of the file's pages.
    pub size: Option<u32>,
    /// Whether they begin at the file's first page.
    pub start: Option<bool>,
    /// The file's kind.
    pub kind: Option<Box<str>>,
    /// Its directory.
    pub directory: Option<Box<str>>,
    /// The program.
    pub program: Option<Box<str>>,
}

impl Common {
    /// The class of a set of features that holds a stream.
    pub(super) fn of(features: &[Feature], length: Pages, start: bool, known: &Known) -> Self {
        let mut common = Self::default();
        for feature in features {
            match feature {
                Feature::Size => common.size = Some(length.get().max(1).ilog2()),
                Feature::Start => common.start = Some(start),
                Feature::Kind => common.kind = Some(known.kind.clone()),
                Feature::Directory => common.directory = Some(known.directory.clone()),
                Feature::Program => common.program = Some(known.program.clone()),
            }
        }
        common
    }

    /// The coarser class with only these features.
    pub(super) fn only(&self, features: &[Feature]) -> Self {
        let has = |feature| features.contains(&feature);
        Self {
            size: self.size.filter(|_| has(Feature::Size)),
            start: self.start.filter(|_| has(Feature::Start)),
            kind: self.kind.clone().filter(|_| has(Feature::Kind)),
            directory: self.directory.clone().filter(|_| has(Feature::Directory)),
            program: self.program.clone().filter(|_| has(Feature::Program)),
        }
    }

    /// The longest that its files can be, if size is one of its features.
    pub(super) fn longest(&self) -> Option<Pages> {
        self.size.map(|octave| Pages((2 << octave.min(50)) - 1))
    }

    /// Whether it has a feature.
    fn has(&self, feature: Feature) -> bool {
        match feature {
            Feature::Size => self.size.is_some(),
            Feature::Start => self.start.is_some(),
            Feature::Kind => self.kind.is_some(),
            Feature::Directory => self.directory.is_some(),
            Feature::Program => self.program.is_some(),
        }
    }

    /// The set of a scheme to which it belongs.
    pub(super) fn level(&self, scheme: Scheme) -> Option<usize> {
        const ALL: [Feature; 5] =
            [Feature::Size, Feature::Start, Feature::Kind, Feature::Directory, Feature::Program];
        scheme.0.iter().position(|set| ALL.iter().all(|feature| set.contains(feature) == self.has(*feature)))
    }

    /// A hash of it, for a table with frequent look-ups.
    pub(super) fn key(&self) -> u64 {
        let mut hasher = rustc_hash::FxHasher::default();
        self.hash(&mut hasher);
        hasher.finish()
    }
}

impl fmt::Display for Common {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut parts: Vec<String> = Vec::new();
        let named = |name: &Option<Box<str>>, is: &str, unknown: &str| {
            name.as_deref()
                .map(|name| if name.is_empty() { unknown.to_owned() } else { format!("{is}{name}") })
        };
        parts.extend(named(&self.kind, ".", "no extension"));
        parts.extend(self.size.map(|octave| {
            let from = 1 << octave.min(50);
            format!("files of {} to {}", Pages(from).bytes(), Pages(from * 2).bytes())
        }));
        parts.extend(self.start.map(|start| if start { "from the start" } else { "from within" }.to_owned()));
        parts.extend(named(&self.directory, "in ", "in no directory"));
        parts.extend(named(&self.program, "by ", "by no known program"));
        if parts.is_empty() {
            return f.write_str("all");
        }
        f.write_str(&parts.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_class_prints_what_its_streams_have_in_common() {
        let known = Known::of(&StreamInfo { kind: "c", directory: "/src", program: "cc1" });
        let of = |level: usize| Common::of(SCHEME.0[level], Pages(1500), true, &known);
        assert_eq!(of(0).to_string(), "all");
        assert_eq!(of(1).to_string(), "files of 4 MiB to 8 MiB, from the start");
        assert_eq!(of(3).to_string(), ".c, files of 4 MiB to 8 MiB, from the start, by cc1");
        let unknown = Common::of(SCHEME.0[3], Pages(1), false, &Known::default()).to_string();
        assert_eq!(unknown, "no extension, files of 4 KiB to 8 KiB, from within, by no known program");
        assert!((0..SCHEME.0.len()).all(|level| of(level).level(SCHEME) == Some(level)));
        assert_eq!(Common { program: Some("x".into()), ..Common::default() }.level(SCHEME), None);
    }

    #[test]
    fn of_a_long_name_the_end_counts_and_characters_stay_whole() {
        let long = "ä".repeat(100);
        let known = Known::of(&StreamInfo { directory: &long, ..StreamInfo::default() });
        assert_eq!(known.directory.len(), NAME_LIMIT);
        let odd = format!("{long}x");
        assert_eq!(Known::of(&StreamInfo { kind: &odd, ..StreamInfo::default() }).kind.len(), NAME_LIMIT - 1);
    }
}
