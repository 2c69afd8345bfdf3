//! A walk over a tree of small files, as grep -r, tar, rsync, du and backups make it.
//!
//! No paper has it. Sizes, counts and think times are assumptions: directories of 12 files, with exponentially
//! distributed sizes of 12 KiB on average, as in a source or documentation tree. A program lists a directory
//! and then uses its files, one after the other, in the order of the listing (on ext4 by hash: grep -r, tar,
//! find, du), of inodes (cp, borg) or of names (rsync, git), each forwards or backwards. In random order it lists
//! all of its directories first, and then uses their files anywhere (a training job). With several threads each
//! takes the next directory in turn (rg), or has a part of the tree of its own (programs beside each other). Of a file that is not opened the attributes are read (`stat`);
//! of one that is opened a share is read from its start.

use super::WorkloadError;
use super::draw::{hash, hashed_share};
use super::parameters::{Checked, ReadingOrder, Walk};
use super::script::{Script, Source, Steps};
use crate::program::{Drive, FileNumber, FileSpec, Handle, Program, ROOT, Workload};
use foreseek_units::{ByteOffset, Bytes};
use rand::RngExt;
use rand::seq::SliceRandom;
use rand_core::Rng;
use std::sync::Arc;

/// Files of a directory.
const FILES: u32 = 12;
/// Mean length of a file.
const MEAN: Bytes = Bytes::kib(12);
/// The shortest and the longest file.
const SHORTEST: Bytes = Bytes(200);
const LONGEST: Bytes = Bytes::mib(1);
/// All files: some 30,000.
const DATA: Bytes = Bytes::mib(350);
/// Private memory of a process.
const MEMORY: Bytes = Bytes::mib(1);
/// A program's buffer.
const BUFFER: Bytes = Bytes::kib(128);

/// The files of each directory in the order of its listing; the root is the parent of all.
pub(crate) type Directories = Arc<Vec<Vec<FileNumber>>>;

pub(super) fn walk(parameters: &mut Checked<'_>) -> Result<Box<dyn Workload>, WorkloadError> {
    let mean = parameters.file_size(MEAN, SHORTEST)?;
    let data = parameters.data_size(DATA, mean)?;
    let walk = parameters.walk()?;
    let files = u32::try_from(data.get() / mean.get()).unwrap_or(u32::MAX).max(1);
    let specs: Vec<FileSpec> = (0..files).map(|file| spec(file, files, mean, walk.scattered)).collect();
    let mut directories = vec![Vec::new(); files.div_ceil(FILES) as usize];
    for (file, spec) in specs.iter().enumerate() {
        directories[spec.directory as usize].push(FileNumber(file as u32));
    }
    for directory in &mut directories {
        directory.sort_by_key(|file| hash(u64::from(file.0)));
    }
    Ok(Box::new(Walks { specs: specs.into(), directories: Arc::new(directories), walk }))
}

/// The file of a number: created directory by directory, or scattered over the tree.
fn spec(file: u32, files: u32, mean: Bytes, scattered: bool) -> FileSpec {
    let length = -(1.0 - hashed_share(u64::from(file))).ln() * mean.get() as f64;
    let length = Bytes(length as u64).clamp(SHORTEST, LONGEST);
    let directories = files.div_ceil(FILES);
    let directory = if scattered {
        (hash(u64::from(file) ^ 0x5ca7) % u64::from(directories)) as u32
    } else {
        file / FILES
    };
    FileSpec { length, directory }
}

struct Walks {
    specs: Arc<[FileSpec]>,
    directories: Directories,
    walk: Walk,
}

impl Workload for Walks {
    fn files(&self) -> Vec<FileSpec> {
        self.specs.to_vec()
    }

    fn drive(&self) -> Drive {
        Drive::Jobs(self.walk.threads)
    }

