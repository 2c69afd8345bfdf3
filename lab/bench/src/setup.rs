//! The set-up of one run: the data set shown by a policy, cold, and the readers' memory group.
//!
//! Everything is made anew for each run and undone after it: the file system is mounted (nothing of it is in
//! memory then), servers are started. Servers are children of this process and never in the readers' group. The
//! mount limits itself (`--memory`). The others read through the page cache of their own groups, which have the
//! same limit.

use crate::policy::{Policy, mounted};
use crate::server::{END_LIMIT, Server};
use crate::{Error, Result};
use foreseek_rig::{
    CgroupParent, Disk, Interrupt, MemoryGroup, Mounted, Program, memory_peak, mount_ext4, processor_time,
};
use foreseek_storage::loop_device::{LoopDevice, LoopOptions};
use foreseek_units::{Bytes, Nanos};
use rustix::mount::MountFlags;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;

/// What every set-up needs.
#[derive(Debug)]
pub(crate) struct Environment<'a> {
    pub(crate) disk: &'a Disk,
    pub(crate) group_parent: &'a CgroupParent,
    /// A folder with the mount points `disk`, `view` and `file`.
    pub(crate) folder: &'a Path,
    /// This program, for `foreseek mount`.
    pub(crate) program: &'a Path,
    /// nbdkit and nbdfuse, where they are installed.
    pub(crate) nbd: Option<&'a (Program, Program)>,
    pub(crate) memory: Bytes,
    pub(crate) server_memory: Bytes,
    pub(crate) interrupt: &'a Interrupt,
}

/// A set-up. Undone from the top when dropped; prefer [`Setup::end`], which returns errors.
#[derive(Debug)]
pub(crate) struct Setup {
    /// Where the data set is visible.
    pub(crate) view: PathBuf,
    /// The readers' group.
    pub(crate) readers: MemoryGroup,
    top: Option<Mounted>,
    loop_device: Option<Looped>,
    servers: Vec<Server>,
    bottom: Option<Mounted>,
    /// The servers' group, where it is limited from outside. Dropped after the servers, which are in it.
    _group: Option<MemoryGroup>,
}

/// A loop device that is freed when dropped.
#[derive(Debug)]
struct Looped(LoopDevice);

impl Environment<'_> {
    /// Makes the set-up of a policy's run. The disk answers without delay meanwhile.
    pub(crate) fn setup(&self, policy: &Policy) -> Result<Setup> {
        let readers = if policy.has_server() { self.memory - self.server_memory } else { self.memory };
        let readers = MemoryGroup::create(self.group_parent, "bench-readers", readers)?;
        let (disk, view) = (self.folder.join("disk"), self.folder.join("view"));
        let mut setup = Setup {
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
                setup.bottom = Some(self.disk.mount(&disk)?);
                setup.view = disk;
            }
            Policy::Nbdkit => self.stand_on_nbdkit(&mut setup)?,
            Policy::Plain => {
                setup.bottom = Some(self.disk.mount(&disk)?);
                let group = MemoryGroup::create(self.group_parent, "bench-server", self.server_memory)?;
                let command = group.command(self.program);
                setup._group = Some(group);
                setup.servers.push(self.mount(policy, "plain", command, (&disk, &view))?);
            }
            Policy::Mount(name) => {
                setup.bottom = Some(self.disk.mount(&disk)?);
                setup.servers.push(self.mount(policy, name, Command::new(self.program), (&disk, &view))?);
            }
            Policy::Oracle | Policy::Virtual(_) => {
                return Err(Error::Option { what: format!("{policy} is modelled, not measured") });
            }
        }
        Ok(setup)
    }

    /// Starts `foreseek mount`.
    fn mount(
        &self,
        policy: &Policy,
        name: &str,
        mut command: Command,
        (source, view): (&Path, &Path),
    ) -> Result<Server> {
        let (name, is_bounded) = mounted(name);
        command.args(["mount", "--foreground", "--policy", name]);
        command.args((!is_bounded).then_some("--unbounded")).arg("--memory");
        command.arg(format!("{}", self.server_memory.get())).args([source, view]);
        // Each begins cold: nothing is kept from one run to the next.
        command.env("FORESEEK_STATE", "");
        Server::showing(&policy.to_string(), "foreseek", command, view, self.interrupt)
    }

    /// nbdkit reads the disk itself, nbdfuse shows it as a file, and a loop device makes a disk of that.
    fn stand_on_nbdkit(&self, setup: &mut Setup) -> Result<()> {
        let Some((nbdkit, nbdfuse)) = self.nbd else {
            return Err(Error::Option { what: "nbdkit and nbdfuse are not installed".to_owned() });
        };
        let policy = Policy::Nbdkit.to_string();
        let group = MemoryGroup::create(self.group_parent, "bench-server", self.server_memory)?;
        let socket = self.folder.join("nbd.sock");
        let _ = fs::remove_file(&socket);
        let mut command = group.command(nbdkit.path());
        command.args(["--foreground", "--readonly", "--exit-with-parent", "--unix"]).arg(&socket);
        command.args(["--filter=readahead", "file"]).arg(self.disk.device());
        let mut fuse = group.command(nbdfuse.path());
        setup._group = Some(group);
        let there = || socket.exists();
        let nbdkit = Server::start(&policy, nbdkit.name(), command, None, self.interrupt, there)?;
        setup.servers.push(nbdkit);
        let folder = self.folder.join("file");
        fuse.arg("--readonly").arg(folder.join("disk")).arg("--unix").arg(&socket);
        setup.servers.push(Server::showing(&policy, nbdfuse.name(), fuse, &folder, self.interrupt)?);
        let path = folder.join("disk");
        let file = File::open(&path).map_err(|error| Error::io("cannot open", path.display(), error))?;
        let options = LoopOptions::DISK;
        let device = LoopDevice::attach(&file, Path::new("foreseek-bench"), options)
            .map_err(|error| Error::Server { policy: policy.clone(), what: error.to_string() })?;
        let path = device.path();
        setup.loop_device = Some(Looped(device));
        let flags = MountFlags::NOATIME | MountFlags::RDONLY;
        setup.top = Some(mount_ext4(&path, &setup.view, flags)?);
        Ok(())
    }
}

impl Setup {
    /// Processor time that the servers have used so far.
    pub(crate) fn server_time(&self) -> Nanos {
        self.servers.iter().map(|server| processor_time(server.running.child.id())).sum()
    }

    /// The servers' peak memory.
    pub(crate) fn server_memory(&self) -> Bytes {
        self.servers.iter().map(|server| memory_peak(server.running.child.id())).sum()
    }

    /// An error if a server has ended: its readers would wait for ever.
    pub(crate) fn check(&mut self, policy: &Policy) -> Result<()> {
        let policy = policy.to_string();
        self.servers.iter_mut().try_for_each(|server| server.check(&policy, "ended in the middle of a run"))
    }

    /// Takes it down, from the top.
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

impl Drop for Setup {
    fn drop(&mut self) {
        // From the top, as in `end`; the fields would be dropped in another order.
        drop(self.top.take());
        drop(self.loop_device.take());
        while let Some(server) = self.servers.pop() {
            drop(server);
        }
        drop(self.bottom.take());
    }
}

impl Drop for Looped {
    fn drop(&mut self) {
        let _ = self.0.clear(END_LIMIT);
    }
}
