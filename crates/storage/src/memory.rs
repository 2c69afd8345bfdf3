//! The memory available for cached pages: the limits of the machine and of the control groups, less other
//! use.
//!
//! For the control group of this process and each of its ancestors: the limit, less the group's use other
//! than file cache (the file pages on its reclaim lists can be reclaimed). For the machine: `MemAvailable`,
//! the kernel's own estimate of the same. The lowest value counts. Versions 1 and 2 of control groups are
//! read, also side by side. `memory.high` of a version 2 group counts as a limit, since the kernel throttles
//! a group that exceeds it.
//!
//! In version 2, the limit of an ancestor outside this process's control group namespace cannot be seen; in
//! version 1, the group's own `hierarchical_memory_limit` includes it.

use crate::small_file;
use foreseek_units::Bytes;
use std::path::{Path, PathBuf};

/// The memory assumed where not even `/proc` can be read: little for any machine that runs a database.
const FALLBACK: Bytes = Bytes::mib(64);

/// How many ancestors of a control group are read: the kernel's own default limit is far above, and trees
/// deeper than a dozen levels are not seen in practice.
const LEVELS_LIMIT: usize = 64;

/// What limits the memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Bound {
    /// The machine: `MemAvailable`.
    Machine,
    /// The limit of this control group.
    Group(PathBuf),
    /// Nothing could be read; the value is a cautious guess.
    Unknown,
}

/// The memory available for cached pages, including those that hold file data now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Available {
    /// How much.
    pub bytes: Bytes,
    /// What limits it.
    pub bound: Bound,
}

/// The memory that this process may fill with cached pages now.
#[must_use]
pub fn available() -> Available {
    available_within(Path::new("/"), None)
}

/// The same, leaving out one group, whose limit this process set itself.
#[must_use]
pub fn available_besides(own: &Path) -> Available {
    available_within(Path::new("/"), Some(own))
}

/// The same under another root directory.
fn available_within(root: &Path, besides: Option<&Path>) -> Available {
    let machine = small_file::read(&root.join("proc/meminfo"))
        .and_then(|text| machine_available(&text))
        .map(|bytes| Available { bytes, bound: Bound::Machine });
    let others = groups(root, SELF).into_iter().filter(|group| besides != Some(&group.path));
    let groups = others.filter_map(|group| {
        let bytes = group.free()?;
        Some(Available { bytes, bound: Bound::Group(group.path) })
    });
    machine
        .into_iter()
        .chain(groups)
        .min_by_key(|available| available.bytes)
        .unwrap_or(Available { bytes: FALLBACK, bound: Bound::Unknown })
}

/// The memory that the control groups of another process leave for its cached pages; `None` where no group
/// limits it, or none can be read.
#[must_use]
pub fn available_to(process: u32) -> Option<Bytes> {
    available_to_within(Path::new("/"), process)
}

fn available_to_within(root: &Path, process: u32) -> Option<Bytes> {
    groups(root, &process.to_string()).iter().filter_map(Group::free).min()
}

/// The machine's total memory; `None` where it cannot be read.
#[must_use]
pub fn machine_memory() -> Option<Bytes> {
    meminfo(&small_file::read(Path::new("/proc/meminfo"))?, "MemTotal")
}

/// A line of /proc/meminfo.
fn meminfo(text: &str, key: &str) -> Option<Bytes> {
    let line = text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(':'))?;
    line.trim().strip_suffix("kB")?.trim().parse().ok().map(Bytes::kib)
}

/// `MemAvailable`; on kernels before 3.14, which do not have it, free memory and caches.
fn machine_available(text: &str) -> Option<Bytes> {
    let kib = |key: &str| meminfo(text, key);
    kib("MemAvailable").or_else(|| {
        let free = kib("MemFree")?;
        Some(free + kib("Cached").unwrap_or_default() - kib("Shmem").unwrap_or_default())
    })
}

/// The version of a control group hierarchy; its files differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Version {
    V1,
    V2,
}

/// One control group that limits this process's memory.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Group {
    version: Version,
    path: PathBuf,
}

