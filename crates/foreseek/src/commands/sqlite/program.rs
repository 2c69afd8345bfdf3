//! Whether a library can be loaded into a program, by its file.

use std::ffi::OsStr;
use std::fs::{File, Metadata};
use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// How a database begins: every SQLite holds these words.
const MAGIC: &[u8] = b"SQLite format 3\0";
/// Scripts whose interpreters are scripts: the kernel follows four.
const INTERPRETERS_LIMIT: usize = 4;
/// What the kernel reads of a script's first line.
const FIRST_LINE: usize = 256;
/// Program headers that are looked at; a program has a dozen.
const HEADERS_LIMIT: usize = 64;
const PT_INTERP: u32 = 3;
const SET_ID: u32 = 0o6000;

/// A program's file: of a script, its interpreter's.
#[derive(Debug)]
pub(super) struct Program {
    pub(super) path: PathBuf,
    is_static: bool,
    gains_rights: bool,
}

impl Program {
    /// The program of this name, as a shell would find it. Nothing where it cannot be found or read: to start it
    /// will say more.
    pub(super) fn of(name: &OsStr) -> Option<Self> {
        let mut path = find(name)?;
        for _ in 0..INTERPRETERS_LIMIT {
            let mut file = File::open(&path).ok()?;
            let mut first = Vec::new();
            file.by_ref().take(FIRST_LINE as u64).read_to_end(&mut first).ok()?;
            if let Some(interpreter) = interpreter(&first) {
                path = interpreter;
                continue;
            }
            let metadata = file.metadata().ok()?;
            let is_static = is_static(&path, &first)?;
            return Some(Self { is_static, gains_rights: gains_rights(&metadata), path });
        }
        None
    }

    /// Why no library can be loaded into it.
    pub(super) fn obstacle(&self) -> Option<String> {
        let path = self.path.display();
        if self.is_static {
            return Some(format!(
                "{path} is linked statically, so that no library can be loaded into it: its reads are not seen"
            ));
        }
        self.gains_rights.then(|| {
            format!(
                "{path} gains rights when it is started (set-user-id): the loader ignores LD_PRELOAD for it"
            )
        })
    }

    /// Whether its file holds a SQLite. Reads all of it.
    pub(super) fn holds_sqlite(&self) -> bool {
        File::open(&self.path).is_ok_and(holds_magic)
    }
}

/// The file of a program's name: the name itself where it has a slash, else the first in `PATH` that may be run.
fn find(name: &OsStr) -> Option<PathBuf> {
    if name.as_encoded_bytes().contains(&b'/') {
        return Some(name.into());
    }
    let may_run = |path: &PathBuf| {
        path.metadata().is_ok_and(|file| file.is_file() && file.permissions().mode() & 0o111 != 0)
    };
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|folder| folder.join(name)).find(may_run)
}

fn interpreter(first: &[u8]) -> Option<PathBuf> {
    let line = first.strip_prefix(b"#!")?.split(|byte| *byte == b'\n').next()?;
    let line = std::str::from_utf8(line).ok()?;
    Some(line.split_whitespace().next()?.into())
}

fn gains_rights(file: &Metadata) -> bool {
    file.permissions().mode() & SET_ID != 0
}

/// Whether an ELF program of 64 bits names no loader. Nothing for other files.
fn is_static(path: &Path, first: &[u8]) -> Option<bool> {
    let word = |at: usize, length: usize| -> Option<u64> {
        let bytes = first.get(at..at + length)?;
        Some(bytes.iter().rev().fold(0, |value, byte| value << 8 | u64::from(*byte)))
    };
    const CLASS_64: u8 = 2;
    const LITTLE_ENDIAN: u8 = 1;
    if first.get(..6)? != [0x7f, b'E', b'L', b'F', CLASS_64, LITTLE_ENDIAN] {
        return None;
    }
    let (at, size, count) = (word(32, 8)?, word(54, 2)?, word(56, 2)?);
    let mut file = File::open(path).ok()?;
    std::io::Seek::seek(&mut file, std::io::SeekFrom::Start(at)).ok()?;
    let mut headers = vec![0; usize::try_from(size).ok()? * HEADERS_LIMIT.min(usize::try_from(count).ok()?)];
    file.read_exact(&mut headers).ok()?;
    let mut kinds = headers.chunks_exact(usize::try_from(size).ok()?.max(4));
    Some(!kinds.any(|header| header[..4] == PT_INTERP.to_le_bytes()))
}

fn holds_magic(mut file: impl Read) -> bool {
    let mut part = vec![0; 1 << 20];
    // The end of the part before, in which it may begin.
    let mut kept = 0;
    loop {
        match file.read(&mut part[kept..]) {
            Ok(0) | Err(_) => return false,
            Ok(length) => {
                let end = kept + length;
                if part[..end].windows(MAGIC.len()).any(|window| window == MAGIC) {
                    return true;
                }
                kept = end.min(MAGIC.len() - 1);
                part.copy_within(end - kept..end, 0);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::OpenOptionsExt;

    #[test]
    fn a_test_program_is_loaded_and_its_name_is_found() {
        let this = std::env::current_exe().expect("a path");
        let program = Program::of(this.as_os_str()).expect("readable");
        assert!(program.obstacle().is_none());
        assert!(Program::of(OsStr::new("sh")).is_some_and(|sh| sh.path.ends_with("sh")));
        assert!(Program::of(OsStr::new("no-such-program")).is_none());
    }

    #[test]
    fn a_script_is_what_its_interpreter_is() {
        let folder = tempfile::tempdir().expect("a folder");
        let script = folder.path().join("script");
        std::fs::write(&script, "#! /bin/sh -e\nexit 0\n").expect("written");
        assert!(Program::of(script.as_os_str()).is_some_and(|sh| sh.path == Path::new("/bin/sh")));
        let itself = format!("#!{}\n", script.display());
        std::fs::write(&script, itself).expect("written");
        assert!(Program::of(script.as_os_str()).is_none());
    }

    #[test]
    fn a_program_without_a_loader_or_with_more_rights_is_named() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("program");
        let mut bytes = vec![0; 64 + 56];
        bytes[..6].copy_from_slice(&[0x7f, b'E', b'L', b'F', 2, 1]);
        (bytes[32], bytes[54], bytes[56], bytes[64]) = (64, 56, 1, 1);
        let write = |bytes: &[u8], mode| {
            let _ = std::fs::remove_file(&path);
            let mut options = std::fs::OpenOptions::new();
            let mut file = options.create(true).write(true).mode(mode).open(&path).expect("made");
            std::io::Write::write_all(&mut file, bytes).expect("written");
        };
        write(&bytes, 0o755);
        let said = Program::of(path.as_os_str()).expect("a program").obstacle();
        assert!(said.is_some_and(|said| said.contains("linked statically")));
        bytes[64] = 3;
        write(&bytes, 0o755);
        assert!(Program::of(path.as_os_str()).expect("a program").obstacle().is_none());
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o4755)).expect("set");
        let said = Program::of(path.as_os_str()).expect("a program").obstacle();
        assert!(said.is_some_and(|said| said.contains("gains rights")));
        // Cut off in the middle of its headers, it is no program.
        write(&bytes[..80], 0o755);
        assert!(Program::of(path.as_os_str()).is_none());
    }

    #[test]
    fn the_magic_is_found_across_parts() {
        let mut bytes = vec![7; (1 << 20) - 5];
        bytes.extend_from_slice(MAGIC);
        assert!(holds_magic(&bytes[..]));
        bytes.pop();
        assert!(!holds_magic(&bytes[..]));
    }
}
