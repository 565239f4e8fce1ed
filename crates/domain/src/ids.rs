//! Identifiers: 128 bits that rise with time, shown as 26 lower-case Crockford characters.
//!
//! Nothing here makes an id; the engine's id source does. A task id carries the prefix it was
//! created under, so changing a project's prefix never renames old tasks.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

const ALPHABET: &[u8; 32] = b"0123456789abcdefghjkmnpqrstvwxyz";
const TEXT_LEN: usize = 26;
pub const PREFIX_CHARS_MAX: usize = 12;

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Id(pub u128);

impl Id {
    pub fn to_bytes(self) -> [u8; 16] {
        self.0.to_be_bytes()
    }

    pub fn from_bytes(bytes: [u8; 16]) -> Self {
        Self(u128::from_be_bytes(bytes))
    }

    pub fn parse(text: &str) -> Option<Self> {
        if text.len() != TEXT_LEN {
            return None;
        }
        let mut value: u128 = 0;
        for (position, character) in text.bytes().enumerate() {
            let digit = crockford_digit(character)?;
            // 26 characters hold 130 bits; the first may only use three of its five.
            if position == 0 && digit > 7 {
                return None;
            }
            value = (value << 5) | u128::from(digit);
        }
        Some(Self(value))
    }

    /// The lowest and the highest id whose text begins with these characters.
    pub fn range(beginning: &str) -> Option<(Self, Self)> {
        // The first of the 26 characters only goes up to 7: together they hold 130 bits.
        let (low, high) = ("0".repeat(TEXT_LEN), format!("7{}", "z".repeat(TEXT_LEN - 1)));
        let fill =
            |with: &str| Self::parse(&format!("{beginning}{}", with.get(beginning.len()..)?));
        Some((fill(&low)?, fill(&high)?))
    }

    /// Whether the text of an id can end like this: it is written with the digits of `ALPHABET` alone.
    pub fn may_end_with(ending: &str) -> bool {
        let is_digit = |c: u8| ALPHABET.contains(&c.to_ascii_lowercase());
        ending.len() <= TEXT_LEN && ending.bytes().all(is_digit)
    }
}

/// The value of each byte as a digit, `NO_DIGIT` for the others. Every call reads ids.
const DIGITS: [u8; 256] = digits();
const NO_DIGIT: u8 = u8::MAX;

const fn digits() -> [u8; 256] {
    let mut digits = [NO_DIGIT; 256];
    let mut value = 0;
    while value < ALPHABET.len() {
        let character = ALPHABET[value];
        digits[character as usize] = value as u8;
        digits[character.to_ascii_uppercase() as usize] = value as u8;
        value += 1;
    }
    // People read these letters as digits.
    let mut n = 0;
    while n < ALIKE.len() {
        digits[ALIKE[n].0 as usize] = ALIKE[n].1;
        n += 1;
    }
    digits
}

const ALIKE: [(u8, u8); 6] = [(b'o', 0), (b'O', 0), (b'i', 1), (b'I', 1), (b'l', 1), (b'L', 1)];

fn crockford_digit(character: u8) -> Option<u8> {
    Some(DIGITS[character as usize]).filter(|digit| *digit != NO_DIGIT)
}

impl fmt::Display for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = [0u8; TEXT_LEN];
        let mut value = self.0;
        for slot in text.iter_mut().rev() {
            *slot = ALPHABET[(value & 31) as usize];
            value >>= 5;
        }
        f.write_str(std::str::from_utf8(&text).expect("the alphabet is ASCII"))
    }
}

impl fmt::Debug for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// The word before the dash of a task id. Kept inline so that a `TaskId` is `Copy`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Prefix {
    bytes: [u8; PREFIX_CHARS_MAX],
    len: u8,
}

impl Prefix {
    pub fn parse(text: &str) -> Option<Self> {
        let fits = (1..=PREFIX_CHARS_MAX).contains(&text.len());
        let clean = text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_');
        if !fits || !clean {
            return None;
        }
        let mut bytes = [0; PREFIX_CHARS_MAX];
        bytes[..text.len()].copy_from_slice(text.as_bytes());
        Some(Self { bytes, len: text.len() as u8 })
    }

    /// The prefix of a project for which none was chosen: its folder's name in capitals.
    pub fn from_folder(name: &str) -> Self {
        let text: String = name
            .chars()
            .filter(char::is_ascii_alphanumeric)
            .take(PREFIX_CHARS_MAX)
            .map(|c| c.to_ascii_uppercase())
            .collect();
        Self::parse(&text).unwrap_or_else(Self::fallback)
    }

    pub fn fallback() -> Self {
        Self::parse("TASK").expect("four letters are a prefix")
    }

