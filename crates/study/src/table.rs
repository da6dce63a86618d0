//! A study's results as a table for a terminal.

use crate::measurement::Metric;
use crate::results::{Detail, Results};
use crate::statistics::shown;
use comfy_table::{CellAlignment, ContentArrangement, Table, presets};

/// A figure with its spread, and beside it what was published and how far that is.
pub(crate) fn cell(results: &Results, configuration: &str, key: &str, decimals: usize) -> String {
    let Some(spread) = results.spread(configuration, key) else { return String::new() };
    let mut text = shown(spread.mean, decimals);
    if spread.count > 1 {
        text += &format!(" ± {}", shown(spread.deviation, decimals));
    }
    if let Some(published) = results.published_value(configuration, key) {
        let off = 100.0 * spread.off(published);
        text += &format!(" [{}, {off:+.0}%]", shown(published, decimals));
    }
    text
}

/// Of figures one by one, so many are shown; the other files have all.
const DETAILS_SHOWN: usize = 3;

/// The table, and below it the findings and the notes.
pub(crate) fn render(results: &Results) -> String {
    let mut table = Table::new();
    table.load_preset(presets::ASCII_MARKDOWN).set_content_arrangement(ContentArrangement::Disabled);
    let metrics: Vec<_> = results.measured().collect();
    let names = metrics.iter().map(|metric| metric.name.to_owned());
    table.set_header(std::iter::once("configuration".to_owned()).chain(names));
    for (name, runs) in results.configurations.iter().filter(|(_, runs)| !runs.is_empty()) {
        let figures = metrics.iter().map(|metric| cell(results, name, metric.key, metric.decimals));
        let runs = if runs.len() > 1 { format!("{name} ({} runs)", runs.len()) } else { name.clone() };
        table.add_row(std::iter::once(runs).chain(figures));
    }
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    let mut text = format!("{table}\n");
    if !results.published.is_empty() {
        text += "In brackets: what was published, and how far the mean is from it.\n";
    }
    for detail in &results.details {
        text += &one_by_one(detail);
    }
    for finding in &results.findings {
        text += &format!("- {finding}\n");
    }
    for note in results.notes() {
        text += &format!("Note: {note}\n");
    }
    text
}

/// The first few of a detail.
fn one_by_one(detail: &Detail) -> String {
    let mut table = Table::new();
    table.load_preset(presets::ASCII_MARKDOWN).set_content_arrangement(ContentArrangement::Disabled);
    let used = |n: usize| detail.rows.iter().any(|(_, values)| values[n].is_some());
    let columns: Vec<(usize, &Metric)> = detail.columns.iter().enumerate().filter(|(n, _)| used(*n)).collect();
    table.set_header(std::iter::once("who").chain(columns.iter().map(|(_, column)| column.name)));
    for (name, values) in detail.rows.iter().take(DETAILS_SHOWN) {
        let figure = |(n, column): &(usize, &Metric)| values[*n].map(|v| shown(v, column.decimals)).unwrap_or_default();
        table.add_row(std::iter::once(name.clone()).chain(columns.iter().map(figure)));
    }
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    let (title, all) = (&detail.title, detail.rows.len());
    format!("{title}, {} of {all}:\n{table}\n", all.min(DETAILS_SHOWN))
}
