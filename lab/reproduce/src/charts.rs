//! Draws the figures of the runs.

use crate::figure::{Chart, Figure, Kind};
use crate::outcome::Drawn;
use crate::pick::Runs;
use foreseek_chart::{Across, Bars, Group, Lines, Mark, Point, Series};
use foreseek_device::Profile;
use foreseek_simulate::experiment::{self, Metric, Policy, Results, Summary};
use foreseek_units::{Bytes, Lba, Sectors};

/// Pages in a bucket of the histogram of sizes (TR-840 figure 11).
const BUCKET: usize = 8;
/// Seconds over which processor use is averaged in its chart.
const USE_SECONDS: usize = 2;
/// The policies in the order in which they are shown: each has one colour in all figures, whatever others are
/// shown with it. Policies of one line are in no figure together, and the first colours are the easiest to
/// distinguish.
const COLOURS: [&[&str]; 8] = [
    &["linux-2.6.3", "linux-2.6.10", "linux-2.6.18", "linux-2.6.18@32K/none", "none/none"],
    &["on-demand", "competitive+cpem", "linux-2.6.18@128K/none", "libprefetch:linux-2.6.18"],
    &["aggressive", "linux-2.6.18@512K/none", "libprefetch-shipped:linux-2.6.18"],
    &["competitive", "none/asp", "libprefetch-infill:linux-2.6.18"],
    &["competitive-without-slow-start", "none/msp", "none/asp-without-cost-test"],
    &["adaptive", "none/asp+msp"],
    &["oracle", "linux-2.6.18@128K/asp"],
    &["adaptive-known-lengths", "linux-2.6.18@128K/asp+msp", "none/sp"],
];
/// From this many milliseconds on a chart of times uses seconds: longer numbers leave no room for the unit.
const SECONDS_FROM_MS: f64 = 10_000.0;
/// Points of a device's curve: more than a chart's width can show.
const CURVE_POINTS: u32 = 200;

/// Draws every figure that has the runs of at least one chart.
pub(crate) fn draw(figures: &[Figure], runs: &Runs) -> Vec<Drawn> {
    let drawn = figures.iter().map(|figure| Drawn {
        title: figure.title.clone(),
        caption: figure.caption.clone(),
        file: figure.file,
        charts: figure.charts.iter().filter_map(|chart| chart.draw(runs)).collect(),
    });
    drawn.filter(|figure| !figure.charts.is_empty()).collect()
}

impl Chart {
    /// The chart, if its runs exist.
    fn draw(&self, runs: &Runs) -> Option<String> {
        let results: Option<Vec<&Results>> = self.runs.iter().map(|run| runs.get(run)).collect();
        let results = results?;
        match self.kind {
            Kind::Lines => self.lines(results.first()?),
            Kind::Sweep => self.sweep(&results, runs),
            Kind::Bars => self.bars(&results),
            Kind::Sizes => self.sizes(results.first()?),
            Kind::Use => self.processor_use(results.first()?),
            Kind::Seek => self.seek_times(),
            Kind::Rate => self.rates(),
        }
    }

    /// `f_seek` of the devices, as the policies use it.
    fn seek_times(&self) -> Option<String> {
        let time = |device: &Profile, at| device.seek_time(Sectors(at)).as_millis_f64();
        self.over("distance of the seek, % of the device", "ms", self.of_devices(time)?)
    }

    /// `f_transfer` likewise.
    fn rates(&self) -> Option<String> {
        let rate = |device: &Profile, at| device.rate_at(Lba(at)).as_mb_per_second();
        self.over("place of the transfer, % of the device", "MB/s", self.of_devices(rate)?)
    }

