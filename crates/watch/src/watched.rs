//! The watched file systems: found when the watcher starts, and again when mounts change.

use crate::disks::DISKS;
use crate::error::{Error, Result};
use crate::file_system::FileSystem;
use crate::mounts::{
    Look, Mount, Ways, covered, is_without_files, left_alone, left_alone_by_its_device, left_alone_unopened,
    may_seek_later, mounts, one_each,
};
use crate::status::LeftAlone;
use foreseek_places::{HoldBack, Volume};
use foreseek_storage::fanotify::{FileSystemId, Group};
use foreseek_storage::{BackingDevice, DeviceNumber, disks_below};
use foreseek_walks::DeviceNo;
use rustc_hash::{FxHashMap, FxHashSet};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use std::os::fd::BorrowedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The most watched file systems: more than a server has disks.
const FILE_SYSTEMS: usize = 256;
/// The most listed file systems that are not watched.
const SHOWN: usize = 64;

/// The changes since the last look.
#[derive(Debug, Default)]
pub(crate) struct Changes {
    pub(crate) left: Vec<Arc<FileSystem>>,
    pub(crate) new: Vec<Arc<FileSystem>>,
    /// Of some that are watched, opens could not be reported anew.
    pub(crate) unmarked: bool,
}

/// See the module's documentation.
#[derive(Debug, Default)]
pub(crate) struct Watching {
    paths: Vec<PathBuf>,
    /// The mount points of the paths' file systems. Once these are unmounted, the directories below the mount
    /// points are not watched.
    points: Vec<PathBuf>,
    by_id: FxHashMap<FileSystemId, Arc<FileSystem>>,
    next: u32,
    pub(crate) left_alone: Vec<LeftAlone>,
    /// How many more there are than are listed.
    pub(crate) left_alone_more: u64,
    /// One of them may be watched later though mounts stay as they are.
    pub(crate) may_change: bool,
    /// Those that may not, with the reason. They are not opened again before mounts change.
    settled: FxHashMap<DeviceNumber, String>,
}

impl Watching {
    /// Watches nothing yet; later the file systems of these paths, or all if there are none.
    pub(crate) fn new(paths: &[PathBuf]) -> Self {
        Self { paths: paths.to_vec(), ..Self::default() }
    }

    pub(crate) fn by_id(&self, id: FileSystemId) -> Option<&Arc<FileSystem>> {
        self.by_id.get(&id)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Arc<FileSystem>> {
        self.by_id.values()
    }

    /// Reads the present mounts; marks those to watch. What is watched stays as it is if only those that are left alone are
    /// looked at.
    ///
    /// # Errors
    /// The mounts cannot be read.
    pub(crate) fn look(&mut self, group: &Group, look: Look) -> Result<Changes> {
        let text = std::fs::read("/proc/self/mountinfo").map_err(|error| Error::System {
            operation: "cannot read /proc/self/mountinfo",
            cause: Errno::from_io_error(&error).unwrap_or(Errno::IO),
        })?;
        let all = mounts(&text);
        let mut changes = Changes::default();
        let ways = Ways::new(&all);
        if look == Look::All {
            changes.left = self.leave_those_that_are_gone(&all, &ways, group);
            self.settled.clear();
        }
        if self.points.is_empty() {
            self.points = self.paths.iter().filter_map(|path| point_of(path, &all)).collect();
        }
        self.left_alone.clear();
        self.left_alone_more = 0;
        self.may_change = false;
        let (mut found, hidden): (Vec<&Mount>, Vec<&Mount>) =
            self.wanted(&all, &ways).into_iter().partition(|mount| ways.lead_to(mount));
        // Container hosts have hundreds of overlays, and the list is bounded.
        found.sort_by_key(|mount| mount.kind == "overlay");
        for mount in hidden {
            self.leave_alone(mount, "another mount hides it".to_owned());
        }
        for mount in found {
            if let Some(reason) = left_alone_unopened(mount, &ways) {
                self.leave_alone(mount, reason);
                continue;
            }
            match self.known(mount.device) {
                Some(known) if look == Look::All => {
                    changes.unmarked |= !mark_again(&known, mount, &all, group)
                }
                Some(_) => {}
                None => match self.settled.get(&mount.device) {
                    Some(reason) => self.leave_alone(mount, reason.clone()),
                    None => changes.new.extend(self.take(mount, &all, group)),
                },
            }
        }
        Ok(changes)
    }

    /// Leaves the file systems that are not mounted any more, or cannot be reached.
    fn leave_those_that_are_gone<'a>(
        &mut self,
        all: &'a [Mount],
        ways: &Ways<'a>,
        group: &Group,
    ) -> Vec<Arc<FileSystem>> {
        let stays = |file_system: &FileSystem| {
            let is_it = |mount: &&Mount| {
                mount.device == file_system.volume.device && mount.point == file_system.mount
            };
            // Another mount that hides it may wait for its server: its mount point is not looked up then.
            let is_reached =
                |mount: &Mount| ways.lead_to(mount) && left_alone_unopened(mount, ways).is_none();
            all.iter().filter(is_it).any(is_reached) && file_system.is_still_there()
        };
        let mut left = Vec::new();
        self.by_id.retain(|_, file_system| {
            let stays = stays(file_system);
            if !stays {
                // At once: the file system stays in use until then.
                file_system.leave();
                left.push(file_system.clone());
            }
            stays
        });
        if !left.is_empty() {
            // A file system may live on without its mount, in a container or as something of it is open. Each open there
            // would still cost its program an event. There is no way to it to end that: reports end on all, and begin again
            // at once on those that stay.
            group.forget_file_systems();
            for file_system in self.by_id.values() {
                let _ = report(file_system, group);
            }
        }
        left
    }

