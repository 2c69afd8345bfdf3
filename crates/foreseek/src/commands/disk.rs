//! `foreseek disk`.

use super::report::{new_table, report, text_of};
use super::{Answer, Format};
use anyhow::Context;
use foreseek_emulate::client::{self, Attached, DEFAULT_LOG_CAPACITY, Listed};
use foreseek_emulate::{
    AttachOptions, Backing, DEFAULT_QUEUE_DEPTH, LbaRange, LogEntry, LoggedOp, NbdAddress, QueueOrder, Set,
    Stats,
};
use foreseek_units::Bytes;
use std::collections::BTreeSet;
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};

/// What is said after the list of verbs.
const AFTER_HELP: &str = "\
Examples:
  foreseek disk attach --profile barracuda-500g --size 8G   prints its device
  foreseek disk set disk0 --delays off                      to load data quickly
  foreseek disk stats disk0                                 seeks, latencies
  foreseek disk list                                        all of them
  foreseek disk detach disk0                                remove it

'foreseek profile --list' shows which disks can be emulated. How exactly is in
emulated-disk.md, in share/doc/foreseek or in docs/use of the source.";

/// The most ranges of failing sectors in a table: `--format json` has all.
const RANGES_SHOWN: usize = 8;

/// The verbs of `foreseek disk`.
#[derive(Debug, clap::Subcommand)]
#[command(after_help = AFTER_HELP)]
pub(crate) enum Command {
    /// Attach an emulated disk, which is as slow as the profile's device.
    Attach(Attach),
    /// List emulated disks, dead ones included.
    List {
        /// How to report.
        #[arg(long, value_enum, default_value_t)]
        format: Format,
    },
    /// Detach emulated disks and remove all but backing files.
    Detach(Detach),
    /// Show what an emulated disk has done.
    Stats {
        /// The disk: its name or /dev/loopN.
        target: String,
        /// Set the counters to zero afterwards.
        #[arg(long)]
        reset: bool,
        /// How to report.
        #[arg(long, value_enum, default_value_t)]
        format: Format,
    },
    /// Change an emulated disk while it runs.
    Set(Change),
    /// Log the requests of an emulated disk, for plots.
    Log(Logging),
    /// Serve a disk; run by `attach`.
    #[command(hide = true)]
    Serve,
}

/// Options of `foreseek disk attach`.
#[derive(Debug, clap::Args)]
pub(crate) struct Attach {
    /// The device to emulate: a built-in profile (`foreseek profile --list` shows them), a profile file, or `none`
    /// for no delays.
    #[arg(long, value_name = "NAME|FILE")]
    profile: String,
    /// The disk's size, such as 8G; may be left out where the backing file exists.
    #[arg(long, value_name = "SIZE", allow_hyphen_values = true)]
    size: Option<Bytes>,
    /// Keep the data in this file, which is made if it does not exist.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["sparse", "dir"])]
    backing: Option<PathBuf>,
    /// Keep the data in a sparse file that is removed at detach (the default).
    #[arg(long)]
    sparse: bool,
    /// Where the sparse file lies [default: /var/tmp].
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
    /// Allow a size larger than the free space where the file lies.
    #[arg(long)]
    thin: bool,
    /// Spread the size over the whole surface of the device; without this it is the outer, fastest part.
    #[arg(long)]
    fit: bool,
    /// How the disk chooses among the requests in its queue.
    #[arg(long, value_enum, default_value_t)]
    queue: QueueArg,
    /// Requests that the disk's own queue holds.
    #[arg(long, value_name = "N", default_value_t = DEFAULT_QUEUE_DEPTH, value_parser = whole)]
    queue_depth: usize,
    /// The member of an array that has failed, counted from 0.
    #[arg(long, value_name = "N", value_parser = whole)]
    failed_member: Option<usize>,
    /// The factor on all modelled time: 0.1 makes the disk ten times faster.
    #[arg(long, value_name = "FACTOR", default_value_t = 1.0, allow_negative_numbers = true, value_parser = factor)]
    time_scale: f64,
    /// Answer as fast as possible until `disk set --delays on`.
    #[arg(long)]
    no_delays: bool,
    /// A volatile write cache of this size: `disk set --power off` loses what was not flushed.
    #[arg(long, value_name = "SIZE")]
    volatile_cache: Option<Bytes>,
    /// Fail every request that touches these sectors of 512 bytes, A to B - 1, with EIO; can be given several times.
    #[arg(long, value_name = "A..B")]
    fail_lba: Vec<LbaRange>,
    /// Serve it over NBD, too: nbd:unix:PATH, nbd:HOST:PORT or nbd::PORT (this machine); without TLS.
    #[arg(long, value_name = "nbd:...")]
    export: Option<NbdAddress>,
    /// The disk's name [default: the first free diskN].
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// Also list safety settings that could not be applied (`disk stats` shows them).
    #[arg(long, short)]
    verbose: bool,
    /// How to report.
    #[arg(long, value_enum, default_value_t)]
    format: Format,
}

