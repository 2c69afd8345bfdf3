//! What this machine must have.

use crate::{Error, Result};
use foreseek_server::{Client, Health, Kind, ServerFolder};
use foreseek_units::Bytes;
use std::path::{Path, PathBuf};

/// What is missing here for comparisons on a real block device, each with its remedy; empty where nothing
/// is.
#[must_use]
pub fn missing() -> Vec<String> {
    let mut missing = Vec::new();
    if !rustix::process::geteuid().is_root() {
        missing.push("root (run it with sudo)".to_owned());
    }
    for (device, module) in [("/dev/fuse", "fuse"), ("/dev/loop-control", "loop")] {
        if !Path::new(device).exists() {
            missing.push(format!("{device} (modprobe {module})"));
        }
    }
    if Client::of(&ServerFolder::of(Kind::Watch, "watch")).health() != Health::Dead {
        missing.push(
            "a machine without a watcher, which may read ahead of all runs (foreseek watch --stop)"
                .to_owned(),
        );
    }
    missing
}

/// Whether the kernel pages out memory that looks idle while there is enough of it (a scheme of DAMON): it evicts some of
/// what was read ahead.
#[must_use]
pub fn pages_out_idle_memory() -> bool {
    pages_out_within(Path::new("/sys"))
}

fn pages_out_within(sys: &Path) -> bool {
    let says =
        |file: &Path, value: &str| std::fs::read_to_string(file).is_ok_and(|text| text.trim() == value);
    let folders_in = |folder: &Path| {
        let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
        entries.map(|entry| entry.path()).filter(|path| path.is_dir()).collect::<Vec<PathBuf>>()
    };
    let pages_out = |context: &PathBuf| {
        folders_in(&context.join("schemes")).iter().any(|scheme| says(&scheme.join("action"), "pageout"))
    };
    let runs = |monitor: &PathBuf| says(&monitor.join("state"), "on");
    let monitors = folders_in(&sys.join("kernel/mm/damon/admin/kdamonds")).into_iter().filter(runs);
    says(&sys.join("module/damon_reclaim/parameters/enabled"), "Y")
        || monitors
            .flat_map(|monitor| folders_in(&monitor.join("contexts")))
            .any(|context| pages_out(&context))
}

/// Checks that a folder's file system has this much space.
///
/// # Errors
/// [`Error::NoSpace`], or the system's.
pub fn check_space(folder: &Path, needed: Bytes) -> Result<()> {
    let space =
        rustix::fs::statvfs(folder).map_err(|error| Error::io("cannot look at", folder.display(), error))?;
    let available = Bytes(space.f_bavail * space.f_frsize);
    if available < needed {
        return Err(Error::NoSpace { path: folder.into(), available, needed });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scheme_that_pages_out_is_seen_while_its_monitor_runs() {
        let sys = tempfile::tempdir().expect("a folder");
        assert!(!pages_out_within(sys.path()));
        let monitor = sys.path().join("kernel/mm/damon/admin/kdamonds/1");
        let scheme = monitor.join("contexts/0/schemes/0");
        std::fs::create_dir_all(&scheme).expect("made");
        for (state, action, expected) in
            [("off", "pageout", false), ("on", "stat", false), ("on", "pageout", true)]
        {
            std::fs::write(monitor.join("state"), format!("{state}\n")).expect("written");
            std::fs::write(scheme.join("action"), format!("{action}\n")).expect("written");
            assert_eq!(pages_out_within(sys.path()), expected, "{state} {action}");
        }
        std::fs::write(monitor.join("state"), "off\n").expect("written");
        let module = sys.path().join("module/damon_reclaim/parameters");
        std::fs::create_dir_all(&module).expect("made");
        std::fs::write(module.join("enabled"), "Y\n").expect("written");
        assert!(pages_out_within(sys.path()));
    }

    #[test]
    fn too_little_room_is_told_with_what_there_is() {
        check_space(Path::new("/"), Bytes(1)).expect("a byte");
        let error = check_space(Path::new("/"), Bytes(u64::MAX)).expect_err("nobody has that").to_string();
        assert!(error.contains("free some"), "{error}");
    }
}
