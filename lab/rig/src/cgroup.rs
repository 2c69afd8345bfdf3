//! A control group that limits the memory of what is measured, page cache included.
//!
//! ATC'09 section 5.1 used a machine of 512 MB; here a control group takes its place. Version 1 and version 2
//! of the interface both charge page cache to the group that first read the page. So a limit holds for the
//! program and everything that it has read. Only what is measured lives in the group: a server of a block
//! device in the same group could wait for itself.
//!
//! A process enters the group by itself before it becomes the program (`sh` writes its own number and
//! then replaces itself), so that every page is charged from the first on.

use crate::{Error, Result};
use foreseek_units::Bytes;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

/// How long the removal of a group may take. The kernel refuses while a process of it is not yet
/// reaped, which takes milliseconds.
const REMOVAL_LIMIT: Duration = Duration::from_secs(5);

/// Writes the shell's own process number into its first argument, then becomes the rest of them.
const ENTER: &str = "echo $$ > \"$1\" && shift && exec \"$@\"";

/// Which of the two interfaces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Version {
    /// `memory.limit_in_bytes`.
    V1,
    /// `memory.max`.
    V2,
}

/// Where a group can be made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CgroupParent {
    /// Which interface.
    pub version: Version,
    /// The folder to make it in.
    pub parent: PathBuf,
}

/// What a group has used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// What is charged to it now.
    pub now: Bytes,
    /// The most that was charged to it at a time.
    pub peak: Bytes,
    /// How often a charge met the limit, so that something had to be reclaimed.
    pub limit_hits: u64,
    /// How many of its processes the kernel killed because memory ran out.
    pub kills: u64,
}

/// A group with a limit; removed when dropped.
#[derive(Debug)]
pub struct MemoryGroup {
    version: Version,
    path: PathBuf,
}

impl CgroupParent {
    /// Finds where this process can make groups.
    ///
    /// # Errors
    /// Where no memory controller is mounted.
    pub fn find() -> Result<Self> {
        let read = |path| fs::read_to_string(path).map_err(|error| Error::io("cannot read", path, error));
        Self::locate(&read("/proc/self/mountinfo")?, &read("/proc/self/cgroup")?).ok_or_else(|| {
            Error::NoMemoryGroup {
                reason: "no memory controller is mounted; mount cgroup2 on /sys/fs/cgroup".to_owned(),
            }
        })
    }

    /// The same from the text of `/proc/self/mountinfo` and `/proc/self/cgroup`. A version 1
    /// hierarchy of the memory controller comes first: where both are mounted it holds the
    /// controller.
    fn locate(mounts: &str, own: &str) -> Option<Self> {
        let mount = |kind: &str, option: &str| {
            mounts.lines().find_map(|line| {
                let (parent, source) = line.split_once(" - ")?;
                let mut source = source.split(' ');
                let named = source.next() == Some(kind);
                let options = source.nth(1).unwrap_or_default();
                let mut parent = parent.split(' ').skip(3);
                (named && (option.is_empty() || options.split(',').any(|o| o == option)))
                    .then(|| Some((parent.next()?, parent.next()?)))?
            })
        };
        if let Some((root, point)) = mount("cgroup", "memory") {
            // Below our own group, so that limits set on it from outside still hold.
            let path = own.lines().find_map(|line| {
                let mut fields = line.splitn(3, ':').skip(1);
                fields.next()?.split(',').any(|controller| controller == "memory").then(|| fields.next())?
            })?;
            let within = path.strip_prefix(root).unwrap_or(path).trim_start_matches('/');
            let parent = Path::new(point).join(within);
            return Some(Self { version: Version::V1, parent });
        }
        // In version 2 a group with processes can't have groups with controllers below it: ours is
        // made at the root, which is exempt.
        let (_, point) = mount("cgroup2", "")?;
        Some(Self { version: Version::V2, parent: PathBuf::from(point) })
    }
}

