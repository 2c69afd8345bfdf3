//! The bar of long work whose share done is known.

use foreseek_warm::{Progress, Step};
use indicatif::{HumanDuration, ProgressBar, ProgressStyle};
use std::io::IsTerminal;
use std::sync::Mutex;
use std::time::{Duration, Instant};

/// Parts of the bar: a thousandth is as much as a terminal shows.
const PARTS: u64 = 1000;

/// How often the bar is drawn at most.
const DRAW_EVERY: Duration = Duration::from_millis(100);

/// How long a step takes before its time left is said: a part of it may be done when it is first reported.
const LEFT_AFTER: Duration = Duration::from_secs(1);

/// The longest time left that is said: a shorter share than this would make it meaningless.
const LEFT_LIMIT: f64 = 1e6;

/// A bar on a terminal, if there is one. The time left is reckoned from the share of the present step, which the
/// bar's own estimate would smooth too much.
pub(crate) struct Bar {
    bar: ProgressBar,
    /// `None` once the bar is cleared.
    clock: Mutex<Option<Clock>>,
}

impl Bar {
    pub(crate) fn new(quiet: bool) -> Self {
        let is_shown = !quiet && std::io::stderr().is_terminal();
        let bar = if is_shown { ProgressBar::new(PARTS) } else { ProgressBar::hidden() };
        if let Ok(style) = ProgressStyle::with_template("{bar:40} {percent:>3}%  {msg}") {
            bar.set_style(style);
        }
        let clock = is_shown.then(|| Clock::new(Instant::now()));
        Self { bar, clock: Mutex::new(clock) }
    }

    /// Shows the progress of `warm` or `order`.
    pub(crate) fn follow(&self, progress: Progress<'_>) {
        match progress {
            Progress::At { step, share, what } => self.show(Some(step), share, what),
            Progress::Over => self.clear(),
        }
    }

    fn show(&self, step: Option<Step>, share: f64, what: &str) {
        let Ok(mut clock) = self.clock.try_lock() else { return };
        let Some(clock) = &mut *clock else { return };
        if let Some(passed) = clock.draws(Instant::now(), step) {
            self.bar.set_position((share * PARTS as f64) as u64);
            self.bar.set_message(message(share, what, passed));
        }
    }

    /// Removes it from the terminal; nothing is shown from then on.
    pub(crate) fn clear(&self) {
        if self.clock.lock().is_ok_and(|mut clock| clock.take().is_some()) {
            self.bar.finish_and_clear();
        }
    }
}

/// When the bar is drawn, and since when the present step goes on.
struct Clock {
    step: Option<Step>,
    begun: Instant,
    drawn: Instant,
}

impl Clock {
    fn new(now: Instant) -> Self {
        Self { step: None, begun: now, drawn: now }
    }

    /// How long the step has taken, if the bar is to be drawn.
    fn draws(&mut self, now: Instant, step: Option<Step>) -> Option<Duration> {
        if step != self.step {
            (self.step, self.begun) = (step, now);
        }
        if now - self.drawn < DRAW_EVERY {
            return None;
        }
        self.drawn = now;
        Some(now - self.begun)
    }
}

/// Does work of one step that reports the share that is done, and what it does, with a bar on a terminal.
pub(crate) fn with_bar<T>(quiet: bool, work: impl FnOnce(&(dyn Fn(f64, &str) + Sync)) -> T) -> T {
    let bar = Bar::new(quiet);
    let result = work(&|share, what| bar.show(None, share, what));
    bar.clear();
    result
}

fn message(share: f64, what: &str, passed: Duration) -> String {
    if share <= 0.0 || passed < LEFT_AFTER {
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
        assert_eq!(message(0.01, "a", Duration::ZERO), "a", "the first report of a step");
        assert_eq!(message(0.99, "a", passed), "a, less than a second left");
        assert_eq!(message(1.5, "a", passed), "a, less than a second left");
        assert!(message(1e-300, "a", passed).contains("left"));
    }

    #[test]
    fn the_time_left_is_that_of_the_step() {
        let begun = Instant::now();
        let mut clock = Clock::new(begun);
        let mut passed = |second, step| clock.draws(begun + Duration::from_secs(second), Some(step));
        assert_eq!(passed(1, Step::Listing), Some(Duration::ZERO));
        assert_eq!(passed(28, Step::Listing), Some(Duration::from_secs(27)));
        // A new step has a clock of its own, whether or not the bar is drawn for it.
        assert_eq!(passed(28, Step::Reading), None);
        assert_eq!(passed(29, Step::Reading), Some(Duration::from_secs(1)));
    }
}
