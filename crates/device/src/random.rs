//! Seeded numbers: the same seed gives the same numbers.

/// Mixes two numbers into a pseudo-random one (the finalizer of SplitMix64, Steele et al. 2014).
pub(crate) fn mix(seed: u64, index: u64) -> u64 {
    let mut z = seed.wrapping_add((index.wrapping_add(1)).wrapping_mul(0x9e37_79b9_7f4a_7c15));
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// A number from the standard normal distribution for each number of 64 bits: P. J. Acklam's
/// approximation of the inverse of the normal distribution (relative error below 1.2e-9).
pub(crate) fn normal(bits: u64) -> f64 {
    // The middle of one of 2^52 equal parts, so that neither 0 nor 1 results.
    let p = ((bits >> 12) as f64 + 0.5) / (1u64 << 52) as f64;
    let poly = |coefficients: &[f64], x: f64| coefficients.iter().fold(0.0, |sum, c| sum * x + c);
    let tail = |p: f64| {
        let q = (-2.0 * p.ln()).sqrt();
        poly(&TAIL_ABOVE, q) / poly(&TAIL_BELOW, q)
    };
    match p {
        p if p < 0.02425 => tail(p),
        p if p > 1.0 - 0.02425 => -tail(1.0 - p),
        p => {
            let q = p - 0.5;
            let r = q * q;
            poly(&CENTRE_ABOVE, r) * q / poly(&CENTRE_BELOW, r)
        }
    }
}

const CENTRE_ABOVE: [f64; 6] = [
    -3.969_683_028_665_376e1,
    2.209_460_984_245_205e2,
    -2.759_285_104_469_687e2,
    1.383_577_518_672_69e2,
    -3.066_479_806_614_716e1,
    2.506_628_277_459_239,
];
const CENTRE_BELOW: [f64; 6] = [
    -5.447_609_879_822_406e1,
    1.615_858_368_580_409e2,
    -1.556_989_798_598_866e2,
    6.680_131_188_771_972e1,
    -1.328_068_155_288_572e1,
    1.0,
];
const TAIL_ABOVE: [f64; 6] = [
    -7.784_894_002_430_293e-3,
    -3.223_964_580_411_365e-1,
    -2.400_758_277_161_838,
    -2.549_732_539_343_734,
    4.374_664_141_464_968,
    2.938_163_982_698_783,
];
const TAIL_BELOW: [f64; 5] =
    [7.784_695_709_041_462e-3, 3.224_671_290_700_398e-1, 2.445_134_137_142_996, 3.754_408_661_907_416, 1.0];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_of_the_normal_distribution() {
        for (share, expected) in [
            (0.5, 0.0),
            (0.841_344_746, 1.0),
            (0.99, 2.326_347_874),
            (0.01, -2.326_347_874),
            (0.999, 3.090_232_306),
        ] {
            let bits = (share * (1u64 << 52) as f64) as u64;
            assert!((normal(bits << 12) - expected).abs() < 1e-6, "{share}: {}", normal(bits << 12));
        }
        assert!(normal(0).is_finite() && normal(u64::MAX).is_finite());
    }
}
