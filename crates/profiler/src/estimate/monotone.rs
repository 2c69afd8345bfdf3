//! The nearest rising curve through noisy points: pool adjacent violators.
//!
//! A shorter seek never takes longer. The least-squares fit among all curves that do not fall is found by
//! merging neighbours that are out of order into their weighted mean (Ayer et al. 1955). It assumes no form
//! of curve and has no parameter, so it suits drives whose curve has neither of the textbook forms. Linear
//! time: each merge removes a block.

/// The fitted values, in the order of the points; each point is a value and a weight.
pub(crate) fn rising(points: &[(f64, f64)]) -> Vec<f64> {
    let mut blocks: Vec<(f64, f64, usize)> = Vec::with_capacity(points.len());
    for &(value, weight) in points {
        let mut block = (value, weight, 1);
        while let Some(&(before, heavy, count)) = blocks.last() {
            if before <= block.0 {
                break;
            }
            let sum = heavy + block.1;
            block = ((before * heavy + block.0 * block.1) / sum, sum, count + block.2);
            blocks.pop();
        }
        blocks.push(block);
    }
    blocks.iter().flat_map(|(value, _, count)| std::iter::repeat_n(*value, *count)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn by_hand() {
        assert_eq!(rising(&[(1.0, 1.0), (3.0, 1.0), (2.0, 1.0), (4.0, 1.0)]), [1.0, 2.5, 2.5, 4.0]);
        assert_eq!(rising(&[(3.0, 3.0), (1.0, 1.0)]), [2.5, 2.5]);
        assert_eq!(rising(&[]), [0.0; 0]);
    }

    fn error(points: &[(f64, f64)], fit: &[f64]) -> f64 {
        points.iter().zip(fit).map(|((value, weight), fit)| weight * (value - fit).powi(2)).sum()
    }

    proptest! {
        /// It rises, keeps the weighted mean, and no rising curve near it fits better.
        #[test]
        fn it_is_the_least_squares_fit(
            points in prop::collection::vec((-10.0..10.0f64, 0.1..5.0f64), 1..20),
            moves in prop::collection::vec(-0.5..0.5f64, 20),
        ) {
            let fit = rising(&points);
            prop_assert!(fit.is_sorted());
            let sum = |of: &dyn Fn(usize) -> f64| (0..points.len()).map(|i| points[i].1 * of(i)).sum::<f64>();
            prop_assert!((sum(&|i| points[i].0) - sum(&|i| fit[i])).abs() < 1e-6);
            let mut other: Vec<f64> = fit.iter().zip(&moves).map(|(fit, step)| fit + step).collect();
            other.sort_by(f64::total_cmp);
            prop_assert!(error(&points, &fit) <= error(&points, &other) + 1e-9);
        }
    }
}
