//! Sequences of fetches.

/// The size of each fetch of a stream, in bytes: first a list, then one size for ever.
#[derive(Clone, Debug, PartialEq)]
pub struct Depths {
    first: Vec<f64>,
    then: f64,
}

impl Depths {
    /// The same depth each time.
    #[must_use]
    pub fn constant(depth: f64) -> Self {
        Self { first: Vec::new(), then: depth }
    }

    /// These depths, then the last of them for ever; at least one.
    #[must_use]
    pub fn given(depths: &[f64]) -> Option<Self> {
        let (last, first) = depths.split_last()?;
        Some(Self { first: first.to_vec(), then: *last })
    }

    /// Slow start (EuroSys'07 section 4.3): `first`, doubling until `depth`.
    #[must_use]
    pub fn slow_start(first: f64, depth: f64) -> Self {
        let ramp = std::iter::successors(Some(first), |size| Some(size * 2.0));
        Self { first: ramp.take_while(|size| *size > 0.0 && *size < depth).collect(), then: depth }
    }

    /// `P`: how many fetches come before the final depth.
    #[must_use]
    pub fn starting(&self) -> usize {
        self.first.len()
    }

    /// The depths in order, without end.
    pub fn iter(&self) -> impl Iterator<Item = f64> + '_ {
        self.first.iter().copied().chain(std::iter::repeat(self.then))
    }

    /// How many fetches a stream of this length needs, and how much they bring. From the final depth on,
    /// `length / depth` gives their number: a stream may be long.
    #[must_use]
    pub fn until(&self, length: f64) -> (usize, f64) {
        let mut bytes = 0.0;
        for (made, depth) in self.first.iter().enumerate() {
            if bytes >= length {
                return (made, bytes);
            }
            bytes += depth;
        }
        let more = ((length - bytes) / self.then).ceil().max(0.0);
        (self.first.len() + more as usize, bytes + more * self.then)
    }
}
