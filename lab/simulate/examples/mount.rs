//! The cells of `foreseek lab bench mount` in virtual time: stock Linux at three settings against the mount.
//!
//! Disk, scheduler, memory and requests are the same as there, except that the processors are the papers' and
//! the files lie elsewhere. It takes a minute, and the result is the same in each run, however busy the machine
//! is:
//!
//! ```sh
//! cargo run --release -p foreseek-simulate --example mount            # all
//! cargo run --release -p foreseek-simulate --example mount two-rand-0 64 mount:adaptive
//! cargo run --release -p foreseek-simulate --example mount one-whole-0 64 mount:adaptive/no-bound
//! ```

use foreseek_device::{Build, Profile};
use foreseek_readahead::{ServingEngine, serving, stream};
use foreseek_simulate::block::{self, BlockLayer, scheduler};
use foreseek_simulate::machine::{Machine, Parts, Period, Report, Settings, reclaim};
use foreseek_simulate::program::FileNumber;
use foreseek_simulate::workload::{self, Layout, LayoutSettings, Parameters};
use foreseek_units::{Bytes, DeviceCosts, Nanos, Pages};
use std::error::Error;
use std::io::{Write, stdout};
use std::sync::Arc;

const WORKLOADS: [&str; 4] = ["one-whole-0", "one-rand-10", "two-rand-0", "four-64kb-0"];
const READERS: [u32; 5] = [1, 4, 16, 64, 256];
/// Stock Linux with this many pages of read-ahead; 132 are the disk's competitive depth.
const STATIC: [(&str, u64); 3] = [("linux-128k", 32), ("linux-depth", 132), ("linux-4m", 1024)];
const MOUNTS: [&str; 2] = ["mount:competitive", "mount:adaptive"];
/// Variants that run only if they are named: without a bound; and with all the memory both for the server and
/// for the kernel's cache.
const VARIANTS: [&str; 2] = ["mount:adaptive/no-bound", "mount:adaptive/all-memory"];
const SEEDS: u64 = 3;
/// Measured time; with 256 readers twice as much.
const TIME: Nanos = Nanos::from_secs(12);
/// The disk, and the profile from which the mount begins to learn.
const DISK: &str = "ibm-36g-51";
const GUESS: &str = "barracuda-500g";
/// All the memory. With a mount half of it is the server's.
const MEMORY: Bytes = Bytes::mib(512);
const DATA: Bytes = Bytes::gib(4);
const DISK_SIZE: Bytes = Bytes::gib(6);

fn main() -> Result<(), Box<dyn Error>> {
    let chosen: Vec<String> = std::env::args().skip(1).collect();
    let is_chosen = |at: usize, name: &str| chosen.get(at).is_none_or(|one| one == name);
    let policies = STATIC.map(|(name, _)| name).into_iter().chain(MOUNTS);
    let variants = VARIANTS.into_iter().filter(|name| chosen.get(2).is_some_and(|one| one == name));
    let policies: Vec<&str> = policies.filter(|name| is_chosen(2, name)).chain(variants).collect();
    let mut out = stdout().lock();
    write!(out, "{:12} {:>7}", "MB/s", "readers")?;
    for policy in &policies {
        write!(out, " {policy:>20}")?;
    }
    writeln!(out, "    (read/used)")?;
    for workload in WORKLOADS.into_iter().filter(|name| is_chosen(0, name)) {
        for readers in READERS.into_iter().filter(|readers| is_chosen(1, &readers.to_string())) {
            write!(out, "{workload:12} {readers:>7}")?;
            for policy in &policies {
                let (mut rate, mut waste) = (0.0, 0.0);
                for seed in 1..=SEEDS {
                    let report = run(workload, readers, policy, seed)?;
                    rate += report.throughput_mb_per_s() / SEEDS as f64;
                    let used = report.counters.read.get().max(1) as f64;
                    waste += report.block.read.bytes().get() as f64 / used / SEEDS as f64;
                }
                write!(out, " {rate:>12.2} ({waste:>5.2})")?;
            }
            writeln!(out)?;
        }
    }
    Ok(())
}

fn run(workload: &str, readers: u32, policy: &str, seed: u64) -> Result<Report, Box<dyn Error>> {
    let disk = Profile::builtin(DISK).ok_or("no such disk")?;
    let costs: Arc<dyn DeviceCosts> = Arc::new(disk.clone());
    let (name, variant) = policy.split_once('/').unwrap_or((policy, ""));
    let mount = name.strip_prefix("mount:");
    let total = if mount.is_some() && variant != "all-memory" { MEMORY / 2 } else { MEMORY };
    let group = Settings::in_group(total);
    let window = STATIC.iter().find(|(name, _)| *name == policy).map_or(32, |(_, pages)| *pages);
    let kernel = stream::Settings { window: Pages(window), ..stream::Settings::default() };
    let scheduler = scheduler::by_name("mq-deadline").ok_or("no such scheduler")?;
    let build = Build { size: Some(DISK_SIZE), fit: true, seed, ..Build::default() };
    let parameters =
        Parameters { data_size: Some(DATA), handler_memory: Some(Bytes::kib(64)), ..Parameters::default() };
    let workload = workload::by_name(workload, &parameters)?;
    let files = workload.files();
    let layout = Layout::place(&files, DISK_SIZE.sectors_floor(), &LayoutSettings::default())?;
    let machine = Machine::new(Parts {
        reclaim: reclaim::by_name("linux-2.6", &group.memory).ok_or("no such replacement")?,
        settings: group,
        block: BlockLayer::new(block::Settings::LINUX_6_EMULATED, scheduler, disk.build(&build)?),
        prefetcher: stream::by_name("on-demand", &kernel, &costs)?,
        workload,
        extents: (0..files.len()).map(|file| layout.extents(FileNumber(file as u32)).to_vec()).collect(),
        concurrency: readers,
        seed,
    })?;
    let machine = match mount {
        None => machine,
        Some(policy) => {
            let (memory, together) = (total.pages_floor(), Bytes::gib(20).pages_floor());
            let mut settings = serving::Settings::of_mount(policy, memory, together, false);
            if variant == "no-bound" {
                settings.stream.rho = stream::RHO_LIMIT;
            }
            let guess: Arc<dyn DeviceCosts> = Arc::new(Profile::builtin(GUESS).ok_or("no such disk")?);
            machine.behind(ServingEngine::new(settings, &guess)?)
        }
    };
    let duration = if readers > 64 { TIME * 2 } else { TIME };
    Ok(machine.run(Period { warm_up: duration / 4, duration }, &mut |_| ())?)
}
