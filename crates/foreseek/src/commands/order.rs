//! `foreseek order`: the files of trees or of a list, in the order in which they lie on their disk.

use super::progress::Bar;
use super::{Answer, note};
use anyhow::Context;
use foreseek_warm::{Halt, Limits, ReadErrors, Source, Tree, Work, in_physical_order};
use std::fs::File;
use std::io::{BufWriter, ErrorKind, Read, Write};
use std::path::{Path, PathBuf};

/// What is said after the options.
const AFTER_HELP: &str = "\
Examples:
  foreseek order /data                  one path a line, in disk order
  foreseek order -0 /data | tar --no-recursion --null -T - -cf data.tar

Exit status: 0 if done, 1 if something could not be read, 2 if it cannot
start, 130 after Ctrl-C.

order and warm are explained in walks.md, in share/doc/foreseek or in docs/use
of the source.";

/// Options of `foreseek order`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = AFTER_HELP,
    override_usage = "foreseek order [OPTIONS] <PATH>...\n       \
                      foreseek order [OPTIONS] --list <FILE|->"
)]
pub(crate) struct Args {
    /// Trees, and single files.
    #[arg(required_unless_present = "list", conflicts_with = "list")]
    path: Vec<PathBuf>,

    /// Take the paths of files from this file instead; `-` is standard input.
    #[arg(long, value_name = "FILE|-")]
    list: Option<PathBuf>,

    /// End each path with a NUL byte instead of a newline, and expect that of the list.
    #[arg(long, short = '0')]
    null: bool,

    /// Stay on the file system of each path.
    #[arg(long, short = 'x', conflicts_with = "list")]
    one_file_system: bool,

    /// Show no progress.
    #[arg(long)]
    quiet: bool,
}

pub(crate) fn run(args: Args) -> anyhow::Result<Answer> {
    let separator = if args.null { b'\0' } else { b'\n' };
    let limits = Limits { one_file_system: args.one_file_system };
    let list = read_list(args.list.as_deref())?;
    let stop = Halt::default();
    let bar = Bar::new(args.quiet);
    let source = source_of(&args.path, list.as_deref(), separator);
    let work = Work { stop: &stop, progress: &|progress| bar.follow(progress) };
    let ordered = in_physical_order(source, limits, &work);
    bar.clear();
    let (tree, order, notes, errors) = ordered?;
    notes.iter().for_each(|text| note(text));
    complain_of(&errors);
    let lines = match write(&tree, &order, separator) {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => 0,
        written => written.context("cannot write to standard output")?,
    };
    if lines > 0 {
        note(&format!("{lines} paths contain a newline: use -0"));
    }
    Ok(if errors.count == 0 { Answer::Done } else { Answer::No })
}

/// Writes the paths; answers how many of them contain a newline that separates paths as well.
fn write(tree: &Tree, order: &[u32], separator: u8) -> std::io::Result<u64> {
    let mut out = BufWriter::new(std::io::stdout().lock());
    let mut lines = 0;
    for file in order {
        let path = tree.path(&tree.files()[*file as usize]);
        lines += u64::from(path.contains(&separator));
        out.write_all(&path)?;
        out.write_all(&[separator])?;
    }
    out.flush()?;
    Ok(lines)
}

/// The whole list that the command line names, if it names one.
pub(super) fn read_list(list: Option<&Path>) -> anyhow::Result<Option<Vec<u8>>> {
    let Some(list) = list else { return Ok(None) };
    let mut bytes = Vec::new();
    let read = if list == Path::new("-") {
        std::io::stdin().lock().read_to_end(&mut bytes)
    } else {
        File::open(list).and_then(|mut file| file.read_to_end(&mut bytes))
    };
    read.with_context(|| format!("cannot read the list {}", list.display()))?;
    Ok(Some(bytes))
}

/// What the command line names: trees, or the list that was read.
pub(super) fn source_of<'a>(paths: &'a [PathBuf], list: Option<&'a [u8]>, separator: u8) -> Source<'a> {
    match list {
        None => Source::Trees(paths),
        Some(list) => Source::List(list, separator),
    }
}

/// Says what could not be read.
fn complain_of(errors: &ReadErrors) {
    complain_of_each(&errors.first, errors.count);
}

/// Says the first of what could not be read, and how many there are besides.
pub(super) fn complain_of_each(first: &[String], count: u64) {
    first.iter().for_each(|trouble| super::warn(trouble));
    let more = count.saturating_sub(first.len() as u64);
    if more > 0 {
        super::warn(&format!("and {more} more could not be read"));
    }
}
