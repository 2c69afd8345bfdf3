//! The serving engine over a naive storage, checked against the rules of the seam.

mod aside;
mod rules;
mod single;
mod stories;
mod turns;
mod world;
