//! The files that the engine knows as objects: their versions, and the open ones' descriptors.
//!
//! What is known of a file outlives its last close, so that opening it again finds the pages that were
//! prefetched meanwhile, as long as its version is the same. How many closed files are remembered is
//! bounded; of one that was forgotten nothing is taken for granted.

use super::remembered::Remembered;
use crate::read_path::Version;
use foreseek_seam::{Epoch, Extent, ObjectId};
use foreseek_storage::reads::ReadFile;
use foreseek_storage::{Backing, DISK_STRIDE, DeviceNumber, HostFd, Layout};
use foreseek_units::{Bytes, Sectors};
use rustc_hash::FxHashMap;
use std::fs::File;
use std::os::fd::{AsFd, AsRawFd};
use std::sync::Arc;

/// Closed files that are remembered: some 100 bytes each.
const CLOSED_MOST: usize = 65_536;
/// Disks whose place is remembered; a source on more is a source of small file systems.
const DISKS_MOST: usize = 1024;

/// A file as it was opened for reading.
pub(super) struct Found {
    pub(super) file: Arc<ReadFile>,
    /// Where it lies, if that was looked up.
    pub(super) layout: Option<(DeviceNumber, Result<Layout, rustix::io::Errno>)>,
}

/// On which disk file systems lie, and from where on: a dozen files of /sys tell.
pub(super) type Places = Remembered<DeviceNumber, (DeviceNumber, Sectors)>;

/// All objects.
#[derive(Default)]
pub(super) struct Objects {
    known: FxHashMap<ObjectId, Object>,
    closed: usize,
    /// The last one given: each change gets one of its own, so that no fetch of an older one fits.
    epoch: u32,
    disks: Vec<DeviceNumber>,
}

struct Object {
    version: Version,
    epoch: Epoch,
    /// How many streams there are; the file is there while there is one.
    streams: usize,
    file: Option<Arc<ReadFile>>,
}

/// What an opened object turned out to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Opening {
    /// As it was.
    Same,
    /// Another version, or a new one.
    Changed(Epoch),
}

impl Found {
    /// Opens a file anew for direct reads, or takes it as it is where that is not possible; looks up
    /// where it lies.
    pub(super) fn of(file: &Arc<File>, places: &Places) -> Self {
        let place = HostFd::new(file.as_raw_fd()).and_then(|fd| {
            let (identity, _) = fd.identify()?;
            let (disk, start) = places.of(identity.device, || {
                let backing = Backing::of(identity.device);
                (backing.disk, backing.start)
            });
            Some((disk, Layout::of(fd, &identity, start)))
        });
        let file = ReadFile::reopen(file.as_fd()).unwrap_or_else(|errno| {
            tracing::warn!("cannot open a file of the source once more ({errno}): it is read as it is");
            ReadFile::buffered_over(Arc::clone(file))
        });
        Self { file: Arc::new(file), layout: place }
    }
}

impl Objects {
    /// The file of an object that is open.
    pub(super) fn file(&self, object: ObjectId) -> Option<Arc<ReadFile>> {
        self.known.get(&object)?.file.clone()
    }

    /// The length of an object.
    pub(super) fn length(&self, object: ObjectId) -> Bytes {
        self.known.get(&object).map_or(Bytes::ZERO, |object| object.version.length)
    }

    /// An object was opened once more.
    pub(super) fn open(&mut self, id: ObjectId, version: Version, file: &Arc<ReadFile>) -> Opening {
        let epoch = self.epoch;
        let mut new = false;
        let object = self.known.entry(id).or_insert_with(|| {
            new = true;
            Object { version, epoch: Epoch(epoch), streams: 0, file: None }
        });
        self.closed -= usize::from(!new && object.streams == 0);
        object.streams += 1;
        object.file.get_or_insert_with(|| Arc::clone(file));
        if new || object.version != version {
            Opening::Changed(self.change(id, version))
        } else {
            Opening::Same
        }
    }

    /// A stream of an object was closed; its file, where it was the last.
    pub(super) fn close(&mut self, id: ObjectId) -> Option<Arc<ReadFile>> {
        let object = self.known.get_mut(&id)?;
        object.streams = object.streams.saturating_sub(1);
        if object.streams > 0 {
            return None;
        }
        let file = object.file.take();
        self.closed += 1;
        if self.closed > CLOSED_MOST {
            self.known.retain(|_, object| object.streams > 0);
            self.closed = 0;
        }
        file
    }

    /// What is known of an object, if anything.
    pub(super) fn known(&self, id: ObjectId) -> Option<Version> {
        self.known.get(&id).map(|object| object.version)
    }

    /// An object that is known has another version: its epoch from now on.
    pub(super) fn change(&mut self, id: ObjectId, version: Version) -> Epoch {
        self.epoch = self.epoch.wrapping_add(1);
        if let Some(object) = self.known.get_mut(&id) {
            (object.version, object.epoch) = (version, Epoch(self.epoch));
        }
        Epoch(self.epoch)
    }

    /// Extents as the engine counts them: disk after disk.
    pub(super) fn placed(&mut self, disk: DeviceNumber, layout: Layout) -> Vec<Extent> {
        let at = self.disks.iter().position(|known| *known == disk).unwrap_or_else(|| {
            if self.disks.len() < DISKS_MOST {
                self.disks.push(disk);
            }
            self.disks.len() - 1
        });
        let mut extents = layout.extents;
        extents.iter_mut().for_each(|extent| extent.lba += DISK_STRIDE * at as u64);
        extents
    }
}
