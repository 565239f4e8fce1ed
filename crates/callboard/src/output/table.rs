//! Columns: aligned, headed and cut to the window on a terminal; whole otherwise.

use super::{Out, Style};

pub struct Table {
    heads: Vec<&'static str>,
    headed: bool,
    cut: bool,
    rows: Vec<Vec<Cell>>,
}

struct Cell {
    text: String,
    style: Style,
}

const GAP: usize = 2;
const WIDTH_WHEN_UNKNOWN: usize = 120;

impl Table {
    pub fn new(heads: &[&'static str]) -> Self {
        Self { heads: heads.to_vec(), headed: true, cut: true, rows: Vec::new() }
    }

    /// For a single row, which says what it is by itself.
    pub fn without_heads(self) -> Self {
        Self { headed: false, ..self }
    }

    /// For texts that must be read to their end, also on a narrow terminal.
    pub fn whole(self) -> Self {
        Self { cut: false, ..self }
    }

    pub fn row<const N: usize>(&mut self, cells: [(String, Style); N]) {
        let cell = |(text, style): (String, Style)| Cell { text: one_line(&text), style };
        self.rows.push(cells.into_iter().map(cell).collect());
    }

    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// The last column takes what the others leave of the window.
    pub fn render(&self, out: &Out) -> String {
        let headed = self.headed && out.terminal;
        let width = |column: usize| {
            let head = if headed { self.heads[column].len() } else { 0 };
            self.widest(column).max(head)
        };
        let widths: Vec<usize> = (0..self.heads.len()).map(width).collect();
        let before_last: usize = widths.iter().rev().skip(1).map(|width| width + GAP).sum();
        let room =
            (out.terminal && self.cut).then(|| window_width().saturating_sub(before_last).max(10));
        let mut text = String::new();
        if headed {
            let heads = self.heads.iter().map(|head| ((*head).to_owned(), Style::Dim));
            line(&mut text, out, heads, &widths, None);
        }
        for row in &self.rows {
            let cells = row.iter().map(|cell| (cell.text.clone(), cell.style));
            line(&mut text, out, cells, &widths, room);
        }
        text
    }

    fn widest(&self, column: usize) -> usize {
        let cells = self.rows.iter().filter_map(|row| row.get(column));
        cells.map(|cell| cell.text.chars().count()).max().unwrap_or(0)
    }
}

fn line(
    text: &mut String,
    out: &Out,
    cells: impl Iterator<Item = (String, Style)>,
    widths: &[usize],
    room: Option<usize>,
) {
    for (column, (cell, style)) in cells.enumerate() {
        let is_last = column + 1 == widths.len();
        let shown = match room {
            Some(room) if is_last => cut(&cell, room),
            _ => cell,
        };
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

/// What agents write may hold anything; a cell is one line without control characters.
fn one_line(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}

fn window_width() -> usize {
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
        let out = Out { json: false, terminal, color: false, color_stderr: false };
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
    fn on_a_terminal_there_are_heads_and_lines_fit() {
        let text = rendered(true);
        assert!(text.starts_with("ID    TITLE\n"), "{text}");
        assert!(text.ends_with("…\n"), "{text}");
    }
}
