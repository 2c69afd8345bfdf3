//! How much one fetch of a stream reads at most: the depth rules that the papers compare.
//!
//! A window machine ([`crate::stream`]) queries a rule before it fetches, and passes it the requests that the
//! device has served.
//!
//! - [`Fixed`] is a kernel's constant.
//! - [`Competitive`] is the positioning time times the transfer rate (TR-840 section 3, EuroSys'07 sections 4 and
//!   5).
//! - [`Announced`] is the length that the stream announces: the papers' oracle.
//! - [`Zero`] reads nothing ahead.
//! - [`Plan`] is the depth of least cost for a known distribution of lengths ([`Survival`]), within a bound
//!   that holds for any distribution.

mod account;
mod announced;
mod bins;
mod buffered;
mod competitive;
mod depths;
mod fixed;
pub(crate) mod grid;
mod idle;
mod line;
mod measured;
mod plan;
mod planned;
mod positioning_cost;
mod ramp;
mod rule;
mod survival;
mod unloaded;
mod visits;
mod zero;

pub use account::Account;
pub use announced::Announced;
pub use competitive::{Competitive, DEPTH_LIMIT, PageMeasure};
pub use depths::Depths;
pub use fixed::Fixed;
pub use grid::LENGTH_LIMIT;
pub use idle::Idle;
pub use measured::CostLearner;
pub use plan::{Plan, RatioBound};
pub use planned::{CONTINUING, Planned};
pub use positioning_cost::{Averaging, POSITIONING_WEIGHT, PositioningCost};
pub use ramp::{Ramp, SLOW_START};
pub use rule::{Depth, DepthQuery, Served};
pub use survival::Survival;
pub use unloaded::UnloadedCosts;
pub use visits::Visit;
pub use zero::Zero;
