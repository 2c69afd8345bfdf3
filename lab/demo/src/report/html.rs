//! The outcome as one page that opens without a network: it loads no script, font or other file.

use super::blocks::{self, Way};
use super::figures::{self, Row};
use crate::QUERY;
use crate::outcome::{Measured, Outcome, QueryRun};
use foreseek_chart::escape;
use std::fmt::Write;

impl QueryRun {
    /// The plot of this run.
    #[must_use]
    pub fn to_svg(&self, outcome: &Outcome) -> String {
        let note = format!(
            "{} database, {} of memory, {}{}",
            outcome.database,
            self.memory,
            outcome.profile,
            figures::time_scale(outcome)
        );
        let [stock, foreseek] = &self.labels();
        blocks::plot(self.plot_title(outcome), note, self.stock.way(stock), self.foreseek.way(foreseek))
    }

    /// The same, half as wide.
    fn to_narrow_svg(&self, outcome: &Outcome) -> String {
        let [stock, foreseek] = &self.labels();
        blocks::narrow_plot(self.plot_title(outcome), self.stock.way(stock), self.foreseek.way(foreseek))
    }

    fn plot_title(&self, outcome: &Outcome) -> String {
        let mark = if outcome.simulated { "SIMULATED: " } else { "" };
        format!("{mark}Where the disk was read, {}", self.title)
    }

    fn labels(&self) -> [String; 2] {
        [("Stock SQLite", &self.stock), ("With Foreseek", &self.foreseek)]
            .map(|(name, of)| format!("{name}: {} s", figures::seconds(of.time.as_secs_f64())))
    }
}

impl Measured {
    fn way<'a>(&'a self, label: &'a str) -> Way<'a> {
        Way { label, duration: self.time, marks: &self.marks }
    }
}

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
             <meta name=\"color-scheme\" content=\"light dark\">\
             <title>Foreseek: one query, stock and with Foreseek</title><style>{STYLE}</style></head><body><main>\n"
        );
        if self.simulated {
            let why = self.why_simulated.as_deref().unwrap_or("it was asked for");
            let _ = writeln!(
                page,
                "<p class=\"simulated\"><strong>Simulated.</strong> Virtual time on a modelled disk and a \
                 modelled page cache, because {}.</p>",
                escape(why)
            );
        }
        self.write_head(&mut page);
        for run in &self.runs {
            self.write_run(&mut page, run);
        }
        self.write_foot(&mut page);
        page.push_str("</main></body></html>\n");
        page
    }

    fn write_head(&self, page: &mut String) {
        let _ = writeln!(
            page,
            "<h1>One query, stock and with Foreseek</h1>\n<p class=\"query\"><code>{}</code></p>\n<p>{}.</p>",
            escape(QUERY),
            escape(&figures::setting(self)),
        );
        page.push_str("<div class=\"tiles\">");
        for run in &self.runs {
            let _ = write!(
                page,
                "<div><b>{:.1}x</b><span>faster, {}</span><span>{} s &rarr; {} s</span></div>",
                run.speed_up(),
                escape(&run.title),
                figures::seconds(run.stock.time.as_secs_f64()),
                figures::seconds(run.foreseek.time.as_secs_f64()),
            );
        }
        page.push_str("</div>\n");
    }

    fn write_run(&self, page: &mut String, run: &QueryRun) {
        let _ = writeln!(
            page,
            "<section class=\"run\"><h2>{}</h2>\n<figure><div class=\"wide\">{}</div><div class=\"narrow\">{}</div></figure>\n<table><thead><tr><th></th><th>stock</th>\
             <th>Foreseek</th></tr></thead><tbody>",
            escape(&figures::heading(run)),
            run.to_svg(self),
            run.to_narrow_svg(self),
        );
        for Row { name, stock, foreseek, strong } in figures::rows(self, run) {
            let class = if strong { " class=\"strong\"" } else { "" };
            let _ = writeln!(
                page,
                "<tr{class}><th>{}</th><td>{}</td><td>{}</td></tr>",
                escape(name),
                escape(&stock),
                escape(&foreseek)
            );
        }
        let same = if run.identical() { "Both results are identical" } else { "THE RESULTS DIFFER" };
        let _ = writeln!(
            page,
            "</tbody></table>\n<p class=\"quiet\">{same}: {} rows, BLAKE3 digest {}.</p></section>",
            figures::count(run.stock.rows),
            escape(run.stock.fingerprint.get(..16).unwrap_or(&run.stock.fingerprint)),
        );
    }

    fn write_foot(&self, page: &mut String) {
        page.push_str("<section><h2>What to know about these figures</h2>\n<ul>\n");
        for note in &self.notes {
            let _ = writeln!(page, "<li>{}</li>", escape(note));
        }
        page.push_str("</ul></section>\n<section><h2>Made with</h2>\n<table class=\"versions\"><tbody>\n");
        let seed = [("seed".to_owned(), self.seed.to_string())];
        for (name, version) in self.versions.iter().chain(&seed) {
            let _ = writeln!(page, "<tr><th>{}</th><td>{}</td></tr>", escape(name), escape(version));
        }
        page.push_str("</tbody></table></section>\n");
    }
}

