//! `foreseek mount`.

mod status;

use super::report::{new_table, report};
use super::{Answer, Format};
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use foreseek_mount::client::{self, BusyUnmount, Listed};
use foreseek_mount::{DEFAULT_MEMORY, MountOptions, Policy, Settings, WalkOptions, serve};
use foreseek_readahead::serving::MEMORY_LEAST;
use foreseek_readahead::stream::{RHO, RHO_LIMIT, RHO_RANGE};
use foreseek_units::Bytes;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The options of a new mount, which make no sense where none is made.
const MAKING: [&str; 12] = [
    "source",
    "memory",
    "policy",
    "rho",
    "unbounded",
    "profile",
    "forget",
    "no_walks",
    "no_passthrough",
    "read_only",
    "foreground",
    "request_timeout",
];

/// What is said after the options.
const AFTER_HELP: &str = "\
Examples:
  foreseek mount /data /mnt/data        read /data through /mnt/data, prefetched
  foreseek mount /data /data            in place, so that paths stay as they are
  foreseek mount --status /mnt/data     what it does: streams, hit rates, costs
  foreseek mount --unmount /mnt/data    end it, as 'umount /mnt/data' does

What programs can rely on is in mount.md, in share/doc/foreseek or in docs/use
of the source.";

/// Options of `foreseek mount`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = AFTER_HELP,
    override_usage = "foreseek mount [OPTIONS] <SOURCE> <MOUNTPOINT>\n       \
                      foreseek mount --status <MOUNTPOINT> [--format json]\n       \
                      foreseek mount --list | --unmount <MOUNTPOINT>"
)]
pub(crate) struct Args {
    /// The directory to show.
    #[arg(required_unless_present = "other")]
    source: Option<PathBuf>,
    /// Where to show it: an empty directory, or the source itself.
    #[arg(value_name = "MOUNTPOINT", required_unless_present = "other")]
    mount_point: Option<PathBuf>,
    /// Memory for prefetched data, such as 512M or 2G.
    #[arg(long, value_name = "SIZE", default_value_t = DEFAULT_MEMORY, allow_hyphen_values = true)]
    memory: Bytes,
    /// The policy that decides what is prefetched.
    #[arg(long, value_parser = policies(), default_value_t)]
    policy: Policy,
    /// The bound of the policy adaptive: no stream costs the device more than TIMES what a prefetcher that
    /// knows its length would pay (2 or more; 2 is the papers' bound) [default: 3].
    #[arg(long, value_parser = rho, value_name = "TIMES", allow_negative_numbers = true)]
    rho: Option<f64>,
    /// Let --memory alone bound what is prefetched, without a ceiling and shares of streams (for measurements).
    #[arg(long, hide = true)]
    unbounded: bool,
    /// The device below: a built-in profile (`foreseek profile --list` shows them) or a file [default: measured while
    /// running].
    #[arg(long, value_name = "NAME|FILE")]
    profile: Option<String>,
    /// Ignore what earlier mounts of this source learnt, and learn it anew.
    #[arg(long)]
    forget: bool,
    /// Do not read ahead of programs that walk trees of files.
    #[arg(long)]
    no_walks: bool,
    /// Do not let the kernel read files in the source's page cache without the server (FUSE passthrough, Linux 6.9).
    #[arg(long)]
    no_passthrough: bool,
    /// Mount read-only.
    #[arg(long)]
    read_only: bool,
    /// Serve in this process until SIGTERM or SIGINT.
    #[arg(long)]
    foreground: bool,
    /// Have the kernel abort the mount if a request is not answered within SECONDS (Linux 6.14).
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..=86_400))]
    request_timeout: Option<u64>,
    /// Show a mount's status.
    #[arg(long, value_name = "MOUNTPOINT", group = "other", conflicts_with_all = MAKING)]
    status: Option<PathBuf>,
    /// Unmount, even if the server is dead.
    #[arg(long, value_name = "MOUNTPOINT", group = "other", conflicts_with_all = MAKING)]
    unmount: Option<PathBuf>,
    /// List all mounts, dead ones included.
    #[arg(long, group = "other", conflicts_with_all = MAKING)]
    list: bool,
    /// Serve a mount; run by `mount`.
    #[arg(long, group = "other", hide = true)]
    serve: bool,
    /// How to report.
    #[arg(long, value_enum, default_value_t)]
    format: Format,
}

