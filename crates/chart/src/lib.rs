//! Charts as SVG documents that stand by themselves: no script, no font, nothing from outside.
//!
//! [`Lines`] draws curves or points over an axis that is linear, logarithmic or the steps of a sweep,
//! [`Bars`] groups of bars; both with the interval of each value. [`Zoomed`] draws thousands of dots over time and
//! enlarges a part of it. [`stacked`] puts several charts of curves into one document. Its
//! colours differ also for people who see red and green alike. They follow the reader's preference for light or dark. Nothing is read or written here:
//! charts are text.
//!
//! A drawing of our own and not a plotting library: those that make SVG fix their colours for one
//! ground and lay the legend over the curves.
#![forbid(unsafe_code)]

mod axis;
mod bars;
mod frame;
mod lines;
mod stack;
mod style;
mod text;
mod zoomed;

pub use axis::{Axis, plain};
pub use bars::{Bars, Group};
pub use lines::{Across, Lines, Mark, Point, Series};
pub use stack::stacked;
pub use style::SERIES_LIMIT;
pub use text::escape;
pub use zoomed::{Panel, Zoomed};