impl Group {
    /// Its limit, less its use other than file cache; `None` without a limit.
    fn free(&self) -> Option<Bytes> {
        let read = |file: &str| small_file::read(&self.path.join(file));
        let stat = read("memory.stat").unwrap_or_default();
        let (limit, used) = match self.version {
            Version::V1 => {
                let own = read("memory.limit_in_bytes").and_then(|text| limit(&text));
                let inherited =
                    stat_value(&stat, "hierarchical_memory_limit").filter(|bytes| !is_no_limit(*bytes));
                (own.into_iter().chain(inherited).min()?, read("memory.usage_in_bytes"))
            }
            Version::V2 => {
                let limits =
                    ["memory.max", "memory.high"].map(|file| read(file).and_then(|text| limit(&text)));
                (limits.into_iter().flatten().min()?, read("memory.current"))
            }
        };
        let used = used.and_then(|text| text.trim().parse().ok().map(Bytes)).unwrap_or_default();
        Some(limit - (used - file_cache(self.version, &stat)))
    }
}

/// The limit in a file; `None` for no limit.
fn limit(text: &str) -> Option<Bytes> {
    let text = text.trim();
    if text == "max" {
        return None;
    }
    text.parse().ok().map(Bytes).filter(|bytes| !is_no_limit(*bytes))
}

/// Version 1 writes "no limit" as the largest count of pages, in bytes.
fn is_no_limit(bytes: Bytes) -> bool {
    bytes.get() >= i64::MAX as u64 - 0xFFFF
}

fn stat_value(stat: &str, key: &str) -> Option<Bytes> {
    stat.lines().find_map(|line| {
        let (name, value) = line.split_once(' ')?;
        (name == key).then(|| value.trim().parse().ok().map(Bytes))?
    })
}

/// The file pages on a group's reclaim lists, descendants included.
fn file_cache(version: Version, stat: &str) -> Bytes {
    let keys = match version {
        Version::V1 => ["total_inactive_file", "total_active_file"],
        Version::V2 => ["inactive_file", "active_file"],
    };
    keys.into_iter().filter_map(|key| stat_value(stat, key)).sum()
}

/// The files that report how long tasks of this process's own control group waited for memory; version 2
/// alone.
pub(crate) fn pressure_files() -> Vec<PathBuf> {
    // The first group of each hierarchy is the process's own; the ancestors' counts include it.
    let own = groups(Path::new("/"), SELF).into_iter().find(|group| group.version == Version::V2);
    own.into_iter().map(|group| group.path.join("memory.pressure")).filter(|path| path.exists()).collect()
}

/// The name of this process in `/proc`.
const SELF: &str = "self";

/// The control groups that may limit a process's memory, as this process sees them: its own and their ancestors.
fn groups(root: &Path, process: &str) -> Vec<Group> {
    let read = |file: &str| small_file::read(&root.join(file)).unwrap_or_default();
    let mounts = mounts(&read("proc/self/mountinfo"));
    let mut groups = Vec::new();
    for (version, member) in memberships(&read(&format!("proc/{process}/cgroup"))) {
        // A group of another process that lies outside the mounted hierarchy cannot be seen.
        let is_seen = |mount: &&Mount| process == SELF || within(mount, &member).is_some();
        for mount in mounts.iter().filter(|mount| mount.version == version).filter(is_seen) {
            groups.extend(ancestry(mount, &member, root).map(|path| Group { version, path }));
        }
    }
    groups
}

/// The groups from a member up to the mount point. A member outside the mounted hierarchy (in another
/// namespace) counts as the mounted group itself.
fn ancestry(mount: &Mount, member: &Path, root: &Path) -> impl Iterator<Item = PathBuf> + use<> {
    let within = within(mount, member).unwrap_or(Path::new(""));
    let point = root.join(mount.point.strip_prefix("/").unwrap_or(&mount.point));
    let below: Vec<PathBuf> = within.ancestors().map(|part| point.join(part)).collect();
    below.into_iter().take(LEVELS_LIMIT)
}

/// A member's path below the mounted group; `None` for one outside of it.
fn within<'a>(mount: &Mount, member: &'a Path) -> Option<&'a Path> {
    let path = member.strip_prefix(&mount.root).ok()?;
    path.components().all(|part| matches!(part, std::path::Component::Normal(_))).then_some(path)
}

/// The memory control groups of a process, from its `/proc/PID/cgroup`.
fn memberships(text: &str) -> Vec<(Version, PathBuf)> {
    text.lines()
        .filter_map(|line| {
            let mut fields = line.splitn(3, ':');
            let (id, controllers, path) = (fields.next()?, fields.next()?, fields.next()?);
            let version = match controllers {
                "" if id == "0" => Version::V2,
                _ if controllers.split(',').any(|name| name == "memory") => Version::V1,
                _ => return None,
            };
            Some((version, PathBuf::from(path)))
        })
        .collect()
}

