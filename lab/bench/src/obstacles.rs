//! What keeps a machine from being measured.

use foreseek_server::{Client, Health, Kind, ServerFolder};

/// What this machine lacks, each with its remedy; empty where it lacks nothing.
pub(crate) fn obstacles() -> Vec<String> {
    let mut missing = foreseek_rig::missing();
    if Client::of(&ServerFolder::of(Kind::Watch, "watch")).health() != Health::Dead {
        missing.push(
            "a machine without a watcher, which may read ahead of all runs (foreseek watch --stop)"
                .to_owned(),
        );
    }
    missing
}