    fn program(&mut self, number: u64, _random: &mut dyn Rng) -> Box<dyn Program> {
        let mut order: Vec<u32> = (0..self.directories.len() as u32).collect();
        sort(&mut order, self.walk, |directory| u64::from(*directory));
        let (number, threads) = (number as usize, self.walk.threads as usize);
        let mine = if self.walk.apart {
            let start = |part: usize| order.len() * part / threads;
            order[start(number)..start(number + 1)].iter().copied().collect()
        } else {
            order.into_iter().skip(number).step_by(threads).collect()
        };
        Script::boxed(Walker {
            specs: Arc::clone(&self.specs),
            directories: Arc::clone(&self.directories),
            walk: self.walk,
            left: mine,
            shuffled: None,
            begun: false,
        })
    }

    fn tree(&self) -> Option<Arc<Vec<Vec<FileNumber>>>> {
        Some(Arc::clone(&self.directories))
    }
}

/// Sorts names into the order in which a program reads them; the number is the order of inodes.
fn sort<T>(names: &mut [T], walk: Walk, number: impl Fn(&T) -> u64) {
    names.sort_by_key(|name| match walk.order {
        ReadingOrder::Listing | ReadingOrder::Random => hash(number(name)),
        ReadingOrder::Inode => number(name),
        ReadingOrder::Name => hash(number(name) ^ NAMES),
    });
    if walk.reversed {
        names.reverse();
    }
}

/// Separates the order of names from that of listings.
const NAMES: u64 = 0x6e61_6d65;

/// The position of an entry in a listing.
pub(crate) fn listing_place(number: u32) -> u64 {
    hash(u64::from(number))
}

/// A file's name for sorting, as a watcher gets it.
pub(crate) fn name(number: u32) -> [u8; 8] {
    hash(u64::from(number) ^ NAMES).to_be_bytes()
}

/// One thread of the program, or one program of several.
struct Walker {
    specs: Arc<[FileSpec]>,
    directories: Directories,
    walk: Walk,
    left: std::collections::VecDeque<u32>,
    /// In random order: the files that are left, once all directories are listed.
    shuffled: Option<Vec<FileNumber>>,
    begun: bool,
}

impl Walker {
    fn file(&self, file: FileNumber, random: &mut dyn Rng, steps: &mut Steps) {
        let length = self.specs[file.0 as usize].length;
        if !self.walk.think.is_zero() {
            steps.compute(self.walk.think);
        }
        if random.random::<f64>() >= self.walk.opened {
            return steps.stat(file);
        }
        let handle = Handle(0);
        steps.open(handle, file, None);
        let end = length.scale(self.walk.read);
        let mut at = Bytes::ZERO;
        while at < end {
            let part = BUFFER.min(end - at);
            steps.read(handle, ByteOffset(at.get()), part);
            at += part;
        }
        steps.close(handle);
    }
}

impl Walker {
    /// The next files of all directories, in random order: as many as a directory has.
    fn next_of_all(&mut self, random: &mut dyn Rng, steps: &mut Steps) {
        if self.shuffled.is_none() {
            let mut files: Vec<FileNumber> = Vec::new();
            for directory in std::mem::take(&mut self.left) {
                steps.list(directory);
                files.extend(&self.directories[directory as usize]);
            }
            files.shuffle(random);
            self.shuffled = Some(files);
        }
        let files = self
            .shuffled
            .as_mut()
            .map_or(Vec::new(), |left| left.split_off(left.len().saturating_sub(FILES as usize)));
        if files.is_empty() {
            return;
        }
        for file in files {
            self.file(file, random, steps);
        }
        steps.finished();
    }
}

impl Source for Walker {
    fn more(&mut self, random: &mut dyn Rng, steps: &mut Steps) {
        if !std::mem::replace(&mut self.begun, true) {
            steps.list(ROOT);
        }
        if self.walk.order == ReadingOrder::Random {
            return self.next_of_all(random, steps);
        }
        let Some(directory) = self.left.pop_front() else { return };
        steps.list(directory);
        let mut files = self.directories[directory as usize].clone();
        sort(&mut files, self.walk, |file| u64::from(file.0));
        for file in files {
            self.file(file, random, steps);
        }
        // A directory is a part of the work: its time shows how evenly the walk proceeds.
        steps.finished();
    }

    fn memory(&self) -> Bytes {
        MEMORY
    }
}
