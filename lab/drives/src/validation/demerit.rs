//! The difference between two distributions of response times.
//!
//! The demerit figure is the root mean square of the horizontal distance between the two cumulative
//! distributions: the difference between the times below which the same share of the requests lies.
//! It is zero for equal distributions, whatever the order of the requests.

use foreseek_units::Nanos;

/// Two distributions compared.
#[derive(Clone, Debug, PartialEq)]
pub struct Demerit {
    /// The measured times, ascending.
    measured: Vec<Nanos>,
    /// The modelled times, ascending; as many or a whole multiple.
    modelled: Vec<Nanos>,
}

impl Demerit {
    /// Compares measured with modelled times. There may be several modelled times for each measured one, from
    /// replays with different initial states.
    #[must_use]
    pub fn new(mut measured: Vec<Nanos>, mut modelled: Vec<Nanos>) -> Self {
        measured.sort_unstable();
        modelled.sort_unstable();
        Self { measured, modelled }
    }

    /// The root mean square of the horizontal distance, in milliseconds.
    #[must_use]
    pub fn rms_ms(&self) -> f64 {
        let (sum, count) = self
            .pairs()
            .fold((0.0, 0u64), |(sum, count), (one, other)| (sum + (other - one).powi(2), count + 1));
        (sum / count.max(1) as f64).sqrt()
    }

    /// The mean of the modelled times less that of the measured, in milliseconds.
    #[must_use]
    pub fn mean_error_ms(&self) -> f64 {
        mean_ms(&self.modelled) - mean_ms(&self.measured)
    }

    /// The mean measured time in milliseconds.
    #[must_use]
    pub fn measured_mean_ms(&self) -> f64 {
        mean_ms(&self.measured)
    }

    /// The times below which a share of the requests lies, measured and modelled, in milliseconds.
    #[must_use]
    pub fn quantile_ms(&self, share: f64) -> (f64, f64) {
        (quantile_ms(&self.measured, share), quantile_ms(&self.modelled, share))
    }

    /// Measured and modelled milliseconds of the same rank.
    fn pairs(&self) -> impl Iterator<Item = (f64, f64)> {
        let each = (self.modelled.len() / self.measured.len().max(1)).max(1);
        let of_rank = self.modelled.chunks(each).map(mean_ms);
        self.measured.iter().map(|time| time.as_millis_f64()).zip(of_rank)
    }
}

fn mean_ms(times: &[Nanos]) -> f64 {
    times.iter().map(|time| time.as_millis_f64()).sum::<f64>() / times.len().max(1) as f64
}

fn quantile_ms(times: &[Nanos], share: f64) -> f64 {
    let rank = (share * times.len() as f64) as usize;
    times.get(rank.min(times.len().saturating_sub(1))).map_or(0.0, |time| time.as_millis_f64())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(times: &[u64]) -> Vec<Nanos> {
        times.iter().map(|time| Nanos::from_millis(*time)).collect()
    }

    #[test]
    fn order_does_not_matter_and_a_shift_is_its_distance() {
        assert_eq!(Demerit::new(ms(&[3, 1, 2]), ms(&[2, 3, 1])).rms_ms(), 0.0);
        let shifted = Demerit::new(ms(&[1, 2, 3]), ms(&[5, 3, 4]));
        assert_eq!((shifted.rms_ms(), shifted.mean_error_ms()), (2.0, 2.0));
    }

    #[test]
    fn it_is_the_root_of_the_mean_of_squares() {
        let demerit = Demerit::new(ms(&[1, 2, 3, 4]), ms(&[1, 2, 3, 8]));
        assert_eq!(demerit.rms_ms(), 2.0);
        assert_eq!(demerit.quantile_ms(0.99), (4.0, 8.0));
    }

    #[test]
    fn several_replays_count_by_the_mean_of_each_rank() {
        let demerit = Demerit::new(ms(&[1, 5]), ms(&[0, 6, 2, 4]));
        assert_eq!((demerit.rms_ms(), demerit.mean_error_ms()), (0.0, 0.0));
    }
}