    /// The watched file system of this device.
    fn known(&self, device: DeviceNumber) -> Option<Arc<FileSystem>> {
        self.by_id.values().find(|known| known.volume.device == device).cloned()
    }

    /// Whether all file systems are candidates, not only those of given paths.
    fn is_of_all(&self) -> bool {
        self.paths.is_empty()
    }

    /// The mounts of the paths, or all.
    fn wanted<'a>(&self, all: &'a [Mount], ways: &Ways<'a>) -> Vec<&'a Mount> {
        let (found, hidden): (Vec<&Mount>, Vec<&Mount>) = all.iter().partition(|mount| ways.lead_to(mount));
        let mut best = one_each(found);
        let is_found = |device| best.iter().any(|mount| mount.device == device);
        let hidden: Vec<&Mount> = hidden.into_iter().filter(|mount| !is_found(mount.device)).collect();
        best.extend(one_each(hidden));
        if self.is_of_all() {
            return best.into_iter().filter(|mount| !is_without_files(mount)).collect();
        }
        let of = |point: &PathBuf| {
            // The last is on top.
            let there = all.iter().rev().find(|mount| mount.point == *point)?;
            best.iter().copied().find(|mount| mount.device == there.device)
        };
        let mut wanted: Vec<&Mount> = self.points.iter().filter_map(of).collect();
        wanted.sort_by_key(|mount| mount.id);
        wanted.dedup();
        wanted
    }

    /// Watches a file system from now on if it is worth it.
    fn take(&mut self, mount: &Mount, all: &[Mount], group: &Group) -> Option<Arc<FileSystem>> {
        // Most need not be opened to know that.
        if let Some(reason) = left_alone_by_its_device(mount, &BackingDevice::of(mount.device)) {
            self.leave_alone_for_now(mount, reason);
            return None;
        }
        let new = match FileSystem::at(&mount.point, DeviceNo(self.next), that_holds_back) {
            Ok(new) => Arc::new(new),
            Err(cause) => {
                self.leave_alone_for_now(mount, cause.to_string());
                return None;
            }
        };
        if let Some(reason) = left_alone(&new.volume) {
            if may_seek_later(&new.volume) {
                self.leave_alone_for_now(mount, reason);
            } else {
                self.settled.insert(mount.device, reason.clone());
                self.leave_alone(mount, reason);
            }
            return None;
        }
        if let Some(reason) = self.no_room_for(&new) {
            self.leave_alone_for_now(mount, reason);
            return None;
        }
        if let Err(cause) = report(&new, group) {
            self.leave_alone_for_now(mount, format!("it cannot be watched: {cause}"));
            return None;
        }
        new.cover(&below(mount, all));
        self.next += 1;
        self.by_id.insert(new.id, new.clone());
        Some(new)
    }

    /// Why a file system is not watched though it is worth it.
    fn no_room_for(&self, new: &FileSystem) -> Option<String> {
        if self.by_id.contains_key(&new.id) {
            return Some("another file system has the same identifier: a copy of it?".to_owned());
        }
        if self.by_id.len() >= FILE_SYSTEMS {
            return Some(format!("{FILE_SYSTEMS} others are watched already"));
        }
        let disks: FxHashSet<DeviceNumber> =
            self.by_id.values().map(|known| known.volume.backing.disk).collect();
        if disks.len() >= DISKS && !disks.contains(&new.volume.backing.disk) {
            return Some(format!("{DISKS} disks are watched already"));
        }
        // Fetches are bounded by the costs of one disk.
        let below = disks_below(new.volume.backing.disk).len();
        (self.is_of_all() && below > 1)
            .then(|| format!("it spans {below} disks: it is watched where it is named instead of --all"))
    }