/// A mounted hierarchy of control groups.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Mount {
    version: Version,
    /// The group that is mounted.
    root: PathBuf,
    /// The mount point.
    point: PathBuf,
}

/// The hierarchies that hold memory limits, from `/proc/self/mountinfo`.
fn mounts(text: &str) -> Vec<Mount> {
    text.lines()
        .filter_map(|line| {
            let (before, after) = line.split_once(" - ")?;
            let mut fields = before.split(' ').skip(3);
            let (root, point) = (unescape(fields.next()?), unescape(fields.next()?));
            let mut fields = after.split(' ');
            let version = match (fields.next()?, fields.nth(1)?) {
                ("cgroup2", _) => Version::V2,
                ("cgroup", options) if options.split(',').any(|name| name == "memory") => Version::V1,
                _ => return None,
            };
            Some(Mount { version, root, point })
        })
        .collect()
}

/// Undoes the kernel's octal escapes (`\040` for a space).
fn unescape(field: &str) -> PathBuf {
    let mut plain = Vec::with_capacity(field.len());
    let mut rest = field.as_bytes();
    while let Some((&first, after)) = rest.split_first() {
        let code = after.get(..3).and_then(|digits| {
            let digits = std::str::from_utf8(digits).ok()?;
            u8::from_str_radix(digits, 8).ok()
        });
        match code.filter(|_| first == b'\\') {
            Some(code) => {
                plain.push(code);
                rest = &after[3..];
            }
            None => {
                plain.push(first);
                rest = after;
            }
        }
    }
    PathBuf::from(<std::ffi::OsString as std::os::unix::ffi::OsStringExt>::from_vec(plain))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A machine with 1 GiB available whose files are the given ones.
    fn machine(files: &[(&str, &str)]) -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        let meminfo = ("proc/meminfo", "MemTotal: 2097152 kB\nMemAvailable:    1048576 kB\n");
        for (path, text) in std::iter::once(&meminfo).chain(files) {
            let path = root.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        root
    }

    fn of(root: &tempfile::TempDir) -> (Bytes, Option<String>) {
        let available = available_within(root.path(), None);
        let group = match available.bound {
            Bound::Group(path) => Some(path.strip_prefix(root.path()).unwrap().display().to_string()),
            _ => None,
        };
        (available.bytes, group)
    }

    const V2_MOUNT: &str = "30 24 0:26 / /sys/fs/cgroup rw,nosuid shared:9 - cgroup2 cgroup2 rw,nsdelegate\n";

    #[test]
    fn the_machine_has_more_than_is_available() {
        let all = machine_memory().expect("/proc/meminfo");
        assert!(all > available().bytes, "{all}");
    }

    #[test]
    fn a_machine_without_limits_has_what_is_available() {
        assert_eq!(of(&machine(&[])), (Bytes::gib(1), None));
    }

    #[test]
    fn a_version_2_group_has_its_limit_less_what_is_not_file_cache() {
        let root = machine(&[
            ("proc/self/cgroup", "0::/app/db\n"),
            ("proc/self/mountinfo", V2_MOUNT),
            ("sys/fs/cgroup/app/db/memory.max", "104857600\n"),
            ("sys/fs/cgroup/app/db/memory.high", "max\n"),
            ("sys/fs/cgroup/app/db/memory.current", "83886080\n"),
            (
                "sys/fs/cgroup/app/db/memory.stat",
                "anon 20971520\nfile 62914560\ninactive_file 41943040\nactive_file 20971520\n",
            ),
        ]);
        assert_eq!(of(&root), (Bytes::mib(80), Some("sys/fs/cgroup/app/db".to_owned())));
    }

    #[test]
    fn another_processs_groups_limit_it() {
        let root = machine(&[
            ("proc/self/mountinfo", V2_MOUNT),
            ("proc/self/cgroup", "0::/\n"),
            ("proc/77/cgroup", "0::/app\n"),
            ("proc/78/cgroup", "0::/\n"),
            ("proc/80/cgroup", "0::/../elsewhere\n"),
            ("sys/fs/cgroup/memory.current", "1\n"),
            ("sys/fs/cgroup/app/memory.max", "104857600\n"),
            ("sys/fs/cgroup/app/memory.current", "83886080\n"),
            ("sys/fs/cgroup/app/memory.stat", "inactive_file 10485760\nactive_file 0\n"),
        ]);
        let of = |process| available_to_within(root.path(), process);
        // The limit of 100 MiB less the 70 that are no file cache.
        assert_eq!(of(77), Some(Bytes::mib(30)));
        assert_eq!((of(78), of(79), of(80)), (None, None, None));
    }

    #[test]
    fn the_tightest_ancestor_binds_and_high_counts() {
        let root = machine(&[
            ("proc/self/cgroup", "0::/app/db\n"),
            ("proc/self/mountinfo", V2_MOUNT),
            ("sys/fs/cgroup/app/db/memory.max", "104857600\n"),
            ("sys/fs/cgroup/app/memory.max", "max\n"),
            ("sys/fs/cgroup/app/memory.high", "52428800\n"),
            ("sys/fs/cgroup/app/memory.current", "10485760\n"),
            ("sys/fs/cgroup/app/memory.stat", "inactive_file 0\nactive_file 0\n"),
        ]);
        assert_eq!(of(&root), (Bytes::mib(40), Some("sys/fs/cgroup/app".to_owned())));
    }

    #[test]
    fn version_1_beside_an_empty_version_2_works_with_the_mounts_root_taken_off() {
        let root = machine(&[
            ("proc/self/cgroup", "4:memory:/docker/abc/job\n2:cpu,cpuacct:/x\n0::/\n"),
            (
                "proc/self/mountinfo",
                "31 24 0:27 /docker/abc /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n\
                 32 24 0:28 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n\
                 33 24 0:29 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu,cpuacct\n",
            ),
            ("sys/fs/cgroup/memory/job/memory.limit_in_bytes", "9223372036854771712\n"),
            ("sys/fs/cgroup/memory/job/memory.usage_in_bytes", "31457280\n"),
            (
                "sys/fs/cgroup/memory/job/memory.stat",
                "cache 1\nhierarchical_memory_limit 104857600\ninactive_file 7\ntotal_inactive_file 10485760\ntotal_active_file 10485760\n",
            ),
            ("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n"),
        ]);
        assert_eq!(of(&root), (Bytes::mib(90), Some("sys/fs/cgroup/memory/job".to_owned())));
    }

    #[test]
    fn a_group_of_another_namespace_is_the_mounted_one() {
        let root = machine(&[
            ("proc/self/cgroup", "0::/../elsewhere\n"),
            ("proc/self/mountinfo", V2_MOUNT),
            ("sys/fs/cgroup/memory.max", "52428800\n"),
        ]);
        assert_eq!(of(&root), (Bytes::mib(50), Some("sys/fs/cgroup".to_owned())));
    }

    #[test]
    fn a_mount_point_with_a_space_is_found() {
        let root = machine(&[
            ("proc/self/cgroup", "0::/\n"),
            ("proc/self/mountinfo", "30 24 0:26 / /my\\040groups rw - cgroup2 cgroup2 rw\n"),
            ("my groups/memory.max", "4096\n"),
        ]);
        assert_eq!(of(&root).0, Bytes(4096));
    }

    #[test]
    fn use_above_the_limit_leaves_nothing_rather_than_less() {
        let root = machine(&[
            ("proc/self/cgroup", "0::/\n"),
            ("proc/self/mountinfo", V2_MOUNT),
            ("sys/fs/cgroup/memory.max", "4096\n"),
            ("sys/fs/cgroup/memory.current", "8192\n"),
        ]);
        assert_eq!(of(&root).0, Bytes::ZERO);
    }

    #[test]
    fn without_proc_there_is_a_cautious_guess() {
        let root = tempfile::tempdir().unwrap();
        assert_eq!(available_within(root.path(), None), Available { bytes: FALLBACK, bound: Bound::Unknown });
    }

    #[test]
    fn an_old_kernel_counts_free_memory_and_caches() {
        let text = "MemFree: 1024 kB\nCached: 2048 kB\nSwapCached: 9 kB\nShmem: 512 kB\n";
        assert_eq!(machine_available(text), Some(Bytes::kib(2560)));
        assert_eq!(machine_available("MemAvailable: many kB\n"), None);
    }

    #[test]
    fn this_machine_has_some() {
        let available = available();
        assert_ne!(available.bound, Bound::Unknown);
        assert!(available.bytes > Bytes::ZERO);
    }

    proptest! {
        #[test]
        fn any_text_is_survived(text in "[ -~\n\\\\]{0,200}") {
            machine_available(&text);
            memberships(&text);
            mounts(&text);
            stat_value(&text, "file");
            limit(&text);
            unescape(&text);
        }
    }
}