    /// A curve for each device over its sectors, with more points at its start, where seek times bend.
    fn of_devices(&self, value: impl Fn(&Profile, u64) -> f64) -> Option<Vec<Series>> {
        let curve = |name: &String| {
            let device = Profile::builtin(name)?;
            let last = device.capacity().sectors_floor().get().saturating_sub(1);
            let points = (0..=CURVE_POINTS).map(|number| {
                let share = (f64::from(number) / f64::from(CURVE_POINTS)).powi(2);
                let y = value(&device, (last as f64 * share) as u64);
                Point { x: 100.0 * share, y, low: y, high: y }
            });
            Some(Series { name: name.clone(), points: points.collect(), mark: Mark::Line })
        };
        let curves: Option<Vec<Series>> = self.devices.iter().map(curve).collect();
        // A drive has one colour in both charts of a figure.
        let of_drives: Vec<&str> = Profile::builtin_names().collect();
        let slots: Vec<&[&str]> = of_drives.chunks(1).collect();
        Some(of_slots(curves?, &slots))
    }

    fn lines(&self, results: &Results) -> Option<String> {
        let metric = Metric::by_name(&self.metric)?;
        let mut series: Vec<Series> = Vec::new();
        let levels = self.levels.map_or(0..=u32::MAX, |(first, last)| first..=last);
        let here = |point: &&experiment::Point| self.device.as_ref().is_none_or(|only| point.device == *only);
        let within = results.points.iter().filter(here).filter(|point| levels.contains(&point.concurrency));
        for point in within.filter(|point| self.shows(&point.policy)) {
            let name = point.policy.to_string();
            if series.last().is_none_or(|last| last.name != name) {
                series.push(Series { name, points: Vec::new(), mark: Mark::Line });
            }
            let Summary { mean, low, high, .. } = point.summary(metric);
            let x = f64::from(point.concurrency);
            series.last_mut()?.points.push(Point { x, y: mean, low, high });
        }
        let across = "concurrency".to_owned();
        let upright = fit_to_axis(&mut series, metric);
        let series = of_policies(series);
        Some(Lines { title: self.title.clone(), across, scale: Across::Steps, upright, series }.to_svg())
    }

    /// The metric over the swept sizes; if normalized, the speed-up over that policy, or over that run.
    fn sweep(&self, results: &[&Results], runs: &Runs) -> Option<String> {
        let metric = Metric::by_name(&self.metric)?;
        let other_run = match &self.normalized_to_run {
            Some(name) => Some(runs.get(name)?),
            None => None,
        };
        let mut series: Vec<Series> = Vec::new();
        let several = |what: &dyn Fn(&experiment::Point) -> String| {
            let mut all: Vec<String> =
                results.iter().flat_map(|one| &one.points).filter(|one| self.has(one)).map(what).collect();
            all.sort_unstable();
            all.dedup();
            all.len() > 1
        };
        let devices = several(&|point| point.device.clone());
        let policies = several(&|point| point.policy.to_string());
        for (number, run) in results.iter().enumerate() {
            for point in run.points.iter().filter(|point| self.has(point)) {
                let own = self.names.get(number).cloned().unwrap_or_else(|| run.experiment.clone());
                let named = (results.len() > 1 && !own.is_empty()).then_some(own);
                let device = devices.then(|| point.device.clone());
                let policy = policies.then(|| point.policy.to_string());
                let parts: Vec<String> = named.into_iter().chain(device).chain(policy).collect();
                let name = if parts.is_empty() { run.workload.clone() } else { parts.join(", ") };
                let value = match (&self.normalized_to, other_run) {
                    (None, None) => point.summary(metric),
                    (policy, other_run) => {
                        let other = policy.as_deref().map_or_else(|| point.policy.clone(), Policy::from);
                        let same = |one: &&experiment::Point| {
                            one.value == point.value && one.device == point.device && one.policy == other
                        };
                        other_run.unwrap_or(run).points.iter().find(same)?.ratio(point, metric)
                    }
                };
                let size = point.value.as_ref()?.parse::<Bytes>().ok()?.get() as f64;
                let x = if self.linear { size / 1e9 } else { size };
                let at = Point { x, y: value.mean, low: value.low, high: value.high };
                match series.iter_mut().find(|series| series.name == name) {
                    Some(series) => series.points.push(at),
                    None => series.push(Series { name, points: vec![at], mark: Mark::Line }),
                }
            }
        }
        series.extend(self.read.then(|| transfer(results.first()?, &series)).flatten());
        let other = self.normalized_to.as_ref().or(self.normalized_to_run.as_ref());
        let upright = match (&self.upright, other) {
            (Some(label), _) => label.clone(),
            (None, Some(other)) => format!("times as fast as {other}"),
            (None, None) => fit_to_axis(&mut series, metric),
        };
        let (title, across) = (self.title.clone(), self.across.clone());
        // Curves of policies have the colours of their policies.
        let unnamed = results.len() == 1 || self.names.iter().any(String::is_empty);
        let series = if unnamed && !devices && policies { of_policies(series) } else { series };
        let scale = match (self.linear, self.steps) {
            (true, _) => Across::Linear,
            (_, true) => Across::Steps,
            _ => Across::Doubling,
        };
        Some(Lines { title, across, scale, upright, series }.to_svg())
    }

