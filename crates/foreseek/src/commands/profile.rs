//! `foreseek profile`: measure a device and write its profile; list and show profiles.

mod list;

use super::report::new_table;
use super::{Answer, Format};
use anyhow::{Context, bail, ensure};
use comfy_table::{CellAlignment, Table};
use foreseek_profiler::{self as profiler, Findings, Label, Limit, Plan, Probe, Target, Verdict};
use foreseek_units::{Bytes, Nanos};
use indicatif::{ProgressBar, ProgressStyle};
use serde_json::{Value, json};
use std::io::{IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

/// Steps of the progress bar.
const STEPS: f64 = 1000.0;
/// Distances that the table shows: a handful over all orders of magnitude; JSON and SVG have all.
const DISTANCES_SHOWN: usize = 8;

/// The options of a measurement, which make no sense where none is made.
const MEASURING: [&str; 6] = ["target", "output", "svg", "name", "quick", "force"];

/// What is said after the options.
const AFTER_HELP: &str = "\
Examples:
  foreseek profile /dev/sdb -o sdb.toml    in two minutes; the curves in sdb.svg
  foreseek profile --quick /dev/sdb        a first look, in 15 seconds
  foreseek profile --list                  the built-in profiles
  foreseek profile --show sdb.toml         the figures of a profile

Other commands take a profile's name or file as --profile. How it is measured is
in profiler.md, in share/doc/foreseek or in docs/use of the source.";

/// Options of `foreseek profile`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = AFTER_HELP,
    override_usage = "foreseek profile [OPTIONS] <DEVICE>\n       \
                      foreseek profile --list [--format json]\n       \
                      foreseek profile --show <NAME|FILE> [--format json]"
)]
pub(crate) struct Args {
    /// A block device or a large file, such as /dev/sdb. It is only read.
    #[arg(value_name = "DEVICE", required_unless_present = "other")]
    target: Option<PathBuf>,

    /// List the built-in profiles.
    #[arg(long, group = "other", conflicts_with_all = MEASURING)]
    list: bool,

    /// Print a built-in profile as TOML, to be copied and edited, or the figures of a profile file.
    #[arg(long, value_name = "NAME|FILE", group = "other", conflicts_with_all = MEASURING)]
    show: Option<String>,

    /// Write the profile into this file, as TOML, and the curves beside it, as SVG.
    #[arg(long, short, value_name = "FILE.toml")]
    output: Option<PathBuf>,

    /// Write the curves of seeking and transfer into this file.
    #[arg(long, value_name = "FILE.svg")]
    svg: Option<PathBuf>,

    /// The profile's name [default: after the output or the device].
    #[arg(long)]
    name: Option<String>,

    /// Measure in less than 15 seconds instead of two minutes, less exactly.
    #[arg(long)]
    quick: bool,

    /// Measure even if the device is in use.
    #[arg(long)]
    force: bool,

    /// How to report.
    #[arg(long, value_enum, default_value_t)]
    format: Format,

    /// Show no progress.
    #[arg(long)]
    quiet: bool,
}

pub(crate) fn run(args: Args) -> anyhow::Result<Answer> {
    if let Some(profile) = &args.show {
        return list::show(profile, args.format);
    }
    match &args.target {
        Some(target) => measure(&args, target),
        None => list::list(args.format),
    }
}

