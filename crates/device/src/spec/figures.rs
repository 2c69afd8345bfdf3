//! The figures that follow from any description.

use foreseek_units::{Bytes, Nanos, Rate};

/// The figures of the papers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Figures {
    pub(crate) capacity: Bytes,
    pub(crate) rotation_rpm: Option<f64>,
    pub(crate) average_seek: Option<Nanos>,
    pub(crate) modelled_seek: Option<Nanos>,
    pub(crate) positioning_time: Nanos,
    pub(crate) sequential_rate: Rate,
    pub(crate) command_overhead: Nanos,
    pub(crate) infill: Bytes,
}