/// How the disk chooses the next request.
#[derive(Clone, Copy, Debug, Default, clap::ValueEnum)]
enum QueueArg {
    /// Shortest positioning time first, rotation included.
    #[default]
    Sptf,
    /// First in, first out.
    Fifo,
}

/// Options of `foreseek disk detach`.
#[derive(Debug, clap::Args)]
#[command(
    group = clap::ArgGroup::new("which").required(true),
    override_usage = "foreseek disk detach [--force] <TARGET>...\n       foreseek disk detach [--force] --all"
)]
pub(crate) struct Detach {
    /// The disks: names or /dev/loopN, one or several.
    #[arg(group = "which", value_name = "TARGET")]
    targets: Vec<String>,
    /// All disks.
    #[arg(long, group = "which")]
    all: bool,
    /// Detach even if in use: write back what can be written, unmount lazily, remove the device. Data that
    /// cannot be written back is lost.
    #[arg(long)]
    force: bool,
}

/// Options of `foreseek disk set`.
#[derive(Debug, clap::Args)]
#[command(
    group = clap::ArgGroup::new("change").required(true).multiple(true),
    override_usage = "foreseek disk set <OPTIONS> <TARGET>"
)]
pub(crate) struct Change {
    /// The disk: its name or /dev/loopN.
    target: String,
    /// Whether requests take the modelled time.
    #[arg(long, value_enum, value_name = "STATE", group = "change")]
    delays: Option<Switch>,
    /// The factor on all modelled time.
    #[arg(long, value_name = "FACTOR", group = "change", allow_negative_numbers = true, value_parser = factor)]
    time_scale: Option<f64>,
    /// The sectors of 512 bytes that fail, A to B - 1, in place of earlier ones; can be given several times.
    #[arg(long, value_name = "A..B", group = "change", conflicts_with = "fail_none")]
    fail_lba: Vec<LbaRange>,
    /// No sectors fail any more.
    #[arg(long, group = "change")]
    fail_none: bool,
    /// Whether the disk has power: without it requests fail, and what its volatile cache held is lost.
    #[arg(long, value_enum, value_name = "STATE", group = "change")]
    power: Option<Switch>,
}

/// Options of `foreseek disk log`.
#[derive(Debug, clap::Args)]
#[command(group = clap::ArgGroup::new("what").required(true))]
pub(crate) struct Logging {
    /// The disk: its name or /dev/loopN.
    target: String,
    /// Log from now on; what was logged before is dropped.
    #[arg(long, group = "what")]
    start: bool,
    /// Log at most this many requests.
    #[arg(long, value_name = "N", default_value_t = DEFAULT_LOG_CAPACITY, value_parser = whole, requires = "start")]
    capacity: usize,
    /// Stop logging and write the log as CSV; `-` is standard output.
    #[arg(long, value_name = "FILE", group = "what")]
    save: Option<PathBuf>,
}

/// A whole number, for options.
fn whole(text: &str) -> Result<usize, String> {
    text.parse().map_err(|_| "give a whole number, such as 2".to_owned())
}

/// A factor, for options; its range is checked later.
fn factor(text: &str) -> Result<f64, String> {
    text.parse().map_err(|_| "give a number, such as 0.25".to_owned())
}

/// On or off.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Switch {
    On,
    Off,
}

pub(crate) fn run(command: Command) -> anyhow::Result<Answer> {
    match command {
        Command::Attach(args) => attach(args),
        Command::List { format } => list(format),
        Command::Detach(args) => detach(&args),
        Command::Stats { target, reset, format } => stats(&target, reset, format),
        Command::Set(args) => set(&args),
        Command::Log(args) => log(&args),
        Command::Serve => serve(),
    }
}

