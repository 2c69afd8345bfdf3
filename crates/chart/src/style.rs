//! How charts look.

/// Colours that there are for series: more are hard to tell apart in any chart.
pub const SERIES_LIMIT: usize = 12;

/// The class of a series' colour.
pub(crate) fn class(series: usize) -> String {
    format!("s{}", series % SERIES_LIMIT)
}

/// The first six are Okabe and Ito's palette (2008), darkened for lines on white and lightened on black; the
/// others lie between them and are for what few charts show. No variables: viewers other than browsers
/// know none.
pub(crate) const STYLE: &str = "\
.chart{font:13px system-ui,-apple-system,'Segoe UI',Roboto,'DejaVu Sans',sans-serif}\
.chart .ground{fill:#fff}.chart text{fill:#1c2430}\
.chart .title{font-size:16px;font-weight:600}\
.chart .quiet,.chart .tick{fill:#5b6675}.chart .tick{font-size:12px;font-variant-numeric:tabular-nums}\
.chart path{fill:none}.chart .grid{stroke:#e4e8ee}.chart .axis{stroke:#8a94a3}\
.chart .line{stroke-width:2;stroke-linejoin:round}.chart .dots{stroke-width:5;stroke-linecap:round}.chart .bound{stroke-width:1.2;opacity:.6}\
.chart .s0{stroke:#5b6675}.chart .s1{stroke:#0067a5}.chart .s2{stroke:#c25200}.chart .s3{stroke:#007a5a}\
.chart .s4{stroke:#a83f7e}.chart .s5{stroke:#8a6d00}.chart .s6{stroke:#c4232d}.chart .s7{stroke:#5a3fa8}\
.chart .s8{stroke:#4f8a10}.chart .s9{stroke:#00808f}.chart .s10{stroke:#8c5a3c}.chart .s11{stroke:#a9a9a9}\
.chart .f0{fill:#5b6675}.chart .f1{fill:#0067a5}.chart .f2{fill:#c25200}.chart .f3{fill:#007a5a}\
.chart .f4{fill:#a83f7e}.chart .f5{fill:#8a6d00}.chart .f6{fill:#c4232d}.chart .f7{fill:#5a3fa8}\
.chart .f8{fill:#4f8a10}.chart .f9{fill:#00808f}.chart .f10{fill:#8c5a3c}.chart .f11{fill:#a9a9a9}\
.chart .whisker{stroke:#1c2430;stroke-width:1.2}\
@media (prefers-color-scheme:dark){.chart .ground{fill:#12161c}.chart text{fill:#e6eaf0}\
.chart .quiet,.chart .tick{fill:#98a3b3}.chart .grid{stroke:#232a34}.chart .axis{stroke:#5c6675}\
.chart .s0{stroke:#98a3b3}.chart .s1{stroke:#56b4e9}.chart .s2{stroke:#f08a4b}.chart .s3{stroke:#2ec79b}\
.chart .s4{stroke:#dd8fbd}.chart .s5{stroke:#e0c04a}.chart .s6{stroke:#ff7a80}.chart .s7{stroke:#a48cf0}\
.chart .s8{stroke:#9ad14b}.chart .s9{stroke:#4fd0de}.chart .s10{stroke:#c79a7c}.chart .s11{stroke:#6f6f6f}\
.chart .f0{fill:#98a3b3}.chart .f1{fill:#56b4e9}.chart .f2{fill:#f08a4b}.chart .f3{fill:#2ec79b}\
.chart .f4{fill:#dd8fbd}.chart .f5{fill:#e0c04a}.chart .f6{fill:#ff7a80}.chart .f7{fill:#a48cf0}\
.chart .f8{fill:#9ad14b}.chart .f9{fill:#4fd0de}.chart .f10{fill:#c79a7c}.chart .f11{fill:#6f6f6f}\
.chart .whisker{stroke:#e6eaf0}}";

/// What [`crate::Zoomed`] needs beside that.
pub(crate) const ZOOMED: &str = "\
.chart .cloud{stroke-width:1.2;stroke-linecap:round;opacity:.65}\
.chart .label{font-weight:600}.chart .label .quiet{font-size:12px;font-weight:400}\
.chart .wedge{fill:#0067a5;opacity:.11}\
@media (prefers-color-scheme:dark){.chart .wedge{fill:#56b4e9;opacity:.14}}";
