//! The variables of OpenTelemetry, as far as this program knows them. A value that cannot be used is named once in the log
//! and its default is taken: telemetry never keeps a server from starting. Empty values count as absent.

use std::time::Duration;

use callboard_domain::hex::hex;
use hyper::Uri;
use hyper::header::{HeaderName, HeaderValue};
use percent_encoding::percent_decode_str;

use super::context::Sampler;
use super::proto::OtlpFormat;

/// Where and how one signal is sent.
#[derive(Clone, Debug)]
pub(super) struct OtlpTarget {
    pub(super) uri: Uri,
    /// Often a credential; never logged.
    pub(super) headers: Vec<(HeaderName, HeaderValue)>,
    pub(super) timeout: Duration,
    pub(super) format: OtlpFormat,
}

#[derive(Clone, Debug)]
pub(super) struct OtlpSettings {
    pub(super) traces: Option<OtlpTarget>,
    pub(super) metrics: Option<OtlpTarget>,
    /// Attributes of this process.
    pub(super) resource: Vec<(String, String)>,
    pub(super) sampler: Sampler,
    /// Spans that wait for their export; further ones are dropped.
    pub(super) queue_max: usize,
    pub(super) batch_max: usize,
    pub(super) batch_delay: Duration,
    /// How long one batch is tried.
    pub(super) batch_within: Duration,
    pub(super) metrics_every: Duration,
    /// Values that could not be used.
    pub(super) complaints: Vec<String>,
}

/// One of the two signals.
#[derive(Clone, Copy, Debug)]
struct Signal {
    /// The word in the names of variables.
    word: &'static str,
    path: &'static str,
}

const TRACES: Signal = Signal { word: "TRACES", path: "v1/traces" };
const METRICS: Signal = Signal { word: "METRICS", path: "v1/metrics" };

impl OtlpSettings {
    /// The settings; `None` when nothing is to be exported.
    pub(super) fn read(variable: impl Fn(&str) -> Option<String>) -> Option<Self> {
        let mut variables = OtelVariables {
            read: &|name| variable(name).map(|value| value.trim().to_owned()),
            complaints: Vec::new(),
        };
        let is_off = variables.get("OTEL_SDK_DISABLED");
        if is_off.is_some_and(|value| value.eq_ignore_ascii_case("true")) {
            return None;
        }
        let (traces, metrics) = (variables.target(TRACES), variables.target(METRICS));
        if traces.is_none() && metrics.is_none() && variables.complaints.is_empty() {
            return None;
        }
        let (queue_max, batch_max) = (
            variables.count("OTEL_BSP_MAX_QUEUE_SIZE", 2048),
            variables.count("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", 512),
        );
        Some(Self {
            traces,
            metrics,
            resource: variables.resource(),
            sampler: variables.sampler(),
            queue_max,
            batch_max: batch_max.min(queue_max),
            batch_delay: variables.millis("OTEL_BSP_SCHEDULE_DELAY", 5_000),
            batch_within: variables.millis("OTEL_BSP_EXPORT_TIMEOUT", 30_000),
            metrics_every: variables.millis("OTEL_METRIC_EXPORT_INTERVAL", 60_000),
            complaints: variables.complaints,
        })
    }
}

struct OtelVariables<'a> {
    read: &'a dyn Fn(&str) -> Option<String>,
    complaints: Vec<String>,
}

