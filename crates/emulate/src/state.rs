//! The state of a disk outside its server: its folder below `/run/foreseek/disks` ([`ServerFolder`]), whose
//! `mount/disk` is the file under the loop device.

use crate::Error;
use foreseek_export::NbdAddress;
use foreseek_server::{Kind, ServerFolder, ServerProcess};
use serde::{Deserialize, Serialize};
use std::io;
use std::path::{Path, PathBuf};

/// The kind of server.
const KIND: Kind = Kind::Disk;
/// The longest name of a server's folder.
const NAME_LIMIT: usize = 32;
/// The most disks; a default name is the first free one of so many.
const DISKS: usize = 256;

/// What a server records of itself and its disk.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Record {
    #[serde(flatten)]
    pub(crate) server: ServerProcess,
    pub(crate) ready: bool,
    pub(crate) profile: String,
    pub(crate) size_bytes: u64,
    #[serde(default)]
    pub(crate) failed_member: Option<usize>,
    pub(crate) backing: PathBuf,
    /// Whether the backing file is removed with the disk.
    pub(crate) remove_backing: bool,
    /// The FUSE connection's number, once mounted.
    pub(crate) connection: Option<u32>,
    /// The loop device, once attached.
    pub(crate) device: Option<PathBuf>,
    /// A memory cgroup created for the server.
    pub(crate) cgroup: Option<PathBuf>,
    /// The address of its NBD export.
    #[serde(default)]
    pub(crate) nbd: Option<NbdAddress>,
}

/// A folder that is removed when dropped.
pub(crate) struct GuardedFolder(pub(crate) ServerFolder);

impl Drop for GuardedFolder {
    fn drop(&mut self) {
        if let Err(error) = self.0.remove() {
            tracing::warn!("{error}");
        }
    }
}

/// Creates the folder of a disk of this name, or of the first free `diskN`.
///
/// # Errors
/// [`Error::Exists`], or the error of `mkdir`.
pub(crate) fn make(name: Option<&str>) -> Result<ServerFolder, Error> {
    let Some(name) = name else {
        for number in 0..DISKS {
            match make_named(&format!("disk{number}")) {
                Err(Error::Exists(_)) => {}
                made => return made,
            }
        }
        return Err(Error::Exists(format!("disk0 to disk{}", DISKS - 1)));
    };
    check_name(name)?;
    make_named(name)
}

fn make_named(name: &str) -> Result<ServerFolder, Error> {
    let folder = ServerFolder::of(KIND, name);
    match folder.make() {
        Ok(()) => Ok(folder),
        Err(error) if error.cause.kind() == io::ErrorKind::AlreadyExists => {
            Err(Error::Exists(name.to_owned()))
        }
        Err(error) => Err(error.into()),
    }
}

/// Every disk's folder, in order of name. `what` is to be done with them, for the error.
pub(crate) fn all(what: &'static str) -> Result<Vec<ServerFolder>, Error> {
    ServerFolder::all(KIND).map_err(|error| error.or_not_root(what))
}

/// The folder of the disk of this name or block device. `what` is to be done with it.
pub(crate) fn find(target: &str, what: &'static str) -> Result<ServerFolder, Error> {
    let device = Path::new(target);
    let is_device = |folder: &ServerFolder| {
        record(folder).and_then(|record| record.device).is_some_and(|known| known == device)
    };
    let mut all = all(what)?.into_iter();
    let found = all.find(|folder| folder.name() == target || is_device(folder));
    found.ok_or_else(|| Error::Unknown(target.to_owned()))
}

/// The record of a disk's server, if it can be read.
pub(crate) fn record(folder: &ServerFolder) -> Option<Record> {
    folder.record().ok().flatten()
}

/// A name must differ from options, from devices and from `all`.
fn check_name(name: &str) -> Result<(), Error> {
    let invalid =
        |reason: String| Err(Error::Invalid { option: "--name", value: format!("'{name}'"), reason });
    let fits = (1..=NAME_LIMIT).contains(&name.len())
        && name.starts_with(|first: char| first.is_ascii_alphanumeric())
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte));
    if !fits {
        return invalid(format!(
            "give 1 to {NAME_LIMIT} letters, digits, '-' and '_', a letter or digit first"
        ));
    }
    let is_device =
        name.strip_prefix("loop").is_some_and(|number| number.bytes().all(|byte| byte.is_ascii_digit()));
    if is_device || name == "all" {
        return invalid("the name would be ambiguous: give another".to_owned());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_neither_an_option_nor_a_device() {
        for name in ["disk0", "a", "7", "loopback", "all-of-it", "a_b-c"] {
            assert!(check_name(name).is_ok(), "{name}");
        }
        for name in ["", "--all", "-f", "_x", "all", "loop", "loop0", "loop17", "a/b", "..", "\u{e9}"] {
            let error = check_name(name).expect_err(name).to_string();
            assert!(error.starts_with(&format!("--name '{name}': ")), "{error}");
        }
    }
}
