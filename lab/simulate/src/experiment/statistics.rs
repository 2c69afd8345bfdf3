//! Means with their intervals.

use serde::Serialize;

/// Several values of one quantity, one for each seed.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Summary {
    /// Their mean.
    pub mean: f64,
    /// The lower end of the mean's 95 % interval; the mean itself if there is one value.
    pub low: f64,
    /// The upper end.
    pub high: f64,
    /// The values, in the order of the seeds.
    pub values: Vec<f64>,
}

impl Summary {
    /// The mean of values and its 95 % interval by Student's t distribution. Without values all is zero.
    #[must_use]
    pub fn of(values: Vec<f64>) -> Self {
        let count = values.len() as f64;
        if values.is_empty() {
            return Self { mean: 0.0, low: 0.0, high: 0.0, values };
        }
        let mean = values.iter().sum::<f64>() / count;
        let half = match values.len() {
            1 => 0.0,
            many => {
                let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
                let error = (squares / (count - 1.0) / count).sqrt();
                student_t_975(many - 1) * error
            }
        };
        Self { mean, low: mean - half, high: mean + half, values }
    }
}

impl Summary {
    /// The same for ratios: the geometric mean, and the interval of the logarithms. A ratio and its inverse
    /// then count alike, and no end is below zero; the plain mean of ratios that scatter is above 1 in either
    /// direction. If a value is zero there are no logarithms, and it is [`Summary::of`].
    #[must_use]
    pub fn of_ratios(values: Vec<f64>) -> Self {
        if values.is_empty() || values.iter().any(|value| *value <= 0.0) {
            return Self::of(values);
        }
        let logs = Self::of(values.iter().map(|value| value.ln()).collect());
        Self { mean: logs.mean.exp(), low: logs.low.exp(), high: logs.high.exp(), values }
    }
}

/// The 97.5 % quantile of Student's t distribution: exact to five digits for up to 30 degrees of
/// freedom (the table of any textbook), beyond by the first terms of Cornish and Fisher's expansion.
#[must_use]
pub fn student_t_975(freedom: usize) -> f64 {
    const TABLE: [f64; 30] = [
        12.7062, 4.302_65, 3.182_45, 2.776_45, 2.570_58, 2.446_91, 2.364_62, 2.306_00, 2.262_16, 2.228_14,
        2.200_99, 2.178_81, 2.160_37, 2.144_79, 2.131_45, 2.119_91, 2.109_82, 2.100_92, 2.093_02, 2.085_96,
        2.079_61, 2.073_87, 2.068_66, 2.063_90, 2.059_54, 2.055_53, 2.051_83, 2.048_41, 2.045_23, 2.042_27,
    ];
    /// The normal distribution's.
    const Z: f64 = 1.959_964;
    match freedom {
        0 => f64::INFINITY,
        1..=30 => TABLE[freedom - 1],
        _ => {
            let n = freedom as f64;
            let first = (Z.powi(3) + Z) / 4.0;
            let second = (5.0 * Z.powi(5) + 16.0 * Z.powi(3) + 3.0 * Z) / 96.0;
            let third = (3.0 * Z.powi(7) + 19.0 * Z.powi(5) + 17.0 * Z.powi(3) - 15.0 * Z) / 384.0;
            Z + first / n + second / n.powi(2) + third / n.powi(3)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_expansion_goes_on_where_the_table_ends() {
        // Textbook: 40: 2.02108, 60: 2.00030, 120: 1.97993.
        for (freedom, value) in [(40, 2.021_08), (60, 2.000_30), (120, 1.979_93)] {
            assert!((student_t_975(freedom) - value).abs() < 2e-5, "{freedom}: {}", student_t_975(freedom));
        }
        assert!((1..200).all(|freedom| student_t_975(freedom + 1) < student_t_975(freedom)));
    }

    #[test]
    fn an_interval_by_hand() {
        // Mean 2, deviation 1, error 1 / sqrt 3, times 4.30265.
        let summary = Summary::of(vec![1.0, 2.0, 3.0]);
        assert!((summary.mean - 2.0).abs() < 1e-12);
        assert!((summary.high - 2.0 - 4.302_65 / 3f64.sqrt()).abs() < 1e-9);
        assert!((summary.mean - summary.low - (summary.high - summary.mean)).abs() < 1e-12);
    }

    #[test]
    fn a_ratio_and_its_inverse_count_alike() {
        let ratios = vec![0.5, 1.0, 3.0];
        let ours = Summary::of_ratios(ratios.clone());
        let theirs = Summary::of_ratios(ratios.iter().map(|ratio| 1.0 / ratio).collect());
        for (one, other) in [(ours.mean, theirs.mean), (ours.low, theirs.high), (ours.high, theirs.low)] {
            assert!((one * other - 1.0).abs() < 1e-12, "{one} and {other}");
        }
        // By hand: the cube root of 1.5, where the plain mean is 1.5.
        assert!((ours.mean - 1.5f64.cbrt()).abs() < 1e-12 && ours.low > 0.0);
        assert_eq!(Summary::of_ratios(vec![0.0, 2.0]).mean, 1.0);
        assert_eq!(Summary::of_ratios(Vec::new()).mean, 0.0);
    }

    #[test]
    fn one_value_is_its_own_interval() {
        let one = Summary::of(vec![5.0]);
        assert_eq!((one.low, one.mean, one.high), (5.0, 5.0, 5.0));
        assert_eq!(Summary::of(Vec::new()).mean, 0.0);
    }
}
