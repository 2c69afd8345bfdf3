//! The mounted file systems, and which of them are worth watching.
//!
//! Source: proc_pid_mountinfo(5). The file becomes readable with priority (`POLLPRI`) when mounts change.
//!
//! File systems that report addresses on a disk (ext4, xfs, f2fs, jfs) are watched if their device seeks.
//! Others are skipped, with the reason. On storage that does not seek there is nothing to gain, and every open
//! would still cost its program time.
//!
//! Nothing is opened that a program or another machine serves, or that is reached through such a mount: if the
//! server does not answer, an open waits for ever. The type in the table of mounts shows this in advance
//! ([`left_alone_unopened`], [`Ways`]).

use foreseek_places::{OrderBy, Volume};
use foreseek_storage::{BackingDevice, DeviceNumber};
use rustc_hash::{FxHashMap, FxHashSet};
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// The kinds of file systems that are watched; ext2 and ext3 are names of ext4, too.
const WATCHED: [&str; 4] = ["ext4", "xfs", "f2fs", "jfs"];
/// The most mounts that are examined: container hosts have a few thousand.
const MOUNTS: usize = 16 * 1024;

/// One mount.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Mount {
    /// Its number, and that of its parent mount.
    pub(crate) id: (u32, u32),
    /// Its device, `st_dev` of its files on most file systems.
    pub(crate) device: DeviceNumber,
    /// The part of the file system that it shows.
    pub(crate) root: PathBuf,
    /// The mount point.
    pub(crate) point: PathBuf,
    /// The type of file system.
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
pub(crate) fn one_each<'a>(all: impl IntoIterator<Item = &'a Mount>) -> Vec<&'a Mount> {
    let mut best: Vec<&Mount> = Vec::new();
    let mut places: FxHashMap<DeviceNumber, usize> = FxHashMap::default();
    for mount in all {
        let at = *places.entry(mount.device).or_insert(best.len());
        match best.get_mut(at) {
            Some(known) if mount.root.as_os_str().len() < known.root.as_os_str().len() => *known = mount,
            Some(_) => {}
            None => best.push(mount),
        }
    }
    best
}

/// What is to be looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Look {
    /// All file systems: mounts have changed.
    All,
    /// Those that are left alone: the reason may have passed.
    LeftAlone,
}

/// After so long it is looked again at what is left alone for a reason that may pass. Whoever removes the reason hardly
/// waits for longer, and some milliseconds a minute cost nothing.
const AGAIN: Duration = Duration::from_secs(60);

/// When the mounts are to be read: after each change, and at most a tenth of the time. A user may mount and unmount
/// in a loop. Without a change, after [`AGAIN`] where something may be watched by then.
#[derive(Debug, Default)]
pub(crate) struct Pace {
    changed: bool,
    rests_until: Option<Instant>,
    again: Option<(Instant, Look)>,
}

impl Pace {
    /// They have changed.
    pub(crate) fn changed(&mut self) {
        self.changed = true;
    }

    /// In how long they are to be read, and what is looked at then; `None` until they change.
    pub(crate) fn next(&self, now: Instant) -> Option<(Duration, Look)> {
        let until = |at: Option<Instant>| at.map(|at| at.saturating_duration_since(now)).unwrap_or_default();
        let rest = until(self.rests_until);
        let changed = self.changed.then_some((rest, Look::All));
        let again = self.again.map(|(at, look)| (rest.max(until(Some(at))), look));
        // Of two at one time the first.
        changed.into_iter().chain(again).min_by_key(|(wait, _)| *wait)
    }

    /// They are read, which takes from `begun` to `ended`. `again`: what is to be looked at even if they do not change.
    pub(crate) fn read(&mut self, begun: Instant, ended: Instant, again: Option<Look>) {
        let again = again.map(|look| (ended + AGAIN, look));
        *self = Self { changed: false, rests_until: Some(ended + (ended - begun) * 9), again };
    }
}

