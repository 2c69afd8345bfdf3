//! The record of a check, and parts of checks that other processes run.

use crate::common::spawn;
use crate::{contents, limits, locks, permissions};
use rustix::io::Errno;
use std::fmt::Debug;
use std::io::Write;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// The part that a child runs.
const PART: &str = "FORESEEK_TEST_PART";
/// The directory in which it runs.
const DIRECTORY: &str = "FORESEEK_TEST_DIRECTORY";

/// A part of a check.
pub(crate) type Part = fn(&mut Record, &Path);

/// Parts that other processes run.
pub(crate) const PARTS: [(&str, Part); 12] = [
    ("as_other", permissions::as_other),
    ("in_sticky", permissions::in_sticky),
    ("in_setgid", permissions::in_setgid),
    ("writes_set_user_id", permissions::writes_set_user_id),
    ("by_access_list", permissions::by_access_list),
    ("in_group", permissions::in_group),
    ("appends", contents::append_many),
    ("tries_whole", locks::tries_whole),
    ("tries_records", locks::tries_records),
    ("waits_whole", locks::waits_whole),
    ("waits_records", locks::waits_records),
    ("writes_within_a_limit", limits::writes_within_a_limit),
];

/// The results of a check's calls, in order.
#[derive(Default)]
pub(crate) struct Record {
    pub(crate) lines: Vec<String>,
}

impl Record {
    /// Records the result of a call, and returns it.
    pub(crate) fn note<T: Debug, E: Into<std::io::Error>>(
        &mut self,
        call: &str,
        result: Result<T, E>,
    ) -> Option<T> {
        match result {
            Ok(value) => {
                self.lines.push(format!("{call}: {value:?}"));
                Some(value)
            }
            Err(error) => {
                let error = Errno::from_io_error(&error.into());
                self.lines.push(format!("{call}: failed: {error:?}"));
                None
            }
        }
    }

    /// The same for a result that differs each time (a descriptor): only its success is recorded.
    pub(crate) fn have<T, E: Into<std::io::Error>>(&mut self, call: &str, result: Result<T, E>) -> Option<T> {
        match result {
            Ok(value) => {
                self.lines.push(format!("{call}: had"));
                Some(value)
            }
            Err(error) => {
                self.note(call, Err::<(), E>(error));
                None
            }
        }
    }

    /// Records an observation.
    pub(crate) fn see(&mut self, what: &str, value: impl Debug) {
        self.lines.push(format!("{what}: {value:?}"));
    }

    /// Has another process, of this user and these groups, run a part, and adds its record.
    pub(crate) fn child(&mut self, part: &str, directory: &Path, user: u32, groups: &[u32]) {
        let child = start_child(part, directory, user, groups);
        self.end_child(part, child);
    }

    /// Waits for a child and adds its record.
    pub(crate) fn end_child(&mut self, part: &str, child: Child) {
        let output = child.wait_with_output().expect("waited for");
        assert!(output.status.success(), "{part}: {}", String::from_utf8_lossy(&output.stderr));
        let text = String::from_utf8(output.stderr).expect("text");
        self.lines.extend(text.lines().map(|line| format!("{part}: {line}")));
    }
}

/// Starts a process that runs a part.
pub(crate) fn start_child(part: &str, directory: &Path, user: u32, groups: &[u32]) -> Child {
    let mut command = Command::new(std::env::current_exe().expect("this program"));
    command
        .args(["child", "--exact", "--nocapture"])
        .env(PART, part)
        .env(DIRECTORY, directory)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped());
    let group = groups.first().copied().unwrap_or(user);
    let groups = groups.to_vec();
    // SAFETY: only system calls are made between fork and exec.
    unsafe {
        command.pre_exec(move || {
            let done = libc::setgroups(groups.len(), groups.as_ptr()) == 0
                && libc::setgid(group) == 0
                && libc::setuid(user) == 0;
            if done { Ok(()) } else { Err(std::io::Error::last_os_error()) }
        });
    }
    spawn(&mut command)
}

/// Runs the part that the environment names, and prints its record on standard error.
pub(crate) fn run_as_child(part: impl Fn(&str) -> Part) {
    let (Ok(name), Some(directory)) = (std::env::var(PART), std::env::var_os(DIRECTORY)) else { return };
    let mut record = Record::default();
    part(&name)(&mut record, Path::new(&directory));
    let mut err = std::io::stderr().lock();
    record.lines.iter().for_each(|line| writeln!(err, "{line}").expect("written"));
}
