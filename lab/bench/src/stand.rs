//! What one run stands on: the data set shown by a policy, cold, and the readers' memory group.
//!
//! Everything is made anew for each run and undone after it: the file system is mounted (nothing of
//! it is in memory then), servers are started. Servers are children of ours and in no group with the
//! readers. The mount bounds itself (`--memory`); what the others read goes through the page cache
//! of their own groups, which are limited to the same.

use crate::policy::Policy;
use crate::{Error, Result};
use foreseek_rig::{
    Disk, Interrupt, MemoryGroup, Mounted, POLL, Place, Program, Running, memory_peak, mount_ext4,
    processor_time,
};
use foreseek_storage::loop_device::{DEFAULT_READ_AHEAD, LoopDevice, LoopOptions};
use foreseek_units::{Bytes, Nanos};
use rustix::mount::{MountFlags, UnmountFlags, unmount};
use rustix::process::{Pid, Signal, kill_process};
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// How long a server may take to show its file system.
const START_LIMIT: Duration = Duration::from_secs(20);

/// How long a server may take to end when told to, and a loop device to become free.
const END_LIMIT: Duration = Duration::from_secs(20);

/// What is needed to make any of them.
#[derive(Debug)]
pub(crate) struct Ground<'a> {
    pub(crate) disk: &'a Disk,
    pub(crate) place: &'a Place,
    /// A folder of ours with the mount points `disk`, `view` and `file`.
    pub(crate) folder: &'a Path,
    /// This program, for `foreseek mount`.
    pub(crate) program: &'a Path,
    /// nbdkit and nbdfuse, where they are installed.
    pub(crate) nbd: Option<&'a (Program, Program)>,
    pub(crate) memory: Bytes,
    pub(crate) server_memory: Bytes,
    pub(crate) interrupt: &'a Interrupt,
}

/// What stands. Undone from above when dropped; better [`Stand::end`]ed, which tells what failed.
#[derive(Debug)]
pub(crate) struct Stand {
    /// Where the data set is shown.
    pub(crate) view: PathBuf,
    /// The readers' group.
    pub(crate) readers: MemoryGroup,
    top: Option<Mounted>,
    loop_device: Option<Looped>,
    servers: Vec<Server>,
    bottom: Option<Mounted>,
    /// The servers' group, where one is limited from outside; after them, which are in it.
    _group: Option<MemoryGroup>,
}

/// A server, and where it shows a file system.
#[derive(Debug)]
struct Server {
    running: Running,
    shown: Option<PathBuf>,
}

/// A loop device that is freed when dropped.
#[derive(Debug)]
struct Looped(LoopDevice);