    /// Whether a point is shown.
    fn has(&self, point: &experiment::Point) -> bool {
        self.shows(&point.policy) && self.device.as_ref().is_none_or(|only| point.device == *only)
    }

    fn bars(&self, results: &[&Results]) -> Option<String> {
        let metric = Metric::by_name(&self.metric)?;
        let mut policies: Vec<Option<&Policy>> = Vec::new();
        for point in results.iter().flat_map(|results| &results.points) {
            if self.shows(&point.policy) && !policies.contains(&Some(&point.policy)) {
                policies.push(Some(&point.policy));
            }
        }
        let policies =
            in_slots(policies, &COLOURS, |policy| policy.map(ToString::to_string).unwrap_or_default());
        let mut groups: Vec<Group> = Vec::new();
        // Runs of one workload differ in their names.
        let alike = results.windows(2).any(|pair| pair[0].workload == pair[1].workload);
        for (number, results) in results.iter().enumerate() {
            let mut devices: Vec<&str> = results.points.iter().map(|point| point.device.as_str()).collect();
            devices.dedup();
            for device in &devices {
                let bar = |policy: &Option<&Policy>| {
                    policy.map_or(NO_BAR, |policy| self.bar(results, device, policy, metric))
                };
                let bars = policies.iter().map(bar).collect();
                let own = if alike { results.experiment.as_str() } else { results.workload.as_str() };
                let run = self.names.get(number).map_or(own, String::as_str);
                let name = if devices.len() > 1 { *device } else { run };
                groups.push(Group { name: name.to_owned(), bars });
            }
        }
        let (upright, by) = match &self.normalized_to {
            Some(policy) => (format!("{} over that of {policy}", quantity(metric)), 1.0),
            None => axis(metric, groups.iter().flat_map(|group| &group.bars).map(|bar| bar.2)),
        };
        for (value, low, high) in groups.iter_mut().flat_map(|group| &mut group.bars) {
            (*value, *low, *high) = (*value * by, *low * by, *high * by);
        }
        let name =
            |policy: &Option<&Policy>| policy.map(|policy| called(&policy.to_string())).unwrap_or_default();
        let series = policies.iter().map(name).collect();
        let (title, across) = (self.title.clone(), self.across.clone());
        Some(Bars { title, across, upright, series, groups }.to_svg())
    }

    /// One bar; not finite where there is none.
    fn bar(&self, results: &Results, device: &str, policy: &Policy, metric: &Metric) -> (f64, f64, f64) {
        let level =
            |point: &&experiment::Point| self.concurrency.is_none_or(|only| point.concurrency == only);
        let find = |policy: &Policy| {
            let mut points = results.points.iter().filter(level);
            points.find(|point| point.device == device && point.policy == *policy)
        };
        let summary = find(policy).and_then(|point| match &self.normalized_to {
            Some(other) => Some(point.ratio(find(&Policy::from(other.as_str()))?, metric)),
            None => Some(point.summary(metric)),
        });
        summary.map_or(NO_BAR, |value| (value.mean, value.low, value.high))
    }