fn measure(args: &Args, path: &Path) -> anyhow::Result<Answer> {
    let svg = args.svg.clone().or_else(|| args.output.as_ref().map(|path| path.with_extension("svg")));
    let name = name(args, path)?;
    // What cannot be written is said before two minutes have gone by.
    let outputs: Vec<&PathBuf> = args.output.iter().chain(&svg).collect();
    outputs.iter().try_for_each(|path| check_output(path))?;
    ensure!(outputs.len() < 2 || outputs[0] != outputs[1], "--output and --svg are the same file");
    let mut target = Target::open(path)?;
    target.check_size().with_context(|| format!("cannot profile {}", path.display()))?;
    if !args.force {
        target.check_idle()?;
    }
    let how = if args.quick { "quick" } else { "full" };
    let label = Label {
        name,
        description: format!("{} of {}", path.display(), target.capacity()),
        source: format!("measured by 'foreseek profile' ({how}) on {}", path.display()),
    };
    Target::raise_priority();
    let bar = progress(args.quiet);
    let plan = if args.quick { Plan::quick() } else { Plan::full() };
    let plan = plan.reported_rotational(target.rotational() == Some(true));
    let mut progress = |part: &'static str, share: f64| {
        bar.set_message(part);
        bar.set_position((share * STEPS) as u64);
    };
    let found = profiler::profile(&mut target, plan, &label, seed(), &mut progress);
    bar.finish_and_clear();
    let mut found = found?;
    found.warnings.extend(target.others());
    found.warnings.extend(disagreement(&found, target.rotational()));
    let text = match args.format {
        Format::Json => format!("{:#}\n", to_json(&found, path)),
        Format::Table => to_table(&found, path),
    };
    // What was measured is shown in any case: a file that cannot be written is said after it.
    super::print(&text).context("cannot write to standard output")?;
    if let Some(path) = &args.output {
        write(path, &found.toml)?;
    }
    if let Some(path) = &svg {
        write(path, &found.to_svg())?;
    }
    for warning in &found.warnings {
        super::note(warning);
    }
    Ok(Answer::Done)
}

/// Where reads begin differs from run to run: no cache below may know the places.
fn seed() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(1, |time| Nanos::from(time).get())
}

/// The profile's name: what was given, or made of the output's or the device's name.
fn name(args: &Args, target: &Path) -> anyhow::Result<String> {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    if let Some(name) = &args.name {
        ensure!(
            (1..=64).contains(&name.len()) && name.chars().all(plain),
            "--name: '{name}' must be 1 to 64 letters, digits, '-', '_' or '.'"
        );
        return Ok(name.clone());
    }
    let stem = |path: &Path| path.file_stem().map(|stem| stem.to_string_lossy().into_owned());
    let device = || stem(target).map(|stem| format!("measured-{stem}"));
    let name = args.output.as_deref().and_then(stem).or_else(device).unwrap_or_default();
    let name: String = name.chars().map(|c| if plain(c) { c } else { '-' }).take(64).collect();
    Ok(if name.is_empty() { "measured".to_owned() } else { name })
}

/// Complains about an output that cannot be written or must not be: a device, above all.
fn check_output(path: &Path) -> anyhow::Result<()> {
    if let Ok(found) = std::fs::metadata(path) {
        ensure!(found.is_file(), "cannot write {}: it is there and no regular file", path.display());
    }
    let folder = folder_of(path);
    tempfile::tempfile_in(folder)
        .map(drop)
        .with_context(|| format!("cannot write {}: its folder cannot be written", path.display()))
}

fn folder_of(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Writes a file whole or not at all.
fn write(path: &Path, text: &str) -> anyhow::Result<()> {
    let cannot = || format!("cannot write {}", path.display());
    let mut file = tempfile::Builder::new()
        .permissions(std::os::unix::fs::PermissionsExt::from_mode(0o644))
        .tempfile_in(folder_of(path))
        .with_context(cannot)?;
    file.write_all(text.as_bytes()).with_context(cannot)?;
    match file.persist(path) {
        Ok(_) => Ok(()),
        Err(error) => bail!("{}: {}", cannot(), error.error),
    }
}

fn progress(quiet: bool) -> ProgressBar {
    if quiet || !std::io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let bar = ProgressBar::new(STEPS as u64);
    let style = ProgressStyle::with_template("{msg:<18} {bar:32} {percent:>3} %  {elapsed}")
        .unwrap_or_else(|_| ProgressStyle::default_bar());
    bar.set_style(style);
    bar
}

/// Where the kernel thinks otherwise of the device.
fn disagreement(found: &Findings, rotational: Option<bool>) -> Option<String> {
    let rotates = found.verdict != Verdict::DoesNotSeek;
    match rotational {
        Some(true) if !rotates => Some(
            "the kernel holds it for a rotating disk (queue/rotational is 1), reading shows no rotation".into(),
        ),
        Some(false) if rotates => Some(
            "the kernel holds it for a device without rotation (queue/rotational is 0), reading shows a revolution"
                .into(),
        ),
        _ => None,
    }
}

fn verdict(found: &Findings) -> &'static str {
    match found.verdict {
        Verdict::Disk => "seeks: a disk",
        Verdict::Array => "seeks: several disks as one",
        Verdict::DoesNotSeek => "does not seek: no head to save (an SSD, a network volume, a memory)",
    }
}

