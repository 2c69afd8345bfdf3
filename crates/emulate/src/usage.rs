//! Who uses a block device: mounts, swap areas, stacked devices and open descriptors.

use foreseek_export::mount_table::mounts;
use foreseek_storage::loop_device::LoopDevice;
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// Users named in a message; more are only counted.
const NAMED: usize = 5;

/// Who uses a device.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Users {
    /// Where a file system on it is mounted.
    pub(crate) mount_points: Vec<PathBuf>,
    /// The others, each in words.
    pub(crate) others: Vec<String>,
}

impl Users {
    /// Who uses `device` now, as far as this process can see; the `server` process does not count.
    pub(crate) fn of(device: &LoopDevice, server: Option<u32>) -> Self {
        let numbers = device_numbers(device);
        let node = device.path();
        let mut users = Self {
            mount_points: mounts()
                .into_iter()
                .filter(|mount| numbers.contains(&mount.device) || mount.source == node)
                .map(|mount| mount.point)
                .collect(),
            others: Vec::new(),
        };
        let swaps = fs::read_to_string("/proc/swaps").unwrap_or_default();
        if swaps.lines().any(|line| line.split_whitespace().next().map(Path::new) == Some(&node)) {
            users.others.push("used for swap".to_owned());
        }
        for holder in fs::read_dir(device.sysfs().join("holders")).into_iter().flatten().flatten() {
            users.others.push(format!("part of /dev/{}", holder.file_name().to_string_lossy()));
        }
        users.others.extend(openers(&node, server));
        users
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.mount_points.is_empty() && self.others.is_empty()
    }

    /// All of it in words.
    pub(crate) fn describe(&self) -> String {
        let mounted = self.mount_points.iter().map(|point| format!("mounted on {}", point.display()));
        let mut words: Vec<String> = mounted.chain(self.others.iter().cloned()).collect();
        if words.len() > NAMED {
            let more = words.len() - NAMED;
            words.truncate(NAMED);
            words.push(format!("{more} more"));
        }
        words.join(", ")
    }
}

/// `major:minor` of the device and its partitions.
fn device_numbers(device: &LoopDevice) -> BTreeSet<String> {
    let sysfs = device.sysfs();
    let parts = fs::read_dir(&sysfs).into_iter().flatten().flatten().map(|entry| entry.path());
    std::iter::once(sysfs.clone())
        .chain(parts.filter(|path| path.join("partition").exists()))
        .filter_map(|path| fs::read_to_string(path.join("dev")).ok())
        .map(|number| number.trim().to_owned())
        .collect()
}

/// Processes but one that have the node open.
fn openers(node: &Path, but: Option<u32>) -> Vec<String> {
    let mut found = Vec::new();
    for process in fs::read_dir("/proc").into_iter().flatten().flatten() {
        let Ok(pid) = process.file_name().to_string_lossy().parse::<u32>() else { continue };
        if Some(pid) == but {
            continue;
        }
        let mut descriptors = fs::read_dir(process.path().join("fd")).into_iter().flatten().flatten();
        if descriptors.any(|fd| fs::read_link(fd.path()).is_ok_and(|target| target == node)) {
            let command = fs::read_to_string(process.path().join("comm")).unwrap_or_default();
            found.push(format!("opened by {} (process {pid})", command.trim()));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_list_is_cut() {
        let users = Users { mount_points: vec!["/a".into()], others: vec!["x".to_owned(); 9] };
        assert_eq!(users.describe(), "mounted on /a, x, x, x, x, 5 more");
    }
}