    /// Leaves a file system alone that was found to be worth watching. It is tried again a while later.
    pub(crate) fn give_up(&mut self, file_system: &FileSystem, group: &Group, reason: String) {
        if let Ok(view) = file_system.view() {
            group.leave_directories(view.root());
        }
        file_system.leave();
        self.by_id.remove(&file_system.id);
        self.leave_alone_at(&file_system.mount, reason);
        self.may_change = true;
    }

    /// The reason may pass while it stays mounted.
    fn leave_alone_for_now(&mut self, mount: &Mount, reason: String) {
        self.leave_alone(mount, reason);
        self.may_change = true;
    }

    fn leave_alone(&mut self, mount: &Mount, reason: String) {
        self.leave_alone_at(&mount.point, reason);
    }

    fn leave_alone_at(&mut self, mount: &Path, reason: String) {
        if self.left_alone.len() < SHOWN {
            self.left_alone.push(LeftAlone { mount: mount.to_owned(), reason });
        } else {
            self.left_alone_more += 1;
        }
    }
}

/// Has opens of directories on a file system reported.
fn report(file_system: &FileSystem, group: &Group) -> Result<(), Errno> {
    file_system.view().and_then(|view| group.watch_directories(view.root()))
}

/// A watched file system is marked again: it may have been unmounted and mounted in between. Returns whether that worked.
fn mark_again(file_system: &FileSystem, mount: &Mount, all: &[Mount], group: &Group) -> bool {
    let marked = report(file_system, group);
    file_system.cover(&below(mount, all));
    marked.is_ok()
}

/// The mount points on a mount that shows a whole file system.
fn below(mount: &Mount, all: &[Mount]) -> Vec<PathBuf> {
    let is_whole = mount.root == Path::new("/");
    covered(all, mount).into_iter().filter(|_| is_whole).map(Path::to_owned).collect()
}

fn that_holds_back(fd: BorrowedFd<'_>, device: DeviceNumber) -> Volume {
    Volume::that_holds_back(fd, device, HoldBack::Proven)
}

/// The mount point of a path's file system.
fn point_of(path: &Path, all: &[Mount]) -> Option<PathBuf> {
    let (path, device) = (path.canonicalize().ok()?, device_of(path).ok()?);
    let holds = |mount: &&Mount| mount.device == device && path.starts_with(&mount.point);
    let nearest = all.iter().filter(holds).max_by_key(|mount| mount.point.as_os_str().len())?;
    Some(nearest.point.clone())
}

