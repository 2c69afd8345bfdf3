//! What earlier demos left: those that were killed, or kept their disk.
//!
//! A demo names its disk, its folder and its control group by its process. Those of a process that runs are not
//! reported; a new process with the id of an ended one hides what that left.

use crate::{Error, Result};
use foreseek_emulate::client::{self, Listed};
use foreseek_rig::CgroupParent;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

/// The names of a disk, a folder and a control group of a demo begin with these, and its process follows.
const DISK: &str = "demo-";
const FOLDER: &str = "foreseek-demo-";

/// The name of this process's disk.
pub(crate) fn disk_name() -> String {
    format!("{DISK}{}", std::process::id())
}

/// Makes a folder of this process, which is removed when dropped.
pub(crate) fn make_folder() -> Result<TempDir> {
    tempfile::Builder::new()
        .prefix(&format!("{FOLDER}{}-", std::process::id()))
        .tempdir()
        .map_err(|error| Error::io("cannot make a folder in", std::env::temp_dir().display(), error))
}

/// What one demo left.
#[derive(Debug, Default, PartialEq, Eq)]
struct Left {
    disk: Option<String>,
    folders: Vec<PathBuf>,
    groups: Vec<PathBuf>,
}

/// What demos that have ended left behind, one sentence for each, with the commands that remove it.
#[must_use]
pub fn left_behind() -> Vec<String> {
    let disks = client::list().unwrap_or_default();
    let groups = CgroupParent::find().map(|parent| entries(&parent.parent)).unwrap_or_default();
    let found = found(&disks, entries(&std::env::temp_dir()), groups);
    let ended =
        found.into_iter().filter(|(process, _)| !Path::new("/proc").join(process.to_string()).exists());
    ended.map(|(process, left)| left.describe(process)).collect()
}

fn entries(folder: &Path) -> Vec<PathBuf> {
    fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path()).collect()
}

/// What there is of each demo, by its process.
fn found(disks: &[Listed], folders: Vec<PathBuf>, groups: Vec<PathBuf>) -> BTreeMap<u32, Left> {
    let mut all: BTreeMap<u32, Left> = BTreeMap::new();
    for disk in disks {
        if let Some(process) = process_of(&disk.name, DISK) {
            all.entry(process).or_default().disk = Some(disk.name.clone());
        }
    }
    let named = |path: &Path| process_of(path.file_name()?.to_str()?, FOLDER);
    for folder in folders {
        if let Some(process) = named(&folder) {
            all.entry(process).or_default().folders.push(folder);
        }
    }
    for group in groups {
        if let Some(process) = named(&group) {
            all.entry(process).or_default().groups.push(group);
        }
    }
    all
}

/// The process in a name: the digits after its beginning, up to the end or a dash.
fn process_of(name: &str, beginning: &str) -> Option<u32> {
    name.strip_prefix(beginning)?.split('-').next()?.parse().ok()
}

impl Left {
    fn describe(&self, process: u32) -> String {
        let mut parts: Vec<String> = self.disk.iter().map(|name| format!("the disk {name}")).collect();
        let mut commands: Vec<String> =
            self.disk.iter().map(|name| format!("foreseek disk detach --force {name}")).collect();
        for folder in &self.folders {
            parts.push(folder.display().to_string());
            commands.push(format!("rm -r {}", folder.display()));
        }
        for group in &self.groups {
            parts.push(group.display().to_string());
            commands.push(format!("rmdir {}", group.display()));
        }
        format!(
            "a demo that has ended (process {process}) left {}: '{}' removes it",
            parts.join(", "),
            commands.join(" && ")
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_demo_left_is_found_by_its_process_and_named_with_the_remedy() {
        let disk = |name: &str| Listed { name: name.to_owned(), ..Listed::default() };
        let disks = [disk("demo-7"), disk("demo-night"), disk("disk0")];
        let folders = ["/tmp/foreseek-demo-7-aXc", "/tmp/foreseek-demo-9-b", "/tmp/x"].map(PathBuf::from);
        let groups = ["/cg/foreseek-demo-7", "/cg/foreseek-bench-7"].map(PathBuf::from);
        let found = found(&disks, folders.to_vec(), groups.to_vec());
        assert_eq!(found.keys().copied().collect::<Vec<_>>(), [7, 9]);
        assert_eq!(
            found[&7].describe(7),
            "a demo that has ended (process 7) left the disk demo-7, /tmp/foreseek-demo-7-aXc, \
             /cg/foreseek-demo-7: 'foreseek disk detach --force demo-7 && rm -r /tmp/foreseek-demo-7-aXc && rmdir \
             /cg/foreseek-demo-7' removes it"
        );
        assert!(found[&9].describe(9).contains("'rm -r /tmp/foreseek-demo-9-b'"));
    }
}
