//! A small ext4 on a loop device of its own, for tests of what cannot be seen from outside.

#![allow(clippy::print_stdout, reason = "a test that cannot run says so")]

use crate::file_system::FileSystem;
use foreseek_places::Volume;
use foreseek_storage::loop_device::{LoopDevice, LoopOptions};
use foreseek_walks::DeviceNo;
use rustix::fs::{Mode, OFlags};
use rustix::mount::{MountFlags, UnmountFlags, mount, unmount};
use std::fs::{self, File};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Longest wait.
const LIMIT: Duration = Duration::from_secs(30);

/// Waits until a condition holds; returns whether it did within the limit.
pub(crate) fn until(mut holds: impl FnMut() -> bool) -> bool {
    let begun = Instant::now();
    while begun.elapsed() < LIMIT {
        if holds() {
            return true;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    holds()
}

/// See the module's documentation. It is removed when dropped.
pub(crate) struct TestDisk {
    device: LoopDevice,
    pub(crate) point: PathBuf,
    _place: tempfile::TempDir,
}

impl TestDisk {
    /// One that says of itself that it seeks, or does not; `None`, with a message, if the machine does not allow it.
    pub(crate) fn new(rotational: bool) -> Option<Self> {
        if !rustix::process::geteuid().is_root() {
            println!("SKIPPED: mounting needs root");
            return None;
        }
        let place = tempfile::tempdir_in("/var/tmp").unwrap();
        let (image, point) = (place.path().join("image"), place.path().join("point"));
        fs::create_dir(&point).unwrap();
        let file = File::options().create_new(true).read(true).write(true).open(&image).unwrap();
        file.set_len(128 << 20).unwrap();
        let options = ["-q", "-F", "-E", "lazy_itable_init=0,lazy_journal_init=0"];
        let made = Command::new("mkfs.ext4").args(options).arg(&image).status();
        if !made.is_ok_and(|status| status.success()) {
            println!("SKIPPED: mkfs.ext4 is not installed");
            return None;
        }
        match LoopDevice::attach(&file, &image, LoopOptions { rotational, ..LoopOptions::DISK }) {
            Ok(device) => {
                let disk = Self { device, point, _place: place };
                disk.mount();
                Some(disk)
            }
            Err(error) => {
                println!("SKIPPED: {error}");
                None
            }
        }
    }

    pub(crate) fn mount(&self) {
        mount(self.device.path(), &self.point, "ext4", MountFlags::empty(), None).unwrap();
    }

    pub(crate) fn unmount(&self) {
        assert!(until(|| unmount(&self.point, UnmountFlags::empty()).is_ok()), "it stays busy");
    }

    /// Unmounts it though it is in use.
    pub(crate) fn hide(&self) {
        unmount(&self.point, UnmountFlags::DETACH).unwrap();
    }

    /// Whether the device has no users: nothing holds it, and this process has not opened it.
    pub(crate) fn is_free(&self) -> bool {
        let number = fs::metadata(self.device.path()).unwrap().rdev();
        let own = fs::read_dir("/proc/self/fd").unwrap().flatten();
        let mut own = own.filter_map(|fd| fs::metadata(fd.path()).ok());
        if own.any(|stat| stat.file_type().is_block_device() && stat.rdev() == number) {
            return false;
        }
        let flags = OFlags::RDONLY | OFlags::EXCL | OFlags::CLOEXEC;
        rustix::fs::open(self.device.path(), flags, Mode::empty()).is_ok()
    }

    /// Evicts all of it from memory.
    pub(crate) fn cold(&self) {
        self.unmount();
        assert!(until(|| self.is_free()), "its device stays in use");
        assert!(
            Command::new("blockdev").arg("--flushbufs").arg(self.device.path()).status().unwrap().success()
        );
        self.mount();
    }

    /// It says of itself from now on that it seeks, or does not.
    pub(crate) fn says(&self, rotational: bool) {
        let path = self.device.path();
        let name = path.file_name().unwrap().to_string_lossy();
        fs::write(format!("/sys/block/{name}/queue/rotational"), u8::from(rotational).to_string()).unwrap();
    }

    /// As a watcher has it.
    pub(crate) fn file_system(&self, number: u32) -> Arc<FileSystem> {
        Arc::new(FileSystem::at(&self.point, DeviceNo(number), Volume::of).unwrap())
    }
}

impl Drop for TestDisk {
    fn drop(&mut self) {
        let _ = unmount(&self.point, UnmountFlags::DETACH);
        let _ = self.device.clear(LIMIT);
    }
}
