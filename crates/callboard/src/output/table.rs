//! Columns: aligned, headed and fitted to the window on a terminal; whole otherwise.
//!
//! A window that is too narrow shows short forms first, then cuts the widest columns. The first column
//! names the row and is never cut: people type it. The last column is the one that people read, and keeps
//! `LAST_MIN` characters as long as that is possible.

use super::{Out, Style};

pub struct Table {
    heads: Vec<&'static str>,
    /// Whether headings are shown on a terminal.
    headed: bool,
    cut: bool,
    rows: Vec<Vec<TableCell>>,
    /// How a column's cells are shortened in a narrow window.
    short: Vec<(usize, Shorten)>,
    /// Columns that are never cut, because people type their cells.
    kept: Vec<usize>,
}

/// A shorter form with the same meaning.
pub type Shorten = fn(&str) -> String;

struct TableCell {
    text: String,
    style: Style,
}

/// Blanks between two columns.
const GAP: usize = 2;
/// For a terminal that does not tell its size.
const WIDTH_WHEN_UNKNOWN: usize = 120;
const LAST_MIN: usize = 30;
/// Only the last column is cut to less than this.
const CUT_MIN: usize = 6;

impl Table {
    pub fn new(heads: &[&'static str]) -> Self {
        Self {
            heads: heads.to_vec(),
            headed: true,
            cut: true,
            rows: Vec::new(),
            short: Vec::new(),
            kept: vec![0],
        }
    }

    /// Omits the headings, for a single row that is clear by itself.
    pub fn without_heads(self) -> Self {
        Self { headed: false, ..self }
    }

    /// Cuts nothing, for texts that must be read to their end, also on a narrow terminal.
    pub fn whole(self) -> Self {
        Self { cut: false, ..self }
    }

    /// Cells of this column are never cut, as those of the first column.
    pub fn keep(mut self, column: usize) -> Self {
        self.kept.push(column);
        self
    }

    /// Shows cells of this column in a short form if the window is too narrow.
    pub fn shorten(mut self, column: usize, short: Shorten) -> Self {
        self.short.push((column, short));
        self
    }

    pub fn row<const N: usize>(&mut self, cells: [(String, Style); N]) {
        let cell = |(text, style): (String, Style)| TableCell { text: one_line(&text), style };
        self.rows.push(cells.into_iter().map(cell).collect());
    }

    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// The table as text. The last column takes what the others leave of the window.
    pub fn render(&self, out: &Out) -> String {
        // Without a terminal a program reads the lines, and would take headings for data.
        let headed = self.headed && out.terminal;
        let window = (out.terminal && self.cut).then(window_width);
        let mut rows: Vec<Vec<(String, Style)>> = Vec::with_capacity(self.rows.len());
        for row in &self.rows {
            rows.push(row.iter().map(|cell| (cell.text.clone(), cell.style)).collect());
        }
        let mut widths = self.widths(&rows, headed);
        if window.is_some_and(|window| needed(&widths) > window) {
            self.shorten_cells(&mut rows);
            widths = self.widths(&rows, headed);
        }
        if let Some(window) = window {
            fit(&mut widths, window, &self.kept);
        }
        let mut text = String::new();
        if headed {
            let heads = self.heads.iter().map(|head| ((*head).to_owned(), Style::Dim));
            line(&mut text, out, heads, &widths, window.is_some());
        }
        for row in rows {
            line(&mut text, out, row.into_iter(), &widths, window.is_some());
        }
        text
    }

    fn widths(&self, rows: &[Vec<(String, Style)>], headed: bool) -> Vec<usize> {
        let widest = |column: usize| {
            let cells = rows.iter().filter_map(|row| row.get(column));
            cells.map(|(text, _)| text.chars().count()).max().unwrap_or(0)
        };
        let head = |column: usize| if headed { self.heads[column].len() } else { 0 };
        (0..self.heads.len()).map(|column| widest(column).max(head(column))).collect()
    }

    fn shorten_cells(&self, rows: &mut [Vec<(String, Style)>]) {
        for (column, short) in &self.short {
            for cell in rows.iter_mut().filter_map(|row| row.get_mut(*column)) {
                cell.0 = short(&cell.0);
            }
        }
    }
}

/// The width of all columns, with no more than the minimum for the last one.
fn needed(widths: &[usize]) -> usize {
    let Some((last, before)) = widths.split_last() else { return 0 };
    before.iter().map(|width| width + GAP).sum::<usize>() + (*last).min(LAST_MIN)
}

/// Cuts the widest columns until the last one has its room, and gives it the rest of the window.
fn fit(widths: &mut [usize], window: usize, kept: &[usize]) {
    while needed(widths) > window {
        let Some((_, before)) = widths.split_last_mut() else { return };
        let others = before.iter_mut().enumerate().filter(|(at, _)| !kept.contains(at));
        // One character at a time, so that wide columns end up equally wide.
        let Some((_, widest)) = others.max_by_key(|(_, width)| **width) else { break };
        if *widest <= CUT_MIN {
            break;
        }
        *widest -= 1;
    }
    let Some((last, before)) = widths.split_last_mut() else { return };
    let taken: usize = before.iter().map(|width| *width + GAP).sum();
    *last = (*last).min(window.saturating_sub(taken).max(10));
}

fn line(
    text: &mut String,
    out: &Out,
    cells: impl Iterator<Item = (String, Style)>,
    widths: &[usize],
    cuts: bool,
) {
    for (column, (cell, style)) in cells.enumerate() {
        let is_last = column + 1 == widths.len();
        let shown = if cuts { cut(&cell, widths[column]) } else { cell };
        let padding = if is_last { 0 } else { widths[column] + GAP - shown.chars().count() };
        if style == Style::Plain {
            text.push_str(&shown);
        } else {
            text.push_str(&out.styled(style, &shown));
        }
        text.extend(std::iter::repeat_n(' ', padding));
    }
    text.truncate(text.trim_end_matches(' ').len());
    text.push('\n');
}

fn cut(text: &str, room: usize) -> String {
    if text.chars().count() <= room {
        return text.to_owned();
    }
    let head: String = text.chars().take(room.saturating_sub(1)).collect();
    format!("{head}…")
}

/// The text as one line without control characters: agents may write anything.
fn one_line(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}

/// How many characters fit into a line of the terminal.
pub fn window_width() -> usize {
    rustix::termios::tcgetwinsize(std::io::stdout())
        .ok()
        .map(|size| usize::from(size.ws_col))
        .filter(|columns| *columns > 0)
        .unwrap_or(WIDTH_WHEN_UNKNOWN)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rendered(terminal: bool) -> String {
        let out = Out {
            json: false,
            terminal,
            terminal_stderr: false,
            color: false,
            color_stderr: false,
        };
        let mut table = Table::new(&["ID", "TITLE"]);
        table.row([("T-1".into(), Style::Plain), ("short\u{1b}[2J".into(), Style::Red)]);
        table.row([("T-10".into(), Style::Plain), ("x".repeat(500), Style::Plain)]);
        table.render(&out)
    }

    #[test]
    fn without_a_terminal_everything_is_there_and_nothing_else() {
        assert_eq!(rendered(false), format!("T-1   short [2J\nT-10  {}\n", "x".repeat(500)));
    }

    #[test]
    fn a_narrow_window_leaves_the_last_column_its_room() {
        let mut widths = vec![8, 4, 13, 36, 80];
        fit(&mut widths, 80, &[0, 1]);
        assert_eq!(needed(&widths), 80, "{widths:?}");
        assert_eq!(
            (widths[0], widths[1], widths[4]),
            (8, 4, LAST_MIN),
            "the first column is whole"
        );
        let mut wide = vec![8, 4, 50];
        fit(&mut wide, 200, &[0]);
        assert_eq!(wide, [8, 4, 50], "nothing is cut that fits");
    }

    #[test]
    fn on_a_terminal_there_are_heads_and_lines_fit() {
        let text = rendered(true);
        assert!(text.starts_with("ID    TITLE\n"), "{text}");
        assert!(text.ends_with("…\n"), "{text}");
    }
}