    /// The points at the chart's concurrency level: one for each policy that it shows.
    fn at_level<'a>(&'a self, results: &'a Results) -> impl Iterator<Item = &'a experiment::Point> {
        let points = results.points.iter().filter(|point| self.shows(&point.policy));
        points.filter(|point| Some(point.concurrency) == self.concurrency)
    }

    fn shows(&self, policy: &Policy) -> bool {
        self.policies.is_empty() || self.policies.contains(&policy.to_string())
    }

    fn sizes(&self, results: &Results) -> Option<String> {
        let series = self.at_level(results).map(|point| {
            let mut buckets: Vec<f64> = Vec::new();
            for run in &point.runs {
                for (pages, count) in run.report.fetch_sizes.iter().enumerate().skip(1) {
                    let bucket = (pages - 1) / BUCKET;
                    if bucket >= buckets.len() {
                        buckets.resize(bucket + 1, 0.0);
                    }
                    buckets[bucket] += *count as f64;
                }
            }
            let all: f64 = buckets.iter().sum();
            let share = |(bucket, count): (usize, &f64)| {
                let y = 100.0 * count / all.max(1.0);
                Point { x: ((bucket + 1) * BUCKET) as f64, y, low: y, high: y }
            };
            let points = buckets.iter().enumerate().map(share).collect();
            Series { name: point.policy.to_string(), points, mark: Mark::Line }
        });
        self.over("pages of a fetch, 8 a bucket", "% of fetches", of_policies(series.collect()))
    }

    fn processor_use(&self, results: &Results) -> Option<String> {
        let series = self.at_level(results).filter_map(|point| {
            let report = &point.runs.first()?.report;
            let of_all = f64::from(report.processors);
            // The machine counts from its start; a last second that is cut short does not count.
            let all = &report.processor_busy_by_second;
            let measured = report.time.as_secs_f64() as usize;
            let warm_up = all.len().saturating_sub(measured);
            let means = all[warm_up..].chunks_exact(USE_SECONDS).enumerate().map(|(chunk, busy)| {
                let seconds: f64 = busy.iter().map(|busy| busy.as_secs_f64()).sum();
                let y = 100.0 * seconds / of_all / busy.len() as f64;
                Point { x: (chunk * USE_SECONDS) as f64, y, low: y, high: y }
            });
            Some(Series { name: point.policy.to_string(), points: means.collect(), mark: Mark::Line })
        });
        self.over("seconds", "% of both processors", of_policies(series.collect()))
    }

    fn over(&self, across: &str, upright: &str, series: Vec<Series>) -> Option<String> {
        let (across, upright) = (across.to_owned(), upright.to_owned());
        Some(Lines { title: self.title.clone(), across, scale: Across::Linear, upright, series }.to_svg())
    }
}

/// How long the device of a run transfers each size that is shown, as far as the other curves reach.
fn transfer(results: &Results, shown: &[Series]) -> Option<Series> {
    let device = Profile::builtin(&results.points.first()?.device)?;
    let points = || shown.iter().flat_map(|series| &series.points);
    let most = points().map(|point| point.y).fold(0.0, f64::max);
    let rate = device.rate_at(Lba::ZERO).as_mb_per_second();
    let time = |x: f64| x / rate / 1e3;
    let points = shown.first()?.points.iter().map(|point| {
        let y = time(point.x);
        Point { x: point.x, y, low: y, high: y }
    });
    let points = points.filter(|point| point.y <= most).collect();
    Some(Series { name: "read as much".to_owned(), points, mark: Mark::Line })
}

/// A missing bar.
const NO_BAR: (f64, f64, f64) = (f64::NAN, 0.0, 0.0);

/// Curves of policies, each in its own colour.
pub(crate) fn of_policies(series: Vec<Series>) -> Vec<Series> {
    of_slots(series, &COLOURS)
}

fn of_slots(series: Vec<Series>, slots: &[&[&str]]) -> Vec<Series> {
    let placed = in_slots(series.into_iter().map(Some).collect(), slots, |series| {
        series.as_ref().map(|series| series.name.clone()).unwrap_or_default()
    });
    let nobody = || Series { name: String::new(), points: Vec::new(), mark: Mark::Line };
    let named = placed.into_iter().map(|series| series.unwrap_or_else(nobody));
    named.map(|series| Series { name: called(&series.name), ..series }).collect()
}

