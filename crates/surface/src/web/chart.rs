//! Charts as SVG without a view box: x in per cent and y in pixels, so that text never stretches. Each chart says its
//! meaning in one sentence and has its numbers as a table.

use maud::{Markup, html};

/// The plot between the labels of the two axes: per cent from the left, pixels from the top.
const LEFT: f64 = 9.0;
const RIGHT: f64 = 99.5;
const TOP: f64 = 16.0;
const BASE: f64 = 132.0;
/// The height of the mark for parts of unknown height.
const UNKNOWN: f64 = 12.0;
/// The distance of two lines of words beside points.
const MARK_LINE: f64 = 14.0;
/// At most so many labels below the plot, and so many characters. More would overlap on a narrow screen.
const LABELS_MAX: usize = 8;
const LABEL_CHARS_MAX: usize = 42;

/// One chart. Each series has a value for each label.
pub(super) struct Chart {
    pub id: &'static str,
    pub title: &'static str,
    /// The unit, and how to read the chart.
    pub unit: String,
    /// The meaning, as a sentence.
    pub says: String,
    /// The head of the first column of the table.
    pub of: &'static str,
    pub labels: Vec<String>,
    pub series: Vec<Series>,
    /// For each label of bars, how many parts are of unknown height: a hatched mark says that there are some. Empty
    /// for a chart in which every height is known.
    pub unknown: Vec<u64>,
    pub form: ChartForm,
}

/// One row of values with its name and colour.
pub(super) struct Series {
    pub name: &'static str,
    /// The class that gives the colour.
    pub class: &'static str,
    /// `None`: nothing was measured, which is not zero.
    pub values: Vec<Option<f64>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ChartForm {
    /// Bars, one series on the other.
    Bars,
    /// Lines with points; a missing value breaks a line.
    Lines,
}

impl Chart {
    /// The chart as a figure, with its sentence as the label of the picture and its numbers below.
    pub fn shown(&self) -> Markup {
        let top = nice(self.highest());
        html! {
            figure.box.chart #{ "chart-" (self.id) } {
                figcaption.box-head { h2 { (self.title) } span.faint.row-end { (self.unit) } }
                svg.plot role="img" aria-label=(self.says) height="160" width="100%" {
                    @for share in [0.0, 0.5, 1.0] {
                        @let y = height(share);
                        line.grid x1=(pct(LEFT)) x2=(pct(RIGHT)) y1=(px(y)) y2=(px(y)) {}
                        text.axis x=(pct(LEFT - 1.0)) y=(px(y + 4.0)) text-anchor="end" { (short(top * share)) }
                    }
                    @match self.form {
                        ChartForm::Bars => (self.bars(top)),
                        ChartForm::Lines => (self.lines(top)),
                    }
                    @for (n, label) in self.labels.iter().enumerate().filter(|(n, _)| self.is_labelled(*n)) {
                        text.axis x=(pct(self.middle(n))) y="152" text-anchor="middle" { (label) }
                    }
                }
                details.chart-table #{ "numbers-" (self.id) } { summary { "As a table" } (self.table()) }
            }
        }
    }

    /// The highest point: of stacked bars the sum, of lines the value.
    fn highest(&self) -> f64 {
        let at = |n: usize| self.series.iter().filter_map(move |one| one.values.get(n).copied()?);
        let height = |n: usize| match self.form {
            ChartForm::Bars => at(n).sum(),
            ChartForm::Lines => at(n).fold(0.0, f64::max),
        };
        (0..self.labels.len()).map(height).fold(0.0, f64::max)
    }

    /// The width of one label's part of the plot, in per cent.
    fn width(&self) -> f64 {
        (RIGHT - LEFT) / self.labels.len().max(1) as f64
    }

    /// The middle of that part.
    fn middle(&self, n: usize) -> f64 {
        LEFT + self.width() * (n as f64 + 0.5)
    }

    /// The last label is always there; the others keep a distance. The only place with values has its label.
    fn is_labelled(&self, n: usize) -> bool {
        let longest = self.labels.iter().map(|label| label.chars().count()).max().unwrap_or(1);
        let places = (LABEL_CHARS_MAX / longest.max(1)).clamp(1, LABELS_MAX);
        let step = self.labels.len().div_ceil(places).max(1);
        let is_in_turn = (self.labels.len() - 1 - n).is_multiple_of(step);
        match self.only_place() {
            Some(only) => n == only || (is_in_turn && n.abs_diff(only) >= step),
            None => is_in_turn,
        }
    }