impl MemoryGroup {
    /// Makes a group of at most `limit`; `name` is its own among the groups of this process.
    ///
    /// # Errors
    /// Without permission, or where the kernel refuses the limit.
    pub fn create(parent: &CgroupParent, name: &str, limit: Bytes) -> Result<Self> {
        let path = parent.parent.join(format!("foreseek-{name}-{}", std::process::id()));
        let refuse = |error: &io::Error| Error::NoMemoryGroup {
            reason: format!("{}: {error}; run as root", path.display()),
        };
        if parent.version == Version::V2 {
            // Where it is enabled already this changes nothing.
            fs::write(parent.parent.join("cgroup.subtree_control"), "+memory").map_err(|e| refuse(&e))?;
        }
        fs::create_dir(&path).map_err(|error| refuse(&error))?;
        let group = Self { version: parent.version, path };
        // Nothing of it may go to swap: that would be I/O on another disk. Version 1's limit of memory and swap
        // together is no substitute: with it the kernel does not count how often memory was short.
        let (limit_file, swap_file) = match group.version {
            Version::V1 => ("memory.limit_in_bytes", "memory.swappiness"),
            Version::V2 => ("memory.max", "memory.swap.max"),
        };
        group.write(limit_file, limit.get())?;
        // A kernel without swap lacks the file, and nothing needs to be done.
        if group.path.join(swap_file).exists() {
            group.write(swap_file, 0)?;
        }
        Ok(group)
    }

    fn write(&self, file: &str, value: u64) -> Result<()> {
        let path = self.path.join(file);
        fs::write(&path, value.to_string()).map_err(|error| Error::NoMemoryGroup {
            reason: format!("cannot write {value} to {}: {error}", path.display()),
        })
    }

    /// Changes its limit while it is in use. Version 1 refuses a limit below what it can reclaim (EBUSY);
    /// version 2 kills processes instead.
    ///
    /// # Errors
    /// Where the kernel refuses it.
    pub fn set_limit(&self, limit: Bytes) -> Result<()> {
        self.write(
            if self.version == Version::V1 { "memory.limit_in_bytes" } else { "memory.max" },
            limit.get(),
        )
    }

    /// Throttles its processes above this much, so that they reclaim their own pages (`memory.high`, version
    /// 2).
    ///
    /// # Errors
    /// In version 1, which has no such thing.
    pub fn set_high(&self, high: Bytes) -> Result<()> {
        self.write("memory.high", high.get())
    }

    /// Which of the two interfaces it has.
    #[must_use]
    pub fn version(&self) -> Version {
        self.version
    }

    /// Its directory.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// A command that enters the group and then becomes `program`: every page of its memory is
    /// charged here.
    #[must_use]
    pub fn command(&self, program: &Path) -> Command {
        command_in(&self.path, program)
    }

    /// What it used so far; zeros where the kernel does not report it.
    #[must_use]
    pub fn usage(&self) -> Usage {
        let number = |file: &str| {
            fs::read_to_string(self.path.join(file)).ok().and_then(|text| text.trim().parse::<u64>().ok())
        };
        match self.version {
            Version::V1 => Usage {
                now: Bytes(number("memory.usage_in_bytes").unwrap_or_default()),
                peak: Bytes(number("memory.max_usage_in_bytes").unwrap_or_default()),
                limit_hits: number("memory.failcnt").unwrap_or_default(),
                kills: self.event("memory.oom_control", "oom_kill"),
            },
            Version::V2 => Usage {
                now: Bytes(number("memory.current").unwrap_or_default()),
                peak: Bytes(number("memory.peak").unwrap_or_default()),
                limit_hits: self.event("memory.events", "max"),
                kills: self.event("memory.events", "oom_kill"),
            },
        }
    }

    fn event(&self, file: &str, name: &str) -> u64 {
        let events = fs::read_to_string(self.path.join(file)).unwrap_or_default();
        events
            .lines()
            .filter_map(|line| line.split_once(' '))
            .find(|(key, _)| *key == name)
            .and_then(|(_, count)| count.parse().ok())
            .unwrap_or_default()
    }

