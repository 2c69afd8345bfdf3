//! The outcome as one page that opens without a network.

use crate::outcome::Judged;
use crate::page::document;
use crate::{Outcome, Standing};
use foreseek_chart::escape;
use std::fmt::Write;

impl Outcome {
    /// The page.
    #[must_use]
    pub fn to_html(&self) -> String {
        let mut page = String::new();
        // Writing to a String cannot fail.
        let _ = write!(
            page,
            "<h1>The papers, reproduced</h1>\n\
             {}\
             <p>Every number below comes from runs in virtual time on modelled devices, with one set of parameters for \
             each paper's set-up and nothing set for a claim; first seed {}. The interval is that of the mean over \
             the seeds, at 95 %.</p>\n",
            self.sum(),
            self.seed,
        );
        self.write_claims(&mut page);
        self.figures.iter().for_each(|figure| figure.write(&mut page));
        document("Foreseek: the papers reproduced", &page)
    }

    /// How many claims hold; nothing if there are only checks.
    fn sum(&self) -> String {
        match self.count().to_string().as_str() {
            "" => String::new(),
            count => format!("<p class=\"sum\">{count}{}.</p>\n", self.reservation()),
        }
    }

    fn write_claims(&self, page: &mut String) {
        page.push_str(
            "<h2>Claims</h2>\n<table><thead><tr><th>claim</th><th>section</th><th>what</th><th>paper</th>\
             <th>ours</th><th></th></tr></thead><tbody>\n",
        );
        self.claims.iter().for_each(|judged| judged.write(page));
        page.push_str("</tbody></table>\n");
        if let Some(checked) = self.checked() {
            let _ = writeln!(
                page,
                "<p class=\"quiet\">{checked} (CHECK-*): what the papers state without a number.</p>"
            );
        }
        if !self.not_run.is_empty() {
            let _ = writeln!(page, "<p class=\"quiet\">Not run: {}.</p>", escape(&self.not_run.join(", ")));
        }
    }
}

impl Judged {
    /// What was set by the claim's number, and why it is missed.
    fn notes(&self) -> String {
        let sets = self.sets.as_ref().map(|what| format!("used to set {what}"));
        let beside = (!self.measured.beside.is_empty()).then(|| format!("not judged: {}", self.beside()));
        let notes = sets.iter().chain(&self.why).chain(&beside);
        notes.map(|note| format!("<br><em>{}</em>", escape(note))).collect()
    }

    fn write(&self, page: &mut String) {
        let claim = &self.claim;
        let class = if self.verdict.standing != Standing::Missed { "" } else { " class=\"missed\"" };
        let what =
            [&claim.metric, &claim.policy, &claim.against, &claim.workload, &claim.condition, &claim.device];
        let what: Vec<&str> =
            what.into_iter().map(String::as_str).filter(|part| !part.is_empty() && *part != "none").collect();
        let _ = writeln!(
            page,
            "<tr{class}><th>{}</th><td>{} {}</td><td class=\"what\">{}{}</td><td>{}</td><td>{}</td><td>{}</td></tr>",
            escape(&claim.id),
            escape(&claim.paper),
            escape(&claim.section),
            escape(&what.join(", ")),
            self.notes(),
            escape(&self.stated()),
            escape(&self.ours()),
            escape(&self.judgement()),
        );
    }
}