/// The mount points on a mount, relative to its root.
pub(crate) fn covered<'a>(all: &'a [Mount], of: &Mount) -> Vec<&'a Path> {
    let on_it = all.iter().filter(|mount| mount.id.1 == of.id.0 && mount.id.0 != of.id.0);
    on_it.filter_map(|mount| mount.point.strip_prefix(&of.point).ok()).collect()
}

/// The mounts by the paths that lead to them.
#[derive(Debug)]
pub(crate) struct Ways<'a> {
    /// By parent mount, if known, and by mount point.
    on: FxHashMap<(Option<u32>, &'a Path), &'a Mount>,
}

impl<'a> Ways<'a> {
    pub(crate) fn new(all: &'a [Mount]) -> Self {
        let known: FxHashSet<u32> = all.iter().map(|mount| mount.id.0).collect();
        let below = |mount: &Mount| {
            let (own, below) = mount.id;
            (below != own && known.contains(&below)).then_some(below)
        };
        Self { on: all.iter().map(|mount| ((below(mount), mount.point.as_path()), mount)).collect() }
    }

    /// The mounts that a path lookup passes, from the first; the last one holds the path.
    fn way(&self, path: &'a Path) -> Vec<&'a Mount> {
        let mut way: Vec<&Mount> = Vec::new();
        let parts: Vec<&Path> = path.ancestors().collect();
        for part in parts.into_iter().rev() {
            // Several may be mounted at one path, one on the other.
            while let Some(next) = self.on.get(&(way.last().map(|mount| mount.id.0), part))
                && way.len() < self.on.len()
            {
                way.push(next);
            }
        }
        way
    }

    /// Whether a mount is visible at its mount point: another may be mounted on it, or on a directory above.
    pub(crate) fn lead_to(&self, mount: &'a Mount) -> bool {
        self.way(&mount.point).last().is_some_and(|last| last.id == mount.id)
    }

    /// The mount on the way to another that may block a lookup. The root does not count: if it blocks, nothing
    /// works anyway.
    fn may_block_at(&self, mount: &'a Mount) -> Option<&'a Mount> {
        let passed = self.way(&mount.point).into_iter().filter(|passed| passed.id != mount.id);
        passed.filter(|passed| passed.point != Path::new("/")).find(|passed| served(&passed.kind).is_some())
    }
}

/// Why a file system may block, if not this kernel alone serves it. These are the names that the kernel shows.
fn served(kind: &str) -> Option<&'static str> {
    // OrangeFS calls itself by its old name.
    const ELSEWHERE: [&str; 20] = [
        "nfs",
        "nfs4",
        "cifs",
        "smb3",
        "smbfs",
        "ncpfs",
        "9p",
        "virtiofs",
        "vboxsf",
        "vmhgfs",
        "prl_fs",
        "ceph",
        "afs",
        "coda",
        "lustre",
        "beegfs",
        "gpfs",
        "pvfs2",
        "orangefs",
        "glusterfs",
    ];
    // Each machine waits for the locks of the others.
    const IN_COMMON: [&str; 3] = ["gfs2", "gfs2meta", "ocfs2"];
    if kind == "fuse" || kind == "fuseblk" || kind.starts_with("fuse.") {
        return Some("is served by a program (FUSE)");
    }
    if IN_COMMON.contains(&kind) {
        return Some("lies on a disk that other machines have as well");
    }
    ELSEWHERE.contains(&kind).then_some("lies on another machine")
}

/// Why a file system is not watched, as far as known before it is opened.
pub(crate) fn left_alone_unopened<'a>(mount: &'a Mount, ways: &Ways<'a>) -> Option<String> {
    let kind = mount.kind.as_str();
    if let Some(service) = served(kind) {
        return Some(format!("{kind} {service}"));
    }
    if let Some(before) = ways.may_block_at(mount) {
        let (point, kind) = (before.point.display(), &before.kind);
        return Some(format!("the way to it leads through {point}, and {kind} may make it wait"));
    }
    match kind {
        "btrfs" | "bcachefs" | "zfs" => {
            Some(format!("{kind} does not show where its files lie on a disk, and may span several"))
        }
        "overlay" => {
            Some("files of an overlay are read ahead on the file systems below it, where they lie".to_owned())
        }
        _ => None,
    }
}

