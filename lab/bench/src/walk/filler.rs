//! A file system that is nearly full: what is free lies in pieces all over the disk, and so do new files.
//!
//! All of it is given to files of one size by `fallocate`, which writes no contents. Then some of them, drawn from a
//! seed, are removed.

use crate::{Error, Result};
use foreseek_rig::Interrupt;
use foreseek_units::Bytes;
use rand::SeedableRng;
use rand::seq::SliceRandom;
use rand_pcg::Pcg64Mcg;
use rustix::fs::{FallocateFlags, fallocate, statvfs};
use rustix::io::Errno;
use std::fs::{self, File};
use std::path::Path;

/// The size of a free piece: a hundred directories of small files, and far less than ext4's groups of blocks.
const PIECE: Bytes = Bytes::mib(16);
/// The directory with what fills the file system.
const FOLDER: &str = "filler";

/// Fills a file system up to this share.
///
/// # Errors
/// The system's, and an interrupt.
pub(crate) fn fill(root: &Path, share: f64, seed: u64, interrupt: &Interrupt) -> Result<()> {
    let folder = root.join(FOLDER);
    fs::create_dir(&folder).map_err(|error| Error::io("cannot make", folder.display(), error))?;
    let mut pieces = Vec::new();
    loop {
        interrupt.check()?;
        let path = folder.join(pieces.len().to_string());
        let is_made = allocate(&path)?;
        pieces.push(path);
        if !is_made {
            break;
        }
    }
    pieces.shuffle(&mut Pcg64Mcg::seed_from_u64(seed));
    for path in pieces.iter().take(too_many(root, share)?) {
        fs::remove_file(path).map_err(|error| Error::io("cannot remove", path.display(), error))?;
    }
    let all = File::open(root).map_err(|error| Error::io("cannot open", root.display(), error))?;
    rustix::fs::syncfs(&all).map_err(|error| Error::io("cannot write back", root.display(), error))
}

/// Makes a piece; returns whether there was room for it.
fn allocate(path: &Path) -> Result<bool> {
    let file = File::create(path).map_err(|error| Error::io("cannot make", path.display(), error))?;
    match fallocate(&file, FallocateFlags::empty(), 0, PIECE.get()) {
        Ok(()) => Ok(true),
        Err(Errno::NOSPC) => Ok(false),
        Err(error) => Err(Error::io("cannot reserve", path.display(), error)),
    }
}

/// How many pieces are more than this share of a file system.
fn too_many(root: &Path, share: f64) -> Result<usize> {
    let found = statvfs(root).map_err(|error| Error::io("cannot look at", root.display(), error))?;
    let used = found.f_blocks - found.f_bfree;
    let more = (used as f64 - share * found.f_blocks as f64).max(0.0);
    Ok((more * found.f_frsize as f64 / PIECE.get() as f64) as usize)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::mount::{MountFlags, UnmountFlags, mount, unmount};

    /// The pieces that are left of a file system of 20, and the share that is in use.
    fn filled(share: f64, seed: u64) -> (Vec<String>, f64) {
        let place = tempfile::tempdir().unwrap();
        mount("none", place.path(), "tmpfs", MountFlags::empty(), Some(c"size=320m")).unwrap();
        let made = fill(place.path(), share, seed, &Interrupt::default());
        let found = statvfs(place.path());
        let left = fs::read_dir(place.path().join(FOLDER)).map(|all| {
            let name =
                |entry: std::io::Result<fs::DirEntry>| entry.unwrap().file_name().into_string().unwrap();
            let mut names: Vec<String> = all.map(name).collect();
            names.sort();
            names
        });
        unmount(place.path(), UnmountFlags::DETACH).unwrap();
        made.unwrap();
        let found = found.unwrap();
        (left.unwrap(), 1.0 - found.f_bfree as f64 / found.f_blocks as f64)
    }

    #[test]
    fn a_file_system_is_filled_up_to_a_share_with_free_pieces_that_a_seed_draws() {
        if !rustix::process::geteuid().is_root() {
            println!("SKIPPED: file systems are mounted by root");
            return;
        }
        let (pieces, used) = filled(0.5, 1);
        assert!(pieces.len() == 11 && (used - 0.5).abs() < 0.01, "{used}: {pieces:?}");
        assert_eq!(filled(0.5, 1).0, pieces);
        assert_ne!(filled(0.5, 2).0, pieces);
    }
}
