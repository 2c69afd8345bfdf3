//! Trees of files, the same for a seed: fresh ones, aged ones, a mail folder, media.
//!
//! Sizes are lognormal. Names, sizes and the order of writing are drawn from the seed. Contents are text that
//! does not compress to nothing, so that searches read all of it. All trees have ten top-level directories (a
//! mail folder has one), so that programs can be run on a part.

use crate::{Error, Result};
use foreseek_rig::Interrupt;
use foreseek_units::Bytes;
use rand::seq::{IndexedRandom, SliceRandom};
use rand::{Rng, RngExt, SeedableRng};
use rand_distr::{Distribution, LogNormal};
use rand_pcg::Pcg64Mcg;
use serde::{Deserialize, Serialize};
use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};

/// Top-level directories of a tree.
pub(crate) const PARTS: usize = 10;
/// New directories are made below one of the latest.
const LATEST: usize = 200;
/// Media files that are written at the same time, and how much of each in turn.
const TOGETHER: usize = 4;
const PIECE: usize = 256 << 10;
/// Length of the text that contents are taken from.
const TEXT: usize = 1 << 20;
/// Largest growth of a file that is appended to.
const GROWTH: usize = 16 << 10;

/// See the module's documentation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Tree {
    /// Small files written at once, directory by directory.
    Fresh,
    /// Files created in random order, then three times a third deleted and created anew, and a tenth appended to.
    Aged,
    /// As fresh, for programs whose memory is a quarter of it.
    Large,
    /// One directory of messages.
    Maildir,
    /// Files of several megabytes, four of them written at a time.
    Media,
}

impl std::str::FromStr for Tree {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self> {
        Self::ALL.into_iter().find(|tree| tree.name() == name).ok_or_else(|| {
            let known = Self::ALL.map(Self::name).join(", ");
            Error::Option { what: format!("there is no tree '{name}': give one of {known}") }
        })
    }
}

/// The parameters of a tree.
#[derive(Clone, Copy, Debug)]
struct Shape {
    files: usize,
    /// Files for each directory.
    each: usize,
    median: f64,
    sigma: f64,
    largest: u64,
    generations: u32,
}

impl Tree {
    /// All of them.
    pub const ALL: [Self; 5] = [Self::Fresh, Self::Aged, Self::Large, Self::Maildir, Self::Media];

    /// Its name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Fresh => "fresh",
            Self::Aged => "aged",
            Self::Large => "large",
            Self::Maildir => "maildir",
            Self::Media => "media",
        }
    }

    /// Whether aims depend on it.
    pub(crate) const fn has_aim(self) -> bool {
        matches!(self, Self::Fresh | Self::Aged)
    }

    /// Whether memory is limited to a quarter of it.
    #[must_use]
    pub const fn is_larger_than_memory(self) -> bool {
        matches!(self, Self::Large)
    }

    /// The least share of its files with which it can be what it is.
    pub(crate) const fn least_share(self) -> f64 {
        match self {
            // A quarter of it is the least memory in which a program and a server run.
            Self::Large => 0.9,
            _ => 0.0,
        }
    }

    const fn shape(self) -> Shape {
        let small =
            Shape { files: 50_000, each: 12, median: 5_430.0, sigma: 1.25, largest: 4 << 20, generations: 0 };
        match self {
            Self::Fresh | Self::Large => small,
            Self::Aged => Shape { files: 200_000, median: 24_000.0, generations: 3, ..small },
            Self::Maildir => Shape { files: 80_000, each: usize::MAX, median: 4_000.0, sigma: 1.0, ..small },
            Self::Media => {
                Shape { files: 200, each: 20, median: 6e6, sigma: 0.6, largest: 64 << 20, generations: 0 }
            }
        }
    }

    /// Makes it in a directory that does not exist, with this share of its files. Returns the part that
    /// programs read: all of it, or a tenth of an aged tree, which lies as the rest does.
    pub(crate) fn make(
        self,
        root: &Path,
        share: f64,
        seed: u64,
        interrupt: &Interrupt,
        progress: &dyn Fn(f64),
    ) -> Result<MadeTree> {
        let shape = self.shape();
        let files = ((shape.files as f64 * share) as usize).max(PARTS);
        let mut maker = Maker::new(root, shape, files, seed)?;
        let rounds = f64::from(1 + shape.generations);
        if self == Self::Media {
            maker.write_together(interrupt, progress)?;
        } else {
            if shape.generations > 0 {
                maker.files.shuffle(&mut maker.random);
            }
            maker.write_all(interrupt, &|share| progress(share / rounds))?;
        }
        for round in 0..shape.generations {
            maker.age(interrupt, &|share| progress((f64::from(round) + 1.0 + share) / rounds))?;
        }
        let given = if self == Self::Aged { root.join("part0") } else { root.to_owned() };
        Ok(MadeTree { given })
    }
}

