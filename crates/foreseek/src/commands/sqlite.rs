//! `foreseek sqlite`: a program runs with the SQLite extension, though it loads none.

mod program;
mod status;

use super::{Format, check_memory, note};
use anyhow::{Context, bail};
use foreseek_storage::SignalQueue;
use foreseek_units::{Bytes, Pages};
use foreseek_warm::{SIGNALS, run_command};
use program::Program;
use status::Line;
use std::ffi::{OsStr, OsString};
use std::path::PathBuf;
use std::process::{Command, ExitCode};

/// What is said after the options.
const AFTER_HELP: &str = "\
Examples:
  foreseek sqlite -- python3 report.py     every SQLite connection of a program
  foreseek sqlite --status -- sqlite3 my.db 'SELECT * FROM t ORDER BY zip'

The same by one environment variable:
  LD_PRELOAD=/usr/local/lib/libforeseek_sqlite_preload.so python3 report.py

The statements and programs that gain are listed in sqlite.md, in
share/doc/foreseek or in docs/use of the source.";

/// The library that the program loads.
const LIBRARY: &str = "libforeseek_sqlite_preload.so";

/// Options of `foreseek sqlite`.
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Args {
    /// The program and its arguments, after `--`. The exit status is the program's.
    #[arg(last = true, required = true, value_name = "COMMAND")]
    command: Vec<OsString>,

    /// Page cache limit for each database file [default: 60 % of available memory].
    #[arg(long, value_name = "SIZE", allow_hyphen_values = true)]
    memory: Option<Bytes>,

    /// Report at the end, on standard error, what each statement gained and why not more.
    #[arg(long)]
    status: bool,

    /// How to report it.
    #[arg(long, value_enum, default_value_t, requires = "status")]
    format: Format,
}

/// The least page cache that the extension can use.
const MEMORY_LEAST: Bytes = Pages(1).bytes();

pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    if let Some(memory) = args.memory {
        check_memory(memory, MEMORY_LEAST)?;
    }
    let library = library()?;
    let folder = tempfile::Builder::new()
        .prefix("foreseek-sqlite-")
        .tempdir()
        .context("cannot make a folder for the program's status")?;
    let lines = folder.path().join("status");
    let (name, arguments) = args.command.split_first().context("no command is given")?;
    let program = Program::of(name);
    let obstacle = program.as_ref().and_then(Program::obstacle);
    // A program that reads the report parses all that is written beside the command's own lines.
    let is_json = args.format == Format::Json;
    obstacle.iter().filter(|_| !is_json).for_each(|obstacle| note(obstacle));
    let mut command = Command::new(name);
    command.args(arguments).env("LD_PRELOAD", preloaded(&library)?).env("FORESEEK_SQLITE_STATUS", &lines);
    if let Some(memory) = args.memory {
        command.env("FORESEEK_MEMORY", memory.get().to_string());
    }
    // Before any thread is started.
    let signals = SignalQueue::block(&SIGNALS).context("cannot receive signals")?;
    let status = run_command(command, &signals)?;
    let told = status::read(&lines)?;
    let unseen = (!told.iter().any(|line| line.opened)).then(|| unseen(program.as_ref(), &told));
    if is_json {
        let notes: Vec<String> = obstacle.into_iter().chain(unseen).collect();
        super::print_error(&status::json(&told, &name.to_string_lossy(), &notes)?);
    } else if let Some(unseen) = unseen {
        note(&unseen);
    } else if args.status {
        super::print_error(&status::tables(&told));
    }
    Ok(ExitCode::from(status))
}

