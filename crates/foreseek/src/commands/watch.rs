//! `foreseek watch`.

use super::report::{new_table, report};
use super::{Answer, Format};
use foreseek_units::Bytes;
use foreseek_watch::daemon::{client, serve};
use foreseek_watch::{Disk, MEMORY_LEAST, Options, SHARE, Walk, WatchStatus};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// What is said after the options.
const AFTER_HELP: &str = "\
Examples:
  foreseek watch /data        watch the file system of /data
  foreseek watch --all        watch every hard disk
  foreseek watch --status     what it sees and does
  foreseek watch --stop       end it

It runs until it is stopped. Programs stay as they are: those that list
directories and open their files (grep -r, tar, rsync) find the files in memory.
What it sees and what it does not see is in walks.md, in share/doc/foreseek or
in docs/use of the source.";

/// From this age on the status says how old it is: it is renewed ten times a second.
const OLD_SECONDS: f64 = 3.0;

/// Options of `foreseek watch`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = AFTER_HELP,
    override_usage = "foreseek watch [OPTIONS] <PATH>...|--all\n       \
                      foreseek watch --status [--format json]\n       \
                      foreseek watch --stop"
)]
pub(crate) struct Args {
    /// Watch the file systems that hold these.
    #[arg(required_unless_present_any = ["all", "other"])]
    path: Vec<PathBuf>,
    /// Watch all file systems on hard disks, also those that are mounted later.
    #[arg(long, conflicts_with = "path")]
    all: bool,
    /// The share of the available memory, up to 0.6, that may hold what was read ahead and not used yet.
    #[arg(long, default_value_t = SHARE, value_parser = share, value_name = "SHARE", allow_negative_numbers = true)]
    share: f64,
    /// Upper limit on that memory, such as 512M or 2G.
    #[arg(long, value_name = "SIZE", allow_hyphen_values = true)]
    memory: Option<Bytes>,
    /// The disk: a built-in profile (`foreseek profile --list` shows them) or a file [default: a disk of 7,200 rpm].
    #[arg(long, value_name = "NAME|FILE")]
    profile: Option<String>,
    /// Watch in this process until SIGTERM or SIGINT.
    #[arg(long)]
    foreground: bool,
    /// Show what it sees and does.
    #[arg(long, group = "other", conflicts_with_all = ["path", "all"])]
    status: bool,
    /// End it, and remove what a killed one left behind.
    #[arg(long, group = "other", conflicts_with_all = ["path", "all"])]
    stop: bool,
    /// Watch in the background; run by `watch`.
    #[arg(long, group = "other", hide = true)]
    serve: bool,
    /// How to report.
    #[arg(long, value_enum, default_value_t)]
    format: Format,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<Answer> {
    if args.serve {
        // The process that started it reports what went wrong.
        return Ok(if serve::run_detached().is_ok() { Answer::Done } else { std::process::exit(2) });
    }
    if args.status {
        return report(args.format, &client::status()?, status_table);
    }
    if args.stop {
        client::stop()?;
        return Ok(Answer::Done);
    }
    let options = options(args)?;
    if args.foreground {
        serve::run(&options, note_all)?;
    } else {
        note_all(&client::start(&options, &["watch", "--serve"])?);
    }
    Ok(Answer::Done)
}

fn share(text: &str) -> Result<f64, String> {
    let share: f64 = text.parse().map_err(|_| "give a share such as 0.25".to_owned())?;
    if share > 0.0 && share <= 0.6 {
        Ok(share)
    } else {
        Err("give more than 0 and at most 0.6: with more the kernel evicts what was just read".to_owned())
    }
}

fn options(args: &Args) -> anyhow::Result<Options> {
    if let Some(memory) = args.memory {
        super::check_memory(memory, MEMORY_LEAST)?;
    }
    let paths = args.path.iter().map(std::path::absolute).collect::<Result<_, _>>()?;
    let memory_bytes = args.memory.map(Bytes::get);
    let profile = args.profile.as_deref().map(super::server_profile).transpose()?;
    Ok(Options { paths, memory_bytes, share: args.share, profile, record: super::recording()? })
}

/// A path as one line of text: users choose names, and a terminal obeys some.
fn shown(path: &Path) -> String {
    foreseek_warm::shown(path.as_os_str().as_bytes())
}

/// What the user should know of how it began.
fn note_all(status: &WatchStatus) {
    for it in &status.watched {
        super::note(&format!("{} is watched ({}, device {})", shown(&it.mount), it.kind, it.device));
    }
    for left in &status.left_alone {
        super::note(&format!("{} is left alone: {}", shown(&left.mount), left.reason));
    }
    if status.left_alone_more > 0 {
        super::note(&format!("{} more are left alone", status.left_alone_more));
    }
    if status.watched.is_empty() {
        super::note("no file system is worth watching yet: it waits for one to be mounted");
    }
    status.warnings.iter().for_each(|warning| super::note(warning));
}

fn status_table(status: &WatchStatus) -> String {
    let mut table = new_table();
    for (name, value) in rows(status) {
        table.add_row([name.to_owned(), value]);
    }
    let mut text = table.to_string();
    for disk in &status.disks {
        text.push_str(&format!("\n\n{}", disk_table(disk)));
    }
    text
}

fn rows(status: &WatchStatus) -> Vec<(&'static str, String)> {
    let counted = &status.counted;
    let mut rows = vec![("watcher", format!("process {}, for {:.0} s", status.pid, status.seconds))];
    if status.age_seconds >= OLD_SECONDS {
        let age = status.age_seconds;
        rows.push((
            "warning",
            format!("its thread waits for {age:.0} s: what follows is as old, counters apart"),
        ));
    }
    rows.extend(
        status
            .watched
            .iter()
            .map(|it| ("watched", format!("{} ({}, device {})", shown(&it.mount), it.kind, it.device))),
    );
    let opened = format!(
        "{} directories ({} not examined, as the disk read nothing), {} files in walks; {} by processes that had ended or have unknown rights; {} of this program",
        counted.directories_opened,
        counted.unexamined,
        counted.files_opened,
        counted.gone,
        counted.passed_over
    );
    let read = format!(
        "{} of inodes and directories, {} of contents",
        Bytes(counted.metadata_bytes),
        Bytes(counted.content_bytes)
    );
    let used = format!("{}, in {} files", Bytes(counted.used_bytes), counted.files_found_read);
    let alone = format!(
        "{} that the walkers could not read, {} under a lease, {} directories not listed; {} calls failed",
        counted.denied, counted.leased, counted.unlistable, counted.failed
    );
    let besides = format!(
        "{:.2} s of processor time, {} FIEMAP calls; the kernel evicted at most {} for it",
        status.processor_seconds,
        status.fiemap_calls,
        Bytes(counted.reclaimed_bytes)
    );
    rows.extend([
        ("opened", opened),
        (
            "not reported",
            format!(
                "{} times for up to a second, as programs found many directories in memory",
                counted.silences
            ),
        ),
        ("events lost", format!("{} times", counted.overflows)),
        ("read ahead", read),
        ("used of it", used),
        ("left alone", alone),
        ("besides", besides),
        ("over allowance", format!("{} times", counted.over_allowance)),
        ("memory limit", Bytes(status.window_bytes).to_string()),
        ("known", format!("{} directories, {} entries", status.known_directories, status.known_entries)),
    ]);
    rows.extend(status.group.iter().map(|group| ("control group", shown(group))));
    let left = status.left_alone.iter();
    rows.extend(left.map(|it| ("not watched", format!("{}: {}", shown(&it.mount), it.reason))));
    if status.left_alone_more > 0 {
        rows.push(("not watched", format!("{} more", status.left_alone_more)));
    }
    rows.extend(too_little_memory(status).map(|warning| ("warning", warning)));
    rows.extend(status.warnings.iter().map(|warning| ("warning", warning.clone())));
    rows
}

/// A memory limit that is too small for all watched disks at a time.
fn too_little_memory(status: &WatchStatus) -> Option<String> {
    let (limit, disks) = (Bytes(status.window_bytes), status.disks.len() as u64);
    (limit < MEMORY_LEAST * disks).then(|| {
        format!(
            "programs that walk on {disks} disks at the same time have {} of memory for each: with less than \
             {MEMORY_LEAST} they gain little; raise --memory or --share",
            limit / disks
        )
    })
}

fn disk_table(disk: &Disk) -> String {
    let mut text = format!(
        "disk {}: {} walks over; read ahead {}, used {}, wasted {}, held {} of {}\n\
         expected to cost the disk {:.2} s, the cheapest pass over what was used {:.2} s, allowed before use {:.2} s",
        disk.device,
        disk.ended,
        Bytes(disk.fetched_bytes),
        Bytes(disk.used_bytes),
        Bytes(disk.wasted_bytes),
        Bytes(disk.held_bytes),
        Bytes(disk.part_bytes),
        disk.spent_seconds,
        disk.optimum_seconds,
        disk.allowance_seconds
    );
    if let Some(line) = beside_others(disk) {
        text.push('\n');
        text.push_str(&line);
    }
    if disk.all_opens {
        text.push_str("\nit is busy with small reads: opens of all files are observed");
    }
    if !disk.failed_threads.is_empty() {
        let failed = disk.failed_threads.join(", ");
        text.push_str(&format!("\nthreads have failed ({failed}): restart the watcher"));
    }
    if !disk.walks.is_empty() {
        text.push('\n');
        text.push_str(&walks_table(&disk.walks));
    }
    text
}

/// What others read, and how long requests were held back for them.
fn beside_others(disk: &Disk) -> Option<String> {
    let present = match disk.others_read {
        None => return Some("whether others read from it is not visible: nothing is held back".to_owned()),
        Some(false) if disk.held_back_seconds == 0.0 => return None,
        Some(true) => "others read from it",
        Some(false) => "nobody else reads from it",
    };
    Some(format!("{present}; requests were held back for {:.2} s", disk.held_back_seconds))
}

fn order(walk: &Walk) -> String {
    let list = walk.has_list.then_some("by a list of files");
    walk.order.as_deref().into_iter().chain(list).collect::<Vec<_>>().join(", ")
}

fn walks_table(walks: &[Walk]) -> String {
    let mut table = new_table();
    table.set_header([
        "walk",
        "directories",
        "files",
        "fetched",
        "used",
        "wasted",
        "order",
        "nothing more since",
    ]);
    for walk in walks {
        table.add_row([
            walk.path.as_ref().map_or_else(|| "?".to_owned(), |path| shown(path)),
            walk.directories.to_string(),
            walk.files.to_string(),
            walk.fetched.to_string(),
            walk.used.to_string(),
            walk.wasted.to_string(),
            order(walk),
            walk.stopped.clone().unwrap_or_default(),
        ]);
    }
    table.to_string()
}
