//! Messages of OTLP in both of its encodings: protobuf and JSON. A message is a list of fields, each with its number for
//! protobuf and its name for JSON, so one description of a span or a metric serves both.

use callboard_domain::hex::hex;
use serde_json::{Map, Value, json};

/// The content type and the encoding of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum OtlpFormat {
    Protobuf,
    Json,
}

impl OtlpFormat {
    pub(super) fn content_type(self) -> &'static str {
        match self {
            Self::Protobuf => "application/x-protobuf",
            Self::Json => "application/json",
        }
    }

    pub(super) fn encode(self, message: &Proto) -> Vec<u8> {
        match self {
            Self::Protobuf => message.binary(),
            Self::Json => message.json().to_string().into_bytes(),
        }
    }
}

/// One message.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Proto(Vec<(u32, &'static str, ProtoValue)>);

#[derive(Clone, Debug, PartialEq)]
pub(super) enum ProtoValue {
    Text(String),
    /// An id. JSON has it in hex, where protobuf's own JSON would use base64.
    Id(Vec<u8>),
    /// A time or a count, as `fixed64`; text in JSON, whose numbers are too short.
    Fixed(u64),
    Double(f64),
    Int(i64),
    /// The number of an enum's word.
    Word(u8),
    Flag(bool),
    One(Proto),
    Many(Vec<Proto>),
    FixedList(Vec<u64>),
    DoubleList(Vec<f64>),
}

/// How protobuf writes a value: as a varint, as eight bytes, or as bytes after their length.
const VARINT: u64 = 0;
const EIGHT: u64 = 1;
const SIZED: u64 = 2;

impl Proto {
    pub(super) fn with(mut self, number: u32, name: &'static str, value: ProtoValue) -> Self {
        self.0.push((number, name, value));
        self
    }

    pub(super) fn text(self, number: u32, name: &'static str, text: impl Into<String>) -> Self {
        self.with(number, name, ProtoValue::Text(text.into()))
    }

    pub(super) fn one(self, number: u32, name: &'static str, message: Self) -> Self {
        self.with(number, name, ProtoValue::One(message))
    }

    pub(super) fn many(self, number: u32, name: &'static str, messages: Vec<Self>) -> Self {
        self.with(number, name, ProtoValue::Many(messages))
    }

    /// An attribute of a resource, a span or a point.
    pub(super) fn attribute(key: &str, value: ProtoValue) -> Self {
        let (number, name) = match value {
            ProtoValue::Flag(_) => (2, "boolValue"),
            ProtoValue::Int(_) => (3, "intValue"),
            ProtoValue::Double(_) => (4, "doubleValue"),
            _ => (1, "stringValue"),
        };
        Self::default().text(1, "key", key).one(
            2,
            "value",
            Self::default().with(number, name, value),
        )
    }

    fn binary(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        for (number, _, value) in &self.0 {
            value.write(*number, &mut bytes);
        }
        bytes
    }

    fn json(&self) -> Value {
        let fields = self.0.iter().map(|(_, name, value)| ((*name).to_owned(), value.json()));
        Value::Object(fields.collect::<Map<_, _>>())
    }
}

impl ProtoValue {
    fn write(&self, number: u32, to: &mut Vec<u8>) {
        let mut field = |kind: u64| varint(u64::from(number) << 3 | kind, to);
        match self {
            Self::Text(text) => {
                field(SIZED);
                sized(text.as_bytes(), to);
            }
            Self::Id(bytes) => {
                field(SIZED);
                sized(bytes, to);
            }
            Self::Fixed(value) => {
                field(EIGHT);
                to.extend(value.to_le_bytes());
            }
            Self::Double(value) => {
                field(EIGHT);
                to.extend(value.to_le_bytes());
            }
            Self::Int(value) => {
                field(VARINT);
                varint(value.cast_unsigned(), to);
            }
            Self::Word(value) => {
                field(VARINT);
                varint((*value).into(), to);
            }
            Self::Flag(value) => {
                field(VARINT);
                varint((*value).into(), to);
            }
            Self::One(message) => {
                field(SIZED);
                sized(&message.binary(), to);
            }
            Self::Many(messages) => {
                for message in messages {
                    varint(u64::from(number) << 3 | SIZED, to);
                    sized(&message.binary(), to);
                }
            }
            Self::FixedList(values) => {
                field(SIZED);
                sized(&values.iter().flat_map(|value| value.to_le_bytes()).collect::<Vec<_>>(), to);
            }
            Self::DoubleList(values) => {
                field(SIZED);
                sized(&values.iter().flat_map(|value| value.to_le_bytes()).collect::<Vec<_>>(), to);
            }
        }
    }

    fn json(&self) -> Value {
        match self {
            Self::Text(text) => json!(text),
            Self::Id(bytes) => json!(hex(bytes)),
            Self::Fixed(value) => json!(value.to_string()),
            Self::Double(value) => json!(value),
            Self::Int(value) => json!(value.to_string()),
            Self::Word(value) => json!(value),
            Self::Flag(value) => json!(value),
            Self::One(message) => message.json(),
            Self::Many(messages) => messages.iter().map(Proto::json).collect(),
            Self::FixedList(values) => values.iter().map(u64::to_string).collect(),
            Self::DoubleList(values) => json!(values),
        }
    }
}

fn sized(bytes: &[u8], to: &mut Vec<u8>) {
    varint(bytes.len() as u64, to);
    to.extend_from_slice(bytes);
}

/// Seven bits in each byte, the lowest first; the top bit says that more follow.
fn varint(mut value: u64, to: &mut Vec<u8>) {
    while value >= 0x80 {
        to.push((value as u8) | 0x80);
        value >>= 7;
    }
    to.push(value as u8);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The bytes are those of the protobuf documentation; the processes' tests decode whole requests with the
    /// generated messages of OpenTelemetry.
    #[test]
    fn one_description_has_two_encodings() {
        let message = Proto::default()
            .with(1, "number", ProtoValue::Int(150))
            .text(2, "text", "testing")
            .with(3, "id", ProtoValue::Id(vec![0x0a, 0xff]))
            .with(20, "times", ProtoValue::FixedList(vec![1, u64::MAX]));
        let bytes = OtlpFormat::Protobuf.encode(&message);
        let mut wanted = b"\x08\x96\x01\x12\x07testing\x1a\x02\x0a\xff\xa2\x01\x10\x01".to_vec();
        wanted.extend([0; 7]);
        wanted.extend([0xff; 8]);
        assert_eq!(bytes, wanted);
        let text = String::from_utf8(OtlpFormat::Json.encode(&message)).expect("JSON is text");
        assert_eq!(
            text,
            r#"{"number":"150","text":"testing","id":"0aff","times":["1","18446744073709551615"]}"#
        );
    }
}
