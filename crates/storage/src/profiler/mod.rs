//! The profiler: what a device costs, measured from the outside.
//!
//! Reads alone, past the page cache, a few thousand of them in less than two minutes: is there
//! something that turns, how fast, how fast the data pass at each place, what a distance costs, what
//! a command costs, up to which gap reading through is cheaper than skipping. Out comes a
//! [`Profile`](foreseek_device::Profile) that every other part takes, and with it the competitive
//! depth.
//!
//! It measures a [`Probe`]: a real device or file, or a modelled device in virtual time. The
//! measurement is the same object, and in virtual time the circle is closed quickly: what is
//! measured of a model must be the model. Each part is a file: [`rates`], [`turns`], [`command`],
//! [`seeks`]; what is arithmetic alone lies in [`estimate`].
//!
//! Sources: TR-840 section 3 (f_seek by distance, f_transfer by location, measured offline in less
//! than two minutes a drive), EuroSys'07 sections 3 and 5, ATC'09 section 3 (direct I/O, both
//! directions, infill).
//!
//! Limits: a device that is used by others meanwhile, or that answers from a cache larger than what
//! is read, shows costs that are not its own.

mod command;
mod estimate;
mod findings;
mod model;
mod places;
mod plan;
mod probe;
mod rates;
mod seeks;
mod session;
mod turns;
mod write;

pub use findings::{Findings, Verdict};
pub use model::ModelProbe;
pub use plan::Plan;
pub use probe::{Probe, Timed};
pub use rates::{RateAt, Zone};
pub use seeks::SeekPoint;
pub use session::Progress;
pub use write::Label;

use crate::Error;
use foreseek_units::Bytes;
use session::Session;
use turns::Platter;

/// The smallest device that is measured: with less there is no room for places that no cache holds.
pub const CAPACITY_LEAST: Bytes = Bytes::mib(256);

/// Measures a device. `seed` decides where is read: give another one for each run.
///
/// # Errors
/// A read that failed, a device that is too small.
pub fn profile(
    probe: &mut dyn Probe,
    plan: Plan,
    label: &Label,
    seed: u64,
    progress: Progress<'_>,
) -> Result<Findings, Error> {
    let capacity = probe.capacity();
    if capacity < CAPACITY_LEAST {
        return Err(Error::TooSmallToProfile { capacity, least: CAPACITY_LEAST });
    }
    let mut session = Session::new(probe, plan, seed, progress);
    match turns::measure(&mut session)? {
        Some(platter) => turning(&mut session, label, &platter),
        None => Err(Error::TooSmallToProfile { capacity, least: CAPACITY_LEAST }),
    }
}

/// Measures what has a platter.
fn turning(session: &mut Session<'_>, label: &Label, platter: &Platter) -> Result<Findings, Error> {
    let capacity = session.capacity();
    let command = command::measure(session, Some(platter.turn))?;
    let rates = rates::measure(session)?;
    let seeks = seeks::measure(session, platter)?;
    let disk = write::Disk {
        capacity,
        turn: platter.turn,
        zones: &rates.zones,
        seeks: &seeks,
        command,
        infill: Bytes::ZERO,
        average_seek: None,
    };
    let (toml, profile) = write::disk(label, &disk)?;
    session.begin("done", 0.0);
    Ok(Findings {
        verdict: Verdict::Disk,
        capacity,
        turn: Some(platter.turn),
        rates: rates.along,
        zones: rates.zones,
        seeks,
        command_overhead: command.overhead,
        bus: command.bus,
        toml,
        profile,
        remarks: Vec::new(),
        elapsed: session.elapsed(),
    })
}
