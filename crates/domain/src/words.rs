//! Enums whose variants are words: in rows, on the wire and in messages.

/// Makes an enum of words with `as_str`, `parse` and the array `ALL`, in the order of the variants. Serde attributes stay
/// with the enum, because stored forms differ from the words.
macro_rules! words {
    ($(#[$about:meta])* pub enum $name:ident {
        $($(#[$note:meta])* $variant:ident => $word:literal,)*
    }) => {
        $(#[$about])*
        pub enum $name { $($(#[$note])* $variant,)* }

        impl $name {
            pub const ALL: [$name; [$($word),*].len()] = [$($name::$variant),*];

            pub fn as_str(self) -> &'static str {
                match self { $($name::$variant => $word,)* }
            }

            pub fn parse(text: &str) -> Option<Self> {
                match text { $($word => Some($name::$variant),)* _ => None }
            }
        }
    };
}

pub(crate) use words;
