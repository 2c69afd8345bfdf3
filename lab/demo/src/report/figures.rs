//! The figures that the table and the page show, in words and units for people.

use super::blocks::grouped;
use crate::outcome::{Measured, Outcome, QueryRun};

/// A line of the table.
pub(super) struct Row {
    pub(super) name: &'static str,
    pub(super) stock: String,
    pub(super) foreseek: String,
    /// Whether it is what the reader came for.
    pub(super) strong: bool,
}

/// What was run on what, in a line.
pub(super) fn setting(outcome: &Outcome) -> String {
    format!(
        "{} rows in {}, on {} of {}, time x {}",
        grouped(outcome.rows as usize),
        outcome.database,
        outcome.profile,
        outcome.disk,
        outcome.time_scale
    )
}

/// What a run is called.
pub(super) fn heading(run: &QueryRun) -> String {
    format!("{}: memory {}", run.title, run.memory)
}

/// The lines of a run's table.
pub(super) fn rows(outcome: &Outcome, run: &QueryRun) -> Vec<Row> {
    let both = |name, strong, of: &dyn Fn(&Measured) -> String| Row {
        name,
        stock: of(&run.stock),
        foreseek: of(&run.foreseek),
        strong,
    };
    let only = |name, strong, foreseek: String| Row { name, stock: String::new(), foreseek, strong };
    let mut rows = vec![
        both("seconds", true, &|run| seconds(run.time.as_secs_f64())),
        only("speed-up", true, format!("{:.1}x", run.speed_up())),
        both("database, MB/s", false, &|run| format!("{:.1}", run.rate(outcome.database).as_mb_per_second())),
        both("read from disk", false, &|run| run.disk.read.to_string()),
        both("disk, MB/s", false, &|run| format!("{:.1}", run.device_rate().as_mb_per_second())),
        both("requests", false, &|run| count(run.disk.requests)),
        both("seeks", false, &|run| count(run.disk.seeks)),
        both("mean seek distance", false, &|run| run.disk.mean_seek_distance.to_string()),
        both("disk at work, s", false, &|run| seconds(run.disk.busy.as_secs_f64())),
    ];
    if !outcome.simulated {
        rows.push(both("processor, s", false, &|run| seconds(run.processor.as_secs_f64())));
        rows.push(both("memory, most at a time", false, &|run| run.memory_peak.to_string()));
    }
    let scaled = run.limit.time.scale(outcome.time_scale).as_secs_f64();
    rows.push(only("best schedule in rounds at that memory, s", false, seconds(scaled)));
    rows.push(only(
        "time over best schedule in rounds",
        true,
        format!("{:.2}", run.limit_ratio(outcome.time_scale)),
    ));
    if let (Some((buffer, _)), Some(ratio)) = (run.at_buffer, run.buffer_ratio(outcome.time_scale)) {
        rows.push(only("buffer in use", false, buffer.to_string()));
        rows.push(only("time over best schedule in rounds with that", false, format!("{ratio:.2}")));
    }
    rows
}

/// A count for people.
pub(super) fn count(number: u64) -> String {
    grouped(usize::try_from(number).unwrap_or(usize::MAX))
}

/// Seconds with two digits that matter or more.
pub(super) fn seconds(seconds: f64) -> String {
    if seconds < 10.0 { format!("{seconds:.2}") } else { format!("{seconds:.1}") }
}
