//! The block layer and its schedulers, seen from outside: written-out arrivals and what must come of
//! them, and properties against naive models.

mod anticipatory;
mod elevators;
mod layer;
mod rig;
mod stage;
