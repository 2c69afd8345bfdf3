//! Whether a source can be mounted at a place, and freeing a mount point of a dead server's leftovers.

use crate::{Error, MountOptions};
use foreseek_server::Context;
use foreseek_server::mount_table::{MountLine, force_unmount, mounted_on};
use std::path::{Path, PathBuf, absolute};

/// The file system type in the mount table.
pub(crate) const KIND: &str = "fuse.foreseek";

/// The options with absolute paths, if they can be carried out.
pub(crate) fn check(options: &MountOptions) -> Result<MountOptions, Error> {
    let source = directory(&options.source)
        .map_err(|reason| Error::Source { path: options.source.clone(), reason })?;
    let wrong = |reason: &str| Error::MountPoint { path: options.mount_point.clone(), reason: reason.into() };
    let mount_point = directory(&options.mount_point)
        .map_err(|reason| wrong(&format!("{reason}; give an empty directory that exists")))?;
    if mount_point != source {
        if mount_point.starts_with(&source) {
            return Err(wrong("it lies within the source, which would then contain itself; give another"));
        }
        let mut names = std::fs::read_dir(&mount_point).context("list", &mount_point)?;
        if names.next().is_some() {
            return Err(wrong("it is not empty, and what it holds would be hidden; give an empty directory"));
        }
    }
    Ok(MountOptions { source, mount_point, ..options.clone() })
}

fn directory(path: &Path) -> Result<PathBuf, String> {
    let real = path.canonicalize().map_err(|error| match error.kind() {
        std::io::ErrorKind::NotFound => "it does not exist".to_owned(),
        _ => format!("it cannot be reached ({error})"),
    })?;
    if real.is_dir() { Ok(real) } else { Err("it is not a directory".to_owned()) }
}

/// The path of a mount point by which its mount is known. The point itself is not accessed: a dead mount
/// would return an error, and a silent one would not answer.
pub(crate) fn name_of(path: &Path) -> PathBuf {
    let path = absolute(path).unwrap_or_else(|_| path.to_owned());
    match (path.parent().map(Path::canonicalize), path.file_name()) {
        (Some(Ok(parent)), Some(name)) => parent.join(name),
        _ => path,
    }
}

/// Whether a mount of ours is there, dead or alive.
pub(crate) fn is_ours(point: &Path) -> bool {
    mounted_on(point).as_ref().is_some_and(is_mount_of_ours)
}

fn is_mount_of_ours(line: &MountLine) -> bool {
    line.kind == KIND
}

/// Unmounts our file system there, even if it is in use and its server is silent: requests that wait for an
/// answer fail.
pub(crate) fn free(point: &Path) -> Result<(), Error> {
    Ok(force_unmount(point, is_mount_of_ours)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_mounted_is_refused_with_its_reason() {
        let place = tempfile::tempdir().expect("a directory");
        let path = |name: &str| place.path().join(name);
        for name in ["source/inside", "full/x", "empty"] {
            std::fs::create_dir_all(path(name)).expect("made");
        }
        std::fs::write(path("file"), "").expect("written");
        let said = |source: &str, point: &str| {
            check(&MountOptions::new(path(source), path(point))).err().map(|error| error.to_string())
        };
        assert_eq!(said("source", "empty"), None);
        assert_eq!(said("source", "source"), None);
        for (source, point, words) in [
            ("none", "empty", "does not exist"),
            ("file", "empty", "not a directory"),
            ("source", "none", "does not exist"),
            ("source", "file", "not a directory"),
            ("source", "full", "not empty"),
            ("source", "source/inside", "within the source"),
        ] {
            let said = said(source, point).expect(words);
            assert!(said.contains(words), "{said}");
        }
    }
}
