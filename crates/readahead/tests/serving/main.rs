//! The serving engine, held to a naive storage behind it and to the rules of the seam.

mod single;
mod rules;
mod stories;
mod world;
