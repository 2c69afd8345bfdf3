//! How many claims hold: all, those without claims whose numbers were used to set something, and those that
//! hold strictly; claims of arithmetic and theory apart.

use crate::claim::is_bound;
use crate::judgement::Standing;
use serde_json::Value;
use std::fmt;

/// How many of some claims hold.
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
    /// Claims for which something is simulated.
    pub simulated: Count,
    /// Of these, those whose numbers were not used to set anything.
    pub predicted: Count,
    /// Simulated claims that hold strictly.
    pub strict: Count,
    /// Of these, bounds: they hold strictly if they hold.
    pub strict_bounds: usize,
    /// Simulated claims whose gain is larger than stated.
    pub beyond: usize,
    /// Claims of arithmetic on the papers' own inputs, and of theory.
    pub arithmetic: Count,
}

/// What is counted of a claim.
#[derive(Clone, Copy, Debug)]
pub struct Counted {
    /// Whether nothing is simulated for it.
    pub arithmetic: bool,
    /// Whether its number was used to set something.
    pub used: bool,
    /// Whether it states a least or a largest value.
    pub bound: bool,
    /// Its standing.
    pub standing: Standing,
    /// Whether it holds strictly.
    pub strict: bool,
}

impl Counts {
    /// Counts the claims of a file of results.
    pub fn of_results<'a>(claims: impl Iterator<Item = &'a Value>) -> Self {
        Self::of(claims.map(|claim| Counted {
            arithmetic: claim["kind"] == "arithmetic",
            used: !claim["used_to_set"].is_null(),
            bound: claim["relation"].as_str().is_some_and(is_bound),
            standing: Standing::named(claim["verdict"].as_str().unwrap_or_default()),
            strict: claim["strict"] == true,
        }))
    }

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
