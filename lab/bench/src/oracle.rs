//! How much was to be had: the same requests on the same disk in virtual time, read ahead by an
//! oracle that is told how long each stream will be (EuroSys'07 section 6.2's OPT).
//!
//! The files lie where the real ones do, the elevator is the modelled one of the same name, the
//! memory is all of it; of two page replacements the better one counts. The processors are the papers' two; time is not scaled in the model, and the
//! result is put on the scaled clock. An oracle fetches a stream in one piece; with many streams it
//! has more in flight than memory holds as well as anybody, and is no bound then.

use crate::cell::Point;
use crate::options::Options;
use crate::reader::Counted;
use crate::record::Measured;
use crate::{Cell, Error, Result};
use foreseek_device::Profile;
use foreseek_readahead::stream;
use foreseek_seam::Extent;
use foreseek_simulate::block::{self, BlockLayer, scheduler};
use foreseek_simulate::machine::{Machine, Parts, Period, Settings, reclaim};
use foreseek_simulate::workload;
use foreseek_units::{DeviceCosts, Nanos};
use std::sync::Arc;

/// Page replacements of which the oracle has the better one: that of Linux 2.6, and TR-840's, which
/// bounds what many streams have read ahead.
const REPLACEMENTS: [&str; 2] = ["linux-2.6", "cpem"];

/// The oracle's run of one place of the sweep.
pub(crate) fn run(
    point: Point,
    seed: u64,
    options: &Options,
    profile: &Profile,
    extents: &[Vec<Extent>],
) -> Result<Measured> {
    let mut best = Measured::default();
    for replacement in REPLACEMENTS {
        let measured = model(point, seed, options, profile, extents, replacement)?;
        if measured.mb_per_s() > best.mb_per_s() {
            best = measured;
        }
    }
    Ok(best)
}

fn model(
    point: Point,
    seed: u64,
    options: &Options,
    profile: &Profile,
    extents: &[Vec<Extent>],
    replacement: &str,
) -> Result<Measured> {
    let cannot = |what: String| Error::Oracle(what);
    let unknown = |what: &str| cannot(format!("there is no {what}"));
    let costs: Arc<dyn DeviceCosts> = Arc::new(profile.clone());
    let name = point.scheduler.name();
    let scheduler = scheduler::by_name(name).ok_or_else(|| unknown(name))?;
    let settings = Settings::in_group(options.memory);
    let machine = Machine::new(Parts {
        reclaim: reclaim::by_name(replacement, &settings.memory).ok_or_else(|| unknown(replacement))?,
        settings,
        block: BlockLayer::new(
            block::Settings::LINUX_6_EMULATED,
            scheduler,
            profile.build(&options.build(profile))?,
        ),
        prefetcher: stream::by_name("oracle", &stream::Settings::default(), &costs)
            .map_err(|error| cannot(error.to_string()))?,
        workload: workload::by_name(point.benchmark.name(), &options.parameters())?,
        extents: extents.to_vec(),
        concurrency: point.concurrency,
        seed,
    });
    let cell = Cell::Micro(point);
    let modelled = |seconds: f64| Nanos::from_secs_f64(seconds / options.time_scale);
    let period =
        Period { warm_up: modelled(options.warm_up(cell)), duration: modelled(options.measured(cell)) };
    let report = machine
        .and_then(|machine| machine.run(period, &mut |_| ()))
        .map_err(|error| cannot(error.to_string()))?;
    let response = report.responses.mean.as_millis_f64() * options.time_scale;
    Ok(Measured {
        readers: Counted {
            seconds: report.time.as_secs_f64() * options.time_scale,
            read_bytes: report.counters.read.get(),
            requests: report.responses.count,
            response_mean_ms: response,
            ..Counted::default()
        },
        device_read_bytes: (report.counters.demanded + report.counters.prefetched).bytes().get(),
        device_busy: report.device_use(),
        ..Measured::default()
    })
}
