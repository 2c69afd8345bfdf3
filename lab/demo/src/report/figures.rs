//! The figures that the table and the page show, in words and units for people.

use super::blocks::grouped;
use crate::outcome::{Measured, Outcome, QueryRun};

/// A row of the table.
pub(super) struct Row {
    pub(super) name: &'static str,
    pub(super) stock: String,
    pub(super) foreseek: String,
    /// Whether it is a main result.
    pub(super) strong: bool,
}

/// The set-up, in one line.
pub(super) fn setting(outcome: &Outcome) -> String {
    format!(
        "A table of {} rows ({}), on an emulated {} of {}{}",
        grouped(outcome.rows as usize),
        outcome.database,
        outcome.profile,
        outcome.disk,
        time_scale(outcome)
    )
}

/// The scale of the disk's times, where they are scaled.
pub(super) fn time_scale(outcome: &Outcome) -> String {
    match outcome.time_scale {
        1.0 => String::new(),
        scale => format!(", its delays scaled to {:.0} %", scale * 100.0),
    }
}

/// The heading of a run.
pub(super) fn heading(run: &QueryRun) -> String {
    let mut letters = run.title.chars();
    let first = letters.next().map(|letter| letter.to_ascii_uppercase());
    format!("{} ({} of memory)", first.into_iter().chain(letters).collect::<String>(), run.memory)
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
        both("database read, MB/s", false, &|run| {
            format!("{:.1}", run.rate(outcome.database).as_mb_per_second())
        }),
        both("read from disk", false, &|run| run.disk.read.to_string()),
        both("disk throughput, MB/s", false, &|run| format!("{:.1}", run.device_rate().as_mb_per_second())),
        both("requests", false, &|run| count(run.disk.requests)),
        both("seeks", false, &|run| count(run.disk.seeks)),
        both("mean seek distance", false, &|run| run.disk.mean_seek_distance.to_string()),
        both("disk busy, s", false, &|run| seconds(run.disk.busy.as_secs_f64())),
    ];
    if !outcome.simulated {
        rows.push(both("processor time, s", false, &|run| seconds(run.processor.as_secs_f64())));
        rows.push(both("peak memory", false, &|run| run.memory_peak.to_string()));
    }
    let scaled = run.limit.time.scale(outcome.time_scale).as_secs_f64();
    rows.push(only("best schedule in rounds, s", false, seconds(scaled)));
    rows.push(only("time / best schedule", true, format!("{:.2}", run.limit_ratio(outcome.time_scale))));
    if let (Some((buffer, _)), Some(ratio)) = (run.at_buffer, run.buffer_ratio(outcome.time_scale)) {
        rows.push(only("peak prefetch buffer", false, buffer.to_string()));
        rows.push(only("time / best schedule with that buffer", false, format!("{ratio:.2}")));
    }
    rows
}

/// A count for people.
pub(super) fn count(number: u64) -> String {
    grouped(usize::try_from(number).unwrap_or(usize::MAX))
}

/// Seconds with at least two significant digits.
pub(super) fn seconds(seconds: f64) -> String {
    if seconds < 10.0 { format!("{seconds:.2}") } else { format!("{seconds:.1}") }
}