fn attach(args: Attach) -> anyhow::Result<Answer> {
    let backing = match args.backing {
        Some(file) => Backing::File(file),
        None => Backing::Sparse { directory: args.dir },
    };
    let attached = client::attach(&AttachOptions {
        profile: args.profile,
        size: args.size,
        backing,
        thin: args.thin,
        fit: args.fit,
        queue: match args.queue {
            QueueArg::Sptf => QueueOrder::Sptf,
            QueueArg::Fifo => QueueOrder::Fifo,
        },
        queue_depth: args.queue_depth,
        failed_member: args.failed_member,
        time_scale: args.time_scale,
        delays: !args.no_delays,
        volatile_bytes: args.volatile_cache.map_or(0, Bytes::get),
        fail_lba: args.fail_lba,
        nbd: args.export,
        name: args.name,
        server: None,
    })?;
    let precautions = attached.precautions.iter().filter(|_| args.verbose);
    for warning in attached.warnings.iter().chain(precautions) {
        super::note(warning);
    }
    let told = text_of(args.format, &attached, |attached: &Attached| {
        let device = format!("{} {}", attached.device.display(), attached.name);
        let nbd = attached.nbd.as_ref().map(|uri| format!("\n{uri} {}", attached.name));
        device + &nbd.unwrap_or_default()
    });
    match told.and_then(|told| Ok(super::write_out(&told)?)) {
        Ok(()) => Ok(Answer::Done),
        Err(why) => Err(take_back(&attached, why)),
    }
}

/// Detaches a disk whose name could not be written to the caller, and returns the message.
fn take_back(attached: &Attached, why: anyhow::Error) -> anyhow::Error {
    let Attached { name, device, .. } = attached;
    let cannot = "cannot write to standard output which disk was attached";
    match client::detach(name, false) {
        Ok(()) => why.context(format!("{cannot}, so it was detached again")),
        Err(error) => why.context(format!(
            "{cannot}; it is {} {name} and stays attached, since it cannot be detached: {error}",
            device.display()
        )),
    }
}

fn list(format: Format) -> anyhow::Result<Answer> {
    report(format, &client::list()?, |disks: &Vec<Listed>| {
        let mut table = new_table();
        table.set_header(["device", "name", "state", "profile", "size", "backing", "mounted on", "NBD"]);
        for disk in disks {
            let mounted: Vec<_> = disk.mount_points.iter().map(|point| point.display().to_string()).collect();
            table.add_row([
                disk.device.as_ref().map_or("-".to_owned(), |device| device.display().to_string()),
                disk.name.clone(),
                state_of(disk),
                profile_of(&disk.profile, disk.failed_member),
                Bytes(disk.size_bytes).to_string(),
                disk.backing.display().to_string(),
                mounted.join(", "),
                disk.nbd.clone().unwrap_or_default(),
            ]);
        }
        table.to_string()
    })
}

fn state_of(disk: &Listed) -> String {
    if disk.power_off { format!("{}, power off", disk.health) } else { disk.health.to_string() }
}

fn detach(args: &Detach) -> anyhow::Result<Answer> {
    let targets = if args.all { client::names()? } else { each_once(&args.targets) };
    // One that cannot be detached does not keep the others.
    let failed: Vec<_> = targets
        .iter()
        .filter_map(|target| client::detach(target, args.force).err().map(|error| (target, error)))
        .collect();
    match failed.as_slice() {
        [] => Ok(Answer::Done),
        failures => {
            let named = |(target, why): &(&String, foreseek_emulate::Error)| {
                let why = why.to_string();
                if why.contains(target.as_str()) { why } else { format!("{target}: {why}") }
            };
            let lines: Vec<_> = failures.iter().map(named).collect();
            anyhow::bail!("{}", lines.join("\n"))
        }
    }
}

/// The targets without those that name a disk again.
fn each_once(targets: &[String]) -> Vec<String> {
    let mut seen = BTreeSet::new();
    let named = |target: &&String| client::name_of(target).unwrap_or_else(|_| (*target).clone());
    targets.iter().filter(|target| seen.insert(named(target))).cloned().collect()
}

fn stats(target: &str, reset: bool, format: Format) -> anyhow::Result<Answer> {
    report(format, &client::stats(target, reset)?, stats_table)
}

