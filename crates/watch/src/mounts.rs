//! Which file systems are mounted, and which of them are worth watching.
//!
//! Source: proc_pid_mountinfo(5). The file becomes readable with priority (`POLLPRI`) when mounts change.
//!
//! Watched are file systems that tell places on a disk (ext4, xfs, f2fs, jfs) on a device that seeks. Others are
//! left alone, with the reason: on storage that does not seek there is nothing to gain, and every
//! open would cost its program time all the same.

use foreseek_places::{OrderBy, Volume};
use foreseek_storage::DeviceNumber;
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

/// Mounts that are looked at: container hosts have a few thousand.
const MOUNTS: usize = 16 * 1024;

/// One mount.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Mount {
    /// Its number, and that of the mount on which it lies.
    pub(crate) id: (u32, u32),
    /// Its device, `st_dev` of its files on most file systems.
    pub(crate) device: DeviceNumber,
    /// The part of the file system that it shows.
    pub(crate) root: PathBuf,
    /// Where it is.
    pub(crate) point: PathBuf,
    /// The kind of file system.
    pub(crate) kind: String,
}

/// All mounts in the text of `/proc/self/mountinfo`.
pub(crate) fn mounts(text: &[u8]) -> Vec<Mount> {
    text.split(|byte| *byte == b'\n').filter_map(mount).take(MOUNTS).collect()
}

fn mount(line: &[u8]) -> Option<Mount> {
    let fields: Vec<&[u8]> = line.split(|byte| *byte == b' ').collect();
    let text = |field: &[u8]| Some(std::str::from_utf8(field).ok()?.to_owned());
    let (major, minor) = std::str::from_utf8(fields.get(2)?).ok()?.split_once(':')?;
    let number = |at: usize| std::str::from_utf8(fields.get(at)?).ok()?.parse().ok();
    let dash = fields.iter().position(|field| *field == b"-")?;
    Some(Mount {
        id: (number(0)?, number(1)?),
        device: DeviceNumber { major: major.parse().ok()?, minor: minor.parse().ok()? },
        root: unescaped(fields.get(3)?),
        point: unescaped(fields.get(4)?),
        kind: text(fields.get(dash + 1)?)?,
    })
}

/// Undoes the kernel's octal escapes (`\040` for a space).
fn unescaped(field: &[u8]) -> PathBuf {
    let mut plain = Vec::with_capacity(field.len());
    let mut rest = field;
    while let Some((first, after)) = rest.split_first() {
        let code = after.get(..3).and_then(|digits| std::str::from_utf8(digits).ok());
        match code.and_then(|digits| u8::from_str_radix(digits, 8).ok()).filter(|_| *first == b'\\') {
            Some(code) => {
                plain.push(code);
                rest = &after[3..];
            }
            None => {
                plain.push(*first);
                rest = after;
            }
        }
    }
    OsString::from_vec(plain).into()
}

/// The best mount of each file system: the one that shows most of it.
pub(crate) fn one_each(all: &[Mount]) -> Vec<&Mount> {
    let mut best: Vec<&Mount> = Vec::new();
    for mount in all {
        match best.iter_mut().find(|known| known.device == mount.device) {
            Some(known) if mount.root.as_os_str().len() < known.root.as_os_str().len() => *known = mount,
            Some(_) => {}
            None => best.push(mount),
        }
    }
    best
}

/// Where something is mounted on what a mount shows: paths from its root.
pub(crate) fn covered<'a>(all: &'a [Mount], of: &Mount) -> Vec<&'a Path> {
    let on_it = all.iter().filter(|mount| mount.id.1 == of.id.0 && mount.id.0 != of.id.0);
    on_it.filter_map(|mount| mount.point.strip_prefix(&of.point).ok()).collect()
}

/// Why a file system is left alone; nothing where it is worth watching.
pub(crate) fn left_alone(volume: &Volume) -> Option<String> {
    let (name, device) = (volume.name, volume.device);
    match (volume.by, volume.backing.rotational) {
        (OrderBy::Address, Some(true)) => None,
        (OrderBy::Address, Some(false)) => {
            Some(format!("device {device} does not seek: nothing would be gained"))
        }
        (OrderBy::Address, None) => {
            Some(format!("nothing is known of device {device}: whether it seeks or not"))
        }
        (OrderBy::Inode, _) => Some(format!("{name} does not show where its files lie on a disk")),
        (OrderBy::InMemory, _) => Some(format!("{name} is in memory")),
        (OrderBy::None, _) => Some(format!("{name} is made up by the kernel")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn mounts_are_read_whatever_their_names() {
        let text = b"22 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw\n\
                     30 22 8:17 /sub /mnt/a\\040b\\134\xff rw - xfs /dev/sdb1 rw\n\
                     31 22 8:17 / /mnt/whole rw master:2 shared:3 - xfs /dev/sdb1 rw\n\
                     nonsense\n32 22 0:4 / /proc rw - proc proc rw\n";
        let all = mounts(text);
        assert_eq!(all.len(), 4);
        assert_eq!(all[1].point.as_os_str().as_encoded_bytes(), b"/mnt/a b\\\xff");
        assert_eq!((all[0].device, all[0].kind.as_str()), (DeviceNumber { major: 8, minor: 1 }, "ext4"));
        let points: Vec<_> = one_each(&all).iter().map(|mount| mount.point.display().to_string()).collect();
        assert_eq!(points, ["/", "/mnt/whole", "/proc"]);
        let within: Vec<_> = covered(&all, &all[0]).iter().map(|path| path.as_os_str().len()).collect();
        assert_eq!(within, ["mnt/a b\\?".len(), "mnt/whole".len(), "proc".len()]);
    }

    proptest! {
        #[test]
        fn any_text_is_survived(text in prop::collection::vec(prop::sample::select(&b"1: /-\\04\n"[..]), 0..200)) {
            prop_assert!(mounts(&text).len() <= text.len());
        }
    }
}
