//! A window machine of a generation with a depth rule put into it.

use super::behind::Behind;
use super::demand::Demand;
use super::linux_2_6_3::Linux2_6_3;
use super::linux_2_6_10::Linux2_6_10;
use super::linux_2_6_18::Linux2_6_18;
use super::machine::Streams;
use super::on_demand::OnDemand;
use super::two_windows::TwoWindows;
use super::{Generation, Prefetcher, Ramp, Settings};
use crate::depth::Depth;

/// The generation's machine with this depth and way of growing: what every policy is made of.
#[must_use]
pub fn window_machine(
    generation: Generation,
    depth: Box<dyn Depth>,
    ramp: Ramp,
    settings: &Settings,
) -> Box<dyn Prefetcher> {
    let (around, congestion) = (settings.window, settings.congestion);
    match generation {
        Generation::Linux2_6_3 => {
            Box::new(Streams::new(TwoWindows { rules: Linux2_6_3, depth, ramp, around, congestion }))
        }
        Generation::Linux2_6_10 => {
            Box::new(Streams::new(TwoWindows { rules: Linux2_6_10, depth, ramp, around, congestion }))
        }
        Generation::Linux2_6_18 => Box::new(Streams::new(Linux2_6_18 { depth, ramp, around })),
        Generation::OnDemand => Box::new(Streams::new(OnDemand { depth, ramp, around })),
        Generation::Behind => Box::new(Streams::new(Behind { depth, ramp })),
        Generation::Demand => Box::new(Streams::new(Demand { depth, ramp })),
    }
}
