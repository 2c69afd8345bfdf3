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
    /// Simulated ones whose gain is beyond what is stated.
    pub beyond: usize,
    /// Of arithmetic on the papers' own inputs and of theory.
    pub arithmetic: Count,
}

impl Counts {
    /// Counts claims: whether each is arithmetic, whether its number was used to set something, what became of it and
    /// whether it holds strictly.
    pub fn of(claims: impl Iterator<Item = (bool, bool, Standing, bool)>) -> Self {
        let mut counts = Self::default();
        for (arithmetic, used, standing, strict) in claims {
            let holds = standing == Standing::Holds;
            if arithmetic {
                counts.arithmetic.add(holds);
                continue;
            }
            counts.simulated.add(holds);
            counts.strict.add(strict);
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
            parts.push(format!("{} strictly", self.strict));
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