fn ms(time: Nanos) -> f64 {
    (time.as_millis_f64() * 1e4).round() / 1e4
}

fn to_table(found: &Findings, target: &Path) -> String {
    let profile = &found.profile;
    let depth = profile.competitive_depth();
    let mut table = new_table();
    let mut row = |name: &str, value: String| {
        table.add_row([name.to_owned(), value]);
    };
    row("device", format!("{}, {}", target.display(), found.capacity));
    row("kind", verdict(found).to_owned());
    if let Some(period) = found.rotation_period {
        row("revolution", format!("{period} ({:.0} rpm)", 60.0 / period.as_secs_f64()));
    }
    if let Some(seek) = profile.average_seek() {
        row("average seek", seek.to_string());
    }
    if let Some(bound) = &found.latency_bound {
        let latency = bound.latency;
        row(
            "latency",
            format!(
                "median {}, mean {}, p90 {}, p99 {}",
                latency.median, latency.mean, latency.p90, latency.p99
            ),
        );
        row(
            "limit",
            match bound.limit {
                Limit::Parallel(places) => format!("{places:.1} concurrent requests"),
                Limit::Operations(operations) => format!("{operations:.0} operations a second"),
            },
        );
    }
    row("positioning time", profile.positioning_time().to_string());
    if let (Some(outer), Some(inner)) = (found.zones.first(), found.zones.last()) {
        row("rate", format!("{} outer, {} inner, {} zones seen", outer.rate, inner.rate, found.zones.len()));
    }
    row("mean rate", profile.sequential_rate().to_string());
    if !found.command_overhead.is_zero() {
        row("command", found.command_overhead.to_string());
    }
    row("skip or read", format!("read gaps up to {}", found.infill));
    row(
        "competitive prefetch size",
        format!("{:.1} KB, {} pages", depth.get() as f64 / 1e3, depth.pages_floor().get()),
    );
    row("measured in", found.elapsed.to_string());
    let mut text = format!("{table}\n");
    for part in [seek_table(found), depth_table(found), size_table(found)].into_iter().flatten() {
        text.push_str(&format!("\n{part}\n"));
    }
    text
}

fn numbers(header: [&str; 3], rows: impl IntoIterator<Item = [String; 3]>) -> Option<Table> {
    let mut table = new_table();
    table.set_header(header);
    table.column_iter_mut().for_each(|column| column.set_cell_alignment(CellAlignment::Right));
    table.add_rows(rows);
    (table.row_count() > 0).then_some(table)
}

fn seek_table(found: &Findings) -> Option<Table> {
    let step = found.seeks.len().div_ceil(DISTANCES_SHOWN).max(1);
    // Counted from the end, so that the longest is among them.
    let shown = found.seeks.iter().rev().step_by(step).collect::<Vec<_>>().into_iter().rev();
    let row = |point: &profiler::SeekPoint| {
        [
            point.distance.to_string(),
            format!("{:.2}", ms(point.forward)),
            format!("{:.2}", ms(point.backward)),
        ]
    };
    numbers(["distance", "forward ms", "backward ms"], shown.map(row))
}

fn depth_table(found: &Findings) -> Option<Table> {
    let row = |point: &profiler::DepthPoint| {
        [
            point.depth.to_string(),
            format!("{:.0}", point.reads_per_second),
            format!("{:.2}", ms(point.response)),
        ]
    };
    numbers(["queue depth", "random pages/s", "median ms"], found.depths.iter().map(row))
}

fn size_table(found: &Findings) -> Option<Table> {
    let row = |point: &profiler::SizePoint| {
        let rate = point.rate.as_mb_per_second();
        [point.size.to_string(), format!("{rate:.1}"), format!("{:.2}", ms(point.random))]
    };
    numbers(["request size", "in sequence MB/s", "random ms"], found.sizes.iter().map(row))
}

