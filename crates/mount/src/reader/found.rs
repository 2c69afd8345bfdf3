//! A file as it was opened for reading, and its layout on a device.

use super::remembered::Remembered;
use foreseek_seam::Extent;
use foreseek_storage::reads::ReadFile;
use foreseek_storage::{BackingDevice, DISK_STRIDE, DeviceNumber, HostFd, Layout};
use foreseek_units::Sectors;
use rustix::io::Errno;
use std::fs::File;
use std::os::fd::{AsFd, AsRawFd};
use std::sync::Arc;

/// The most disks whose order is remembered; a source on more disks consists of small file systems.
const DISKS_MOST: usize = 1024;

/// See the module's documentation.
pub(super) struct LaidOutFile {
    pub(super) file: Arc<ReadFile>,
    /// Its layout, if that was looked up.
    pub(super) layout: Option<(DeviceNumber, Result<Layout, Errno>)>,
}

/// The disk and the start of each file system, from a dozen files of /sys.
pub(super) type Places = Remembered<DeviceNumber, (DeviceNumber, Sectors)>;

/// The disks of files, in the order in which they were found.
#[derive(Default)]
pub(super) struct Disks(Vec<DeviceNumber>);

impl LaidOutFile {
    /// Opens a file again for direct reads, or keeps it as it is where that is not possible; looks up its
    /// layout.
    pub(super) fn of(file: &Arc<File>, places: &Places) -> Self {
        let place = HostFd::new(file.as_raw_fd()).and_then(|fd| {
            let (identity, _) = fd.identify()?;
            let (disk, start) = places.of(identity.device, || {
                let backing = BackingDevice::of(identity.device);
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

impl Disks {
    /// Extents in the engine's numbering: disk after disk.
    pub(super) fn placed(&mut self, disk: DeviceNumber, layout: Layout) -> Vec<Extent> {
        let at = self.0.iter().position(|known| *known == disk).unwrap_or_else(|| {
            if self.0.len() < DISKS_MOST {
                self.0.push(disk);
            }
            self.0.len() - 1
        });
        let mut extents = layout.extents;
        extents.iter_mut().for_each(|extent| extent.lba += DISK_STRIDE * at as u64);
        extents
    }
}
