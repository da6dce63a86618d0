//! Columns of plain text, two spaces apart.
//!
//! Follows the layout of Ceph v16.2's `TextTable` (`src/common/TextTable.cc`): a column is as wide as its widest
//! cell or heading, every cell is padded, also the last of a row.

/// Where a cell's text stands in its column.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Align {
    /// At the left edge.
    Left,
    /// At the right edge.
    Right,
}

struct Column {
    heading: String,
    heading_align: Align,
    align: Align,
}

/// A table under construction.
#[derive(Default)]
pub struct Table {
    columns: Vec<Column>,
    rows: Vec<Vec<String>>,
}

impl Table {
    /// A table without columns.
    pub fn new() -> Table {
        Table::default()
    }

    /// Adds a column whose heading and cells are aligned alike.
    pub fn column(&mut self, heading: &str, align: Align) {
        self.column_with(heading, align, align);
    }

    /// Adds a column whose heading is aligned by itself.
    pub fn column_with(&mut self, heading: &str, heading_align: Align, align: Align) {
        self.columns.push(Column { heading: heading.to_owned(), heading_align, align });
    }

    /// Adds a row; cells it lacks are empty, cells beyond the columns are dropped.
    pub fn row<T: Into<String>>(&mut self, cells: impl IntoIterator<Item = T>) {
        let mut cells: Vec<String> = cells.into_iter().map(Into::into).collect();
        cells.resize(self.columns.len(), String::new());
        self.rows.push(cells);
    }

    /// The text: the headings' line, then a line for each row.
    pub fn render(&self) -> String {
        let widths: Vec<usize> = (self.columns.iter().enumerate())
            .map(|(i, c)| {
                let cells = self.rows.iter().map(|r| r[i].chars().count()).max().unwrap_or(0);
                cells.max(c.heading.chars().count())
            })
            .collect();
        let mut out = String::new();
        let headings = self.columns.iter().map(|c| (c.heading.as_str(), c.heading_align));
        write_line(&mut out, headings, &widths);
        for row in &self.rows {
            let cells = row.iter().zip(&self.columns).map(|(cell, c)| (cell.as_str(), c.align));
            write_line(&mut out, cells, &widths);
        }
        out
    }
}

fn write_line<'a>(out: &mut String, cells: impl Iterator<Item = (&'a str, Align)>, widths: &[usize]) {
    for (i, ((text, align), width)) in cells.zip(widths).enumerate() {
        if i > 0 {
            out.push_str("  ");
        }
        let padding = core::iter::repeat_n(' ', width - text.chars().count());
        match align {
            Align::Left => {
                out.push_str(text);
                out.extend(padding);
            }
            Align::Right => {
                out.extend(padding);
                out.push_str(text);
            }
        }
    }
    out.push('\n');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_padded_on_both_sides() {
        let mut t = Table::new();
        t.column("ID", Align::Left);
        t.column("WEIGHT", Align::Right);
        t.column("NAME", Align::Left);
        t.row(["-1", "0.01", "root default"]);
        t.row(["0", "1000.01"]);
        assert_eq!(t.render(), "ID   WEIGHT  NAME        \n-1     0.01  root default\n0   1000.01              \n");
    }
}