impl Ground<'_> {
    /// Makes what a policy's run stands on. The disk answers without delay meanwhile.
    pub(crate) fn stand(&self, policy: &Policy) -> Result<Stand> {
        let readers = if policy.has_server() { self.memory - self.server_memory } else { self.memory };
        let readers = MemoryGroup::create(self.place, "bench-readers", readers)?;
        let (disk, view) = (self.folder.join("disk"), self.folder.join("view"));
        let mut stand = Stand {
            view: view.clone(),
            readers,
            top: None,
            loop_device: None,
            servers: Vec::new(),
            bottom: None,
            _group: None,
        };
        match policy {
            Policy::Linux(_) => {
                stand.bottom = Some(self.disk.mount(&disk)?);
                stand.view = disk;
            }
            Policy::Nbdkit => self.stand_on_nbdkit(&mut stand)?,
            Policy::Plain => {
                stand.bottom = Some(self.disk.mount(&disk)?);
                let group = MemoryGroup::create(self.place, "bench-server", self.server_memory)?;
                let command = group.command(self.program);
                stand._group = Some(group);
                stand.servers.push(self.mount(policy, "plain", command, (&disk, &view))?);
            }
            Policy::Mount(name) => {
                stand.bottom = Some(self.disk.mount(&disk)?);
                stand.servers.push(self.mount(policy, name, Command::new(self.program), (&disk, &view))?);
            }
            Policy::Oracle | Policy::Virtual(_) => {
                return Err(Error::Option { what: format!("{policy} is modelled, not measured") });
            }
        }
        Ok(stand)
    }

    /// Starts `foreseek mount`.
    fn mount(
        &self,
        policy: &Policy,
        name: &str,
        mut command: Command,
        (source, view): (&Path, &Path),
    ) -> Result<Server> {
        command.args(["mount", "--foreground", "--policy", name, "--memory"]);
        command.arg(format!("{}", self.server_memory.get())).args([source, view]);
        // Each begins cold: what one run learns is not another's.
        command.env("FORESEEK_STATE", "");
        self.start(policy, "foreseek", command, Some(view))
    }

    /// nbdkit reads the disk itself; nbdfuse shows it as a file; a loop device makes a disk of that.
    fn stand_on_nbdkit(&self, stand: &mut Stand) -> Result<()> {
        let Some((nbdkit, nbdfuse)) = self.nbd else {
            return Err(Error::Option { what: "nbdkit and nbdfuse are not installed".to_owned() });
        };
        let policy = Policy::Nbdkit;
        let group = MemoryGroup::create(self.place, "bench-server", self.server_memory)?;
        let socket = self.folder.join("nbd.sock");
        let _ = fs::remove_file(&socket);
        let mut command = group.command(nbdkit.path());
        command.args(["--foreground", "--readonly", "--exit-with-parent", "--unix"]).arg(&socket);
        command.args(["--filter=readahead", "file"]).arg(self.disk.device());
        let mut fuse = group.command(nbdfuse.path());
        stand._group = Some(group);
        stand.servers.push(self.start(&policy, nbdkit.name(), command, None)?);
        self.wait(&policy, &mut stand.servers, || socket.exists())?;
        let folder = self.folder.join("file");
        fuse.arg("--readonly").arg(folder.join("disk")).arg("--unix").arg(&socket);
        stand.servers.push(self.start(&policy, nbdfuse.name(), fuse, Some(&folder))?);
        let path = folder.join("disk");
        let file = File::open(&path).map_err(|error| Error::io("cannot open", path.display(), error))?;
        let options = LoopOptions { rotational: true, read_ahead: DEFAULT_READ_AHEAD };
        let device = LoopDevice::attach(&file, Path::new("foreseek-bench"), options)
            .map_err(|error| Error::Server { policy: policy.to_string(), what: error.to_string() })?;
        let path = device.path();
        stand.loop_device = Some(Looped(device));
        let flags = MountFlags::NOATIME | MountFlags::RDONLY;
        stand.top = Some(mount_ext4(&path, &stand.view, flags)?);
        Ok(())
    }

    /// Starts a server and waits until it shows what it should.
    fn start(
        &self,
        policy: &Policy,
        name: &'static str,
        mut command: Command,
        shown: Option<&Path>,
    ) -> Result<Server> {
        command.stdin(Stdio::null()).stdout(Stdio::null());
        let running = Running::start(name, &mut command)?;
        let mut servers = vec![Server { running, shown: shown.map(Path::to_owned) }];
        if let Some(shown) = shown {
            self.wait(policy, &mut servers, || is_mounted(shown))?;
        }
        servers.pop().ok_or_else(|| Error::Server { policy: policy.to_string(), what: "is gone".to_owned() })
    }

    /// Waits for something that the last server is to do.
    fn wait(&self, policy: &Policy, servers: &mut [Server], done: impl Fn() -> bool) -> Result<()> {
        let start = Instant::now();
        while !done() {
            self.interrupt.check()?;
            let Some(server) = servers.last_mut() else { return Ok(()) };
            if let Some(status) = server.running.poll()? {
                server.running.judge(&format!("serving {policy}"), status)?;
                return Err(Error::Server { policy: policy.to_string(), what: "ended at once".to_owned() });
            }
            if start.elapsed() > START_LIMIT {
                let what = format!("showed nothing within {} s", START_LIMIT.as_secs());
                return Err(Error::Server { policy: policy.to_string(), what });
            }
            std::thread::sleep(Duration::from_millis(2));
        }
        Ok(())
    }
}