/// Reads a policy's name; help and completions list all.
fn policies() -> impl TypedValueParser<Value = Policy> {
    let values = Policy::all().map(|policy| {
        let value = PossibleValue::new(policy.name()).help(policy.about());
        // Its name in the release before.
        if policy == Policy::ADAPTIVE { value.alias("learnt") } else { value }
    });
    PossibleValuesParser::new(values).try_map(|name| name.parse::<Policy>())
}

pub(crate) fn run(args: Args) -> anyhow::Result<Answer> {
    if args.serve {
        // The process that started it reports what went wrong.
        return Ok(if serve::run_detached().is_ok() { Answer::Done } else { std::process::exit(2) });
    }
    if args.list {
        return report(args.format, &client::list()?, |mounts| list_table(mounts));
    }
    if let Some(point) = &args.status {
        return report(args.format, &client::status(point)?, status::table);
    }
    if let Some(point) = &args.unmount {
        return unmount(point);
    }
    let (Some(source), Some(point)) = (&args.source, &args.mount_point) else {
        anyhow::bail!("give a source and a mount point");
    };
    let settings = settings(&args, source, point)?;
    if args.foreground {
        serve::run(&settings, note_all)?;
    } else {
        note_all(&client::mount(&settings, &["mount", "--serve"])?);
    }
    Ok(Answer::Done)
}

/// Takes a mount away, and says why that takes its time.
fn unmount(point: &Path) -> anyhow::Result<Answer> {
    let path = std::path::absolute(point)?;
    if std::env::current_dir().is_ok_and(|here| here.starts_with(&path)) {
        // Not to wait for itself.
        std::env::set_current_dir("/")?;
    }
    client::unmount_with(&path, |lingering| {
        let BusyUnmount { mount_point, users, limit, pid } = lingering;
        let users = if users.is_empty() {
            "processes that cannot be seen from here".to_owned()
        } else {
            users.join(", ")
        };
        super::note(&format!(
            "{} is out of the tree, and still in use: {users}. They have {} s; 'kill {pid}' ends it at once",
            mount_point.display(),
            limit.as_secs()
        ));
    })?;
    Ok(Answer::Done)
}

/// A bound that the policy `adaptive` can keep.
fn rho(text: &str) -> Result<f64, String> {
    let rho: f64 = text.parse().map_err(|_| "give a number such as 3 or 2.5".to_owned())?;
    if RHO_RANGE.contains(&rho) { Ok(rho) } else { Err(format!("give 2 to {RHO_LIMIT}")) }
}

fn settings(args: &Args, source: &Path, point: &Path) -> anyhow::Result<Settings> {
    super::check_memory(args.memory, MEMORY_LEAST.bytes())?;
    anyhow::ensure!(
        args.rho.is_none() || args.policy == Policy::ADAPTIVE,
        "--rho is the bound of the policy adaptive, the others have none: leave out --rho or --policy"
    );
    let mut mount = MountOptions::new(source, point);
    mount.read_only = args.read_only;
    mount.request_timeout = args.request_timeout.map(Duration::from_secs);
    let profile = args.profile.as_deref().map(super::server_profile).transpose()?;
    mount.walks =
        WalkOptions::for_policy(args.policy, args.memory, profile.as_deref()).filter(|_| !args.no_walks);
    // Policy plain is what the others are measured against.
    mount.passthrough = !args.no_passthrough && args.policy != Policy::PLAIN;
    Ok(Settings {
        mount,
        policy: args.policy,
        rho: args.rho.unwrap_or(RHO),
        memory_bytes: args.memory.get(),
        is_bounded: !args.unbounded,
        profile,
        state: foreseek_mount::state_directory().map(std::path::absolute).transpose()?,
        forget: args.forget,
        record: super::recording()?,
    })
}

fn note_all(warnings: &[String]) {
    warnings.iter().for_each(|warning| super::note(warning));
}

fn list_table(mounts: &[Listed]) -> String {
    let mut table = new_table();
    table.set_header(["mount point", "source", "state", "process"]);
    for mount in mounts {
        table.add_row([
            mount.mount_point.display().to_string(),
            mount.source.display().to_string(),
            mount.health.to_string(),
            mount.pid.to_string(),
        ]);
    }
    table.to_string()
}
