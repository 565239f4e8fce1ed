//! What a client says about the moment: the folder it works in, and the files that a tool is about to edit.

use serde_json::Value;

/// The part of a client's message that hooks look at.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HookInput {
    pub cwd: Option<String>,
    /// Files that the tool is about to edit; none for a tool that edits nothing.
    pub edits: Vec<String>,
}

/// Keys under which clients' tools name a file.
const FILE_KEYS: [&str; 7] = [
    "file_path",
    "filePath",
    "notebook_path",
    "path",
    "absolute_path",
    "target_file",
    "target_notebook",
];
/// Keys under which clients' tools hold several files, or several edits with a file each.
const LIST_KEYS: [&str; 2] = ["files", "replacements"];
/// Keys under which clients' tools hold a patch.
const PATCH_KEYS: [&str; 4] = ["command", "patch", "patchText", "input"];
const PATCH_MARKS: [&str; 4] =
    ["*** Add File: ", "*** Update File: ", "*** Delete File: ", "*** Move to: "];

/// The files that a tool's arguments name: by key, and by the headings of a patch. Some clients send the arguments as
/// text.
pub fn files_of(arguments: &Value) -> Vec<String> {
    if let Some(text) = arguments.as_str() {
        return match serde_json::from_str::<Value>(text) {
            Ok(read) if !read.is_string() => files_of(&read),
            _ => files_of_patch(text).collect(),
        };
    }
    let text = |key: &&str| arguments[*key].as_str();
    let named = FILE_KEYS.iter().filter_map(text).map(str::to_owned);
    let items = LIST_KEYS.iter().filter_map(|key| arguments[*key].as_array()).flatten();
    let listed = items.flat_map(|item| match item.as_str() {
        Some(name) => vec![name.to_owned()],
        None => files_of(item),
    });
    let named = named.chain(listed);
    named.chain(PATCH_KEYS.iter().filter_map(text).flat_map(files_of_patch)).collect()
}

fn files_of_patch(text: &str) -> impl Iterator<Item = String> {
    let is_patch = text.contains("*** Begin Patch");
    let name = |line: &str| {
        PATCH_MARKS
            .iter()
            .find_map(|mark| line.strip_prefix(mark))
            .map(str::trim)
            .map(str::to_owned)
    };
    text.lines().filter(move |_| is_patch).filter_map(name)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::files_of;

    #[test]
    fn files_are_found_by_key_and_in_patches() {
        let patch = "*** Begin Patch\n*** Update File: a.rs\n*** Move to: b.rs\n@@\n-x\n+y\n*** Add File: c d.rs\n*** End Patch";
        let rows = [
            (json!({"file_path": "/p/a.rs", "content": "path"}), "/p/a.rs"),
            (json!({"filePath": "a.rs"}), "a.rs"),
            (json!({"command": patch}), "a.rs b.rs c d.rs"),
            (json!({"command": "ls *** Add File: x"}), ""),
            (json!("{\"path\": \"a.rs\"}"), "a.rs"),
            (json!(patch), "a.rs b.rs c d.rs"),
            (json!(null), ""),
        ];
        for (arguments, wanted) in rows {
            assert_eq!(files_of(&arguments).join(" "), wanted, "{arguments}");
        }
    }
}
