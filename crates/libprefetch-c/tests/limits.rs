//! A memory limit: the buffer fits into the control group that the program runs in.
#![allow(clippy::print_stdout)]

mod common;

use common::*;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

const LIMIT_BYTES: u64 = 32 << 20;
const FILE_PAGES: usize = 12_000; // 47 MiB

/// A memory control group of this test's own, removed at its end.
struct Group {
    path: PathBuf,
}

impl Group {
    /// Below the group of this process; `None`, and says so, where that can't be.
    fn make() -> Option<Self> {
        let cgroups = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
        let own = |name: &str| {
            cgroups.lines().find_map(|line| {
                let (head, path) = line.rsplit_once(':')?;
                let (_, controllers) = head.split_once(':')?;
                controllers
                    .split(',')
                    .any(|known| known == name)
                    .then(|| path.trim_start_matches('/').to_owned())
            })
        };
        let name = format!("foreseek-test-{}", std::process::id());
        let places = [
            own("memory")
                .map(|path| (Path::new("/sys/fs/cgroup/memory").join(path), "memory.limit_in_bytes")),
            own("").map(|path| (Path::new("/sys/fs/cgroup").join(path), "memory.max")),
        ];
        for (parent, file) in places.into_iter().flatten() {
            let group = Self { path: parent.join(&name) };
            if fs::create_dir(&group.path).is_ok()
                && group.path.join(file).exists()
                && fs::write(group.path.join(file), LIMIT_BYTES.to_string()).is_ok()
            {
                return Some(group);
            }
        }
        println!("SKIPPED: cannot make a memory control group (needs root and the memory controller)");
        None
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // A group goes when its last process is gone.
        for _ in 0..200 {
            if fs::remove_dir(&self.path).is_ok() || !self.path.exists() {
                return;
            }
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
    }
}

#[test]
fn a_scan_in_a_limited_group_uses_its_share_and_no_more() {
    if !has("cc") {
        return;
    }
    let prefix = folder();
    install(prefix.path());
    let program = compile(prefix.path(), "examples/scan.c", &[]);
    let file = numbered_file(prefix.path(), FILE_PAGES);
    let Some(group) = Group::make() else { return };
    let stats = prefix.path().join("stats.json");
    let run = |disable: &str| {
        let script = "echo $$ > \"$0/cgroup.procs\" && exec \"$@\"";
        let output = Command::new("sh")
            .args(["-c", script])
            .arg(&group.path)
            .arg(&program)
            .arg(&file)
            .env("LD_LIBRARY_PATH", prefix.path().join("lib"))
            .env("FORESEEK_STATS", &stats)
            .env("FORESEEK_DISABLE", disable)
            .output()
            .unwrap();
        succeed(&output)
    };
    drop_from_memory(&file);
    let with = run("0");
    let text = fs::read_to_string(&stats).unwrap();
    drop_from_memory(&file);
    let without = run("1");
    assert_eq!(with, without);
    let json: serde_json::Value = serde_json::from_str(&text).unwrap();
    let count = |name: &str| json["clients"][0][name].as_u64().unwrap();
    println!("{json}");
    assert_eq!(count("reads"), FILE_PAGES as u64);
    let limit_pages = LIMIT_BYTES / 4096;
    assert!(count("buffer_pages") <= limit_pages * 95 / 100, "no more than 95 % of the limit");
    assert!(count("buffer_pages") >= limit_pages / 10, "it did not collapse");
    assert!(count("rounds") >= 2, "the file does not fit");
    let wanted = count("fetched_pages") - count("infill_pages");
    assert!(wanted >= FILE_PAGES as u64 * 9 / 10 && wanted <= FILE_PAGES as u64 * 3 / 2, "{wanted}");
    assert!(count("evicted_pages") <= FILE_PAGES as u64 / 20, "the buffer was kept until it was read");
}
