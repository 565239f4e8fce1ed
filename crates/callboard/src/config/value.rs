//! The value of a setting: read from text or TOML, judged against its key, shown again.

use std::borrow::Cow;
use std::fmt;

use serde_json::json;

use super::key::{Key, Kind};

pub const UNLIMITED: &str = "unlimited";
/// The largest number of a limit. A larger one is refused: `unlimited` says it better.
pub const LIMIT_MAX: i64 = 1_000_000_000;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    // A fraction and `unlimited` are texts, too: they are kept as they were written.
    Text(String),
    Integer(i64),
    Boolean(bool),
    List(Vec<String>),
}

impl Value {
    /// Reads a variable, a flag or a default. The error says what is expected.
    pub fn from_text(key: &Key, text: &str) -> Result<Self, String> {
        let text = text.trim();
        match key.kind {
            Kind::Text | Kind::Secret => Ok(Self::Text(text.to_owned())),
            Kind::List => Ok(Self::List(items(text))),
            Kind::Boolean => match text.to_ascii_lowercase().as_str() {
                "true" | "1" | "yes" | "on" => Ok(Self::Boolean(true)),
                "false" | "0" | "no" | "off" => Ok(Self::Boolean(false)),
                _ => Err(format!("{} must be true or false, not '{text}'", key.name)),
            },
            Kind::Integer { min, max } => text
                .parse()
                .ok()
                .filter(|number| (min..=max).contains(number))
                .map(Self::Integer)
                .ok_or_else(|| format!("{} must be a number {min}..{max}, not '{text}'", key.name)),
            Kind::Limit if text.eq_ignore_ascii_case(UNLIMITED) => {
                Ok(Self::Text(UNLIMITED.to_owned()))
            }
            Kind::Limit => text
                .parse()
                .ok()
                .filter(|number| (0..=LIMIT_MAX).contains(number))
                .map(Self::Integer)
                .ok_or_else(|| {
                    format!("{} must be unlimited or 0..{LIMIT_MAX}, not '{text}'", key.name)
                }),
            Kind::Fraction => match text.parse::<f64>() {
                Ok(number) if (0.0..=1.0).contains(&number) => Ok(Self::Text(text.to_owned())),
                _ => Err(format!("{} must be a number 0..1, not '{text}'", key.name)),
            },
            Kind::Word(known) => known
                .iter()
                .find(|word| word.eq_ignore_ascii_case(text))
                .map(|word| Self::Text((*word).to_owned()))
                .ok_or_else(|| {
                    format!("{} must be one of {}, not '{text}'", key.name, known.join(", "))
                }),
        }
    }

    /// Reads a value of a file. Types must fit, since TOML has types; ranges are judged as in `from_text`.
    pub fn from_toml(key: &Key, value: &toml_edit::Value) -> Result<Self, String> {
        let wrong = |wanted: &str| format!("{} must be {wanted}", key.name);
        match key.kind {
            Kind::Text | Kind::Secret | Kind::Word(_) => {
                let text = value.as_str().ok_or_else(|| wrong("a string"))?;
                Self::from_text(key, text)
            }
            Kind::Integer { .. } => {
                let number = value.as_integer().ok_or_else(|| wrong("a number"))?;
                Self::from_text(key, &number.to_string())
            }
            Kind::Limit => match (value.as_str(), value.as_integer()) {
                (Some(text), _) => Self::from_text(key, text),
                (None, Some(number)) => Self::from_text(key, &number.to_string()),
                (None, None) => Err(wrong("unlimited or a number")),
            },
            Kind::Fraction => {
                // TOML reads 1 as an integer and 1.0 as a float; both are fractions here.
                let whole = value.as_integer().map(|number| number as f64);
                let number = value.as_float().or(whole).ok_or_else(|| wrong("a number 0..1"))?;
                Self::from_text(key, &number.to_string())
            }
            Kind::Boolean => {
                value.as_bool().map(Self::Boolean).ok_or_else(|| wrong("true or false"))
            }
            Kind::List => match (value.as_str(), value.as_array()) {
                (Some(text), _) => Ok(Self::List(items(text))),
                (None, Some(array)) => {
                    let item = |item: &toml_edit::Value| item.as_str().map(str::to_owned);
                    let all: Option<Vec<String>> = array.iter().map(item).collect();
                    all.map(Self::List).ok_or_else(|| wrong("an array of strings"))
                }
                (None, None) => Err(wrong("an array of strings or one string with commas")),
            },
        }
    }

    /// The value for `--json`; a password in an address is hidden there, too.
    pub fn to_json(&self) -> serde_json::Value {
        match self {
            Self::Text(text) => json!(without_password(text)),
            Self::Integer(number) => json!(number),
            Self::Boolean(yes) => json!(yes),
            Self::List(items) => json!(items),
        }
    }
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Text(text) => f.write_str(&without_password(text)),
            Self::Integer(number) => number.fmt(f),
            Self::Boolean(yes) => yes.fmt(f),
            Self::List(items) => f.write_str(&items.join(", ")),
        }
    }
}

/// The parts between commas, without blanks and empty parts.
fn items(text: &str) -> Vec<String> {
    text.split(',').map(str::trim).filter(|item| !item.is_empty()).map(str::to_owned).collect()
}

/// An address without its password, so that it may be shown.
pub fn without_password(text: &str) -> Cow<'_, str> {
    let Some((scheme, rest)) = text.split_once("://") else { return Cow::Borrowed(text) };
    // `user:password@host`. The last `@` ends the password, which may hold one itself.
    let in_front = || {
        let (user, _) = rest.rsplit_once('@')?;
        let (name, _) = user.split_once(':')?;
        Some(format!("{name}:***{}", &rest[user.len()..]))
    };
    let rest = in_front().map_or(Cow::Borrowed(rest), Cow::Owned);
    let hide = |part: &str| match part.strip_prefix("password=") {
        Some(_) => "password=***".to_owned(),
        None => part.to_owned(),
    };
    let (base, query) = rest.split_once('?').unwrap_or((&rest, ""));
    let query: Vec<String> = query.split('&').map(hide).collect();
    let mark = if rest.contains('?') { "?" } else { "" };
    Cow::Owned(format!("{scheme}://{base}{mark}{}", query.join("&")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_password_is_never_shown() {
        let shown = |text: &str| Value::Text(text.into()).to_string();
        assert_eq!(shown("postgres://ana:s@:cret@db:5432/b"), "postgres://ana:***@db:5432/b");
        assert_eq!(shown("postgres://ana@db/b"), "postgres://ana@db/b");
        assert_eq!(shown("postgres://ana:s?c@db/b?x=1"), "postgres://ana:***@db/b?x=1");
        let asked = "postgres://db/b?password=secret&connect_timeout=3";
        assert_eq!(shown(asked), "postgres://db/b?password=***&connect_timeout=3");
        assert_eq!(shown("127.0.0.1:3001"), "127.0.0.1:3001");
        assert_eq!(Value::Text("postgres://a:b@c/d".into()).to_json(), "postgres://a:***@c/d");
    }
}
