//! The watched file systems: found when the watcher starts, and again when mounts change.

use crate::disks::DISKS;
use crate::error::{Error, Result};
use crate::file_system::FileSystem;
use crate::mounts::{
    Mount, Ways, covered, is_without_files, left_alone, left_alone_unopened, mounts, one_each,
};
use crate::status::LeftAlone;
use foreseek_places::{HoldBack, Volume};
use foreseek_storage::fanotify::{FileSystemId, Group};
use foreseek_storage::{DeviceNumber, disks_below};
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

    /// Reads the present mounts; marks those to watch.
    ///
    /// # Errors
    /// The mounts cannot be read.
    pub(crate) fn look(&mut self, group: &Group) -> Result<Changes> {
        let text = std::fs::read("/proc/self/mountinfo").map_err(|error| Error::System {
            operation: "cannot read /proc/self/mountinfo",
            cause: Errno::from_io_error(&error).unwrap_or(Errno::IO),
        })?;
        let all = mounts(&text);
        let mut changes = Changes::default();
        let ways = Ways::new(&all);
        let stays = |file_system: &FileSystem| {
            let is_it = |mount: &&Mount| {
                mount.device == file_system.volume.device && mount.point == file_system.mount
            };
            // Another mount that hides it may wait for its server: its mount point is not looked up then.
            let is_reached =
                |mount: &Mount| ways.lead_to(mount) && left_alone_unopened(mount, &ways).is_none();
            all.iter().filter(is_it).any(is_reached) && file_system.is_still_there()
        };
        self.by_id.retain(|_, file_system| {
            let stays = stays(file_system);
            if !stays {
                // At once: the file system stays in use until then.
                file_system.leave();
                changes.left.push(file_system.clone());
            }
            stays
        });
        if self.points.is_empty() {
            self.points = self.paths.iter().filter_map(|path| point_of(path, &all)).collect();
        }
        self.left_alone.clear();
        self.left_alone_more = 0;
        let (mut found, hidden): (Vec<&Mount>, Vec<&Mount>) =
            self.wanted(&all, &ways).into_iter().partition(|mount| ways.lead_to(mount));
        // Container hosts have hundreds of overlays, and the list is bounded.
        found.sort_by_key(|mount| mount.kind == "overlay");
        for mount in hidden {
            self.leave_alone(mount, "another mount hides it".to_owned());
        }
        for mount in found {
            self.take(mount, &all, &ways, group, &mut changes);
        }
        Ok(changes)
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

    fn take(&mut self, mount: &Mount, all: &[Mount], ways: &Ways<'_>, group: &Group, changes: &mut Changes) {
        if let Some(reason) = left_alone_unopened(mount, ways) {
            return self.leave_alone(mount, reason);
        }
        let known = self.by_id.values().find(|known| known.volume.device == mount.device).cloned();
        let is_new = known.is_none();
        let file_system = match known {
            Some(known) => known,
            None => match FileSystem::at(&mount.point, DeviceNo(self.next), that_holds_back) {
                Ok(new) => Arc::new(new),
                Err(cause) => return self.leave_alone(mount, cause.to_string()),
            },
        };
        if let Some(reason) = left_alone(&file_system.volume) {
            return self.leave_alone(mount, reason);
        }
        if is_new && let Some(reason) = self.no_room_for(&file_system) {
            return self.leave_alone(mount, reason);
        }
        // A known one is marked again: it may have been unmounted and mounted in between.
        let marked = file_system.view().and_then(|view| group.watch_directories(view.root()));
        if let Err(cause) = marked {
            return self.leave_alone(mount, format!("it cannot be watched: {cause}"));
        }
        let below: Vec<PathBuf> = if mount.root == Path::new("/") {
            covered(all, mount).into_iter().map(Path::to_owned).collect()
        } else {
            Vec::new()
        };
        file_system.cover(&below);
        if is_new {
            self.next += 1;
            self.by_id.insert(file_system.id, file_system.clone());
            changes.new.push(file_system);
        }
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

    /// Leaves a file system alone that was found to be worth watching. The next look tries it again.
    pub(crate) fn give_up(&mut self, file_system: &FileSystem, group: &Group, reason: String) {
        if let Ok(view) = file_system.view() {
            group.leave_directories(view.root());
        }
        file_system.leave();
        self.by_id.remove(&file_system.id);
        self.leave_alone_at(&file_system.mount, reason);
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