    /// Removes it, when its processes are gone.
    ///
    /// # Errors
    /// Where the kernel still refuses after [`REMOVAL_LIMIT`].
    pub fn remove(self) -> Result<()> {
        let path = self.path.clone();
        std::mem::forget(self);
        remove_folder(&path)
    }
}

/// A command that enters the group of this directory and then becomes `program`.
#[must_use]
pub fn command_in(group: &Path, program: &Path) -> Command {
    let mut command = Command::new("sh");
    command.args(["-c", ENTER, "sh"]).arg(group.join("cgroup.procs")).arg(program);
    command
}

impl Drop for MemoryGroup {
    fn drop(&mut self) {
        let _ = remove_folder(&self.path);
    }
}

fn remove_folder(path: &Path) -> Result<()> {
    let start = Instant::now();
    loop {
        match fs::remove_dir(path) {
            Ok(()) => return Ok(()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(error) if start.elapsed() > REMOVAL_LIMIT => {
                return Err(Error::io("cannot remove the control group", path.display(), error));
            }
            Err(_) => std::thread::sleep(Duration::from_millis(5)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::process::Running;

    const HYBRID: &str = "\
24 1 0:22 / /sys/fs/cgroup rw,relatime - tmpfs tmpfs rw,mode=755
30 24 0:28 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory
34 24 0:32 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup rw";
    const UNIFIED: &str =
        "30 24 0:28 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate,memory_recursiveprot";
    const CONTAINER: &str = "30 24 0:28 /docker/ab12 /sys/fs/cgroup/memory ro - cgroup cgroup rw,memory";

    fn parent(version: Version, parent: &str) -> Option<CgroupParent> {
        Some(CgroupParent { version, parent: PathBuf::from(parent) })
    }

    #[test]
    fn the_hierarchy_that_has_the_memory_controller_is_found() {
        let at_root = "5:memory:/\n0::/";
        assert_eq!(CgroupParent::locate(HYBRID, at_root), parent(Version::V1, "/sys/fs/cgroup/memory"));
        let below = "5:cpu,memory:/user/me\n0::/";
        assert_eq!(CgroupParent::locate(HYBRID, below), parent(Version::V1, "/sys/fs/cgroup/memory/user/me"));
        let session = "0::/user.slice/session-1.scope";
        assert_eq!(CgroupParent::locate(UNIFIED, session), parent(Version::V2, "/sys/fs/cgroup"));
        let inside = "5:memory:/docker/ab12";
        assert_eq!(CgroupParent::locate(CONTAINER, inside), parent(Version::V1, "/sys/fs/cgroup/memory"));
        assert_eq!(CgroupParent::locate("24 1 0:22 / / rw - ext4 /dev/sda rw", at_root), None);
    }

    #[test]
    fn a_group_limits_counts_and_goes() {
        if !rustix::process::geteuid().is_root() {
            println!("SKIPPED: control groups are made by root");
            return;
        }
        let parent = CgroupParent::find().expect("a memory controller");
        let limit = Bytes::mib(16);
        let group = MemoryGroup::create(&parent, "overeating", limit).expect("it is made");
        let folder = group.path.clone();
        let mut command = group.command(Path::new("/bin/sh"));
        command.args(["-c", "head -c 64M /dev/zero | tail -c 40M > /dev/null"]);
        let mut shell = Running::start("sh", &mut command).expect("sh starts");
        // `tail` keeps 40 MiB, more than the group may have: the kernel kills it.
        let _ = shell.wait("overeating", Duration::from_secs(30), &crate::Interrupt::default(), &mut || ());
        let usage = group.usage();
        assert!(usage.limit_hits > 0 && usage.peak > Bytes::mib(8) && usage.peak <= limit, "{usage:?}");
        drop(group);
        assert!(!folder.exists());
    }
}
