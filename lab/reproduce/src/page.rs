//! What the pages have in common: they open without a network, in light and dark mode.

use crate::outcome::Drawn;
use foreseek_chart::escape;
use std::fmt::Write;

/// A whole page with this title and content.
pub(crate) fn document(title: &str, content: &str) -> String {
    format!(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\
         <meta name=\"color-scheme\" content=\"light dark\"><title>{}</title>\
         <style>{STYLE}</style></head><body><main>\n{content}</main></body></html>\n",
        escape(title),
    )
}

impl Drawn {
    /// Its title, its caption and its charts side by side.
    pub(crate) fn write(&self, page: &mut String) {
        // Writing to a String cannot fail.
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
.quiet{color:var(--quiet)}details{margin:.6rem 0}summary{cursor:pointer;font-weight:600}\
table.numbers{width:auto}table.numbers td,table.numbers th+th{text-align:right}";
