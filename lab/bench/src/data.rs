//! The data set: the files of the microbenchmarks, with real contents.
//!
//! Every page begins with a word that identifies its file and its offset, so that readers can check what they
//! got. The rest is noise that no layer can compress or leave out: a page of an `fallocate`d file would be read
//! without the disk.

use crate::{Error, Result};
use foreseek_rig::{Interrupt, extents_of};
use foreseek_seam::Extent;
use foreseek_simulate::program::FileSpec;
use foreseek_units::{Bytes, PAGE_SIZE};
use rand_core::{Rng, SeedableRng};
use rand_pcg::Pcg64Mcg;
use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};

/// How much is written at a time.
const PIECE: usize = 1 << 20;

/// The path of a file below the folder of the data set.
#[must_use]
pub(crate) fn path(file: u32, directory: u32) -> PathBuf {
    PathBuf::from(format!("d{directory:03}")).join(format!("f{file:05}"))
}

/// The word at the start of a page: an odd multiple of its number in the whole set, so that no two pages share
/// one.
#[must_use]
pub(crate) const fn word(file: u32, page: u64) -> u64 {
    (((file as u64) << 32) | page).wrapping_mul(0x9e37_79b9_7f4a_7c15).wrapping_add(1)
}

/// Checks every whole page of what was read; returns the first wrong one.
#[must_use]
pub(crate) fn wrong_page(file: u32, offset: u64, bytes: &[u8]) -> Option<u64> {
    let first = offset.next_multiple_of(PAGE_SIZE);
    let pages = (first..offset + bytes.len() as u64).step_by(PAGE_SIZE as usize);
    pages.map(|at| (at / PAGE_SIZE, (at - offset) as usize)).find_map(|(page, at)| {
        let begin = bytes.get(at..at + 8)?;
        (begin != word(file, page).to_le_bytes()).then_some(page)
    })
}

/// Writes the files, in order, and syncs them. Reports the share that is done to `progress`.
pub(crate) fn write(
    folder: &Path,
    files: &[FileSpec],
    interrupt: &Interrupt,
    progress: &dyn Fn(f64),
) -> Result<()> {
    let mut noise = vec![0; PIECE];
    Pcg64Mcg::seed_from_u64(1).fill_bytes(&mut noise);
    for (number, spec) in files.iter().enumerate() {
        interrupt.check()?;
        let path = folder.join(path(number as u32, spec.directory));
        let cannot = |error| Error::io("cannot write", path.display(), error);
        if let Some(parent) = path.parent() {
            fs::create_dir_all(parent).map_err(cannot)?;
        }
        let mut file = File::create(&path).map_err(cannot)?;
        let mut at = 0;
        while at < spec.length.get() {
            let length = (spec.length.get() - at).min(PIECE as u64) as usize;
            for begin in (0..length).step_by(PAGE_SIZE as usize) {
                let page = (at + begin as u64) / PAGE_SIZE;
                noise[begin..begin + 8].copy_from_slice(&word(number as u32, page).to_le_bytes());
            }
            file.write_all(&noise[..length]).map_err(cannot)?;
            at += length as u64;
        }
        progress((number + 1) as f64 / files.len() as f64);
    }
    let all = File::open(folder).map_err(|error| Error::io("cannot open", folder.display(), error))?;
    rustix::fs::syncfs(&all).map_err(|error| Error::io("cannot write back", folder.display(), error))
}

/// The extents of each file.
pub(crate) fn extents(folder: &Path, files: &[FileSpec]) -> Result<Vec<Vec<Extent>>> {
    let of = |(number, spec): (usize, &FileSpec)| {
        Ok(extents_of(&folder.join(path(number as u32, spec.directory)))?)
    };
    files.iter().enumerate().map(of).collect()
}

/// Space beside the data set: the journal and the tables of its file system.
pub(crate) const BESIDE: Bytes = Bytes::mib(512);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_of_another_place_is_seen() {
        let folder = tempfile::tempdir().expect("a folder");
        let files = [
            FileSpec { length: Bytes(10_000), directory: 0 },
            FileSpec { length: Bytes(8192), directory: 1 },
        ];
        let told = std::cell::Cell::new(0.0);
        write(folder.path(), &files, &Interrupt::default(), &|share| told.set(share)).expect("written");
        assert_eq!(told.get(), 1.0);
        let first = fs::read(folder.path().join("d000/f00000")).expect("there");
        assert_eq!(first.len(), 10_000);
        assert_eq!(wrong_page(0, 0, &first), None);
        assert_eq!(wrong_page(0, 4096, &first[4096..]), None);
        assert_eq!(wrong_page(0, 100, &first[100..]), None);
        // A page of another file, and one of the same file from another offset.
        assert_eq!(wrong_page(1, 0, &first), Some(0));
        assert_eq!(wrong_page(0, 0, &first[4096..]), Some(0));
        let mut stale = first.clone();
        stale[8192] ^= 1;
        assert_eq!(wrong_page(0, 0, &stale), Some(2));
    }
}
