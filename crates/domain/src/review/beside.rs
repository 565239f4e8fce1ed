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

/// The item that comes after this one; after the last one, the first. An item that is not in the list is followed by the
/// first. `None` where no other item is there.
pub fn next_of<'i, T: PartialEq>(items: &'i [T], this: &T) -> Option<&'i T> {
    let place = items.iter().position(|item| item == this);
    let rest = place.map_or(items, |place| &items[place + 1..]);
    rest.iter().chain(items).find(|item| *item != this)
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
        for (items, this, next) in [
            ("abc", 'a', Some('b')),
            ("abc", 'b', Some('c')),
            ("abc", 'c', Some('a')),
            ("abc", 'x', Some('a')),
            ("a", 'a', None),
            ("", 'a', None),
        ] {
            let items: Vec<char> = items.chars().collect();
            assert_eq!(next_of(&items, &this).copied(), next, "{items:?} {this}");
        }
    }
}
