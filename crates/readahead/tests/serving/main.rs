//! The serving engine, held to a naive storage behind it and to the rules of the seam.

mod aside;
mod rules;
mod single;
mod stories;
mod world;
