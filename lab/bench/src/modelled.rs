//! The same requests on the same disk in virtual time: the possible gain, and the simulator's prediction.
//!
//! *The oracle* knows how long each stream will be and reads ahead by that (EuroSys'07 section 6.2's OPT). The
//! better of two page replacements counts, with all of the memory. It fetches a stream in one piece. With many
//! streams it has more in flight than memory holds, and is no upper bound then.
//!
//! *The mount* is the mount's driver and engine with its default settings, behind a kernel with FUSE's
//! read-ahead of 128 KiB; the readers have the memory that the server leaves. The work of the disk is then the
//! simulator's prediction for the real mount.
//!
//! The files have the same extents as the real ones, and the I/O scheduler is the modelled one of the same
//! name. The machine has two processors, as in the papers. Time is not scaled in the model; the result is
//! converted to the scaled clock.

use crate::cell::Point;
use crate::options::Options;
use crate::policy::mounted;
use crate::reader::Counted;
use crate::record::Measured;
use crate::{Cell, Error, Policy, Result};
use foreseek_device::Profile;
use foreseek_mount::ReaderOptions;
use foreseek_readahead::{ServingEngine, stream};
use foreseek_seam::Extent;
use foreseek_simulate::block::{self, BlockLayer, scheduler};
use foreseek_simulate::machine::{Machine, Parts, Period, Settings, reclaim};
use foreseek_simulate::workload;
use foreseek_units::{Bytes, DeviceCosts, Nanos};
use std::sync::Arc;

/// Page replacements of which the oracle uses the better one: that of Linux 2.6, and TR-840's, which limits
/// what many streams have read ahead.
const REPLACEMENTS: [&str; 2] = ["linux-2.6", "cpem"];

/// The read-ahead of the kernel in front of a mount.
const IN_FRONT: &str = "on-demand";

/// The modelled run of one point of the sweep.
pub(crate) fn run(
    policy: &Policy,
    point: Point,
    seed: u64,
    options: &Options,
    profile: &Profile,
    extents: &[Vec<Extent>],
) -> Result<Measured> {
    let model = Model { point, seed, options, profile, extents };
    if let Policy::Virtual(name) = policy {
        let memory = options.memory - options.server_memory;
        let machine = model.machine(IN_FRONT, memory, REPLACEMENTS[0])?;
        let (name, is_bounded) = mounted(name);
        let mount = ReaderOptions { is_bounded, ..ReaderOptions::new(name, options.server_memory) };
        let engine = ServingEngine::new(mount.engine_settings(), &mount.costs())
            .map_err(|error| Error::Modelled(error.to_string()))?;
        return model.run(machine.behind(engine));
    }
    let mut best = Measured::default();
    for replacement in REPLACEMENTS {
        let measured = model.run(model.machine("oracle", options.memory, replacement)?)?;
        if measured.mb_per_s() > best.mb_per_s() {
            best = measured;
        }
    }
    Ok(best)
}

/// The model of one point.
#[derive(Clone, Copy)]
struct Model<'a> {
    point: Point,
    seed: u64,
    options: &'a Options,
    profile: &'a Profile,
    extents: &'a [Vec<Extent>],
}

impl Model<'_> {
    fn machine(&self, prefetcher: &str, memory: Bytes, replacement: &str) -> Result<Machine> {
        let Self { point, seed, options, profile, extents } = *self;
        let unknown = |what: &str| Error::Modelled(format!("there is no {what}"));
        let costs: Arc<dyn DeviceCosts> = Arc::new(profile.clone());
        let name = point.scheduler.name();
        let scheduler = scheduler::by_name(name).ok_or_else(|| unknown(name))?;
        let settings = Settings::in_group(memory);
        let machine = Machine::new(Parts {
            reclaim: reclaim::by_name(replacement, &settings.memory).ok_or_else(|| unknown(replacement))?,
            settings,
            block: BlockLayer::new(
                block::Settings::LINUX_6_EMULATED,
                scheduler,
                profile.build(&options.build(profile))?,
            ),
            prefetcher: stream::by_name(prefetcher, &stream::Settings::default(), &costs)
                .map_err(|error| Error::Modelled(error.to_string()))?,
            workload: workload::by_name(point.benchmark.name(), &options.parameters())?,
            extents: extents.to_vec(),
            concurrency: point.concurrency,
            seed,
        });
        machine.map_err(|error| Error::Modelled(error.to_string()))
    }

    fn run(&self, machine: Machine) -> Result<Measured> {
        let Self { point, options, .. } = *self;
        let cell = Cell::Micro(point);
        let modelled = |seconds: f64| Nanos::from_secs_f64(seconds / options.time_scale);
        let period =
            Period { warm_up: modelled(options.warm_up(cell)), duration: modelled(options.measured(cell)) };
        let report = machine.run(period, &mut |_| ()).map_err(|error| Error::Modelled(error.to_string()))?;
        // With a mount its server reads, not the kernel in front of it.
        let kernel = report.counters.demanded + report.counters.prefetched;
        let read = report.mount.map_or(kernel, |stats| stats.fetched_on_demand + stats.fetched_ahead);
        let response = report.responses.mean.as_millis_f64() * options.time_scale;
        Ok(Measured {
            readers: Counted {
                seconds: report.time.as_secs_f64() * options.time_scale,
                read_bytes: report.counters.read.get(),
                requests: report.responses.count,
                response_mean_ms: response,
                ..Counted::default()
            },
            device_read_bytes: read.bytes().get(),
            device_busy: report.device_use(),
            ..Measured::default()
        })
    }
}