impl Stand {
    /// Processor time that the servers have used so far.
    pub(crate) fn server_time(&self) -> Nanos {
        self.servers.iter().map(|server| processor_time(server.running.child.id())).sum()
    }

    /// The most memory that the servers' processes have had.
    pub(crate) fn server_memory(&self) -> Bytes {
        self.servers.iter().map(|server| memory_peak(server.running.child.id())).sum()
    }

    /// A server that is no more; nobody is to wait for its answers.
    pub(crate) fn check(&mut self, policy: &Policy) -> Result<()> {
        for server in &mut self.servers {
            if let Some(status) = server.running.poll()? {
                server.running.judge(&format!("serving {policy}"), status)?;
                let what = "ended in the middle of a run".to_owned();
                return Err(Error::Server { policy: policy.to_string(), what });
            }
        }
        Ok(())
    }

    /// Takes it down, from above.
    pub(crate) fn end(mut self) -> Result<()> {
        self.top.take().map(Mounted::unmount).transpose()?;
        if let Some(looped) = self.loop_device.take() {
            let freed = looped.0.clear(END_LIMIT);
            std::mem::forget(looped);
            freed.map_err(|error| Error::io("cannot free", "nbdkit's disk", std::io::Error::other(error)))?;
        }
        while let Some(server) = self.servers.pop() {
            server.end()?;
        }
        self.bottom.take().map(Mounted::unmount).transpose()?;
        Ok(())
    }
}

impl Server {
    /// Asks it to end and waits for that.
    fn end(mut self) -> Result<()> {
        self.ask();
        self.wait()
    }

    fn wait(&mut self) -> Result<()> {
        let start = Instant::now();
        while self.running.poll()?.is_none() {
            if start.elapsed() > END_LIMIT {
                let seconds = END_LIMIT.as_secs();
                return Err(foreseek_rig::Error::TooSlow { what: "a server".to_owned(), seconds }.into());
            }
            std::thread::sleep(Duration::from_millis(2));
        }
        Ok(())
    }

    /// Unmounts what it shows, which is how nbdfuse ends, and sends it the signal by which others do.
    fn ask(&mut self) {
        if let Some(shown) = &self.shown
            && is_mounted(shown)
        {
            let start = Instant::now();
            // Whoever looked at it is done soon; then it goes out of sight, and really when it is free.
            while unmount(shown, UnmountFlags::empty()).is_err() {
                if start.elapsed() > END_LIMIT / 4 {
                    let _ = unmount(shown, UnmountFlags::DETACH);
                    break;
                }
                std::thread::sleep(POLL);
            }
        }
        if let Ok(None) = self.running.poll() {
            let _ = kill_process(Pid::from_child(&self.running.child), Signal::TERM);
        }
    }
}

impl Drop for Stand {
    fn drop(&mut self) {
        // From above, as in `end`; the fields that follow would go in another order.
        drop(self.top.take());
        drop(self.loop_device.take());
        while let Some(server) = self.servers.pop() {
            drop(server);
        }
        drop(self.bottom.take());
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // Also of one that was still starting when the user interrupted: killed, it would leave its
        // mount and its record. What does not listen is ended by force after this.
        self.ask();
        let _ = self.wait();
    }
}

impl Drop for Looped {
    fn drop(&mut self) {
        let _ = self.0.clear(END_LIMIT);
    }
}

/// Whether something is mounted there. The path is one of ours and has nothing that would be escaped.
pub(crate) fn is_mounted(point: &Path) -> bool {
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    mounts.lines().any(|line| line.split(' ').nth(4).is_some_and(|at| Path::new(at) == point))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mount_point_is_known_by_the_kernel() {
        assert!(is_mounted(Path::new("/")) && is_mounted(Path::new("/proc")));
        assert!(!is_mounted(Path::new("/nowhere")));
    }
}
