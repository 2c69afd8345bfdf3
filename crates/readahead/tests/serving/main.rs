//! The serving engine, held to a naive storage behind it and to the rules of the seam.

mod lone;
mod rules;
mod stories;
mod world;
