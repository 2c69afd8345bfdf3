//! Classes of streams: which ones are expected to be alike.
//!
//! A class is what some features of a stream have in common: how long its file is (in octaves), whether
//! it began at the file's start, the file's kind (its extension), its directory, the program that reads. A
//! [`Scheme`] lists sets of features from the coarsest to the finest; a stream belongs to one class of
//! each, and a fine class that has seen little leans on the coarser one.

use foreseek_seam::StreamInfo;
use foreseek_units::Pages;
use std::fmt;
use std::hash::{Hash, Hasher};

/// Bytes of a name that are compared; of a longer name its end, since that is where directories differ.
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

/// What a class may go by.
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
    /// At most [`LEVELS_LIMIT`] sets; the first is empty, so that there is a class that holds all.
    pub &'static [&'static [Feature]],
);

/// The most sets of a scheme: each costs a look-up a stream and a table a class.
pub const LEVELS_LIMIT: usize = 5;

/// What classes go by, as `foreseek lab reproduce --adaptive` has found it (docs/internals/adaptive-depth.md): a file's length
/// and where a stream begins pay, the program a little. The directory costs more streams for learning
/// than it tells; it is a feature for experiments only. Kinds were not known to any workload that was
/// tried in virtual time; a mount tells them, and where a interface does not, that class is the one above it.
pub const SCHEME: Scheme = Scheme(&[
    &[],
    &[Feature::Size, Feature::Start],
    &[Feature::Size, Feature::Start, Feature::Kind],
    &[Feature::Size, Feature::Start, Feature::Kind, Feature::Program],
]);

/// What the streams of a class have in common; none: they may differ in that.
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

    /// The coarser class that goes by these features only.
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

    /// How long its longest file can be, where that is a feature of it.
    pub(super) fn longest(&self) -> Option<Pages> {
        self.size.map(|octave| Pages((2 << octave.min(50)) - 1))
    }

    /// The features that it goes by.
    fn has(&self, feature: Feature) -> bool {
        match feature {
            Feature::Size => self.size.is_some(),
            Feature::Start => self.start.is_some(),
            Feature::Kind => self.kind.is_some(),
            Feature::Directory => self.directory.is_some(),
            Feature::Program => self.program.is_some(),
        }
    }

    /// Which set of a scheme it belongs to.
    pub(super) fn level(&self, scheme: Scheme) -> Option<usize> {
        const ALL: [Feature; 5] =
            [Feature::Size, Feature::Start, Feature::Kind, Feature::Directory, Feature::Program];
        scheme.0.iter().position(|set| ALL.iter().all(|feature| set.contains(feature) == self.has(*feature)))
    }

    /// The same for a table that is asked often.
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
    fn a_class_says_what_its_streams_have_in_common() {
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