fn stats_table(stats: &Stats) -> String {
    let mut table = new_table();
    let mut row = |name: &str, value: String| {
        table.add_row([name.to_owned(), value]);
    };
    let times = |times: foreseek_emulate::Distribution| {
        format!(
            "mean {:.0}, p50 {:.0}, p90 {:.0}, p99 {:.0}, max {:.0} us",
            times.mean_us, times.p50_us, times.p90_us, times.p99_us, times.max_us
        )
    };
    let profile = profile_of(&stats.profile, stats.failed_member);
    row("disk", format!("{} ({profile}, {})", stats.name, Bytes(stats.size_bytes)));
    if stats.power_off {
        row("power", format!("off: requests fail until 'foreseek disk set {} --power on'", stats.name));
    }
    if !stats.fail_lba.is_empty() {
        row("failing sectors", failing(&stats.fail_lba));
    }
    row("delays", format!("{}, time scale {}", if stats.delays { "on" } else { "off" }, stats.time_scale));
    row("period", format!("{:.1} s", stats.seconds));
    row(
        "requests",
        format!(
            "{} ({} reads, {} writes, {} flushes, {} discards; {} failed)",
            stats.requests, stats.reads, stats.writes, stats.flushes, stats.discards, stats.failed
        ),
    );
    row("bytes", format!("{} read, {} written", Bytes(stats.read_bytes), Bytes(stats.written_bytes)));
    row("seeks", format!("{}, mean distance {}", stats.seeks, Bytes(stats.mean_seek_distance_bytes)));
    row("buffer hits", stats.buffer_hits.to_string());
    row("busy", format!("{:.3} s of modelled time", stats.busy_seconds));
    row(
        "in flight",
        format!("{} now, mean {:.1}, most {}", stats.in_flight, stats.in_flight_mean, stats.in_flight_most),
    );
    row("latency", times(stats.latency));
    for step in &stats.latency_histogram {
        row("", format!("up to {:>9} us: {}", step.up_to_us, step.count));
    }
    row("lateness", times(stats.lateness));
    row(
        "spinning",
        format!("{:.1} % of a core, refused {} times", stats.spin_share * 100.0, stats.spins_refused),
    );
    row(
        "software overhead",
        format!("{:.0} us and {:.0} us a MiB", stats.path.base_us, stats.path.per_mib_us),
    );
    row("overhead's share", format!("{:.2} % of the requests' time", stats.path_share * 100.0));
    if !stats.clients.is_empty() {
        row("NBD clients", stats.clients.join(", "));
    }
    for warning in &stats.warnings {
        row("warning", warning.clone());
    }
    table.to_string()
}

/// The first few ranges of failing sectors, and the number of further ones.
fn failing(ranges: &[LbaRange]) -> String {
    let mut named: Vec<String> = ranges.iter().take(RANGES_SHOWN).map(ToString::to_string).collect();
    if let more @ 1.. = ranges.len() - named.len() {
        named.push(format!("{more} ranges more"));
    }
    named.join(", ")
}

/// The profile, and that a member has failed.
fn profile_of(profile: &str, failed_member: Option<usize>) -> String {
    failed_member.map_or(profile.to_owned(), |member| format!("{profile}, member {member} failed"))
}

fn set(args: &Change) -> anyhow::Result<Answer> {
    let change = Set {
        delays: args.delays.map(|switch| switch == Switch::On),
        time_scale: args.time_scale,
        fail_lba: match args.fail_lba.as_slice() {
            [] => args.fail_none.then(Vec::new),
            ranges => Some(ranges.to_vec()),
        },
        power: args.power.map(|switch| switch == Switch::On),
    };
    client::set(&args.target, &change)?;
    Ok(Answer::Done)
}

fn log(args: &Logging) -> anyhow::Result<Answer> {
    let Some(path) = &args.save else {
        client::log_start(&args.target, args.capacity)?;
        return Ok(Answer::Done);
    };
    // Made before the log is taken, which can be done once only.
    let cannot = || format!("cannot write {}", path.display());
    let mut file: Box<dyn Write> = if path == Path::new("-") {
        Box::new(std::io::stdout().lock())
    } else {
        Box::new(std::io::BufWriter::new(File::create(path).with_context(cannot)?))
    };
    let log = client::log_stop(&args.target)?;
    let write = |entry: &LogEntry, file: &mut dyn Write| {
        let op = match entry.op {
            LoggedOp::Read => "read",
            LoggedOp::Write => "write",
            LoggedOp::Flush => "flush",
            LoggedOp::Discard => "discard",
        };
        let LogEntry { arrival_ns, completion_ns, lba, sectors, seek_sectors, failed, .. } = entry;
        writeln!(file, "{arrival_ns},{completion_ns},{op},{lba},{sectors},{seek_sectors},{failed}")
    };
    writeln!(file, "arrival_ns,completion_ns,op,lba,sectors,seek_sectors,failed").with_context(cannot)?;
    log.entries.iter().try_for_each(|entry| write(entry, &mut file)).with_context(cannot)?;
    file.flush().with_context(cannot)?;
    if log.missed > 0 {
        super::note(&format!(
            "{} requests found the log full: start it with a larger --capacity",
            log.missed
        ));
    }
    Ok(Answer::Done)
}

/// The server reports its start to the process that attaches; this command passes its exit status on.
fn serve() -> anyhow::Result<Answer> {
    if foreseek_emulate::serve::run() == std::process::ExitCode::SUCCESS {
        return Ok(Answer::Done);
    }
    std::process::exit(2)
}