/// The file system of a path, by its device number.
pub(crate) fn device_of(path: &Path) -> Result<DeviceNumber, Errno> {
    let fd = rustix::fs::open(path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?;
    Ok(DeviceNumber::from_raw(rustix::fs::fstat(&fd)?.st_dev))
}

#[cfg(test)]
#[allow(clippy::print_stdout, reason = "a test that cannot run says so")]
mod tests {
    use super::*;
    use crate::test_disk::TestDisk;
    use rustix::mount::{MountFlags, UnmountFlags, mount, unmount};
    use std::fs::File;
    use std::os::fd::{AsFd, AsRawFd};
    use std::process::Command;

    /// A group, and what watches these disks; `None`, with a message, if that is not possible here.
    fn watching(disks: &[&TestDisk]) -> Option<(Group, Watching)> {
        let paths: Vec<PathBuf> = disks.iter().map(|disk| disk.point.clone()).collect();
        match Group::of_directories() {
            Ok(group) => Some((group, Watching::new(&paths))),
            Err(error) => {
                println!("SKIPPED: fanotify needs root ({error})");
                None
            }
        }
    }

    /// How many events wait once a program has listed a directory.
    fn events_of_listing(group: &mut Group, path: &Path) -> usize {
        while group.take(|_| ()) {}
        assert!(Command::new("ls").arg(path).output().unwrap().status.success());
        group.queued()
    }

    #[test]
    fn a_file_system_that_lives_on_without_its_mount_causes_no_events() {
        let (Some(left), Some(stays)) = (TestDisk::new(true), TestDisk::new(true)) else { return };
        let Some((mut group, mut watching)) = watching(&[&left, &stays]) else { return };
        assert_eq!(watching.look(&group, Look::All).unwrap().new.len(), 2, "{:?}", watching.left_alone);
        let (process, open) = (std::process::id(), File::open(&left.point).unwrap());
        let inside = PathBuf::from(format!("/proc/{process}/fd/{}/lost+found", open.as_raw_fd()));
        for path in [&inside, &stays.point] {
            assert_eq!(events_of_listing(&mut group, path), 1, "{}", path.display());
        }
        left.hide();
        let changes = watching.look(&group, Look::All).unwrap();
        assert_eq!((changes.left.len(), changes.new.len(), changes.unmarked), (1, 0, false));
        assert_eq!(events_of_listing(&mut group, &inside), 0);
        assert_eq!(events_of_listing(&mut group, &stays.point), 1, "the other one is still watched");
    }

    #[test]
    fn a_disk_that_is_said_to_seek_is_found_without_a_change_of_mounts() {
        let (Some(disk), Some(other)) = (TestDisk::new(false), TestDisk::new(true)) else { return };
        let Some((group, mut watching)) = watching(&[&disk, &other]) else { return };
        let look = |watching: &mut Watching, look| {
            let Changes { left, new, .. } = watching.look(&group, look).unwrap();
            let points =
                |all: Vec<Arc<FileSystem>>| all.iter().map(|it| it.mount.clone()).collect::<Vec<_>>();
            (points(left), points(new))
        };
        assert_eq!(look(&mut watching, Look::All), (vec![], vec![other.point.clone()]));
        assert!(watching.may_change && watching.left_alone[0].reason.contains("does not seek"));
        assert_eq!(look(&mut watching, Look::LeftAlone), (vec![], vec![]));
        assert!(watching.may_change && watching.left_alone.len() == 1);
        disk.says(true);
        // What is watched is left as it is: a look at it may cost a disk that sleeps a read.
        other.hide();
        assert_eq!(look(&mut watching, Look::LeftAlone), (vec![], vec![disk.point.clone()]));
        assert!(!watching.may_change && watching.left_alone.is_empty(), "{:?}", watching.left_alone);
        assert_eq!(look(&mut watching, Look::All), (vec![other.point.clone()], vec![]));
        assert_eq!(watching.iter().count(), 1);
    }

    #[test]
    fn what_does_not_seek_is_not_opened() {
        let Some(disk) = TestDisk::new(false) else { return };
        let Some((group, mut watching)) = watching(&[&disk]) else { return };
        let Ok(mut opens) = Group::of_directories() else { return };
        opens.watch_directories(File::open(&disk.point).unwrap().as_fd()).unwrap();
        watching.look(&group, Look::All).unwrap();
        assert_eq!(opens.queued(), 0);
        disk.says(true);
        watching.look(&group, Look::All).unwrap();
        assert!(opens.queued() > 0);
        while opens.take(|_| ()) {}
    }

    #[test]
    fn what_can_never_be_watched_is_not_opened_until_mounts_change() {
        if !rustix::process::geteuid().is_root() {
            return println!("SKIPPED: mounting needs root");
        }
        let (folder, group) = (tempfile::tempdir().unwrap(), Group::of_directories());
        let (Ok(group), Ok(mut opens)) = (group, Group::of_directories()) else {
            return println!("SKIPPED: fanotify needs root");
        };
        mount("none", folder.path(), "tmpfs", MountFlags::empty(), None).unwrap();
        let marked = opens.watch_directories(File::open(folder.path()).unwrap().as_fd());
        let mut watching = Watching::new(&[folder.path().to_owned()]);
        let looks = [Look::All, Look::LeftAlone, Look::LeftAlone, Look::All].map(|look| {
            watching.look(&group, look).unwrap();
            let opened = opens.queued() > 0;
            while opens.take(|_| ()) {}
            (opened, watching.left_alone.len())
        });
        unmount(folder.path(), UnmountFlags::DETACH).unwrap();
        marked.unwrap();
        assert_eq!(looks, [(true, 1), (false, 1), (false, 1), (true, 1)], "{:?}", watching.left_alone);
    }

    #[test]
    fn it_is_looked_again_at_what_may_pass_alone() {
        let Some(disk) = TestDisk::new(true) else { return };
        let Some((group, mut watching)) = watching(&[&disk]) else { return };
        let new = watching.look(&group, Look::All).unwrap().new;
        assert!(!watching.may_change);
        // Its disk cannot be served.
        watching.give_up(&new[0], &group, "no threads".to_owned());
        assert!(watching.may_change && watching.iter().count() == 0);
        assert_eq!(watching.look(&group, Look::LeftAlone).unwrap().new.len(), 1);
        assert!(!watching.may_change);
        // One that another mount hides is not there until mounts change.
        mount("none", &disk.point, "tmpfs", MountFlags::empty(), None).unwrap();
        let changes = watching.look(&group, Look::All).unwrap();
        unmount(&disk.point, UnmountFlags::empty()).unwrap();
        assert_eq!((changes.left.len(), watching.may_change), (1, false), "{:?}", watching.left_alone);
    }
}
