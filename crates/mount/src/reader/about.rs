//! What is known about an opened file beside its length: its kind, its directory, the program that opened it.
//!
//! It is looked up once, when a file is opened; reads do not wait for it. The name is the one that the kernel
//! has for the opened file: the current one after a rename, and none where a file system has lost it. The
//! program is the name of the process (`comm`), and not of the thread, since pools have many. It is
//! [remembered](Remembered) for a second: a program that opens thousands of files is looked up once.
//!
//! Limits: if a process becomes another program (`exec`) within that time, the new program's files get the
//! old one's name. A process of another pid namespace has no name.

use super::remembered::Remembered;
use foreseek_seam::{ProcessId, StreamInfo};
use foreseek_storage::process_of;
use rustix::fd::AsRawFd;
use std::ffi::OsStr;
use std::fs::File;
use std::path::PathBuf;
use std::sync::Arc;

/// The longest extension that is a kind of files (`safetensors` has 11); a longer one is part of a name with
/// a dot.
const KIND_LIMIT: usize = 12;
/// The suffix of the kernel's name of a file that has no name any more.
const DELETED: &str = " (deleted)";

/// What is known about an opened file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Described {
    kind: String,
    directory: String,
    program: Arc<str>,
}

impl Described {
    /// Describes a file that this thread has opened.
    pub(super) fn of(file: &File, pid: ProcessId, programs: &Programs) -> Self {
        let path = path_of(file);
        let directory = path.parent().map(|parent| parent.to_string_lossy().into_owned());
        Self {
            kind: path.file_name().map(kind).unwrap_or_default(),
            directory: directory.unwrap_or_default(),
            program: programs.of(pid.0, || look(pid.0).unwrap_or_default().into()),
        }
    }

    pub(super) fn about(&self) -> StreamInfo<'_> {
        StreamInfo { kind: &self.kind, directory: &self.directory, program: &self.program }
    }
}

/// The kind of an opened file, by its current name.
pub(crate) fn kind_of(file: &File) -> String {
    path_of(file).file_name().map(kind).unwrap_or_default()
}

/// The path of an opened file.
fn path_of(file: &File) -> PathBuf {
    let link = std::fs::read_link(format!("/proc/self/fd/{}", file.as_raw_fd())).unwrap_or_default();
    let name = link.to_string_lossy();
    name.strip_suffix(DELETED).unwrap_or(&name).into()
}

/// The kind of a file by its name: the last extension that is not a number, as in `libc.so.6`.
fn kind(name: &OsStr) -> String {
    let name = name.to_string_lossy();
    let mut parts = name.trim_start_matches('.').rsplit('.');
    let numbered = |part: &&str| part.bytes().all(|byte| byte.is_ascii_digit());
    let Some(last) = parts.find(|part| !numbered(part)) else { return String::new() };
    // The first part is the name itself.
    let plain = last.len() <= KIND_LIMIT && last.bytes().all(|byte| byte.is_ascii_alphanumeric());
    if plain && parts.next().is_some() { last.to_ascii_lowercase() } else { String::new() }
}

/// The programs that threads run.
pub(super) type Programs = Remembered<u32, Arc<str>>;

/// The name of the process to which a thread belongs.
fn look(thread: u32) -> Option<String> {
    let process = process_of(thread)?;
    let name = std::fs::read(format!("/proc/{process}/comm")).ok()?;
    Some(String::from_utf8_lossy(&name).trim_end_matches('\n').to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    #[test]
    fn the_kind_is_the_last_extension_that_is_no_number() {
        for (name, expected) in [
            ("a.MP4", "mp4"),
            ("a.tar.gz", "gz"),
            ("libc.so.6.1", "so"),
            ("messages.1", ""),
            ("Makefile", ""),
            (".bashrc", ""),
            (".config.toml", "toml"),
            ("report.", ""),
            ("a.b c", ""),
            ("blob.0123456789abcdef", ""),
            ("", ""),
        ] {
            assert_eq!(kind(OsStr::new(name)), expected, "{name}");
        }
    }

    #[test]
    fn an_opened_file_is_described_by_its_current_name() {
        let place = tempfile::tempdir().expect("a directory");
        let (before, after) = (place.path().join("a.txt"), place.path().join("b.dat"));
        let file = File::create(&before).expect("made");
        let programs = Programs::default();
        let thread = rustix::thread::gettid().as_raw_nonzero().get().cast_unsigned();
        let of = || Described::of(&file, ProcessId(thread), &programs);
        assert_eq!((of().kind.as_str(), Path::new(&of().directory)), ("txt", place.path()));
        std::fs::rename(&before, &after).expect("renamed");
        assert_eq!(of().kind, "dat");
        std::fs::remove_file(&after).expect("removed");
        assert_eq!(of().kind, "dat", "it had that name last");
        // For a thread of this test the process's name is found.
        let own = std::fs::read_to_string("/proc/self/comm").expect("it runs");
        assert_eq!(of().program.as_ref(), own.trim_end());
        assert_eq!(Described::of(&file, ProcessId(0), &programs).about().program, "");
    }
}