const STYLE: &str = "\
:root{--ground:#fff;--ink:#1c2430;--quiet:#5b6675;--line:#dfe4ea;--accent:#1668a8;--warn:#c2541b}\
@media (prefers-color-scheme:dark){:root{--ground:#12161c;--ink:#e6eaf0;--quiet:#98a3b3;--line:#2b333f;\
--accent:#5fb0ec;--warn:#f08a4b}}\
body{margin:0;background:var(--ground);color:var(--ink);font:16px/1.5 system-ui,-apple-system,'Segoe UI',Roboto,\
'DejaVu Sans',sans-serif}\
main{max-width:960px;margin:0 auto;padding:2.5rem 1.25rem 4rem}\
h1{font-size:1.9rem;line-height:1.2;margin:0 0 .6rem}h2{font-size:1.25rem;margin:3rem 0 .8rem}\
code{font:0.95em ui-monospace,'DejaVu Sans Mono',monospace}.query code{color:var(--accent)}\
.tiles{display:flex;flex-wrap:wrap;gap:1rem;margin:1.5rem 0}\
.tiles div{flex:1 1 15rem;border:1px solid var(--line);border-radius:10px;padding:1rem 1.2rem}\
.tiles b{display:block;font-size:2.6rem;line-height:1.1;color:var(--accent);font-variant-numeric:tabular-nums}\
.tiles span{display:block;color:var(--quiet)}\
figure{margin:0 0 1.2rem}figure svg{width:100%;box-sizing:border-box;height:auto;border:1px solid var(--line);border-radius:10px}.narrow{display:none}\
table{border-collapse:collapse;width:100%;font-variant-numeric:tabular-nums}\
th,td{padding:.32rem .6rem;border-bottom:1px solid var(--line);text-align:right}\
td{white-space:nowrap}th:first-child{text-align:left;font-weight:400}thead th{color:var(--quiet);font-weight:600}\
.strong th,.strong td{font-weight:700}.versions td{text-align:left;white-space:normal}.versions th{width:12rem}\
.quiet{color:var(--quiet)}li{margin:.35rem 0}\
.simulated{border:2px solid var(--warn);border-radius:10px;padding:.7rem 1rem;color:var(--warn)}\
@media screen and (max-width:620px){main{padding-top:1.5rem}h2{margin-top:2rem}.wide{display:none}.narrow{display:block}\
th,td{padding:.32rem .3rem}}\
@media print{body{font-size:11px}main{max-width:none;padding:0}h1{font-size:1.4rem}h2{font-size:1.05rem;margin:.8rem 0 .4rem;break-after:avoid}\
.tiles{margin:.8rem 0}.tiles div{padding:.4rem .8rem}.tiles b{font-size:1.7rem}ul{margin:.3rem 0}li{margin:.15rem 0}\
.versions tbody{display:grid;grid-template-columns:1fr 1fr 1fr;gap:0 .6cm}.versions tr{display:flex}.versions th{width:6rem}.versions td{flex:1}\
.wide{display:none}.narrow{display:block}.run{display:grid;grid-template-columns:8.5cm 1fr;gap:0 .6cm;break-inside:avoid}\
.run h2,.run p{grid-column:1/-1}.run figure{margin:0}.run table{align-self:start}tr,.tiles{break-inside:avoid}\
th,td{padding:.12rem .3rem}}";
