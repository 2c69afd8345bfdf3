//! `foreseek array`.

use super::report::{new_table, report, text_of};
use super::{Answer, Format};
use foreseek_array::client::{self, Listed};
use foreseek_array::{
    AttachOptions, Attached, DEFAULT_MEMBER, DEFAULT_POLICY, Health, NbdAddress, Shape, Status,
};
use foreseek_strips::registry;
use foreseek_units::{Bytes, Nanos};
use std::path::PathBuf;
use std::str::FromStr;

const AFTER_HELP: &str = "\
Examples:
  foreseek array attach /dev/md0        prints its device
  foreseek array attach /dev/sdb --strip 256K --members 5 --level raid5
                                        where the kernel knows no strips
  foreseek array attach /dev/md0 --export nbd:unix:/run/array.socket
                                        for virtual machines and NBD clients
  foreseek array status array0          hit rates, sizes of the cache's lists
  foreseek array detach array0

Mount the device that 'attach' prints, not the array's own. What is
served is in array.md, in share/doc/foreseek or in docs/use of the source.";

/// The verbs of `foreseek array`.
#[derive(Debug, clap::Subcommand)]
#[command(after_help = AFTER_HELP)]
pub(crate) enum Command {
    /// Serve an array as a new block device that reads by strips and stripes.
    Attach(Attach),
    /// Show what an array's cache has done.
    Status {
        /// The array: its name, its /dev/loopN or the device below.
        target: String,
        /// How to report.
        #[arg(long, value_enum, default_value_t)]
        format: Format,
    },
    /// List attached arrays, dead ones included.
    List {
        /// How to report.
        #[arg(long, value_enum, default_value_t)]
        format: Format,
    },
    /// Detach an array; the device below stays as it is.
    Detach {
        /// The array: its name, its /dev/loopN or the device below.
        target: String,
        /// Detach even if in use: write back what can be written, unmount lazily, remove the device. Data
        /// that cannot be written back is lost.
        #[arg(long)]
        force: bool,
    },
    /// Serve an array; run by `attach`.
    #[command(hide = true)]
    Serve,
}

/// Options of `foreseek array attach`.
#[derive(Debug, clap::Args)]
pub(crate) struct Attach {
    /// The array: a block device, or a file.
    device: PathBuf,
    /// Take strips, level and costs from this profile of an array: a built-in name or a file.
    #[arg(long, value_name = "NAME|FILE", conflicts_with_all = ["strip", "members", "level", "member"])]
    profile: Option<String>,
    /// Bytes of a strip on one member (md: chunk), such as 128K; without this the kernel is asked.
    #[arg(long, value_name = "SIZE", requires = "members", requires = "level")]
    strip: Option<Bytes>,
    /// How many members the array has, those of parity included.
    #[arg(long, value_name = "N", requires = "strip")]
    members: Option<u64>,
    /// The level: raid0, raid5 or raid6 (left-symmetric).
    #[arg(long)]
    level: Option<String>,
    /// The profile of a member disk, for its seek costs: a built-in name or a file.
    #[arg(long, value_name = "NAME|FILE", default_value = DEFAULT_MEMBER)]
    member: String,
    /// Memory for the cache and data in transit; at least 96 MiB.
    #[arg(long, value_name = "SIZE", default_value_t = Bytes::mib(500))]
    memory: Bytes,
    /// What is prefetched: adaptive, by what is being read; none; sp: strips; asp: strips, while they are used; msp:
    /// whole stripes for sequential readers; asp+msp.
    #[arg(long, default_value = DEFAULT_POLICY)]
    policy: String,
    /// Where it is served: loop, nbd:unix:PATH, nbd:HOST:PORT or nbd::PORT (this machine); can be given twice. NBD is
    /// served without TLS: to a HOST that others reach, give them a tunnel instead.
    #[arg(long, value_name = "loop|nbd:...", default_value = "loop")]
    export: Vec<ExportTo>,
    /// The array's name [default: the first free arrayN].
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// How to report.
    #[arg(long, value_enum, default_value_t)]
    format: Format,
}

/// Refuses a policy that there is not, with the names of those that an array takes. Combinations with a window of
/// the host are left to the array, which names the remedy.
fn check_policy(name: &str) -> anyhow::Result<()> {
    let known: Vec<_> = registry::names().collect();
    anyhow::ensure!(
        registry::by_name(name).is_ok(),
        "--policy: no array policy is called '{name}': give one of {}",
        known.join(", ")
    );
    Ok(())
}

/// Where an array is served.
#[derive(Clone, Debug)]
enum ExportTo {
    Loop,
    Nbd(NbdAddress),
}

impl FromStr for ExportTo {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "loop" { Ok(Self::Loop) } else { text.parse().map(Self::Nbd) }
    }
}

pub(crate) fn run(command: Command) -> anyhow::Result<Answer> {
    match command {
        Command::Attach(args) => attach(args),
        Command::Status { target, format } => report(format, &client::status(&target)?, status_table),
        Command::List { format } => list(format),
        Command::Detach { target, force } => {
            if !client::detach(&target, force)? {
                super::note(
                    "its server was dead: what it left behind is freed; attach the array anew, then mount it again",
                );
            }
            Ok(Answer::Done)
        }
        Command::Serve => serve(),
    }
}

