//! Attaches emulated disks of every built-in profile, profiles them through the real kernel like real disks,
//! and compares the measured values with the modelled ones.
//!
//! Bars on an idle machine: average seek, rotation period, outer and inner rate within 5 % for disks,
//! positioning time and rate for arrays, competitive depth for both. The same measurement in virtual time is
//! a test of `foreseek-profiler`; this one adds the kernel, its path and its noise.
//!
//! `cargo bench -p foreseek-emulate --bench profiler-accuracy` prints measured/modelled and, last, one JSON
//! line; `-- --quick` measures quickly, `-- NAME...` only these profiles, `-- --stretch=8` disks with time
//! stretched eightfold. On these a busy host's delays weigh an eighth, and the measurement takes eight times
//! as long. It needs root; all profiles take a quarter of an hour.
#![allow(clippy::print_stdout, reason = "a benchmark reports on standard output")]

use anyhow::{Context, Result};
use foreseek_device::{Kind, Profile};
use foreseek_emulate::{AttachOptions, client, serve};
use foreseek_profiler::{self as profiler, Findings, Label, Plan, Target};
use foreseek_units::{Bytes, Nanos};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// The longest file of ext4 with blocks of 4 KiB is 16 TiB; a larger disk's full stroke is scaled to this
/// size.
const SIZE_MOST: Bytes = Bytes::gib(15 << 10);
/// The bars.
const BAR: f64 = 0.05;

fn main() -> ExitCode {
    if let Some(status) = serve::run_if_requested() {
        return status;
    }
    if !rustix::process::geteuid().is_root() || !Path::new("/dev/fuse").exists() {
        println!("SKIPPED: profiler-accuracy needs root and /dev/fuse");
        return ExitCode::SUCCESS;
    }
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            println!("profiler-accuracy: {error:#}");
            ExitCode::from(2)
        }
    }
}

fn run() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).filter(|argument| argument != "--bench").collect();
    let quick = arguments.iter().any(|argument| argument == "--quick");
    let asked = |name: &str| arguments.iter().any(|argument| argument == name);
    let all = !arguments.iter().any(|argument| !argument.starts_with('-'));
    let (plan, how) = if quick { (Plan::quick(), "quick") } else { (Plan::full(), "full") };
    let stretch = arguments.iter().find_map(|argument| argument.strip_prefix("--stretch="));
    let stretch: f64 = stretch.map_or(Ok(1.0), str::parse).context("--stretch= takes a number")?;
    println!("measured / modelled, {how}, time stretched by {stretch}; load {}", load());
    Target::raise_priority();
    let mut fields = Vec::new();
    for name in Profile::builtin_names().filter(|name| all || asked(name)) {
        match circle(name, plan.stretched(stretch), stretch) {
            Ok(circle) => {
                println!("{circle}");
                fields.push(format!("{name:?}:{}", circle.json()));
            }
            // A profile that fails does not stop the others.
            Err(error) => println!("{name:<22} {error:#}"),
        }
    }
    println!("load {}", load());
    println!("{{{}}}", fields.join(","));
    Ok(())
}

fn load() -> String {
    let text = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    text.split_ascii_whitespace().take(3).collect::<Vec<_>>().join(" ")
}

/// An attached disk, detached when dropped.
struct Attached {
    device: PathBuf,
}

impl Drop for Attached {
    fn drop(&mut self) {
        if let Err(error) = client::detach(&self.device.to_string_lossy(), true) {
            println!("cannot detach {}: {error}", self.device.display());
        }
    }
}