/// Each at the place of its name's colour, with gaps where others would be. Those without a colour of their
/// own, or whose colour is taken, come last.
fn in_slots<T>(
    shown: Vec<Option<T>>,
    slots: &[&[&str]],
    name: impl Fn(&Option<T>) -> String,
) -> Vec<Option<T>> {
    let mut placed: Vec<Option<T>> = slots.iter().map(|_| None).collect();
    let mut others = Vec::new();
    for one in shown {
        match slots.iter().position(|names| names.contains(&name(&one).as_str())) {
            Some(at) if placed[at].is_none() => placed[at] = one,
            _ => others.push(one),
        }
    }
    placed.extend(others);
    let used = placed.iter().rposition(Option::is_some).map_or(0, |last| last + 1);
    placed.truncate(used);
    placed
}

/// A policy's name in a legend: that of a host and an array as in ATC'08 (section 3.1), any other its own.
fn called(policy: &str) -> String {
    let Some((host, array)) = policy.split_once('/') else { return policy.to_owned() };
    let array = match array {
        "none" => None,
        "asp-without-ghosts" => Some("ASP w/o ghost".to_owned()),
        "asp-without-cost-test" => Some("ASP w/o cost test".to_owned()),
        array => Some(array.to_uppercase()),
    };
    let seqp = host.split_once('@').map(|(_, window)| format!("SEQP{}", window.trim_end_matches('K')));
    let parts: Vec<String> = array.into_iter().chain(seqp).collect();
    if parts.is_empty() { "no prefetching".to_owned() } else { parts.join("+") }
}

/// The name of a metric without a unit: over another policy's.
fn quantity(metric: &Metric) -> &'static str {
    match metric.name {
        "throughput_mb_per_s" => "throughput",
        "response_mean_ms" => "response time",
        "time_s" => "time",
        other => other,
    }
}

/// The label of a metric's axis up to the largest of these values, and what values are multiplied by for it: there is no
/// room for long numbers beside it.
fn axis(metric: &Metric, values: impl Iterator<Item = f64>) -> (String, f64) {
    let unit = unit(metric);
    match unit.as_str() {
        "ms" if values.fold(0.0, f64::max) >= SECONDS_FROM_MS => ("s".to_owned(), 1e-3),
        "thousand misses" => (unit, 1e-3),
        _ => (unit, 1.0),
    }
}

/// Multiplies curves of a metric as their axis requires; returns its label.
fn fit_to_axis(series: &mut [Series], metric: &Metric) -> String {
    let (label, by) = axis(metric, series.iter().flat_map(|series| &series.points).map(|point| point.high));
    for point in series.iter_mut().flat_map(|series| &mut series.points) {
        (point.y, point.low, point.high) = (point.y * by, point.low * by, point.high * by);
    }
    label
}