/// The library's path: beside this program, as it was built, or where `make install` or Debian's package puts it.
fn library() -> anyhow::Result<PathBuf> {
    let program = std::env::current_exe().context("cannot find this program")?;
    let beside = program.parent().map(PathBuf::from).unwrap_or_default();
    let of_debian = format!("../lib/{}-linux-gnu", std::env::consts::ARCH);
    let places = [beside.clone(), beside.join("../lib"), beside.join(of_debian)];
    let found = places.iter().map(|place| place.join(LIBRARY)).find(|path| path.is_file());
    let Some(path) = found else {
        let places: Vec<_> = places.iter().map(|place| place.display().to_string()).collect();
        bail!(
            "{LIBRARY} is in none of {}: 'make build' makes it beside this program, 'make install' installs both",
            places.join(", ")
        );
    };
    path.canonicalize().with_context(|| format!("cannot find {}", path.display()))
}

/// `LD_PRELOAD` with the library before what is there.
fn preloaded(library: &std::path::Path) -> anyhow::Result<OsString> {
    let splits = |byte: &u8| matches!(byte, b' ' | b':');
    if library.as_os_str().as_encoded_bytes().iter().any(splits) {
        bail!("{}: the loader takes no library whose path has spaces or colons", library.display());
    }
    let mut value = library.as_os_str().to_owned();
    if let Some(others) = std::env::var_os("LD_PRELOAD").filter(|others| !others.is_empty()) {
        value.push(OsStr::new(":"));
        value.push(others);
    }
    Ok(value)
}

/// Why no connection was seen.
fn unseen(program: Option<&Program>, told: &[Line]) -> String {
    let mut copies: Vec<PathBuf> = told.iter().flat_map(|line| line.copies.clone()).collect();
    copies.extend(program.filter(|program| program.holds_sqlite()).map(|program| program.path.clone()));
    let error = told.iter().find_map(|line| line.error.as_deref());
    format!("nothing was prefetched: {}", reason(error, copies))
}

/// The same by the error of the extension, if there was one, and the files that hold a SQLite.
fn reason(error: Option<&str>, copies: Vec<PathBuf>) -> String {
    if let Some(error) = error {
        return error.to_owned();
    }
    let (mut shared, mut own): (Vec<_>, Vec<_>) = copies.into_iter().partition(|path| is_shared(path));
    shared.sort();
    own.sort();
    match (shared.first(), own.first()) {
        (None, None) => {
            "neither the program nor what it started was seen to use SQLite. PHP cannot be seen this \
                         way: give it the extension by its setting sqlite3.extension_dir (see sqlite.md)"
                .to_owned()
        }
        (None, Some(own)) => format!(
            "{} has a SQLite of its own linked in, whose reads cannot be seen; have it load the extension \
             libforeseek_sqlite.so ('foreseek sqlite --help' names the page)",
            own.display()
        ),
        (Some(shared), own) => {
            // Its file may hold the constants of a SQLite without one, as that of the shell does.
            let own = own.map_or(String::new(), |own| {
                format!(", or {} opened it with a SQLite of its own", own.display())
            });
            format!(
                "no database was opened by the functions that {} exports, or they were looked up by name \
                 (dlsym){own}",
                shared.display()
            )
        }
    }
}

/// Whether a file is SQLite's library, as systems install it.
fn is_shared(path: &std::path::Path) -> bool {
    path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b"libsqlite3.so"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_reason_fits_what_was_seen() {
        let reason = |error, copies: &[&str]| reason(error, copies.iter().map(PathBuf::from).collect());
        let (shell, shared) = ("/usr/bin/sqlite3", "/usr/lib/libsqlite3.so.0");
        assert!(reason(None, &[]).starts_with("neither the program nor what it started"));
        assert!(reason(None, &[shell]).starts_with("/usr/bin/sqlite3 has a SQLite of its own linked in"));
        // The shell of a distribution uses the library, though its own file looks as if it held one.
        let both = reason(None, &[shell, shared]);
        assert!(
            both.starts_with("no database was opened by the functions that /usr/lib/libsqlite3.so.0"),
            "{both}"
        );
        assert!(both.contains(shell), "{both}");
        assert!(!reason(None, &[shared]).contains("of its own"));
        // What the extension reported explains more than any guess.
        assert_eq!(reason(Some("FORESEEK_MEMORY=0: too little"), &[shell]), "FORESEEK_MEMORY=0: too little");
    }
}