impl OtelVariables<'_> {
    fn get(&self, name: &str) -> Option<String> {
        (self.read)(name).filter(|value| !value.is_empty())
    }

    /// The variable of one signal, else the variable of all signals.
    fn of(&self, signal: Signal, what: &str) -> Option<String> {
        let own = self.get(&format!("OTEL_EXPORTER_OTLP_{}_{what}", signal.word));
        own.or_else(|| self.get(&format!("OTEL_EXPORTER_OTLP_{what}")))
    }

    /// Where a signal goes; `None` when it has no endpoint, is turned off, or cannot be sent as the variables want it.
    fn target(&mut self, signal: Signal) -> Option<OtlpTarget> {
        let exporter = self.get(&format!("OTEL_{}_EXPORTER", signal.word));
        if exporter.is_some_and(|exporter| exporter == "none") {
            return None;
        }
        let own = format!("OTEL_EXPORTER_OTLP_{}_ENDPOINT", signal.word);
        // An endpoint of one signal is taken as it is. The common one is the folder of all signals.
        let (name, address) = match self.get(&own) {
            Some(own_address) => (own, own_address),
            None => {
                let base = self.get("OTEL_EXPORTER_OTLP_ENDPOINT")?;
                let address = format!("{}/{}", base.trim_end_matches('/'), signal.path);
                ("OTEL_EXPORTER_OTLP_ENDPOINT".to_owned(), address)
            }
        };
        let uri = address.parse::<Uri>().ok();
        let uri = uri.filter(|uri| matches!(uri.scheme_str(), Some("http" | "https")));
        let Some(uri) = uri.filter(|uri| uri.host().is_some()) else {
            // The value may hold a password.
            self.complain(format!("{name} is not an http or https address"));
            return None;
        };
        let format = match self.of(signal, "PROTOCOL").as_deref() {
            None | Some("http/protobuf") => OtlpFormat::Protobuf,
            Some("http/json") => OtlpFormat::Json,
            Some(_) => {
                self.complain(
                    "OTEL_EXPORTER_OTLP_PROTOCOL must be http/protobuf or http/json; nothing is exported"
                        .into(),
                );
                return None;
            }
        };
        let headers = self.of(signal, "HEADERS").unwrap_or_default();
        let headers = self.headers(&headers);
        let timeout = self.of(signal, "TIMEOUT");
        let timeout = self.number("OTEL_EXPORTER_OTLP_TIMEOUT", timeout, 10_000);
        Some(OtlpTarget { uri, headers, timeout: Duration::from_millis(timeout), format })
    }

    fn headers(&mut self, text: &str) -> Vec<(HeaderName, HeaderValue)> {
        let mut headers = Vec::new();
        for (name, value) in self.pairs("OTEL_EXPORTER_OTLP_HEADERS", text) {
            match (name.parse(), value.parse()) {
                (Ok(name), Ok(value)) => headers.push((name, value)),
                _ => self.complain("OTEL_EXPORTER_OTLP_HEADERS has an invalid header".into()),
            }
        }
        headers
    }

    /// The attributes of this process. `OTEL_SERVICE_NAME` wins over a name among the attributes.
    fn resource(&mut self) -> Vec<(String, String)> {
        let mut id = [0; 16];
        // Without random bytes all processes look like one.
        let _ = getrandom::fill(&mut id);
        let usual = [
            ("service.name", "callboard".to_owned()),
            ("service.version", env!("CARGO_PKG_VERSION").to_owned()),
            ("service.instance.id", hex(id)),
            ("telemetry.sdk.name", "callboard".to_owned()),
            ("telemetry.sdk.version", env!("CARGO_PKG_VERSION").to_owned()),
            ("telemetry.sdk.language", "rust".to_owned()),
        ];
        let given = self.get("OTEL_RESOURCE_ATTRIBUTES").unwrap_or_default();
        let mut resource = self.pairs("OTEL_RESOURCE_ATTRIBUTES", &given);
        if let Some(name) = self.get("OTEL_SERVICE_NAME") {
            resource.retain(|(key, _)| key != "service.name");
            resource.push(("service.name".into(), name));
        }
        for (key, value) in usual {
            if !resource.iter().any(|(known, _)| known == key) {
                resource.push((key.to_owned(), value));
            }
        }
        resource
    }

    fn sampler(&mut self) -> Sampler {
        let Some(name) = self.get("OTEL_TRACES_SAMPLER") else { return Sampler::DEFAULT };
        let ratio = self.get("OTEL_TRACES_SAMPLER_ARG").map(|ratio| ratio.parse::<f64>());
        let ratio = match ratio {
            None => 1.0,
            Some(Ok(ratio)) if (0.0..=1.0).contains(&ratio) => ratio,
            Some(_) => {
                self.complain("OTEL_TRACES_SAMPLER_ARG must be a number from 0 to 1".into());
                1.0
            }
        };
        Sampler::named(&name, ratio).unwrap_or_else(|| {
            self.complain("OTEL_TRACES_SAMPLER has an unknown value".into());
            Sampler::DEFAULT
        })
    }

    /// Pairs like `key=value,key=value`, with values in percent encoding.
    fn pairs(&mut self, variable: &str, text: &str) -> Vec<(String, String)> {
        let mut pairs = Vec::new();
        for pair in text.split(',').filter(|pair| !pair.trim().is_empty()) {
            let read = pair.split_once('=').and_then(|(key, value)| {
                let value = percent_decode_str(value.trim()).decode_utf8().ok()?;
                Some((key.trim().to_owned(), value.into_owned()))
            });
            match read.filter(|(key, _)| !key.is_empty()) {
                Some(pair) => pairs.push(pair),
                None => self.complain(format!("{variable} has a part that is no key=value")),
            }
        }
        pairs
    }

    fn count(&mut self, name: &str, default: u64) -> usize {
        let value = self.get(name);
        usize::try_from(self.number(name, value, default)).unwrap_or(usize::MAX).min(1 << 20)
    }

    fn millis(&mut self, name: &str, default: u64) -> Duration {
        let value = self.get(name);
        Duration::from_millis(self.number(name, value, default))
    }

    /// A number above zero.
    fn number(&mut self, name: &str, value: Option<String>, default: u64) -> u64 {
        let Some(value) = value else { return default };
        match value.parse() {
            Ok(number) if number > 0 => number,
            _ => {
                self.complain(format!("{name} must be a whole number above 0"));
                default
            }
        }
    }

    fn complain(&mut self, words: String) {
        if !self.complaints.contains(&words) {
            self.complaints.push(words);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(variables: &[(&str, &str)]) -> Option<OtlpSettings> {
        OtlpSettings::read(|name| {
            let found = variables.iter().find(|(known, _)| *known == name);
            found.map(|(_, value)| (*value).to_owned())
        })
    }

    const ENDPOINT: (&str, &str) = ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://c:4318/otlp/");

    #[test]
    fn an_endpoint_turns_the_export_on() {
        assert!(read(&[]).is_none());
        assert!(read(&[("OTEL_EXPORTER_OTLP_ENDPOINT", " ")]).is_none());
        assert!(read(&[("OTEL_SERVICE_NAME", "x")]).is_none());
        assert!(read(&[ENDPOINT, ("OTEL_SDK_DISABLED", "True")]).is_none());
        let none = [("OTEL_TRACES_EXPORTER", "none"), ("OTEL_METRICS_EXPORTER", "none")];
        assert!(read(&[ENDPOINT, none[0], none[1]]).is_none());
        let both = read(&[ENDPOINT]).expect("on");
        assert_eq!(both.traces.expect("on").uri, "http://c:4318/otlp/v1/traces");
        let metrics = both.metrics.expect("on");
        assert_eq!(metrics.uri, "http://c:4318/otlp/v1/metrics");
        assert_eq!((metrics.format, metrics.timeout.as_millis()), (OtlpFormat::Protobuf, 10_000));
        assert_eq!((both.queue_max, both.batch_max), (2048, 512));
        assert_eq!((both.batch_delay.as_millis(), both.metrics_every.as_millis()), (5000, 60_000));
        let one = read(&[("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "https://c/x")]).expect("on");
        assert_eq!(one.traces.expect("on").uri, "https://c/x");
        assert!(one.metrics.is_none() && one.complaints.is_empty());
    }

    #[test]
    fn values_of_one_signal_win() {
        let settings = read(&[
            ENDPOINT,
            ("OTEL_EXPORTER_OTLP_HEADERS", "authorization=Bearer%20x, b=c"),
            ("OTEL_EXPORTER_OTLP_METRICS_HEADERS", "d=e"),
            ("OTEL_EXPORTER_OTLP_TRACES_TIMEOUT", "70"),
            ("OTEL_EXPORTER_OTLP_PROTOCOL", "http/json"),
            ("OTEL_EXPORTER_OTLP_METRICS_PROTOCOL", "http/protobuf"),
            ("OTEL_RESOURCE_ATTRIBUTES", "service.name=a,deployment.environment.name=lab%2C1"),
            ("OTEL_SERVICE_NAME", "board"),
            ("OTEL_BSP_MAX_QUEUE_SIZE", "10"),
        ]);
        let settings = settings.expect("on");
        let (traces, metrics) = (settings.traces.expect("on"), settings.metrics.expect("on"));
        assert_eq!(traces.headers[0].1, "Bearer x");
        assert_eq!((traces.headers.len(), metrics.headers.len()), (2, 1));
        assert_eq!((traces.timeout.as_millis(), metrics.timeout.as_millis()), (70, 10_000));
        assert_eq!((traces.format, metrics.format), (OtlpFormat::Json, OtlpFormat::Protobuf));
        let value = |key: &str| {
            let found = settings.resource.iter().filter(|(known, _)| known == key);
            found.map(|(_, value)| value.as_str()).collect::<Vec<_>>()
        };
        assert_eq!(value("service.name"), ["board"]);
        assert_eq!(value("deployment.environment.name"), ["lab,1"]);
        assert_eq!((settings.queue_max, settings.batch_max), (10, 10));
        assert_eq!(settings.complaints, [""; 0]);
    }

    #[test]
    fn values_that_cannot_be_used_are_named_without_their_text() {
        let table = [
            ("OTEL_EXPORTER_OTLP_ENDPOINT", "user:hidden@collector:4317"),
            ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc-hidden"),
            ("OTEL_EXPORTER_OTLP_HEADERS", "hidden"),
            ("OTEL_EXPORTER_OTLP_HEADERS", "a b=hidden"),
            ("OTEL_EXPORTER_OTLP_TIMEOUT", "hidden"),
            ("OTEL_TRACES_SAMPLER", "hidden"),
            ("OTEL_BSP_SCHEDULE_DELAY", "-1"),
        ];
        for (name, value) in table {
            let settings = read(&[(name, value), ENDPOINT]).expect("complaints are told");
            assert_eq!(settings.complaints.len(), 1, "{name}: {:?}", settings.complaints);
            assert!(settings.complaints[0].contains(name), "{name}: {:?}", settings.complaints);
            assert!(!settings.complaints[0].contains("hidden"), "{:?}", settings.complaints);
        }
    }
}