    /// The only label of a chart of lines that has values; no line can be drawn from there.
    fn only_place(&self) -> Option<usize> {
        let has_value = |n: &usize| {
            self.series.iter().any(|one| one.values.get(*n).is_some_and(Option::is_some))
        };
        let mut places = (0..self.labels.len()).filter(has_value);
        let only = places.next().filter(|_| self.form == ChartForm::Lines)?;
        places.next().is_none().then_some(only)
    }

    fn bars(&self, top: f64) -> Markup {
        // The height that the series before have reached, for each label.
        let mut sums = vec![0.0; self.labels.len()];
        html! {
            @for one in &self.series { g class=(one.class) {
                @for (n, value) in one.values.iter().enumerate() {
                    @if let Some(value) = value.filter(|value| *value > 0.0) {
                        @let (low, high) = (height(sums[n] / top), height((sums[n] + value) / top));
                        rect x=(pct(self.middle(n) - self.width() * 0.36)) width=(pct(self.width() * 0.72))
                            y=(px(high)) height=(px((low - high).max(1.0))) rx="1.5" {}
                        @let () = sums[n] += value;
                    }
                }
            } }
            @if self.unknown.iter().any(|many| *many > 0) {
                defs { pattern #hatch width="6" height="6" patternUnits="userSpaceOnUse" patternTransform="rotate(45)" {
                    line y2="6" {}
                } }
                @for (n, _) in self.unknown.iter().enumerate().filter(|(_, many)| **many > 0) {
                    rect x=(pct(self.middle(n) - self.width() * 0.36)) width=(pct(self.width() * 0.72))
                        y=(px(height(sums[n] / top) - UNKNOWN)) height=(px(UNKNOWN)) fill="url(#hatch)" {}
                }
            }
        }
    }

    /// The points of the only place with values, each with its name and value beside it.
    fn marks(&self, n: usize, top: f64) -> Markup {
        let x = self.middle(n);
        let marked = self.series.iter().filter_map(|one| Some((one, (*one.values.get(n)?)?)));
        let mut marked: Vec<(&Series, f64)> = marked.collect();
        marked.sort_by(|(_, one), (_, other)| one.total_cmp(other));
        // Words stand on the side with more room, and above each other where points are near.
        let (anchor, dx) = if x > 50.0 { ("end", "-10") } else { ("start", "10") };
        let mut lowest = BASE;
        let marked = marked.into_iter().map(|(one, value)| {
            let y = height(value / top);
            let words = y.min(lowest);
            lowest = words - MARK_LINE;
            (one, value, y, words)
        });
        html! {
            g.is-dashed { line.grid x1=(pct(x)) x2=(pct(x)) y1=(px(TOP)) y2=(px(BASE)) {} }
            @for (one, value, y, words) in marked {
                g class=(one.class) { circle.mark cx=(pct(x)) cy=(px(y)) r="4.5" {} }
                text.axis x=(pct(x)) dx=(dx) y=(px(words + 4.0)) text-anchor=(anchor) { (one.name) " " (measured(value)) }
            }
        }
    }

    fn lines(&self, top: f64) -> Markup {
        if let Some(only) = self.only_place() {
            return self.marks(only, top);
        }
        let at = |n: usize, value: f64| (pct(self.middle(n)), px(height(value / top)));
        html! {
            @for one in &self.series { g class=(one.class) {
                @for n in 1..one.values.len() {
                    @if let (Some(from), Some(to)) = (one.values[n - 1], one.values[n]) {
                        @let ((x1, y1), (x2, y2)) = (at(n - 1, from), at(n, to));
                        line x1=(x1) y1=(y1) x2=(x2) y2=(y2) {}
                    }
                }
                @for (n, value) in one.values.iter().enumerate() {
                    @if let Some(value) = value {
                        @let (x, y) = at(n, *value);
                        circle cx=(x) cy=(y) r="2.5" {}
                    }
                }
            } }
        }
    }

    /// The numbers of the chart, for readers who do not see it.
    fn table(&self) -> Markup {
        html! {
            table.table {
                thead { tr {
                    th scope="col" { (self.of) }
                    @for one in &self.series { th scope="col" { (one.name) } }
                    @if !self.unknown.is_empty() { th scope="col" { "Unknown" } }
                } }
                tbody { @for (n, label) in self.labels.iter().enumerate() {
                    tr {
                        th scope="row" { (label) }
                        @for one in &self.series {
                            td.number { @match one.values.get(n).copied().flatten() {
                                Some(value) => (short(value)),
                                None => "none",
                            } }
                        }
                        @if let Some(many) = self.unknown.get(n) { td.number { (many) } }
                    }
                } }
            }
        }
    }
}