fn attach(args: Attach) -> anyhow::Result<Answer> {
    check_policy(&args.policy)?;
    // The server knows the least, and says what that is for.
    super::check_memory(args.memory, Bytes(0))?;
    let shape = match (args.profile, args.strip, args.members, args.level) {
        (Some(profile), ..) => Shape::Profile(profile),
        (None, None, None, level) => Shape::Found { level, member: args.member },
        (None, Some(strip), Some(members), Some(level)) => {
            Shape::Given { strip_bytes: strip.get(), members, level, member: args.member }
        }
        _ => anyhow::bail!("give --profile, or --strip with --members and --level"),
    };
    let nbd: Vec<NbdAddress> = args
        .export
        .iter()
        .filter_map(|export| match export {
            ExportTo::Loop => None,
            ExportTo::Nbd(address) => Some(address.clone()),
        })
        .collect();
    anyhow::ensure!(nbd.len() <= 1, "--export: one NBD address is served: give one");
    let attached = client::attach(&AttachOptions {
        device: args.device,
        shape,
        memory_bytes: args.memory.get(),
        policy: args.policy,
        name: args.name,
        loop_device: args.export.iter().any(|export| matches!(export, ExportTo::Loop)),
        nbd: nbd.into_iter().next(),
    })?;
    for warning in &attached.warnings {
        super::note(warning);
    }
    let told = text_of(args.format, &attached, |attached: &Attached| {
        let device = attached.device.iter().map(|device| device.display().to_string());
        let places: Vec<_> =
            device.chain(attached.nbd.clone()).map(|place| format!("{place} {}", attached.name)).collect();
        places.join("\n")
    });
    match told.and_then(|told| Ok(super::write_out(&told)?)) {
        Ok(()) => Ok(Answer::Done),
        Err(why) => {
            client::detach(&attached.name, false)?;
            Err(why.context(
                "cannot write to standard output which array was attached, so it was detached again",
            ))
        }
    }
}

fn list(format: Format) -> anyhow::Result<Answer> {
    let listed = client::list()?;
    for dead in listed.iter().filter(|array| array.health == Health::Dead) {
        super::note(&foreseek_array::Error::Dead(dead.name.clone()).to_string());
    }
    report(format, &listed, |arrays: &Vec<Listed>| {
        let mut table = new_table();
        table.set_header(["device", "name", "state", "array", "size", "mounted on"]);
        for array in arrays {
            let mounted: Vec<_> =
                array.mount_points.iter().map(|point| point.display().to_string()).collect();
            table.add_row([
                array
                    .device
                    .as_ref()
                    .map(|device| device.display().to_string())
                    .or_else(|| array.nbd.clone())
                    .unwrap_or_else(|| "-".to_owned()),
                array.name.clone(),
                array.health.to_string(),
                array.below.display().to_string(),
                Bytes(array.size_bytes).to_string(),
                mounted.join(", "),
            ]);
        }
        table.to_string()
    })
}

fn status_table(status: &Status) -> String {
    let mut table = new_table();
    let mut row = |name: &str, value: String| {
        table.add_row([name.to_owned(), value]);
    };
    row("policy", status.policy.clone());
    let strip = Bytes(status.strip_bytes);
    let copies = if status.copies > 1 { format!(" in {} copies", status.copies) } else { String::new() };
    row("array", format!("{} of {} members{copies}, strips of {strip}", status.level, status.members));
    if let Some(length) = status.backing_bytes.map(Bytes) {
        row("below", format!("has {length} now: detach the array and attach it again to serve that"));
    }
    if let Some(why) = &status.paused {
        row("prefetching", format!("rests: {why}"));
    }
    let rate = status.hit_rate.map_or("no reads yet".to_owned(), |rate| format!("{:.1} %", rate * 100.0));
    row("hit rate", rate);
    row(
        "blocks of reads",
        format!(
            "{} requested before, {} prefetched, {} missed, {} past the cache",
            status.cache_hits, status.prefetch_hits, status.misses, status.uncached
        ),
    );
    row(
        "prefetched blocks",
        format!("{} by strips, {} by stripes", status.strip_blocks, status.massive_blocks),
    );
    row("dropped", format!("{} blocks culled, {} strips evicted", status.culled, status.evicted));
    if status.joined_stripes > 0 {
        row("joined", format!("{} whole stripes, of writes in pieces", status.joined_stripes));
    }
    row("cached", Bytes(status.cached_bytes).to_string());
    let (upstream, limit) = status.upstream;
    row("upstream", format!("{upstream} strips of at most {limit}"));
    row("downstream", format!("{} strips", status.downstream));
    if !status.clients.is_empty() {
        row("NBD clients", status.clients.join(", "));
    }
    if let Some((with, without)) = status.costs_ns {
        let verdict = if with <= without { "strips are prefetched" } else { "strips are not prefetched" };
        row("costs", format!("{} with strips, {} without: {verdict}", Nanos(with), Nanos(without)));
    }
    if !status.beyond_profile_us.is_empty() {
        row("read times", read_times(&status.beyond_profile_us));
    }
    for missing in &status.precautions {
        row("warning", missing.clone());
    }
    table.to_string()
}

/// What reads of the members take, compared with their profile.
fn read_times(beyond_us: &[i64]) -> String {
    let one = |(member, us): (usize, &i64)| format!("{:+.1} ms on member {member}", *us as f64 / 1000.0);
    let all: Vec<String> = beyond_us.iter().enumerate().map(one).collect();
    format!("beyond the profile: {}", all.join(", "))
}

/// The server reports its start to the process that attaches; this command passes its exit status on.
fn serve() -> anyhow::Result<Answer> {
    if foreseek_array::serve::run() == std::process::ExitCode::SUCCESS {
        return Ok(Answer::Done);
    }
    std::process::exit(2)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_policy_is_answered_with_those_that_an_array_takes() {
        assert!(registry::names().all(|name| check_policy(name).is_ok()));
        assert!(check_policy("asp+seqp128").is_ok());
        let error = check_policy("best").expect_err("there is none").to_string();
        assert!(error.contains("'best'") && error.contains("asp+msp-adaptive"), "{error}");
        assert!(!error.contains("seqp"), "{error}");
    }
}
