//! Leaves a limited memory cgroup.
//!
//! A server of a block device that is inside the limited memory cgroup of its users deadlocks: they fill the
//! memory with pages that must be written to the device, and the server, which needs memory for that, waits
//! for those writes. It therefore moves to the nearest ancestor without a limit up to the root, and stays
//! under all other rules of its starter. Only where a limit is on the root of what this process can see, as
//! in a container, it cannot leave; then it returns a warning.

use crate::{CallError, Context};
use std::fs;
use std::path::{Component, Path, PathBuf};

/// From this value on, a version 1 limit is none: the kernel shows "no limit" as the largest multiple of the
/// page size.
const NO_LIMIT: u64 = 1 << 62;

/// A memory cgroup hierarchy: its mount point, and the group of this process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Hierarchy {
    pub(crate) mount: PathBuf,
    /// Relative to the mount.
    pub(crate) own: PathBuf,
    pub(crate) limits: &'static [&'static str],
}

const V1_LIMITS: &[&str] = &["memory.limit_in_bytes"];
const V2_LIMITS: &[&str] = &["memory.max", "memory.high"];

/// The result of leaving.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Left {
    /// A warning about a limit that stays.
    pub warning: Option<String>,
    /// A group created to move to; it is to be removed when the process has ended.
    pub made: Option<PathBuf>,
}

/// Moves this process out of limited memory cgroups. `what` is what it serves ("disk"): the warning and a new
/// group are named after it.
///
/// # Errors
/// It is in a limited group that it could leave, but it is not allowed to.
pub fn leave_limited(what: &str) -> Result<Left, CallError> {
    let mut all = Left::default();
    for hierarchy in own_hierarchies() {
        let left = hierarchy.leave(what)?;
        all = Left { warning: all.warning.or(left.warning), made: all.made.or(left.made) };
    }
    Ok(all)
}

/// The hierarchies that can limit the memory of this process.
pub(crate) fn own_hierarchies() -> Vec<Hierarchy> {
    let own = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    hierarchies(&own, &mounts)
}

/// The hierarchies that can limit memory.
fn hierarchies(own: &str, mounts: &str) -> Vec<Hierarchy> {
    let mut found = Vec::new();
    for line in own.lines() {
        let mut fields = line.splitn(3, ':');
        let (Some(_), Some(controllers), Some(path)) = (fields.next(), fields.next(), fields.next()) else {
            continue;
        };
        let (kind, limits) = match controllers {
            "" => ("cgroup2", V2_LIMITS),
            list if list.split(',').any(|controller| controller == "memory") => ("cgroup", V1_LIMITS),
            _ => continue,
        };
        let is_it = |line: &&str| {
            let Some((_, after)) = line.split_once(" - ") else { return false };
            let mut after = after.split(' ');
            let is_kind = after.next() == Some(kind);
            let options = after.nth(1).unwrap_or_default();
            is_kind && (kind == "cgroup2" || options.split(',').any(|option| option == "memory"))
        };
        if let Some(mount) = mounts.lines().find(is_it) {
            let mut fields = mount.split(' ').skip(3);
            let (Some(root), Some(point)) = (fields.next(), fields.next()) else { continue };
            // The mount may show only a part of the hierarchy; a group outside of it is not visible.
            let path = Path::new(path);
            let below = path.strip_prefix(root).or_else(|_| path.strip_prefix("/")).unwrap_or(Path::new(""));
            let seen = below.components().all(|part| part != Component::ParentDir);
            let own = if seen { below } else { Path::new("") };
            found.push(Hierarchy { mount: point.into(), own: own.to_owned(), limits });
        }
    }
    found
}

impl Hierarchy {
    fn leave(&self, what: &str) -> Result<Left, CallError> {
        let limited = |group: &Path| self.limits.iter().any(|limit| has_limit(&group.join(limit)));
        let own = self.mount.join(&self.own);
        let up_to_root = own.ancestors().take_while(|group| group.starts_with(&self.mount));
        let Some(highest) = up_to_root.filter(|group| limited(group)).last() else {
            return Ok(Left::default());
        };
        let Some(target) = highest.parent().filter(|parent| parent.starts_with(&self.mount)) else {
            let warning = format!(
                "memory is limited as a whole ({}), including the server's: give the \
                 {what}'s users a lower limit of their own, or they may deadlock with the server",
                highest.display()
            );
            return Ok(Left { warning: Some(warning), made: None });
        };
        let pid = std::process::id().to_string();
        let mut moved = fs::write(target.join("cgroup.procs"), &pid);
        let mut made = None;
        if moved.is_err() && target != self.mount {
            // A version 2 group that passes the memory controller on to its children has no processes itself.
            let child = target.join(format!("foreseek-{what}s"));
            if fs::create_dir(&child).is_ok() || child.is_dir() {
                moved = fs::write(child.join("cgroup.procs"), &pid);
                made = Some(child);
            }
        }
        moved.context("leave the limited memory cgroup for", target)?;
        tracing::info!("left the limited memory of {} for {}", own.display(), target.display());
        Ok(Left { warning: None, made })
    }
}

