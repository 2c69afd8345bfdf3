//! `foreseek lab device import`: a device profile of a drive's files.

use super::drive::Source;
use crate::commands::{Answer, note, write_out};
use anyhow::Context;
use std::fs::OpenOptions;
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};

/// Options of `foreseek lab device import`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The drive's .model file; the .seek file that it names is looked for beside it.
    #[arg(value_name = "MODEL")]
    model: PathBuf,

    #[command(flatten)]
    source: Source,

    /// Write the profile into this file, which must not exist, instead of to standard output.
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
}

pub(crate) fn run(args: Args) -> anyhow::Result<Answer> {
    let loaded = args.source.load(&args.model)?;
    for text in &loaded.notes {
        note(text);
    }
    let text = loaded.profile.to_toml();
    match &args.output {
        Some(path) => write_new(path, &text)?,
        None => write_out(&text).context("writing the profile to standard output")?,
    }
    Ok(Answer::Done)
}

/// Writes a file that is not there yet, whole or not at all.
pub(super) fn write_new(path: &Path, text: &str) -> anyhow::Result<()> {
    let opened = OpenOptions::new().write(true).create_new(true).open(path);
    let mut file = match opened {
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {
            anyhow::bail!("write {}: it exists; name another file or remove it first", path.display())
        }
        opened => opened.with_context(|| format!("write {}", path.display()))?,
    };
    let written = file.write_all(text.as_bytes()).and_then(|()| file.sync_all());
    if written.is_err() {
        // What is left is no profile; that it cannot be removed changes nothing of the complaint.
        let _ = std::fs::remove_file(path);
    }
    written.with_context(|| format!("write {}", path.display()))
}
