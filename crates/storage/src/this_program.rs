//! Which processes run this program.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// The name of its file.
const NAME: &str = "foreseek";
/// What the kernel adds to the name of a program file that is gone.
const REPLACED: &[u8] = b" (deleted)";

/// The file of this program. One of the same name counts as well.
#[derive(Clone, Debug, Default)]
pub struct ThisProgram {
    file: Option<PathBuf>,
}

impl ThisProgram {
    /// The program of this process.
    #[must_use]
    pub fn of_this_process() -> Self {
        Self { file: std::fs::read_link("/proc/self/exe").ok() }
    }

    /// Whether a program file, as `/proc/PID/exe` names it, is this program, or was until it was replaced.
    #[must_use]
    pub fn is(&self, file: &Path) -> bool {
        let file = file.as_os_str().as_bytes();
        let file = Path::new(OsStr::from_bytes(file.strip_suffix(REPLACED).unwrap_or(file)));
        self.file.as_deref() == Some(file) || file.file_name().is_some_and(|name| name == NAME)
    }

    /// Whether a process runs it. False for one that has ended or whose file cannot be seen.
    #[must_use]
    pub fn is_run_by(&self, process: u32) -> bool {
        std::fs::read_link(format!("/proc/{process}/exe")).is_ok_and(|file| self.is(&file))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_file_that_was_replaced_is_this_program_still() {
        let program = ThisProgram::of_this_process();
        let own = program.file.clone().expect("it has one");
        assert!(program.is_run_by(std::process::id()) && !program.is_run_by(u32::MAX));
        let own = own.as_os_str().as_bytes();
        for (file, is_own) in [
            (own, true),
            (&[own, b" (deleted)"].concat(), true),
            (b"/usr/bin/foreseek", true),
            (b"/usr/bin/foreseek (deleted)", true),
            (b"/usr/bin/foreseek-not (deleted)", false),
            (b"/foreseek/tar", false),
        ] {
            assert_eq!(program.is(Path::new(OsStr::from_bytes(file))), is_own, "{}", file.escape_ascii());
        }
        assert!(!ThisProgram::default().is(Path::new(OsStr::from_bytes(own))));
    }
}