/// Whether a file system holds no user files: made up by the kernel, or in memory. There may be hundreds of
/// these, and they are not listed.
pub(crate) fn is_without_files(mount: &Mount) -> bool {
    const MADE_UP: [&str; 28] = [
        "autofs",
        "binfmt_misc",
        "bpf",
        "cgroup",
        "cgroup2",
        "configfs",
        "cpuset",
        "debugfs",
        "devpts",
        "devtmpfs",
        "efivarfs",
        "fusectl",
        "hugetlbfs",
        "mqueue",
        "nfsd",
        "nsfs",
        "proc",
        "pstore",
        "ramfs",
        "resctrl",
        "rootfs",
        "rpc_pipefs",
        "securityfs",
        "selinuxfs",
        "smackfs",
        "sysfs",
        "tmpfs",
        "tracefs",
    ];
    MADE_UP.contains(&mount.kind.as_str())
}

/// Why a device is not worth watching, by what it says of itself (`queue/rotational`).
fn does_not_seek(device: DeviceNumber, rotational: Option<bool>) -> Option<String> {
    match rotational {
        Some(true) => None,
        Some(false) => {
            Some(format!("device {device} does not seek (queue/rotational is 0): nothing would be gained"))
        }
        None => Some(format!("nothing is known of device {device}: whether it seeks or not")),
    }
}

/// Why a file system that could be watched is not, as far as its device shows, without opening it.
pub(crate) fn left_alone_by_its_device(mount: &Mount, backing: &BackingDevice) -> Option<String> {
    let could_be_watched = ["ext2", "ext3"].iter().chain(&WATCHED).any(|kind| *kind == mount.kind);
    let known = backing.rotational.filter(|_| could_be_watched)?;
    does_not_seek(mount.device, Some(known))
}

/// Whether a file system that is left alone would be watched if its device said that it seeks: whoever knows better may
/// set that at any time.
pub(crate) fn may_seek_later(volume: &Volume) -> bool {
    volume.by == OrderBy::Address && WATCHED.contains(&volume.name)
}

