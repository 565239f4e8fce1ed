//! Metrics for OTLP, made from the text of `/metrics`. So names, labels and numbers are those of a scrape, and a metric is
//! counted in one place. Counters become sums from the start of the process, histograms keep their buckets.

use std::collections::BTreeMap;

use super::proto::{Proto, ProtoValue};

/// From the start of the process, and not since the last export.
const CUMULATIVE: u8 = 2;

/// The times of an export, in nanoseconds since 1970.
#[derive(Clone, Copy, Debug)]
pub(super) struct PointTimes {
    pub(super) started_at: u64,
    pub(super) now: u64,
}

/// The metrics of a scrape, each as a message. A number that is not known (`NaN`) is left out.
pub(super) fn metrics(text: &str, times: PointTimes) -> Vec<Proto> {
    let mut families: Vec<Family> = Vec::new();
    let mut help = ("", "");
    for line in text.lines() {
        if let Some(described) = line.strip_prefix("# HELP ") {
            help = described.split_once(' ').unwrap_or((described, ""));
        } else if let Some(typed) = line.strip_prefix("# TYPE ") {
            let Some((name, kind)) = typed.split_once(' ') else { continue };
            let description = if help.0 == name { help.1 } else { "" };
            families.push(Family { name, kind, description, samples: Vec::new() });
        } else if let (Some(sample), Some(family)) = (Sample::read(line), families.last_mut()) {
            family.samples.push(sample);
        }
    }
    families.into_iter().filter_map(|family| family.message(times)).collect()
}

struct Family<'a> {
    name: &'a str,
    kind: &'a str,
    description: &'a str,
    samples: Vec<Sample<'a>>,
}

/// One line: a name, labels and a number.
struct Sample<'a> {
    name: &'a str,
    labels: Vec<(&'a str, String)>,
    value: f64,
}

impl<'a> Sample<'a> {
    fn read(line: &'a str) -> Option<Self> {
        let (sample, value) = line.rsplit_once(' ')?;
        let value = value.parse().ok()?;
        let (name, mut rest) = match sample.split_once('{') {
            Some((name, rest)) => (name, rest.strip_suffix('}')?),
            None => (sample, ""),
        };
        let mut labels = Vec::new();
        while let Some((label, quoted)) = rest.split_once("=\"") {
            let (text, after) = unquoted(quoted)?;
            labels.push((label.trim_start_matches(','), text));
            rest = after;
        }
        Some(Self { name, labels, value })
    }

    fn number_point(&self, times: PointTimes) -> Option<Proto> {
        let is_known = !self.value.is_nan();
        is_known.then(|| {
            point(times, 7, &self.labels).with(4, "asDouble", ProtoValue::Double(self.value))
        })
    }
}

/// The text up to its closing quote, and the rest behind that.
fn unquoted(quoted: &str) -> Option<(String, &str)> {
    let mut text = String::new();
    let mut chars = quoted.char_indices();
    while let Some((at, char)) = chars.next() {
        match char {
            '"' => return Some((text, &quoted[at + 1..])),
            '\\' => match chars.next()?.1 {
                'n' => text.push('\n'),
                escaped => text.push(escaped),
            },
            other => text.push(other),
        }
    }
    None
}

/// A point without its number. The number of the field with the attributes differs between kinds of points.
fn point(times: PointTimes, attributes: u32, labels: &[(&str, String)]) -> Proto {
    let labels = labels
        .iter()
        .map(|(name, value)| Proto::attribute(name, ProtoValue::Text(value.clone())))
        .collect();
    Proto::default()
        .with(2, "startTimeUnixNano", ProtoValue::Fixed(times.started_at))
        .with(3, "timeUnixNano", ProtoValue::Fixed(times.now))
        .many(attributes, "attributes", labels)
}