    pub fn as_str(&self) -> &str {
        std::str::from_utf8(&self.bytes[..self.len as usize]).expect("only ASCII was let in")
    }
}

impl fmt::Display for Prefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl fmt::Debug for Prefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl Serialize for Prefix {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

impl<'de> Deserialize<'de> for Prefix {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        Self::parse(&text).ok_or_else(|| serde::de::Error::custom("not a prefix"))
    }
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TaskId {
    pub id: Id,
    pub prefix: Prefix,
}

/// The short name of a task, `SHOP-12`: its prefix and its number among the tasks of that prefix.
/// People read and type it; the id stays the key.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TaskName {
    pub prefix: Prefix,
    pub number: u32,
}

impl TaskName {
    /// `None` for any other text, ids included: an id has 26 characters behind its dash, and the beginning of an id
    /// starts with a zero.
    pub fn parse(text: &str) -> Option<Self> {
        let (prefix, number) = text.rsplit_once('-')?;
        let is_number = number.bytes().all(|b| b.is_ascii_digit()) && !number.starts_with('0');
        let number = number.parse().ok().filter(|_| is_number)?;
        Some(Self { prefix: Prefix::parse(prefix)?, number })
    }

    /// The name with its prefix in capitals, as most prefixes are written.
    pub fn in_capitals(self) -> Self {
        let prefix = Prefix::parse(&self.prefix.as_str().to_ascii_uppercase());
        Self { prefix: prefix.unwrap_or(self.prefix), ..self }
    }
}

impl fmt::Display for TaskName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.prefix, self.number)
    }
}

impl fmt::Debug for TaskName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AttemptId(pub Id);

/// Makes a typed id: its sign, then the 26 characters. `$not` is the complaint about another text.
macro_rules! id {
    ($(#[$about:meta])* $name:ident, $sign:expr, $not:literal) => {
        $(#[$about])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(pub $crate::ids::Id);

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str($sign)?;
                std::fmt::Display::fmt(&self.0, f)
            }
        }

        impl std::fmt::Debug for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                std::fmt::Display::fmt(self, f)
            }
        }

        impl std::str::FromStr for $name {
            type Err = $crate::ids::IdError;

            fn from_str(text: &str) -> Result<Self, Self::Err> {
                let id = text.strip_prefix($sign).and_then($crate::ids::Id::parse);
                id.map(Self).ok_or($crate::ids::IdError::Foreign)
            }
        }

        impl serde::Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }

        impl<'de> serde::Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
                let text = <String as serde::Deserialize>::deserialize(from)?;
                text.parse().map_err(|_| serde::de::Error::custom($not))
            }
        }
    };
}

pub(crate) use id;

/// The kinds of ids that people type besides those of tasks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IdKind {
    Decision,
    Job,
    Knowledge,
    Mail,
    Plan,
}

impl IdKind {
    /// The beginning of every id of the kind.
    pub fn sign(self) -> &'static str {
        match self {
            Self::Decision => "log-",
            Self::Job => "job_",
            Self::Knowledge => "kn_",
            Self::Mail => "mail-",
            Self::Plan => "plan_",
        }
    }
}

/// Why a text is not an id. `Foreign` has the right characters, so it may name a task of an
/// older form: the caller answers "not found" instead of "invalid".
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IdError {
    Invalid,
    Foreign,
}

impl FromStr for TaskId {
    type Err = IdError;

    fn from_str(text: &str) -> Result<Self, IdError> {
        let clean = text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_');
        if text.is_empty() || text.len() > 200 || !clean {
            return Err(IdError::Invalid);
        }
        let (prefix, rest) = text.rsplit_once('-').ok_or(IdError::Foreign)?;
        let prefix = Prefix::parse(prefix).ok_or(IdError::Foreign)?;
        let id = Id::parse(rest).ok_or(IdError::Foreign)?;
        Ok(Self { id, prefix })
    }
}

impl FromStr for AttemptId {
    type Err = IdError;

    /// Takes `ses_…` and `att_…`: a session is an attempt seen through one toolset.
    fn from_str(text: &str) -> Result<Self, IdError> {
        let rest = text.strip_prefix("ses_").or_else(|| text.strip_prefix("att_"));
        rest.and_then(Id::parse).map(Self).ok_or(IdError::Foreign)
    }
}

impl fmt::Display for TaskId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.prefix, self.id)
    }
}

impl fmt::Debug for TaskId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Display for AttemptId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "att_{}", self.0)
    }
}

impl fmt::Debug for AttemptId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Serialize for TaskId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for TaskId {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(|_| serde::de::Error::custom("not a task id"))
    }
}

impl Serialize for AttemptId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for AttemptId {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(|_| serde::de::Error::custom("not an attempt id"))
    }
}