/// Why a file system is not watched; `None` if it is worth watching.
pub(crate) fn left_alone(volume: &Volume) -> Option<String> {
    let (name, device) = (volume.name, volume.device);
    match (volume.by, volume.backing.rotational) {
        (OrderBy::Address, Some(true)) if !WATCHED.contains(&name) => {
            Some(format!("{name} is not one of those that are watched: {}", WATCHED.join(", ")))
        }
        (OrderBy::Address, rotational) => does_not_seek(device, rotational),
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
    fn mounts_with_any_names_are_read() {
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

    #[test]
    fn mounts_that_change_all_the_time_are_read_a_tenth_of_the_time() {
        let (mut pace, begin) = (Pace::default(), Instant::now());
        assert_eq!(pace.next(begin), None);
        pace.changed();
        assert_eq!(pace.next(begin), Some((Duration::ZERO, Look::All)), "the first change is seen at once");
        let read = Duration::from_millis(20);
        pace.read(begin, begin + read, None);
        assert_eq!(pace.next(begin + read), None);
        pace.changed();
        assert_eq!(pace.next(begin + read), Some((read * 9, Look::All)));
        assert_eq!(pace.next(begin + read * 10), Some((Duration::ZERO, Look::All)));
    }

    #[test]
    fn what_may_be_watched_later_is_looked_at_again_each_minute() {
        let (mut pace, begin) = (Pace::default(), Instant::now());
        for look in [Look::LeftAlone, Look::All] {
            pace.read(begin, begin, Some(look));
            assert_eq!(pace.next(begin), Some((AGAIN, look)));
            assert_eq!(pace.next(begin + AGAIN * 2), Some((Duration::ZERO, look)));
        }
        // A change is seen before that, and in place of it.
        pace.read(begin, begin, Some(Look::LeftAlone));
        pace.changed();
        for at in [begin, begin + AGAIN] {
            assert_eq!(pace.next(at), Some((Duration::ZERO, Look::All)));
        }
        // Neither makes it more than a tenth of the time.
        let read = AGAIN / 4;
        pace.read(begin, begin + read, Some(Look::LeftAlone));
        assert_eq!(pace.next(begin + read), Some((read * 9, Look::LeftAlone)));
        pace.read(begin, begin, None);
        assert_eq!(pace.next(begin), None, "nothing is left alone for a reason that may pass");
    }

    #[test]
    fn of_file_systems_on_disks_only_those_of_known_kinds_are_watched() {
        let directory = std::fs::File::open("/").unwrap();
        let device = DeviceNumber { major: 8, minor: 1 };
        let of = |name, by| {
            let mut volume = Volume::of(std::os::fd::AsFd::as_fd(&directory), device);
            volume.backing.rotational = Some(true);
            Volume { name, by, ..volume }
        };
        for name in WATCHED {
            assert_eq!(left_alone(&of(name, OrderBy::Address)), None);
        }
        let unknown = of("a file system of an unknown kind", OrderBy::Address);
        let reason = left_alone(&unknown).unwrap();
        assert!(reason.contains("unknown kind") && reason.contains("ext4, xfs"), "{reason}");
        // Only what it says of its device may change.
        assert!(may_seek_later(&of("ext4", OrderBy::Address)));
        assert!(!may_seek_later(&unknown) && !may_seek_later(&of("ext4", OrderBy::Inode)));
    }

    #[test]
    fn what_does_not_seek_is_known_before_it_is_opened() {
        let all = table(&[
            "30 22 8:17 / /ext3 rw - ext3 /dev/sdb1 rw",
            "31 22 8:18 / /xfs rw - xfs /dev/sdb2 rw",
            "32 22 8:19 / /udf rw - udf /dev/sdb3 rw",
        ]);
        let backing = |rotational| BackingDevice { rotational, ..BackingDevice::of(DeviceNumber::default()) };
        let known = |at: usize, rotational| left_alone_by_its_device(&all[at], &backing(rotational));
        assert!(known(0, Some(false)).unwrap().contains("8:17 does not seek"));
        assert!(known(1, Some(false)).unwrap().contains("8:18 does not seek"));
        // Others are left alone for another reason, and of these nothing is known yet.
        assert_eq!([known(2, Some(false)), known(0, Some(true)), known(1, None)], [None, None, None]);
    }

    #[test]
    fn no_kind_is_opened_that_may_wait_for_another_machine_or_a_program() {
        let kinds = ["nfs4", "smb3", "9p", "virtiofs", "vboxsf", "vmhgfs", "prl_fs", "ncpfs", "ceph", "afs"];
        let further = ["coda", "lustre", "beegfs", "gpfs", "pvfs2", "gfs2", "ocfs2", "fuse.glusterfs"];
        for kind in kinds.iter().chain(&further) {
            let all = table(&[
                "22 1 8:1 / / rw - ext4 /dev/sda1 rw",
                &format!("30 22 0:40 / /far rw - {kind} far rw"),
                "31 30 8:17 / /far/near rw - ext4 /dev/sdb1 rw",
            ]);
            let ways = Ways::new(&all);
            let reason = |at: usize| left_alone_unopened(&all[at], &ways);
            assert!(reason(1).is_some_and(|it| it.starts_with(&format!("{kind} "))), "{kind}");
            assert!(reason(2).is_some_and(|it| it.contains("through /far")), "{kind}");
            assert_eq!(reason(0), None);
        }
        // Local ones wait for nobody.
        let all = table(&["30 22 8:17 / /stick rw - exfat /dev/sdb1 rw"]);
        assert_eq!(left_alone_unopened(&all[0], &Ways::new(&all)), None);
    }

    fn table(lines: &[&str]) -> Vec<Mount> {
        mounts(lines.join("\n").as_bytes())
    }

    #[test]
    fn a_hidden_mount_is_not_found_at_its_mount_point() {
        let all = table(&[
            "1 1 0:1 / / rw - rootfs none rw",
            "22 1 8:1 / / rw - ext4 /dev/sda1 rw",
            "30 22 8:17 / /mnt/a rw - ext4 /dev/sdb1 rw",
            "31 30 8:33 / /mnt/a rw - xfs /dev/sdc1 rw",
            "32 22 8:49 / /srv/data rw - ext4 /dev/sdd1 rw",
            "33 22 0:50 / /srv rw - tmpfs none rw",
            "34 33 8:65 / /srv/data rw - ext4 /dev/sde1 rw",
        ]);
        let ways = Ways::new(&all);
        let found: Vec<u32> =
            all.iter().filter(|mount| ways.lead_to(mount)).map(|mount| mount.device.minor).collect();
        // The first root is hidden, as are the first mount on /mnt/a and the first one below /srv.
        assert_eq!(found, [1, 33, 50, 65]);
        // A process whose root is a directory: the mount that holds it is not in the table.
        let all = table(&["30 22 8:17 / /mnt/a rw - ext4 /dev/sdb1 rw"]);
        assert!(Ways::new(&all).lead_to(&all[0]));
    }

    #[test]
    fn mounts_that_may_block_are_known_before_they_are_opened() {
        let all = table(&[
            "22 1 0:20 / / rw - nfs4 host:/root rw",
            "30 22 8:17 / /data rw - ext4 /dev/sdb1 rw",
            "31 22 0:41 / /far rw - nfs4 host:/far rw",
            "32 31 8:33 / /far/near rw - xfs /dev/sdc1 rw",
            "33 22 0:42 / /home/me/s rw - fuse.sshfs me@host: rw",
            "34 22 8:49 / /win rw - fuseblk /dev/sdd1 rw",
            "35 22 0:43 / /pool rw - btrfs /dev/sde rw",
            "36 22 0:44 / /merged rw - overlay overlay rw",
            "37 22 0:45 / /proc rw - proc proc rw",
        ]);
        let ways = Ways::new(&all);
        let reasons: Vec<String> =
            all.iter().map(|mount| left_alone_unopened(mount, &ways).unwrap_or_default()).collect();
        let expected = [
            "another machine",
            "",
            "another machine",
            "through /far",
            "(FUSE)",
            "fuseblk is served",
            "span several",
            "overlay",
            "",
        ];
        for (reason, expected) in reasons.iter().zip(expected) {
            assert!(reason.contains(expected) && (!expected.is_empty() || reason.is_empty()), "{reason}");
        }
        assert!(is_without_files(&all[8]) && !is_without_files(&all[6]));
    }

    proptest! {
        #[test]
        fn ways_end_for_any_table(ids in prop::collection::vec((0..6u32, 0..6u32, 0..4usize), 0..12)) {
            let points = ["/", "/a", "/a/b", "/c"];
            let mount = |(own, below, at): &(u32, u32, usize)| Mount {
                id: (*own, *below),
                device: DeviceNumber { major: 8, minor: *own },
                root: "/".into(),
                point: points[*at].into(),
                kind: "ext4".to_owned(),
            };
            let all: Vec<Mount> = ids.iter().map(mount).collect();
            let ways = Ways::new(&all);
            let found = all.iter().filter(|mount| ways.lead_to(mount)).count();
            prop_assert!(found <= all.len());
        }

        #[test]
        fn no_text_makes_it_panic(text in prop::collection::vec(prop::sample::select(&b"1: /-\\04\n"[..]), 0..200)) {
            prop_assert!(mounts(&text).len() <= text.len());
        }
    }
}
