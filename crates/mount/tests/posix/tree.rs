//! The contents of a directory that must be the same in the mount, its source and beside it.

use std::fs;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

/// A line for each name below a directory.
pub(crate) fn of(root: &Path) -> Vec<String> {
    let mut lines = Vec::new();
    add(root, root, &mut lines);
    lines.sort();
    lines
}

fn add(root: &Path, directory: &Path, lines: &mut Vec<String>) {
    for entry in fs::read_dir(directory).expect("read") {
        let path = entry.expect("an entry").path();
        let found = fs::symlink_metadata(&path).expect("there");
        let kind = found.file_type();
        let holds = if kind.is_symlink() {
            format!("-> {:?}", fs::read_link(&path).expect("read"))
        } else if kind.is_file() {
            let bytes = fs::read(&path).expect("read");
            let sum = bytes.iter().fold(0u64, |sum, byte| sum.wrapping_mul(31).wrapping_add((*byte).into()));
            format!("{} bytes, {sum:x}", bytes.len())
        } else if kind.is_char_device() || kind.is_block_device() {
            format!("device {:x}", found.rdev())
        } else {
            String::new()
        };
        let mut names = vec![0u8; 4096];
        let length = rustix::fs::llistxattr(&path, &mut names[..]).unwrap_or(0);
        lines.push(format!(
            "{:?} {:o} {}:{} {} links, {holds} {:?}",
            path.strip_prefix(root).expect("below"),
            found.mode(),
            found.uid(),
            found.gid(),
            if found.is_dir() { 0 } else { found.nlink() },
            String::from_utf8_lossy(&names[..length])
        ));
        if found.is_dir() {
            add(root, &path, lines);
        }
    }
}

/// The number of each file below a directory.
pub(crate) fn numbers(root: &Path) -> Vec<(PathBuf, u64)> {
    let mut found = Vec::new();
    let mut directories = vec![root.to_path_buf()];
    while let Some(directory) = directories.pop() {
        for entry in fs::read_dir(&directory).expect("read") {
            let path = entry.expect("an entry").path();
            let stat = fs::symlink_metadata(&path).expect("there");
            found.push((path.strip_prefix(root).expect("below").to_owned(), stat.ino()));
            directories.extend(stat.is_dir().then_some(path));
        }
    }
    found.sort();
    found
}
