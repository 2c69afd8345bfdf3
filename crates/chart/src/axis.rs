//! Axes: a range of values on a range of pixels, and where its ticks go.

/// Maps values to pixels, linearly.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Axis {
    /// The values at both ends; the second is the larger.
    pub values: (f64, f64),
    /// The pixels at both ends, in either direction.
    pub pixels: (f64, f64),
}

impl Axis {
    /// An axis; values that span nothing are widened, so that every value has a place.
    #[must_use]
    pub fn new(values: (f64, f64), pixels: (f64, f64)) -> Self {
        let span = values.1 - values.0;
        let values = if span > 0.0 { values } else { (values.0, values.0 + 1.0) };
        Self { values, pixels }
    }

    /// Where a value lies.
    #[must_use]
    pub fn at(self, value: f64) -> f64 {
        let share = (value - self.values.0) / (self.values.1 - self.values.0);
        self.pixels.0 + share * (self.pixels.1 - self.pixels.0)
    }

    /// Whether a value lies within.
    #[must_use]
    pub fn holds(self, value: f64) -> bool {
        self.values.0 <= value && value <= self.values.1
    }

    /// Round values for ticks, between `most / 2` and `most` of them roughly: steps of 1, 2 or 5
    /// times a power of ten.
    #[must_use]
    pub fn ticks(self, most: usize) -> Vec<f64> {
        let least_step = (self.values.1 - self.values.0) / most.max(1) as f64;
        let power = 10f64.powf(least_step.log10().floor());
        let step = [1.0, 2.0, 5.0, 10.0]
            .into_iter()
            .map(|factor| factor * power)
            .find(|step| *step >= least_step * (1.0 - 1e-9))
            .unwrap_or(10.0 * power);
        let first = (self.values.0 / step - 1e-9).ceil() as i64;
        let last = (self.values.1 / step + 1e-9).floor() as i64;
        (first..=last).map(|count| count as f64 * step).collect()
    }
}

/// A number without digits that say nothing: at most three decimals.
#[must_use]
pub fn plain(value: f64) -> String {
    let text = format!("{value:.3}");
    let text = text.trim_end_matches('0').trim_end_matches('.');
    if text == "-0" { "0".to_owned() } else { text.to_owned() }
}

/// A power of two with its binary prefix.
pub(crate) fn binary(number: u64) -> String {
    let prefixes = [(40, 'T'), (30, 'G'), (20, 'M'), (10, 'K')];
    let fitting = prefixes.into_iter().find(|(bits, _)| number >> bits > 0);
    fitting.map_or(number.to_string(), |(bits, prefix)| format!("{}{prefix}", number >> bits))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ends_lie_on_ends_and_ticks_are_round() {
        let axis = Axis::new((0.0, 137.0), (60.0, 900.0));
        assert_eq!((axis.at(0.0), axis.at(137.0)), (60.0, 900.0));
        assert_eq!(axis.ticks(8), [0.0, 20.0, 40.0, 60.0, 80.0, 100.0, 120.0]);
        let small = Axis::new((0.0, 0.31), (0.0, 1.0));
        let ticks: Vec<String> = small.ticks(8).into_iter().map(plain).collect();
        assert_eq!(ticks, ["0", "0.05", "0.1", "0.15", "0.2", "0.25", "0.3"]);
        let high = Axis::new((1034.0, 1141.0), (300.0, 0.0));
        assert_eq!(high.ticks(6), [1040.0, 1060.0, 1080.0, 1100.0, 1120.0, 1140.0]);
    }

    #[test]
    fn powers_of_two_have_prefixes() {
        let names = [512, 1 << 12, 1 << 30, 1 << 45].map(binary);
        assert_eq!(names, ["512", "4K", "1G", "32T"]);
    }

    #[test]
    fn an_axis_of_one_value_is_an_axis() {
        let axis = Axis::new((5.0, 5.0), (0.0, 10.0));
        assert!(axis.at(5.0).is_finite() && !axis.ticks(4).is_empty());
    }
}
