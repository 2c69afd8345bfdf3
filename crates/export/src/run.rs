//! What servers leave where their clients find it: the run directory, and telling one process from
//! another that was given its number later.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// Where everything is kept unless the environment variable `FORESEEK_RUN` names another place.
const RUN: &str = "/run/foreseek";
/// Where everything is kept.
#[must_use]
pub fn run_directory() -> PathBuf {
    std::env::var_os("FORESEEK_RUN").map_or_else(|| RUN.into(), PathBuf::from)
}

/// What is in a folder of the run directory; nothing where no server has made it yet.
///
/// # Errors
/// It cannot be read. A run directory that the user names and that is not there is an error, too: it
/// would look as if nothing ran.
pub fn entries(folder: &Path) -> io::Result<Vec<PathBuf>> {
    entries_of(folder, std::env::var_os("FORESEEK_RUN").map(PathBuf::from).as_deref())
}

fn entries_of(folder: &Path, named: Option<&Path>) -> io::Result<Vec<PathBuf>> {
    let missing = |error: &io::Error| error.kind() == io::ErrorKind::NotFound;
    match (fs::read_dir(folder), named) {
        (Err(error), Some(named)) if missing(&error) && !named.exists() => Err(io::Error::other(format!(
            "there is no {}, which FORESEEK_RUN names; unset it or name the folder in use",
            named.display()
        ))),
        (Err(error), _) if missing(&error) => Ok(Vec::new()),
        (entries, _) => entries?.map(|entry| Ok(entry?.path())).collect(),
    }
}

/// Where servers keep what is to outlive them, and a restart of the machine, unless the environment
/// variable `FORESEEK_STATE` names another place.
const STATE: &str = "/var/lib/foreseek";

/// Where servers keep what is to outlive them; `None` where they are told to keep nothing, by an empty
/// `FORESEEK_STATE`.
#[must_use]
pub fn state_directory() -> Option<PathBuf> {
    let named = std::env::var_os("FORESEEK_STATE").map_or_else(|| STATE.into(), PathBuf::from);
    (!named.as_os_str().is_empty()).then_some(named)
}

/// When a process started, in clock ticks since boot; `None` where it has ended (zombies have).
#[must_use]
pub fn process_start(pid: u32) -> Option<u64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name in parentheses may hold anything: fields are counted from behind it.
    let mut fields = stat.rsplit_once(')')?.1.split_ascii_whitespace();
    let state = fields.next()?;
    let start = fields.nth(18)?.parse().ok()?;
    (!matches!(state, "Z" | "X")).then_some(start)
}

/// An error that says that the thing is not there is none.
///
/// # Errors
/// Any other.
pub fn ignore_missing(result: io::Result<()>) -> io::Result<()> {
    match result {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_directory_that_is_named_and_not_there_is_not_an_empty_one() {
        let run = std::env::temp_dir().join(format!("foreseek-run-{}", std::process::id()));
        let disks = run.join("disks");
        assert!(entries_of(&disks, None).is_ok_and(|entries| entries.is_empty()));
        let error = entries_of(&disks, Some(&run)).expect_err("it is not there").to_string();
        assert!(error.contains("FORESEEK_RUN") && error.contains(&run.display().to_string()), "{error}");
        fs::create_dir(&run).expect("made");
        assert!(entries_of(&disks, Some(&run)).is_ok_and(|entries| entries.is_empty()));
        fs::create_dir(&disks).expect("made");
        fs::write(disks.join("a"), "").expect("written");
        assert!(entries_of(&disks, Some(&run)).is_ok_and(|entries| entries == [disks.join("a")]));
        fs::remove_dir_all(&run).expect("removed");
    }

    #[test]
    fn this_process_is_alive_and_its_start_does_not_change() {
        let pid = std::process::id();
        let start = process_start(pid).expect("this process runs");
        assert_eq!(process_start(pid), Some(start));
    }

    #[test]
    fn an_ended_process_is_not_alive_even_before_it_is_waited_for() {
        let mut child = std::process::Command::new("true").spawn().expect("'true' exists");
        let pid = child.id();
        let deadline = std::time::Instant::now() + std::time::Duration::from_secs(10);
        while process_start(pid).is_some() && std::time::Instant::now() < deadline {
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        assert_eq!(process_start(pid), None, "a zombie");
        child.wait().expect("it ended");
        assert_eq!(process_start(pid), None, "gone");
    }
}
