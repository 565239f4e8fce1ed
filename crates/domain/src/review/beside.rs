//! What stands beside a review: files that other work changes too, and the review that comes next.

use std::collections::HashSet;

/// Files by the repository that they are in.
pub type RepoFiles<'f> = HashSet<(&'f str, &'f str)>;

/// The paths that two pieces of work both change in one repository, in order.
pub fn shared_files(one: &RepoFiles<'_>, other: &RepoFiles<'_>) -> Vec<String> {
    let mut files: Vec<String> =
        one.intersection(other).map(|(_, path)| (*path).to_owned()).collect();
    files.sort_unstable();
    files
}

/// The place of an item in a list, and the item that comes after it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlaceOf<'i, T> {
    /// Counted from 1; `None` for an item that is not in the list.
    pub number: Option<usize>,
    /// After the last item, the first; the first, too, after an item that is not in the list. `None` where no other item
    /// is there.
    pub next: Option<&'i T>,
}

pub fn place_of<'i, T: PartialEq>(items: &'i [T], this: &T) -> PlaceOf<'i, T> {
    let place = items.iter().position(|item| item == this);
    let rest = place.map_or(items, |place| &items[place + 1..]);
    let next = rest.iter().chain(items).find(|item| *item != this);
    PlaceOf { number: place.map(|place| place + 1), next }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_shared_within_one_repository() {
        for (one, other, shared) in [
            ("r:a r:b", "r:b r:c", "b"),
            ("r:b r:a", "r:a r:b", "a b"),
            ("r:a", "s:a", ""),
            ("r:a s:a", "s:a", "a"),
            ("", "r:a", ""),
            ("r:a", "", ""),
        ] {
            let files = |text: &'static str| -> RepoFiles<'static> {
                text.split_whitespace().filter_map(|file| file.split_once(':')).collect()
            };
            assert_eq!(shared_files(&files(one), &files(other)).join(" "), shared, "{one} {other}");
        }
    }

    #[test]
    fn the_last_review_is_followed_by_the_first() {
        for (items, this, number, next) in [
            ("abc", 'a', Some(1), Some('b')),
            ("abc", 'b', Some(2), Some('c')),
            ("abc", 'c', Some(3), Some('a')),
            ("abc", 'x', None, Some('a')),
            ("a", 'a', Some(1), None),
            ("", 'a', None, None),
        ] {
            let items: Vec<char> = items.chars().collect();
            let place = place_of(&items, &this);
            assert_eq!((place.number, place.next.copied()), (number, next), "{items:?} {this}");
        }
    }
}