/// A tree that was made.
#[derive(Clone, Debug)]
pub(crate) struct MadeTree {
    /// The part that programs read.
    pub(crate) given: PathBuf,
}

struct Maker {
    random: Pcg64Mcg,
    files: Vec<PathBuf>,
    sizes: LogNormal<f64>,
    largest: u64,
    text: Vec<u8>,
    root: File,
}

impl Maker {
    /// Makes the directories and draws the names.
    fn new(root: &Path, shape: Shape, files: usize, seed: u64) -> Result<Self> {
        let mut random = Pcg64Mcg::seed_from_u64(seed);
        let make = |path: &Path| {
            fs::create_dir(path).map_err(|error| Error::io("cannot make", path.display(), error))
        };
        make(root)?;
        let parts = if shape.each == usize::MAX { 1 } else { PARTS };
        let mut folders: Vec<PathBuf> = (0..parts).map(|part| root.join(format!("part{part}"))).collect();
        for folder in &folders {
            make(folder)?;
        }
        while folders.len() < files / shape.each {
            let latest = folders.len().saturating_sub(LATEST);
            let some = if random.random_bool(0.9) { &folders[latest..] } else { &folders[..parts] };
            let above = some.choose(&mut random).unwrap_or(&folders[0]);
            let path = above.join(format!("dir{:05}", folders.len()));
            make(&path)?;
            folders.push(path);
        }
        let kinds = ["txt", "c", "h", "html", "md"];
        let mut paths: Vec<PathBuf> = (0..files)
            .map(|number| {
                let folder = &folders[random.random_range(0..folders.len())];
                let kind = kinds[random.random_range(0..kinds.len())];
                // Names begin with a random number, or their order would be that of writing.
                folder.join(format!("{:08x}-{number}.{kind}", random.random::<u32>()))
            })
            .collect();
        paths.sort_by(|a, b| a.parent().cmp(&b.parent()).then_with(|| a.file_name().cmp(&b.file_name())));
        // Directory by directory, in an order of its own within each.
        for folder in paths.chunk_by_mut(|a, b| a.parent() == b.parent()) {
            folder.shuffle(&mut random);
        }
        let mut text = vec![0; TEXT];
        random.fill_bytes(&mut text);
        for byte in &mut text {
            *byte = if *byte < 6 { b'\n' } else { b' ' + *byte % 90 };
        }
        let sizes = LogNormal::new(shape.median.ln(), shape.sigma);
        let sizes = sizes.map_err(|error| Error::Option { what: error.to_string() })?;
        let root = File::open(root).map_err(|error| Error::io("cannot open", root.display(), error))?;
        Ok(Self { random, files: paths, sizes, largest: shape.largest, text, root })
    }

    fn length(&mut self) -> usize {
        (self.sizes.sample(&mut self.random) as u64).clamp(1, self.largest) as usize
    }

    /// Writes this many bytes of the text, over and over, from a random offset.
    fn write(&mut self, file: &mut File, path: &Path, mut length: usize) -> Result<()> {
        let mut start = self.random.random_range(0..TEXT);
        while length > 0 {
            let piece = &self.text[start..];
            let piece = &piece[..piece.len().min(length)];
            file.write_all(piece).map_err(|error| Error::io("cannot write", path.display(), error))?;
            (length, start) = (length - piece.len(), 0);
        }
        Ok(())
    }

    fn create(&mut self, path: &Path) -> Result<()> {
        let mut file = File::create(path).map_err(|error| Error::io("cannot make", path.display(), error))?;
        let length = self.length();
        self.write(&mut file, path, length)
    }

    fn sync(&self) -> Result<()> {
        rustix::fs::syncfs(&self.root).map_err(|error| Error::io("cannot write back", "the tree", error))
    }

    fn write_all(&mut self, interrupt: &Interrupt, progress: &dyn Fn(f64)) -> Result<()> {
        let files = std::mem::take(&mut self.files);
        for (number, path) in files.iter().enumerate() {
            if number % 256 == 0 {
                interrupt.check()?;
                progress(number as f64 / files.len() as f64);
            }
            self.create(path)?;
        }
        self.files = files;
        self.sync()
    }

