//! Results as JSON and CSV. The same results give the same bytes: numbers are written in the shortest
//! form that reads back, in a fixed order.

use super::{METRICS, Results, Summary};
use crate::machine::Report;
use serde::Serialize;
use serde_json::{Map, Value, json};
use std::fmt::Write;

/// Pages in a bucket of the histogram of fetches: TR-840's figure 11 has 8.
pub const SIZE_BUCKET: usize = 8;

/// One bucket of a histogram.
#[derive(Clone, Debug, PartialEq, Serialize)]
struct Bucket {
    /// The largest value in it.
    to: f64,
    /// How many.
    count: u64,
}

impl Results {
    /// Everything: each metric of each point with its interval and its value for each seed, and the
    /// distributions, summed over the seeds.
    #[must_use]
    pub fn to_json(&self) -> Value {
        let points: Vec<Value> = self
            .points
            .iter()
            .map(|point| {
                let metrics: Map<String, Value> = METRICS
                    .iter()
                    .map(|metric| (metric.name.to_owned(), summary(&point.summary(metric))))
                    .collect();
                let reports: Vec<&Report> = point.runs.iter().map(|run| &run.report).collect();
                let mut written = json!({
                    "device": point.device,
                    "policy": point.policy.to_string(),
                    "concurrency": point.concurrency,
                    "seeds": point.runs.iter().map(|run| run.seed).collect::<Vec<u64>>(),
                    "metrics": metrics,
                    "fetch_pages_histogram": sizes(reports.iter().map(|report| &*report.fetch_sizes)),
                    "request_pages_histogram": sizes(reports.iter().map(|report| &*report.block.sizes)),
                    "response_ms_histogram": responses(&reports),
                    "job_times_s": reports.iter().map(|report| {
                        report.jobs.iter().map(|(_, time)| time.as_secs_f64()).collect()
                    }).collect::<Vec<Vec<f64>>>(),
                    "processor_use_percent_by_second": reports.iter().map(|report| use_by_second(report))
                        .collect::<Vec<Vec<f64>>>(),
                });
                if let Some(value) = &point.value {
                    written["value"] = json!(value);
                }
                written
            })
            .collect();
        let mut written = json!({
            "experiment": self.experiment,
            "description": self.description,
            "workload": self.workload,
            "scheduler": self.scheduler,
            "points": points,
        });
        if let Some(key) = &self.key {
            written["key"] = json!(key);
        }
        written
    }

    /// One line for each run: the value of the sweep's own key if it has one, device, policy, concurrency, seed
    /// and every metric.
    #[must_use]
    pub fn to_csv(&self) -> String {
        let key = self.key.as_deref().map(|key| format!("{},", field(key))).unwrap_or_default();
        let mut text = format!("experiment,{key}device,policy,concurrency,seed");
        for metric in METRICS {
            text.push(',');
            text.push_str(metric.name);
        }
        text.push('\n');
        for point in &self.points {
            for run in &point.runs {
                let device = field(&point.device);
                let policy = field(&point.policy.to_string());
                let name = field(&self.experiment);
                // Writing to a string does not fail.
                let value =
                    point.value.as_deref().map(|value| format!("{},", field(value))).unwrap_or_default();
                let _ = write!(text, "{name},{value}{device},{policy},{},{}", point.concurrency, run.seed);
                for metric in METRICS {
                    let _ = write!(text, ",{}", (metric.of)(&run.report));
                }
                text.push('\n');
            }
        }
        text
    }
}

fn summary(summary: &Summary) -> Value {
    json!({
        "mean": summary.mean,
        "low": summary.low,
        "high": summary.high,
        "values": summary.values,
    })
}

/// A field of CSV: quoted where it must be (RFC 4180).
fn field(text: &str) -> String {
    if text.contains([',', '"', '\n', '\r']) {
        format!("\"{}\"", text.replace('"', "\"\""))
    } else {
        text.to_owned()
    }
}

/// Counts by size, summed and put into buckets; `to` is in pages.
fn sizes<'a>(counts: impl Iterator<Item = &'a [u64]>) -> Vec<Bucket> {
    let mut buckets: Vec<Bucket> = Vec::new();
    for counts in counts {
        for (size, count) in counts.iter().enumerate().filter(|(_, count)| **count > 0) {
            let at = size.saturating_sub(1) / SIZE_BUCKET;
            while buckets.len() <= at {
                buckets.push(Bucket { to: ((buckets.len() + 1) * SIZE_BUCKET) as f64, count: 0 });
            }
            buckets[at].count += count;
        }
    }
    buckets
}

/// Response times, summed over runs; `to` is in milliseconds and doubles.
fn responses(reports: &[&Report]) -> Vec<Bucket> {
    let mut buckets: Vec<Bucket> = Vec::new();
    for report in reports {
        for (at, (to, count)) in report.response_buckets.iter().enumerate() {
            if at >= buckets.len() {
                buckets.push(Bucket { to: to.as_millis_f64(), count: 0 });
            }
            buckets[at].count += count;
        }
    }
    buckets
}

fn use_by_second(report: &Report) -> Vec<f64> {
    let whole = crate::machine::USE_PERIOD.get() * u64::from(report.processors);
    let percent = |busy: u64| (busy as f64 / whole as f64 * 1e4).round() / 1e2;
    report.processor_busy_by_second.iter().map(|busy| percent(busy.get())).collect()
}
