//! A memory limit: the buffer fits into the control group that the program runs in, and two programs in one group share it.
#![allow(clippy::print_stdout)]

mod common;

use common::*;
use serde_json::Value;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

const LIMIT_BYTES: u64 = 32 << 20;
const FILE_PAGES: usize = 12_000; // 47 MiB

/// A memory control group for this test, removed at its end.
struct Group {
    path: PathBuf,
}

impl Group {
    /// Below the group of this process; `None`, with a message, if that is not possible.
    fn make(name: &str) -> Option<Self> {
        let cgroups = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
        let own = |controller: &str| {
            cgroups.lines().find_map(|line| {
                let (head, path) = line.rsplit_once(':')?;
                let (_, controllers) = head.split_once(':')?;
                controllers
                    .split(',')
                    .any(|known| known == controller)
                    .then(|| path.trim_start_matches('/').to_owned())
            })
        };
        let name = format!("foreseek-test-{name}-{}", std::process::id());
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
        // A group can be removed when its last process is gone.
        for _ in 0..200 {
            if fs::remove_dir(&self.path).is_ok() || !self.path.exists() {
                return;
            }
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
    }
}

/// The example, to be run in a group: it reads each page of a file once in an order of its own.
struct Scans {
    prefix: tempfile::TempDir,
    program: PathBuf,
}

impl Scans {
    fn new() -> Option<Self> {
        if !has("cc") {
            return None;
        }
        let prefix = folder();
        install(prefix.path());
        let program = compile(prefix.path(), "examples/scan.c", &[]);
        Some(Self { prefix, program })
    }

    /// A scan that enters the group, and begins when a line comes on its standard input.
    fn start(&self, group: &Group, file: &Path, stats: &Path, disable: &str) -> Child {
        let script = "echo $$ > \"$0/cgroup.procs\" && read line && exec \"$@\"";
        Command::new("sh")
            .args(["-c", script])
            .arg(&group.path)
            .arg(&self.program)
            .arg(file)
            .env("LD_LIBRARY_PATH", self.prefix.path().join("lib"))
            .env("FORESEEK_STATS", stats)
            .env("FORESEEK_DISABLE", disable)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap()
    }
}

/// Lets them begin together, and waits for them; returns their output.
fn finish(mut scans: Vec<Child>) -> Vec<String> {
    for scan in &mut scans {
        scan.stdin.take().unwrap().write_all(b"\n").unwrap();
    }
    scans.into_iter().map(|scan| succeed(&scan.wait_with_output().unwrap())).collect()
}

fn counters(stats: &Path) -> Value {
    let json: Value = serde_json::from_str(&fs::read_to_string(stats).unwrap()).unwrap();
    println!("{json}");
    json["clients"][0].clone()
}

#[test]
fn a_scan_in_a_limited_group_stays_within_its_share() {
    let Some(scans) = Scans::new() else { return };
    let file = numbered_file(scans.prefix.path(), FILE_PAGES);
    let Some(group) = Group::make("one") else { return };
    let stats = scans.prefix.path().join("stats.json");
    let run = |disable: &str| {
        drop_from_memory(&file);
        finish(vec![scans.start(&group, &file, &stats, disable)])
    };
    assert_eq!(run("0"), run("1"));
    let counters = counters(&stats);
    let count = |name: &str| counters[name].as_u64().unwrap();
    assert_eq!(count("reads"), FILE_PAGES as u64);
    let limit_pages = LIMIT_BYTES / 4096;
    assert!(count("buffer_pages") <= limit_pages * 95 / 100, "no more than 95 % of the limit");
    assert!(count("buffer_pages") >= limit_pages / 10, "it did not collapse");
    assert!(count("rounds") >= 2, "the file does not fit");
    let wanted = count("fetched_pages") - count("infill_pages");
    assert!(wanted >= FILE_PAGES as u64 * 9 / 10 && wanted <= FILE_PAGES as u64 * 3 / 2, "{wanted}");
    assert!(
        count("evicted_pages") <= FILE_PAGES as u64 / 20,
        "the buffer stayed in memory until it was read"
    );
}

#[test]
fn two_programs_in_one_group_both_gain_and_evict_little_of_each_other() {
    let Some(scans) = Scans::new() else { return };
    let folders = [0, 1].map(|at| {
        let folder = scans.prefix.path().join(at.to_string());
        fs::create_dir(&folder).unwrap();
        folder
    });
    let files = folders.each_ref().map(|folder| numbered_file(folder, FILE_PAGES));
    let Some(group) = Group::make("two") else { return };
    let start = |at: usize| scans.start(&group, &files[at], &folders[at].join("stats.json"), "0");
    let outputs = finish(vec![start(0), start(1)]);
    assert_eq!(outputs[0], outputs[1], "the files are the same");
    let both = folders.each_ref().map(|folder| counters(&folder.join("stats.json")));
    let (pages, limit_pages) = (FILE_PAGES as u64, LIMIT_BYTES / 4096);
    for counters in &both {
        let count = |name: &str| counters[name].as_u64().unwrap();
        assert_eq!(count("reads"), pages);
        assert!(count("misses") <= pages / 10, "it gains: without the library nearly every read misses");
        assert!(count("evicted_pages") <= pages / 20, "the other evicts few of the fetched pages");
        // Pages that the halved buffers released are fetched once more.
        assert!(count("fetched_pages") <= pages * 2, "it does not fetch evicted pages again and again");
        assert!(count("buffer_pages") >= limit_pages / 10, "its share did not collapse");
    }
}
