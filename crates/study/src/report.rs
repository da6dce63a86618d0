//! A study's results as a page of HTML that needs nothing else: no script, no font, no other file.

use crate::results::{Detail, Results};
use crate::statistics::shown;
use crate::table;
use maud::{DOCTYPE, Markup, PreEscaped, html};
use std::collections::BTreeMap;

const STYLE: &str = "body{font:15px/1.45 sans-serif;margin:2em auto;max-width:1100px;padding:0 1em;color:#222}\
table{border-collapse:collapse;margin:1em 0;font-size:13px}th,td{border:1px solid #ccc;padding:.25em .6em;text-align:right}\
th:first-child,td:first-child{text-align:left}th{background:#f4f4f4}svg{width:100%;height:auto;margin:1em 0}\
.scroll{overflow-x:auto}.marks{color:#666}";

/// The page.
pub(crate) fn render(results: &Results) -> String {
    let record = &results.record;
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width";
                title { "loligo study " (record.study) " --on " (record.on) }
                style { (PreEscaped(STYLE)) }
            }
            body {
                h1 { "Study " (record.study) ", --on " (record.on) }
                @for paragraph in &results.about { p { (paragraph) } }
                h2 { "Results" }
                (figures(results))
                @if !results.findings.is_empty() {
                    h2 { "Findings" }
                    ul { @for finding in &results.findings { li { (finding) } } }
                }
                @for detail in &results.details { (one_by_one(detail)) }
                @for chart in results.drawn() { (PreEscaped(chart)) }
                @if !results.notes().is_empty() {
                    h2 { "Notes" }
                    ul { @for note in results.notes() { li { (note) } } }
                }
                h2 { "How it was made" }
                p { "Seed " (record.seed) "." }
                (pairs("option", &record.options))
                (pairs("program", &record.versions))
                (pairs("machine", &record.machine))
            }
        }
    };
    page.into_string()
}

fn figures(results: &Results) -> Markup {
    let metrics: Vec<_> = results.measured().collect();
    html! {
        div.scroll {
            table {
                tr { th { "configuration" } @for metric in &metrics { th { (metric.name) } } }
                @for (name, runs) in results.configurations.iter().filter(|(_, runs)| !runs.is_empty()) {
                    tr {
                        td { (name) @if runs.len() > 1 { " (" (runs.len()) " runs)" } }
                        @for metric in &metrics { td { (table::cell(results, name, metric.key, metric.decimals)) } }
                    }
                }
            }
        }
        p.marks {
            "Mean ± standard deviation over runs."
            @if !results.published.is_empty() {
                " In brackets what was published, and how far the mean is from it; in charts a red mark."
            }
        }
    }
}

fn one_by_one(detail: &Detail) -> Markup {
    html! {
        details {
            summary { (detail.title) ", " (detail.rows.len()) }
            div.scroll {
                table {
                    tr { th { "who" } @for column in &detail.columns { th { (column.name) } } }
                    @for (name, values) in &detail.rows {
                        tr {
                            td { (name) }
                            @for (column, value) in detail.columns.iter().zip(values) {
                                td { @if let Some(value) = value { (shown(*value, column.decimals)) } }
                            }
                        }
                    }
                }
            }
        }
    }
}

fn pairs(what: &str, of: &BTreeMap<String, String>) -> Markup {
    html! {
        @if !of.is_empty() {
            table {
                tr { th { (what) } th { "value" } }
                @for (name, value) in of { tr { td { (name) } td { (value) } } }
            }
        }
    }
}
