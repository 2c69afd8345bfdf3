//! How many claims hold: all of them, without those by whose numbers something was set, and strictly; those of
//! arithmetic and theory apart.

use crate::judgement::Standing;
use std::fmt;

/// Held and all of some claims.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Count {
    /// How many hold.
    pub held: usize,
    /// How many there are.
    pub all: usize,
}

impl Count {
    fn add(&mut self, holds: bool) {
        self.held += usize::from(holds);
        self.all += 1;
    }
}

impl fmt::Display for Count {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of {}", self.held, self.all)
    }
}

/// The counts of an outcome.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Of claims for which something is simulated.
    pub simulated: Count,
    /// Of these, those by whose numbers nothing was set.
    pub predicted: Count,
    /// Of the simulated ones, strictly.
    pub strict: Count,
    /// Of these, bounds: they are strict where they hold.
    pub strict_bounds: usize,
    /// Simulated ones whose gain is beyond what is stated.
    pub beyond: usize,
    /// Of arithmetic on the papers' own inputs and of theory.
    pub arithmetic: Count,
}

/// What is counted of a claim.
#[derive(Clone, Copy, Debug)]
pub struct Counted {
    /// Whether nothing is simulated for it.
    pub arithmetic: bool,
    /// Whether its number was used to set something.
    pub used: bool,
    /// Whether it states the least or the most of something.
    pub bound: bool,
    /// What became of it.
    pub standing: Standing,
    /// Whether it holds strictly.
    pub strict: bool,
}

impl Counts {
    /// Counts claims.
    pub fn of(claims: impl Iterator<Item = Counted>) -> Self {
        let mut counts = Self::default();
        for Counted { arithmetic, used, bound, standing, strict } in claims {
            let holds = standing == Standing::Holds;
            if arithmetic {
                counts.arithmetic.add(holds);
                continue;
            }
            counts.simulated.add(holds);
            counts.strict.add(strict);
            counts.strict_bounds += usize::from(strict && bound);
            counts.beyond += usize::from(standing == Standing::Beyond);
            if !used {
                counts.predicted.add(holds);
            }
        }
        counts
    }
}

impl fmt::Display for Counts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut parts = Vec::new();
        if self.simulated.all > 0 {
            parts.push(format!("{} simulated claims hold", self.simulated));
            if self.predicted.all < self.simulated.all {
                let predicted = self.predicted;
                parts.push(format!("{predicted} without those whose numbers were used to set something"));
            }
            let bounds = match self.strict_bounds {
                0 => String::new(),
                bounds => format!(" ({bounds} of them bounds)"),
            };
            parts.push(format!("{} strictly{bounds}", self.strict));
            if self.beyond > 0 {
                parts.push(format!("{} beyond what is stated", self.beyond));
            }
        }
        if self.arithmetic.all > 0 {
            parts.push(format!("of arithmetic and theory {}", self.arithmetic));
        }
        f.write_str(&parts.join("; "))
    }
}