impl Family<'_> {
    fn message(&self, times: PointTimes) -> Option<Proto> {
        let points: Vec<Proto> = match self.kind {
            "histogram" => self.histograms(times),
            _ => self.samples.iter().filter_map(|sample| sample.number_point(times)).collect(),
        };
        if points.is_empty() {
            return None;
        }
        let data = Proto::default().many(1, "dataPoints", points);
        let cumulative = ProtoValue::Word(CUMULATIVE);
        let (number, name, data) = match self.kind {
            "counter" => {
                let data = data.with(2, "aggregationTemporality", cumulative);
                (7, "sum", data.with(3, "isMonotonic", ProtoValue::Flag(true)))
            }
            "histogram" => (9, "histogram", data.with(2, "aggregationTemporality", cumulative)),
            _ => (5, "gauge", data),
        };
        let mut metric =
            Proto::default().text(1, "name", self.name).text(2, "description", self.description);
        if self.name.ends_with("_seconds") {
            metric = metric.text(3, "unit", "s");
        }
        Some(metric.one(number, name, data))
    }

    /// A point for each set of labels but `le`. A scrape counts each bucket together with those before it, OTLP alone.
    fn histograms(&self, times: PointTimes) -> Vec<Proto> {
        #[derive(Default)]
        struct Buckets {
            /// Bounds and counts so far; the last bucket has no bound.
            counts: Vec<(f64, u64)>,
            sum: f64,
        }
        let mut found: BTreeMap<Vec<(&str, String)>, Buckets> = BTreeMap::new();
        for sample in &self.samples {
            let labels = sample.labels.iter().filter(|(name, _)| *name != "le").cloned().collect();
            let buckets = found.entry(labels).or_default();
            let bound = sample.labels.iter().find(|(name, _)| *name == "le");
            match bound.and_then(|(_, bound)| bound.parse().ok()) {
                Some(bound) => buckets.counts.push((bound, sample.value as u64)),
                None if sample.name.ends_with("_sum") => buckets.sum = sample.value,
                None => {}
            }
        }
        let point_of = |(labels, buckets): (Vec<(&str, String)>, Buckets)| {
            let Buckets { mut counts, sum } = buckets;
            counts.sort_by(|a, b| a.0.total_cmp(&b.0));
            let before = std::iter::once(0).chain(counts.iter().map(|(_, so_far)| *so_far));
            let own = counts.iter().zip(before);
            let own = own.map(|((_, so_far), before)| so_far.saturating_sub(before)).collect();
            let bounds = counts.iter().map(|(bound, _)| *bound).filter(|bound| bound.is_finite());
            let count = counts.last().map_or(0, |(_, all)| *all);
            point(times, 9, &labels)
                .with(4, "count", ProtoValue::Fixed(count))
                .with(5, "sum", ProtoValue::Double(sum))
                .with(6, "bucketCounts", ProtoValue::FixedList(own))
                .with(7, "explicitBounds", ProtoValue::DoubleList(bounds.collect()))
        };
        found.into_iter().map(point_of).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::super::proto::OtlpFormat;
    use super::*;

    #[test]
    fn a_scrape_becomes_metrics_with_its_names_and_numbers() {
        let text = "\
# HELP c_total Calls
# TYPE c_total counter
c_total{tool=\"claim\",code=\"ok\"} 2
c_total{tool=\"a\\\"\\\\\\nb\",code=\"x\"} 1

# TYPE g gauge
g{state=\"ready\"} NaN
g{state=\"done\"} 4

# TYPE unknown_now gauge
unknown_now NaN

# HELP t_seconds Time
# TYPE t_seconds histogram
t_seconds_bucket{tool=\"a\",le=\"0.5\"} 1
t_seconds_bucket{tool=\"a\",le=\"1\"} 3
t_seconds_bucket{tool=\"a\",le=\"+Inf\"} 4
t_seconds_sum{tool=\"a\"} 9.5
t_seconds_count{tool=\"a\"} 4
";
        let found = metrics(text, PointTimes { started_at: 1, now: 2 });
        let shown: Vec<String> = found
            .iter()
            .map(|metric| String::from_utf8(OtlpFormat::Json.encode(metric)).expect("text"))
            .collect();
        let times = r#""startTimeUnixNano":"1","timeUnixNano":"2""#;
        let attribute = |key: &str, value: &str| {
            format!(r#"{{"key":"{key}","value":{{"stringValue":"{value}"}}}}"#)
        };
        let (claim, ok) = (attribute("tool", "claim"), attribute("code", "ok"));
        let (odd, x) = (attribute("tool", r#"a\"\\\nb"#), attribute("code", "x"));
        assert_eq!(
            shown,
            [
                format!(
                    r#"{{"name":"c_total","description":"Calls","sum":{{"dataPoints":[{{{times},"attributes":[{claim},{ok}],"asDouble":2.0}},{{{times},"attributes":[{odd},{x}],"asDouble":1.0}}],"aggregationTemporality":2,"isMonotonic":true}}}}"#
                ),
                format!(
                    r#"{{"name":"g","description":"","gauge":{{"dataPoints":[{{{times},"attributes":[{}],"asDouble":4.0}}]}}}}"#,
                    attribute("state", "done")
                ),
                format!(
                    r#"{{"name":"t_seconds","description":"Time","unit":"s","histogram":{{"dataPoints":[{{{times},"attributes":[{}],"count":"4","sum":9.5,"bucketCounts":["1","2","1"],"explicitBounds":[0.5,1.0]}}],"aggregationTemporality":2}}}}"#,
                    attribute("tool", "a")
                ),
            ]
        );
    }
}