fn has_limit(file: &Path) -> bool {
    fs::read_to_string(file).is_ok_and(|text| is_limited(&text) == Some(true))
}

/// Whether the text of a limit's file limits; `None` for what no kernel writes.
pub(crate) fn is_limited(limit: &str) -> Option<bool> {
    match limit.trim() {
        "max" => Some(false),
        bytes => bytes.parse().ok().map(|bytes: u64| bytes < NO_LIMIT),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOUNTS: &str = "\
31 21 0:28 / /sys/fs/cgroup rw - tmpfs cgroup rw,mode=755
35 31 0:32 / /sys/fs/cgroup/memory rw,relatime shared:9 - cgroup cgroup rw,memory
36 31 0:33 / /sys/fs/cgroup/cpu rw,relatime - cgroup cgroup rw,cpu
40 31 0:37 /docker /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw";

    #[test]
    fn the_memory_hierarchies_are_found() {
        let own = "9:name=systemd:/\n4:memory:/a/b\n1:cpu:/x\n0::/docker/c\n";
        let found = hierarchies(own, MOUNTS);
        assert_eq!(
            found,
            [
                Hierarchy { mount: "/sys/fs/cgroup/memory".into(), own: "a/b".into(), limits: V1_LIMITS },
                Hierarchy { mount: "/sys/fs/cgroup/unified".into(), own: "c".into(), limits: V2_LIMITS },
            ]
        );
        assert_eq!(hierarchies("", MOUNTS), []);
        assert_eq!(hierarchies("4:memory:/\n", ""), []);
    }

    /// A hierarchy of directories, each with its limit.
    fn tree(groups: &[(&str, &str)]) -> (tempfile::TempDir, impl Fn(&str) -> Hierarchy) {
        let root = tempfile::tempdir().expect("a directory");
        for (group, limit) in groups {
            let group = root.path().join(group);
            fs::create_dir_all(&group).expect("made");
            fs::write(group.join("memory.max"), limit).expect("written");
            fs::write(group.join("cgroup.procs"), "").expect("written");
        }
        let mount = root.path().to_owned();
        (root, move |own: &str| Hierarchy { mount: mount.clone(), own: own.into(), limits: V2_LIMITS })
    }

    #[test]
    fn the_nearest_group_above_all_limits_is_taken() {
        let (root, at) =
            tree(&[("", "max"), ("a", "max"), ("a/b", "1000"), ("a/b/c", "max"), ("a/b/c/d", "5")]);
        assert_eq!(at("a/b/c/d").leave("disk").expect("moves"), Left::default());
        let pid = std::process::id().to_string();
        assert_eq!(fs::read_to_string(root.path().join("a/cgroup.procs")).expect("there"), pid);
        for stays in ["cgroup.procs", "a/b/cgroup.procs", "a/b/c/cgroup.procs"] {
            assert_eq!(fs::read_to_string(root.path().join(stays)).expect("there"), "", "{stays}");
        }
    }

    #[test]
    fn without_a_limit_nothing_moves_and_with_one_on_the_root_there_is_a_warning() {
        let (root, at) = tree(&[("", "max"), ("a", "9223372036854771712")]);
        assert_eq!(at("a").leave("disk").expect("stays"), Left::default());
        assert_eq!(fs::read_to_string(root.path().join("cgroup.procs")).expect("there"), "");
        let (_root, at) = tree(&[("", "1000"), ("a", "max")]);
        let warning = at("a").leave("disk").expect("stays").warning.expect("says so");
        assert!(warning.contains("limited as a whole"), "{warning}");
    }

    #[test]
    fn a_group_that_holds_no_processes_itself_gets_a_child() {
        let (root, at) = tree(&[("", "max"), ("a", "max"), ("a/b", "1000")]);
        fs::remove_file(root.path().join("a/cgroup.procs")).expect("removed");
        fs::create_dir(root.path().join("a/cgroup.procs")).expect("in the way");
        let child = root.path().join("a").join("foreseek-disks");
        assert_eq!(
            at("a/b").leave("disk").expect("moves"),
            Left { warning: None, made: Some(child.clone()) }
        );
        let pid = std::process::id().to_string();
        assert_eq!(fs::read_to_string(child.join("cgroup.procs")).expect("there"), pid);
    }

    #[test]
    fn a_group_that_may_not_be_left_is_an_error() {
        let (root, at) = tree(&[("", "max"), ("a", "1000")]);
        fs::remove_file(root.path().join("cgroup.procs")).expect("removed");
        fs::create_dir(root.path().join("cgroup.procs")).expect("in the way");
        let error = at("a").leave("disk").expect_err("cannot move").to_string();
        assert!(error.contains("leave the limited memory"), "{error}");
    }
}
