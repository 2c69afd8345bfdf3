//! The bar of long work whose share done is known.

use indicatif::{HumanDuration, ProgressBar, ProgressStyle};
use std::io::IsTerminal;
use std::sync::Mutex;
use std::time::{Duration, Instant};

/// Parts of the bar: a thousandth is as much as a terminal shows.
const PARTS: u64 = 1000;

/// How often the bar is drawn at most.
const DRAW_EVERY: Duration = Duration::from_millis(100);

/// The longest time left that is said: a shorter share than this would make it meaningless.
const LEFT_LIMIT: f64 = 1e6;

/// Does work that reports the share that is done, and its present step, with a bar on a terminal. The
/// time left is reckoned from the share, which the bar's own estimate would smooth too much.
pub(crate) fn with_bar<T>(quiet: bool, work: impl FnOnce(&(dyn Fn(f64, &str) + Sync)) -> T) -> T {
    if quiet || !std::io::stderr().is_terminal() {
        return work(&|_, _| {});
    }
    let bar = ProgressBar::new(PARTS);
    if let Ok(style) = ProgressStyle::with_template("{bar:40} {percent:>3}%  {msg}") {
        bar.set_style(style);
    }
    let begun = Instant::now();
    let drawn = Mutex::new(begun);
    let result = work(&|share, what| {
        let Ok(mut drawn) = drawn.try_lock() else { return };
        if drawn.elapsed() < DRAW_EVERY {
            return;
        }
        *drawn = Instant::now();
        bar.set_position((share * PARTS as f64) as u64);
        bar.set_message(message(share, what, begun.elapsed()));
    });
    bar.finish_and_clear();
    result
}

fn message(share: f64, what: &str, passed: Duration) -> String {
    if share <= 0.0 {
        return what.to_owned();
    }
    let left = passed.as_secs_f64() * (1.0 / share - 1.0);
    if left < 1.0 {
        return format!("{what}, less than a second left");
    }
    format!("{what}, {} left", HumanDuration(Duration::from_secs_f64(left.min(LEFT_LIMIT))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_left_is_in_proportion_and_never_endless() {
        let passed = Duration::from_secs(30);
        assert_eq!(message(0.0, "a", passed), "a");
        assert_eq!(message(0.75, "a", passed), "a, 10 seconds left");
        assert_eq!(message(0.99, "a", passed), "a, less than a second left");
        assert_eq!(message(1.5, "a", passed), "a, less than a second left");
        assert!(message(1e-300, "a", passed).contains("left"));
    }
}
