//! The outcome as one page that opens without a network.

use crate::Outcome;
use crate::outcome::{Drawn, Judged};
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
            "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
             <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\
             <meta name=\"color-scheme\" content=\"light dark\"><title>Foreseek: the papers reproduced</title>\
             <style>{STYLE}</style></head><body><main>\n<h1>The papers, reproduced</h1>\n\
             <p class=\"sum\">{}{}.</p>\n\
             <p>Every number below comes from runs in virtual time on modelled devices, with one set of parameters for \
             each paper's set-up and nothing set for a claim; first seed {}. The interval is that of the mean over \
             the seeds, at 95 %.</p>\n",
            self.count(),
            self.reservation(),
            self.seed,
        );
        self.write_claims(&mut page);
        self.figures.iter().for_each(|figure| figure.write(&mut page));
        page.push_str("</main></body></html>\n");
        page
    }

    fn write_claims(&self, page: &mut String) {
        page.push_str(
            "<h2>Claims</h2>\n<table><thead><tr><th>claim</th><th>section</th><th>what</th><th>paper</th>\
             <th>ours</th><th></th></tr></thead><tbody>\n",
        );
        self.claims.iter().for_each(|judged| judged.write(page));
        page.push_str("</tbody></table>\n");
    }
}

impl Judged {
    /// What was set by the claim, and why it is missed.
    fn notes(&self) -> String {
        let sets = self.sets.map(|what| format!("used to set {what}"));
        let notes = sets.iter().map(String::as_str).chain(self.why);
        notes.map(|note| format!("<br><em>{}</em>", escape(note))).collect()
    }

    fn write(&self, page: &mut String) {
        let claim = &self.claim;
        let class = if self.verdict.holds { "" } else { " class=\"missed\"" };
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

impl Drawn {
    fn write(&self, page: &mut String) {
        let _ = writeln!(
            page,
            "<section><h2>{}</h2>\n<p>{} <span class=\"quiet\">experiments/{}</span></p>\n<div class=\"charts\">",
            escape(&self.title),
            escape(&self.caption),
            self.file
        );
        for chart in &self.charts {
            let _ = writeln!(page, "<figure>{chart}</figure>");
        }
        page.push_str("</div></section>\n");
    }
}

const STYLE: &str = "\
:root{--ground:#fff;--ink:#1c2430;--quiet:#5b6675;--line:#dfe4ea;--warn:#b3261e}\
@media (prefers-color-scheme:dark){:root{--ground:#12161c;--ink:#e6eaf0;--quiet:#98a3b3;--line:#2b333f;--warn:#ff8a80}}\
body{margin:0;background:var(--ground);color:var(--ink);font:15px/1.5 system-ui,-apple-system,'Segoe UI',Roboto,\
'DejaVu Sans',sans-serif}main{max-width:1320px;margin:0 auto;padding:2.5rem 1.25rem 4rem}\
h1{font-size:1.9rem;line-height:1.2;margin:0 0 .6rem}h2{font-size:1.25rem;margin:3rem 0 .5rem}\
.sum{font-size:1.2rem}\
table{border-collapse:collapse;width:100%;font-variant-numeric:tabular-nums}\
th,td{padding:.3rem .6rem;border-bottom:1px solid var(--line);text-align:left;vertical-align:top}\
thead th{color:var(--quiet)}tbody th{font-weight:600;white-space:nowrap}td{white-space:nowrap}\
td.what{white-space:normal;color:var(--quiet)}.missed th,.missed td{color:var(--warn)}\
.charts{display:grid;grid-template-columns:repeat(auto-fill,minmax(400px,1fr));gap:1rem}\
figure{margin:0}figure svg{width:100%;height:auto;border:1px solid var(--line);border-radius:8px}\
.quiet{color:var(--quiet)}";
