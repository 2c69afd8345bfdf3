//! What the anticipatory scheduler and CFQ learn about a process: its think time and its seek distance. Means
//! decay by 7/8 with each sample and are kept in 1/256, with the kernels' rounding.

/// One, in fixed point.
pub(super) const ONE: u64 = 256;
/// Until a mean weighs more than this (its third sample brings it to 84), seeks are clamped to the wide limit.
const SETTLED: u64 = 60;
/// How far beyond four times its mean a new process's seek may count.
const FAR_AT_FIRST: u64 = 2 * 1024 * 1024;
/// The same for a known process: a stray page fault must not spoil its mean.
const FAR: u64 = 2 * 1024 * 64;

/// A decaying mean.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Mean {
    samples: u64,
    total: u64,
    mean: u64,
}

impl Mean {
    /// The weight of its samples: 32, 60, 84 and so on up to 249.
    pub(super) fn weight(&self) -> u64 {
        self.samples
    }

    /// The mean, if there has been a sample.
    pub(super) fn get(&self) -> Option<u64> {
        (self.samples > 0).then_some(self.mean)
    }

    /// A think time in ticks. Rounded up by half a tick of full weight: four ticks for one sample.
    pub(super) fn think(&mut self, ticks: u64) {
        self.take(ticks);
        self.mean = (self.total + ONE / 2) / self.samples;
    }

    /// A seek in sectors, clamped and rounded to the nearest.
    pub(super) fn seek(&mut self, distance: u64) {
        let far = if self.samples <= SETTLED { FAR_AT_FIRST } else { FAR };
        self.take(distance.min(self.mean * 4 + far));
        self.mean = (self.total + self.samples / 2) / self.samples;
    }

    fn take(&mut self, sample: u64) {
        self.samples = (7 * self.samples + ONE) / 8;
        self.total = (7 * self.total + ONE * sample) / 8;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_think_time_decays_by_seven_eighths() {
        // Totals 256, 224, 196; weights 32, 60, 84.
        let mut mean = Mean::default();
        assert_eq!(mean.get(), None);
        let means = [8, 0, 0].map(|ticks| {
            mean.think(ticks);
            (mean.get(), mean.weight())
        });
        assert_eq!(means, [(Some(12), 32), (Some(5), 60), (Some(3), 84)]);
    }

    #[test]
    fn a_steady_habit_becomes_its_mean() {
        let (mut think, mut seek) = (Mean::default(), Mean::default());
        for _ in 0..100 {
            think.think(7);
            seek.seek(1000);
        }
        assert_eq!((think.get(), think.weight()), (Some(7), 249));
        // Weights are rounded down, to 249 of 256 in the end: means come out larger by as much.
        assert_eq!(seek.get(), Some(1000 * 256 / 249));
    }

    #[test]
    fn seeks_are_clamped_widely_for_three_samples_and_narrowly_from_then_on() {
        let mut mean = Mean::default();
        mean.seek(1 << 40);
        assert_eq!(mean.get(), Some(FAR_AT_FIRST));
        let mut clamped = |far: u64| {
            let before = mean;
            mean.seek(1 << 40);
            let mut expected = before;
            expected.take(before.mean * 4 + far);
            assert_eq!(mean.total, expected.total, "weight {}", before.samples);
        };
        clamped(FAR_AT_FIRST);
        clamped(FAR_AT_FIRST);
        clamped(FAR);
    }
}