/// The result for one profile.
struct Circle {
    name: &'static str,
    verdict: &'static str,
    /// Measured over modelled values.
    ratios: Vec<(&'static str, f64)>,
    elapsed: Nanos,
    warnings: Vec<String>,
}

fn circle(name: &'static str, plan: Plan, stretch: f64) -> Result<Circle> {
    let model = Profile::builtin(name).context("no such profile")?;
    let size = model.capacity().pages_floor().bytes().min(SIZE_MOST);
    let options = AttachOptions {
        thin: true,
        fit: size == SIZE_MOST,
        time_scale: stretch,
        ..AttachOptions::new(name, size)
    };
    let attached = client::attach(&options)?;
    let mut warnings = attached.warnings.clone();
    let attached = Attached { device: attached.device };
    let mut target = Target::open(&attached.device)?;
    let label = Label {
        name: format!("measured-{name}"),
        description: String::new(),
        source: "measured through the kernel".to_owned(),
    };
    let seed = std::time::UNIX_EPOCH.elapsed()?.as_nanos() as u64;
    let found = profiler::profile(&mut target, plan.reported_rotational(true), &label, seed, &mut |_, _| {})?;
    warnings.extend(found.warnings.clone());
    warnings.extend(target.others());
    let verdict = match found.verdict {
        profiler::Verdict::Disk => "disk",
        profiler::Verdict::Array => "array",
        profiler::Verdict::DoesNotSeek => "remote",
    };
    Ok(Circle {
        name,
        verdict,
        ratios: ratios(name, &model, &found, stretch),
        elapsed: found.elapsed,
        warnings,
    })
}

/// Measured over modelled values, corrected for the stretch.
fn ratios(name: &str, model: &Profile, found: &Findings, stretch: f64) -> Vec<(&'static str, f64)> {
    let measured = &found.profile;
    let time = |measured: Nanos, model: Nanos| measured.get() as f64 / model.get() as f64 / stretch;
    let share = |measured: f64, model: f64| measured / model * stretch;
    let mut ratios = Vec::new();
    if let (Kind::Disk, Some(one), Some(other)) =
        (model.kind(), measured.average_seek(), model.average_seek())
    {
        ratios.push(("seek", time(one, other)));
    }
    if let (Some(rotation_period), Some(rpm)) = (found.rotation_period, model.rotation_rpm()) {
        ratios.push(("turn", rotation_period.as_secs_f64() * rpm / 60.0 / stretch));
    }
    if let (Kind::Disk, Some(first), Some(last)) = (model.kind(), found.zones.first(), found.zones.last()) {
        let edge = |key| number(name, key).min(number(name, "bus_rate_mb_per_s"));
        ratios.push(("outer", share(first.rate.as_mb_per_second(), edge("outer_rate_mb_per_s"))));
        ratios.push(("inner", share(last.rate.as_mb_per_second(), edge("inner_rate_mb_per_s"))));
    }
    ratios.push(("switch", time(measured.positioning_time(), model.positioning_time())));
    let rate = |profile: &Profile| profile.sequential_rate().as_mb_per_second();
    ratios.push(("rate", share(rate(measured), rate(model))));
    let depth = |profile: &Profile| profile.competitive_depth().get() as f64;
    ratios.push(("depth", depth(measured) / depth(model)));
    ratios
}

/// A number in a built-in profile's text.
fn number(name: &str, key: &str) -> f64 {
    let text = Profile::builtin_text(name).unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix(key)?.trim_start().strip_prefix('='));
    line.and_then(|value| value.split('#').next()?.trim().parse().ok()).unwrap_or(f64::NAN)
}

impl Circle {
    fn json(&self) -> String {
        let mut text =
            format!("{{\"verdict\":{:?},\"seconds\":{:.1}", self.verdict, self.elapsed.as_secs_f64());
        for (what, ratio) in &self.ratios {
            text.push_str(&format!(",{what:?}:{ratio:.4}"));
        }
        text + "}"
    }
}

impl std::fmt::Display for Circle {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:<22} {:<6}", self.name, self.verdict)?;
        for (what, ratio) in &self.ratios {
            let mark = if (ratio - 1.0).abs() > BAR { "!" } else { "" };
            write!(f, " {what} {ratio:.3}{mark}")?;
        }
        write!(f, " in {}", self.elapsed)?;
        self.warnings.iter().try_for_each(|warning| write!(f, "\n    {warning}"))
    }
}
