//! The block layer and its schedulers, seen from outside: written-out arrivals and what must come of
//! them, and properties against naive models.

mod anticipatory;
mod bfq;
mod cfq;
mod elevators;
mod layer;
mod properties;
mod rig;
mod seek_law;
mod stage;