fn to_json(found: &Findings, target: &Path) -> Value {
    let profile = &found.profile;
    let bytes = |bytes: Bytes| bytes.get();
    json!({
        "target": target,
        "name": profile.name(),
        "kind": profile.kind().to_string(),
        "verdict": match found.verdict {
            Verdict::Disk => "disk",
            Verdict::Array => "array",
            Verdict::DoesNotSeek => "does-not-seek",
        },
        "seeks": found.verdict != Verdict::DoesNotSeek,
        "capacity_bytes": bytes(found.capacity),
        "rotation_rpm": profile.rotation_rpm(),
        "rotation_period_ms": found.rotation_period.map(ms),
        "average_seek_ms": profile.average_seek().map(ms),
        "positioning_ms": ms(profile.positioning_time()),
        "sequential_rate_mb_per_s": profile.sequential_rate().as_mb_per_second(),
        "outer_rate_mb_per_s": found.zones.first().map(|zone| zone.rate.as_mb_per_second()),
        "inner_rate_mb_per_s": found.zones.last().map(|zone| zone.rate.as_mb_per_second()),
        "command_overhead_ms": ms(found.command_overhead),
        "bus_rate_mb_per_s": found.bus.map(|bus| bus.as_mb_per_second()),
        "infill_bytes": bytes(found.infill),
        "competitive_prefetch_size_bytes": bytes(profile.competitive_depth()),
        "competitive_prefetch_size_pages": profile.competitive_depth().pages_floor().get(),
        "latency": found.latency_bound.as_ref().map(latency_json),
        "seek_curve": found.seeks.iter().map(|point| json!({
            "distance_bytes": bytes(point.distance), "forward_ms": ms(point.forward),
            "backward_ms": ms(point.backward), "samples": point.samples,
        })).collect::<Vec<_>>(),
        "rates": found.rates.iter().map(|at| json!({
            "offset_bytes": at.offset.get(), "mb_per_s": at.rate.as_mb_per_second(),
        })).collect::<Vec<_>>(),
        "zones": found.zones.iter().map(|zone| json!({
            "start_bytes": zone.start.get(), "mb_per_s": zone.rate.as_mb_per_second(),
        })).collect::<Vec<_>>(),
        "gaps": found.gaps.iter().map(|point| json!({
            "gap_bytes": bytes(point.gap), "skipped_ms": ms(point.skipped), "read_ms": ms(point.read),
        })).collect::<Vec<_>>(),
        "request_sizes": found.sizes.iter().map(|point| json!({
            "size_bytes": bytes(point.size), "sequential_mb_per_s": point.rate.as_mb_per_second(),
            "random_ms": ms(point.random),
        })).collect::<Vec<_>>(),
        "queue_depths": found.depths.iter().map(|point| json!({
            "depth": point.depth, "random_reads_per_s": point.reads_per_second, "median_ms": ms(point.response),
        })).collect::<Vec<_>>(),
        "warnings": found.warnings,
        "seconds": found.elapsed.as_secs_f64(),
        "profile": found.toml,
    })
}

fn latency_json(found: &profiler::LatencyBound) -> Value {
    let latency = found.latency;
    let (parallel, operations) = match found.limit {
        Limit::Parallel(places) => (Some(places), None),
        Limit::Operations(operations) => (None, Some(operations)),
    };
    let credit = |credit: Option<profiler::Credit>| {
        credit.map(|credit| {
            json!({
                "burst_per_s": credit.burst_per_second, "base_per_s": credit.base_per_second,
                "amount": credit.amount, "lasted_s": credit.lasted.as_secs_f64(),
            })
        })
    };
    json!({
        "median_ms": ms(latency.median), "mean_ms": ms(latency.mean),
        "p90_ms": ms(latency.p90), "p99_ms": ms(latency.p99),
        "parallel_requests": parallel, "operations_per_s": operations,
        "byte_credit": credit(found.byte_credit), "operation_credit": credit(found.operation_credit),
    })
}