/// The unit of a metric.
fn unit(metric: &Metric) -> String {
    match metric.name {
        "throughput_mb_per_s" | "moved_mb_per_s" => "MB/s",
        "response_mean_ms" | "response_longest_ms" => "ms",
        "array_hits_percent" | "array_cache_hits_percent" | "array_prefetch_hits_percent" => {
            "% of blocks read"
        }
        "array_refused_by_size" | "array_refused_by_cost" => "thousand misses",
        "requests_per_s" => "requests/s",
        "thrashed_pages_per_s" => "pages/s",
        "processor_use_percent" => "%",
        "processor_ms_per_mb" => "ms of processor a MB",
        "seek_distance_mb" => "MB",
        "time_s" => "s",
        other => other,
    }
    .to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_policy_has_one_colour_whatever_it_is_shown_with() {
        let named = |names: &[&str]| {
            let nothing =
                |name: &&str| Series { name: (*name).to_owned(), points: Vec::new(), mark: Mark::Line };
            of_policies(names.iter().map(nothing).collect())
        };
        let at = |series: &[Series], name: &str| series.iter().position(|series| series.name == name);
        let few = named(&["adaptive", "competitive"]);
        let many = named(&["linux-2.6.3", "mount:adaptive", "competitive", "adaptive", "oracle"]);
        for policy in ["adaptive", "competitive"] {
            assert_eq!(at(&few, policy), at(&many, policy));
            assert_eq!(at(&few, policy), COLOURS.iter().position(|known| known.contains(&policy)));
        }
        assert_eq!(at(&many, "mount:adaptive"), Some(COLOURS.len()));
        assert!(COLOURS.len() <= foreseek_chart::SERIES_LIMIT);
        // Two with the same colour in one figure: the second takes another.
        let both = named(&["linux-2.6.3", "linux-2.6.10"]);
        assert_eq!((at(&both, "linux-2.6.3"), at(&both, "linux-2.6.10")), (Some(0), Some(COLOURS.len())));
    }

    #[test]
    fn a_legend_has_the_names_of_the_papers() {
        for (policy, name) in [
            ("none/none", "no prefetching"),
            ("none/asp+msp", "ASP+MSP"),
            ("linux-2.6.18@128K/none", "SEQP128"),
            ("linux-2.6.18@128K/asp+msp", "ASP+MSP+SEQP128"),
            ("none/asp-without-ghosts", "ASP w/o ghost"),
            ("competitive", "competitive"),
        ] {
            assert_eq!(called(policy), name);
        }
    }

    #[test]
    fn long_times_are_drawn_in_seconds() {
        let curve = |high: f64| {
            let points = vec![Point { x: 1.0, y: high / 2.0, low: 0.0, high }];
            Series { name: String::new(), points, mark: Mark::Line }
        };
        for (high, label, drawn) in [(9_000.0, "ms", 9_000.0), (20_000.0, "s", 20.0)] {
            let mut series = vec![curve(100.0), curve(high)];
            assert_eq!(fit_to_axis(&mut series, &Metric::LONGEST_RESPONSE), label);
            assert_eq!((series[1].points[0].high, series[1].points[0].y), (drawn, drawn / 2.0));
        }
    }

    #[test]
    fn no_figure_shows_two_policies_in_one_colour() {
        let mut figures: Vec<Figure> = Figure::all().expect("built in");
        figures.extend(Figure::adaptive(&crate::Overrides::default()).expect("built in"));
        for (figure, chart) in
            figures.iter().flat_map(|figure| figure.charts.iter().map(move |c| (figure, c)))
        {
            let runs = figure.runs.iter().filter(|run| chart.runs.contains(&run.name));
            let shown: std::collections::BTreeSet<String> = runs
                .flat_map(|run| &run.policies)
                .filter(|policy| chart.shows(policy))
                .map(ToString::to_string)
                .collect();
            for names in COLOURS {
                let shown = names.iter().filter(|name| shown.contains(**name)).count();
                assert!(shown <= 1, "{}: {names:?}", figure.title);
            }
        }
    }

    #[test]
    fn the_curves_of_devices_are_drawn_without_a_run_and_are_the_papers() {
        let figures = Figure::all().expect("built in");
        let drawn = draw(&figures, &Runs::default());
        let files: Vec<&str> = drawn.iter().map(|figure| figure.file).collect();
        assert_eq!(files, ["tr840-figure-03.toml", "eurosys-figure-04.toml"]);
        assert!(drawn.iter().all(|figure| figure.charts.len() == 2));
        let chart = figures[0].charts.iter().find(|chart| chart.kind == Kind::Seek).expect("declared");
        let curves = chart.of_devices(|device, at| device.seek_time(Sectors(at)).as_millis_f64());
        for series in curves.expect("built-in devices") {
            let times: Vec<f64> = series.points.iter().map(|point| point.y).collect();
            if series.name.is_empty() {
                // It keeps a colour from the others.
                continue;
            }
            assert_eq!((times[0], times.len()), (0.0, 201), "{}", series.name);
            assert!(times.windows(2).all(|pair| pair[0] <= pair[1]), "{}: {times:?}", series.name);
        }
    }
}
