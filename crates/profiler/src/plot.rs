//! The curves as an SVG document: the cost of a distance and the rate at each offset or, for a latency-bound
//! device, the effects of concurrency and request size.

use super::findings::{Findings, Verdict};
use foreseek_chart::{Across, Lines, Mark, Point, Series, stacked};
use foreseek_units::Nanos;

impl Findings {
    /// The measured curves as the text of an SVG document.
    #[must_use]
    pub fn to_svg(&self) -> String {
        let charts = if self.verdict == Verdict::DoesNotSeek {
            [self.by_depth(), self.by_size()]
        } else {
            [self.by_distance(), self.by_address()]
        };
        let profile = &self.profile;
        let note = format!(
            "{}, positioning {}, rate {}: competitive prefetch size {}",
            profile.capacity(),
            profile.positioning_time(),
            profile.sequential_rate(),
            profile.competitive_depth(),
        );
        stacked(profile.name(), &note, &charts)
    }

    fn by_distance(&self) -> Lines {
        let points = |of: fn(&super::SeekPoint) -> Nanos| {
            self.seeks.iter().map(|point| (point.distance.get() as f64, of(point).as_millis_f64())).collect()
        };
        let series = vec![
            series("forward", Mark::Dots, points(|point| point.forward)),
            series("backward", Mark::Dots, points(|point| point.backward)),
        ];
        chart(
            "A random page, by distance from the read before",
            "ms",
            ("distance, bytes", Across::Doubling),
            series,
        )
    }

    fn by_address(&self) -> Lines {
        let gb = |bytes: u64| bytes as f64 / 1e9;
        let measured =
            self.rates.iter().map(|at| (gb(at.offset.get()), at.rate.as_mb_per_second())).collect();
        let mut steps = Vec::with_capacity(2 * self.zones.len());
        for (at, zone) in self.zones.iter().enumerate() {
            let end = self.zones.get(at + 1).map_or(self.capacity.get(), |next| next.start.get());
            let rate = zone.rate.as_mb_per_second();
            steps.extend([(gb(zone.start.get()), rate), (gb(end), rate)]);
        }
        let series = vec![series("zones", Mark::Line, steps), series("measured", Mark::Dots, measured)];
        chart("Sequential reading, by address", "MB/s", ("offset, GB", Across::Linear), series)
    }

    fn by_depth(&self) -> Lines {
        let points = self.depths.iter().map(|point| (point.depth as f64, point.reads_per_second)).collect();
        let series = vec![series("measured", Mark::Line, points)];
        let across = ("concurrency", Across::Doubling);
        chart("Random pages, by concurrency", "pages a second", across, series)
    }

    fn by_size(&self) -> Lines {
        let points =
            self.sizes.iter().map(|point| (point.size.get() as f64, point.random.as_millis_f64())).collect();
        let series = vec![series("measured", Mark::Line, points)];
        chart("A random read, by its size", "ms", ("bytes", Across::Doubling), series)
    }
}

fn series(name: &str, mark: Mark, points: Vec<(f64, f64)>) -> Series {
    let point = |(x, y)| Point { x, y, low: y, high: y };
    Series { name: name.to_owned(), points: points.into_iter().map(point).collect(), mark }
}

fn chart(title: &str, upright: &str, (across, scale): (&str, Across), series: Vec<Series>) -> Lines {
    Lines { title: title.to_owned(), across: across.to_owned(), scale, upright: upright.to_owned(), series }
}
