//! The block layer and its schedulers from outside: given arrivals with their expected results, and properties
//! against naive models.

mod anticipatory;
mod bfq;
mod cfq;
mod elevators;
mod infill;
mod layer;
mod properties;
mod rig;
mod seek_law;
mod stage;