    /// Writes some files at a time, a piece of each in turn, so that their blocks are interleaved.
    fn write_together(&mut self, interrupt: &Interrupt, progress: &dyn Fn(f64)) -> Result<()> {
        let files = self.files.clone();
        for (number, some) in files.chunks(TOGETHER).enumerate() {
            interrupt.check()?;
            progress((number * TOGETHER) as f64 / files.len() as f64);
            let mut open = Vec::new();
            for path in some {
                let file =
                    File::create(path).map_err(|error| Error::io("cannot make", path.display(), error))?;
                open.push((file, path, self.length()));
            }
            while !open.is_empty() {
                for (file, path, rest) in &mut open {
                    let piece = (*rest).min(PIECE);
                    self.write(file, path, piece)?;
                    *rest -= piece;
                    // Blocks are allocated when data are written back.
                    rustix::fs::fdatasync(&*file)
                        .map_err(|error| Error::io("cannot write back", path.display(), error))?;
                }
                open.retain(|(_, _, rest)| *rest > 0);
            }
        }
        self.sync()
    }

    /// Deletes a third of the files and creates them anew in another order; appends to a tenth of all.
    fn age(&mut self, interrupt: &Interrupt, progress: &dyn Fn(f64)) -> Result<()> {
        self.files.shuffle(&mut self.random);
        let (third, tenth) = (self.files.len() / 3, self.files.len() / 10);
        let victims = self.files[..third].to_vec();
        for path in &victims {
            fs::remove_file(path).map_err(|error| Error::io("cannot remove", path.display(), error))?;
        }
        self.sync()?;
        let grown = self.files[third..third + tenth].to_vec();
        for (number, path) in victims.iter().rev().enumerate() {
            if number % 256 == 0 {
                interrupt.check()?;
                progress(number as f64 / third as f64);
            }
            self.create(path)?;
        }
        for path in &grown {
            let file = OpenOptions::new().append(true).open(path);
            let mut file = file.map_err(|error| Error::io("cannot open", path.display(), error))?;
            let length = self.random.random_range(1..GROWTH);
            self.write(&mut file, path, length)?;
        }
        self.sync()
    }
}

/// Lengths of all regular files below a directory.
pub(crate) fn bytes_below(root: &Path) -> Result<Bytes> {
    let mut sum = 0;
    each_below(root, &mut |_, metadata| {
        sum += if metadata.is_file() { metadata.len() } else { 0 };
        Ok(())
    })?;
    Ok(Bytes(sum))
}

/// Calls with each file and directory below a directory, and with itself; follows no links.
pub(crate) fn each_below(
    root: &Path,
    each: &mut dyn FnMut(&Path, &fs::Metadata) -> Result<()>,
) -> Result<()> {
    let cannot = |path: &Path, error| Error::io("cannot read", path.display(), error);
    let mut todo = vec![root.to_owned()];
    while let Some(path) = todo.pop() {
        let metadata = fs::symlink_metadata(&path).map_err(|error| cannot(&path, error))?;
        each(&path, &metadata)?;
        if metadata.is_dir() {
            for entry in fs::read_dir(&path).map_err(|error| cannot(&path, error))? {
                todo.push(entry.map_err(|error| cannot(&path, error))?.path());
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listed(root: &Path) -> Vec<(PathBuf, u64)> {
        let mut all = Vec::new();
        each_below(root, &mut |path, metadata| {
            let below = path.strip_prefix(root).expect("below").to_owned();
            all.push((below, if metadata.is_file() { metadata.len() } else { 0 }));
            Ok(())
        })
        .expect("listed");
        all.sort();
        all
    }

    #[test]
    fn a_seed_makes_the_same_tree_and_another_seed_another() {
        let folder = tempfile::tempdir().expect("a folder");
        let make = |name: &str, tree: Tree, seed| {
            let root = folder.path().join(name);
            let made = tree.make(&root, 0.004, seed, &Interrupt::default(), &|_| ()).expect("made");
            assert!(made.given.is_dir());
            listed(&root)
        };
        for tree in [Tree::Fresh, Tree::Aged, Tree::Maildir] {
            let name = tree.name();
            let one = make(&format!("{name}1"), tree, 1);
            assert!(one.len() > 200, "{name}: {}", one.len());
            assert_eq!(one, make(&format!("{name}2"), tree, 1));
            assert_ne!(one, make(&format!("{name}3"), tree, 2));
        }
    }
}
