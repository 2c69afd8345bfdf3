//! A latency distribution from samples.
//!
//! Profiles describe a latency by its median and its 99th percentile; the mean follows from a lognormal
//! distribution through both. The mean is the positioning time, so it is preserved: the spread is chosen so
//! that median and *mean* are the measured ones. The measured 90th and 99th percentiles are shown beside it.

use super::statistics::{nanos, numbers, quantile};
use foreseek_units::Nanos;

/// The 99 % quantile of the standard normal distribution.
const NORMAL_99: f64 = 2.326_347_874_040_841;

/// A measured distribution.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LatencyFit {
    /// Half of the requests take longer.
    pub median: Nanos,
    /// The average.
    pub mean: Nanos,
    /// One in ten takes longer.
    pub p90: Nanos,
    /// One in a hundred takes longer.
    pub p99: Nanos,
    /// The 99th percentile of the lognormal distribution with this median and this mean.
    pub p99_for_mean: Nanos,
}

/// The distribution of samples; `besides` is not part of the latency (the transfer of the data).
pub(crate) fn fit(samples: &[Nanos], besides: Nanos) -> LatencyFit {
    let latencies = numbers(&samples.iter().map(|sample| *sample - besides).collect::<Vec<_>>());
    let middle = quantile(&latencies, 0.5).max(1.0);
    let mean = latencies.iter().sum::<f64>() / latencies.len().max(1) as f64;
    let sigma = (2.0 * (mean / middle).max(1.0).ln()).sqrt();
    LatencyFit {
        median: nanos(middle),
        mean: nanos(mean),
        p90: nanos(quantile(&latencies, 0.9)),
        p99: nanos(quantile(&latencies, 0.99)),
        p99_for_mean: nanos(middle * (NORMAL_99 * sigma).exp()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 9999 quantiles of a lognormal distribution of median 30 ms and 99th percentile 200 ms, by way
    /// of the logistic approximation of the normal's (error below 0.02 in between).
    #[test]
    fn a_lognormal_distribution_is_found() {
        let sigma = (200.0f64 / 30.0).ln() / NORMAL_99;
        let normal = |p: f64| {
            let y = (p / (1.0 - p)).ln();
            // Inverse of 1.5976 x + 0.07056 x^3 by Newton's method.
            (0..20)
                .fold(y / 1.6, |x, _| x - (1.5976 * x + 0.07056 * x.powi(3) - y) / (1.5976 + 0.21168 * x * x))
        };
        let samples: Vec<Nanos> =
            (1..10_000).map(|at| nanos(30e6 * (sigma * normal(f64::from(at) / 10_000.0)).exp())).collect();
        let found = fit(&samples, Nanos::ZERO);
        assert!((found.median.as_millis_f64() - 30.0).abs() < 0.1, "{found:?}");
        assert!(
            (found.mean.as_millis_f64() / (30.0 * (sigma * sigma / 2.0).exp()) - 1.0).abs() < 0.02,
            "{found:?}"
        );
        assert!((found.p99_for_mean.as_millis_f64() / 200.0 - 1.0).abs() < 0.05, "{found:?}");
    }

    #[test]
    fn a_constant_one_has_no_spread_and_none_no_samples() {
        let constant = fit(&[Nanos(500); 9], Nanos(100));
        assert_eq!(
            (constant.median, constant.mean, constant.p99_for_mean),
            (Nanos(400), Nanos(400), Nanos(400))
        );
        assert_eq!(fit(&[], Nanos::ZERO).mean, Nanos::ZERO);
    }
}
