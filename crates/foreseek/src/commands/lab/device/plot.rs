//! The plot of two distributions of response times: which share of the requests is faster.

use foreseek_chart::{Across, Lines, Mark, Point, Series};
use foreseek_drives::validation::Demerit;

/// The slowest requests that lie off the plot, so that a few retries do not squeeze all others.
const SHOWN: f64 = 0.998;
/// Points of a curve: one in two pixels.
const POINTS: u32 = 300;

/// Both distributions as the text of an SVG document.
pub(super) fn distributions(drive: &str, demerit: &Demerit) -> String {
    let curve = |name: &str, which: fn((f64, f64)) -> f64| {
        let points = (0..=POINTS).map(|point| {
            let share = SHOWN * f64::from(point) / f64::from(POINTS);
            let y = 100.0 * share;
            Point { x: which(demerit.quantile_ms(share)), y, low: y, high: y }
        });
        Series { name: name.to_owned(), points: points.collect(), mark: Mark::Line }
    };
    Lines {
        title: format!(
            "{drive}: demerit {:.3} ms, mean error {:+.3} ms",
            demerit.rms_ms(),
            demerit.mean_error_ms()
        ),
        across: "response time, ms".to_owned(),
        scale: Across::Linear,
        upright: "% of requests that are faster".to_owned(),
        series: vec![curve("measured", |pair| pair.0), curve("modelled", |pair| pair.1)],
    }
    .to_svg()
}

#[cfg(test)]
mod tests {
    use super::*;
    use foreseek_units::Nanos;

    #[test]
    fn a_plot_holds_both_curves_and_nothing_from_outside() {
        let times = |factor: u64| (1..100).map(|i| Nanos::from_micros(i * factor)).collect();
        let svg = distributions("drive", &Demerit::new(times(100), times(110)));
        // Each in the legend and in the plot.
        assert_eq!((svg.matches("line s0").count(), svg.matches("line s1").count()), (2, 2));
        assert!(svg.contains(">measured<") && svg.contains(">modelled<"));
        assert!(!svg.contains("NaN") && !svg.contains("inf"));
    }
}