/// The place of a value in pixels from the top; 0 is the base line.
fn height(share: f64) -> f64 {
    BASE - (BASE - TOP) * share.clamp(0.0, 1.0)
}

fn pct(x: f64) -> String {
    format!("{x:.2}%")
}

/// One digit of a pixel is finer than any screen, and keeps the page small.
fn px(y: f64) -> String {
    format!("{y:.1}")
}

/// A number with as many digits as help.
fn short(value: f64) -> String {
    match value {
        value if value.fract().abs() < 0.05 || value >= 100.0 => format!("{value:.0}"),
        value => format!("{value:.1}"),
    }
}

/// A measured value: what is rounded to 0 is not shown as 0.
fn measured(value: f64) -> String {
    match value > 0.0 && value < 0.05 {
        true => "under 0.1".into(),
        false => short(value),
    }
}

/// The next even number at or above a value that people read easily: 2, 4, 6, 10, 20, 40, 60, 100, …
fn nice(value: f64) -> f64 {
    // Begins with 2: the axis of an empty chart still needs two steps.
    let mut scale = 1.0;
    loop {
        for step in [2.0, 4.0, 6.0, 10.0] {
            if step * scale >= value {
                return step * scale;
            }
        }
        scale *= 10.0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chart(form: ChartForm, values: &[Option<f64>]) -> Chart {
        let series = Series { name: "tasks", class: "is-proved", values: values.to_vec() };
        Chart {
            id: "x",
            title: "Throughput",
            unit: "a day".into(),
            says: "Two <tasks>.".into(),
            of: "Day",
            labels: (0..values.len()).map(|n| n.to_string()).collect(),
            series: vec![series],
            unknown: Vec::new(),
            form,
        }
    }

    #[test]
    fn an_axis_ends_at_a_number_that_is_easy_to_read() {
        for (value, top) in
            [(0.0, 2.0), (2.0, 2.0), (2.1, 4.0), (7.0, 10.0), (11.0, 20.0), (450.0, 600.0)]
        {
            assert_eq!(nice(value), top, "{value}");
        }
    }

    #[test]
    fn bars_and_lines_have_a_mark_for_each_value() {
        let values = [Some(1.0), None, Some(2.0), Some(0.0)];
        let bars = chart(ChartForm::Bars, &values).shown().into_string();
        assert_eq!(bars.matches("<rect").count(), 2);
        assert!(bars.contains("aria-label=\"Two &lt;tasks&gt;.\""), "{bars}");
        assert!(bars.contains("<td class=\"number\">none</td>"), "{bars}");
        let lines = chart(ChartForm::Lines, &values).shown().into_string();
        assert_eq!(lines.matches("<circle").count(), 3);
        assert_eq!(lines.matches("<line").count(), 3 + 1, "the grid and the one unbroken step");
    }

    #[test]
    fn a_single_value_is_a_marked_point_with_its_words() {
        let mut values = [None; 90];
        values[40] = Some(3.5);
        let lines = chart(ChartForm::Lines, &values).shown().into_string();
        assert_eq!(lines.matches("<circle class=\"mark\"").count(), 1, "{lines}");
        assert!(lines.contains(">tasks 3.5</text>"), "{lines}");
        assert!(lines.contains(">40</text>"), "its label: {lines}");
        values[41] = Some(4.0);
        let lines = chart(ChartForm::Lines, &values).shown().into_string();
        assert!(!lines.contains("class=\"mark\""), "two values make a line: {lines}");
    }

    #[test]
    fn long_axes_have_few_labels() {
        let many = chart(ChartForm::Bars, &[Some(1.0); 90]).shown().into_string();
        assert!(many.matches("y=\"152\"").count() <= LABELS_MAX, "{many}");
        assert!(chart(ChartForm::Bars, &[]).shown().into_string().contains("<svg"));
    }
}
