//! Backlogs of other programs, as their users have them. The tests with random input use this file too.

pub const PLAN: &str = "\
# Shop

Some words.

## Now

- [ ] Add login
  With a form.

  ```
  - [ ] not a task
  ```
  - [ ] tests pass
  - [x] reads well
- [x] Choose a name
1. [ ] Add logout

## Later
* [ ] Add login
";

pub const BEADS: &str = r#"{"_schema":"beads-jsonl/1","_sort":"stable-v1"}
{"_type":"issue","id":"bd-1","title":"Shop","status":"open","priority":1,"issue_type":"epic","created_at":"2026-01-01T00:00:00Z"}
{"id":"bd-2","title":"Add login","description":"With a form.","design":"One page.","acceptance_criteria":"- [ ] tests pass\n- reads well","notes":"ask ana","status":"in_progress","priority":0,"labels":["now"],"comments":[{"id":7,"issue_id":"bd-2","author":"ana","text":"soon"}],"dependencies":[{"issue_id":"bd-2","depends_on_id":"bd-1","type":"parent-child"},{"issue_id":"bd-2","depends_on_id":"bd-3","type":"waits-for"},{"issue_id":"bd-2","depends_on_id":"bd-9","type":"related"}]}
{"id":"bd-3","title":"Choose a name","status":"open","priority":2}
{"id":"bd-4","title":"Old","status":"closed","priority":2}
{"id":"bd-5","title":"Gone","status":"tombstone"}
{"_type":"memory","key":"tabs","value":"we use tabs"}
{"_type":"issue","id":"bd-6","title":"Mail","status":"open","priority":2,"issue_type":"message"}
{"_type":"issue","id":"bd-7","title":"Template","status":"open","priority":2,"is_template":true}
"#;

pub const BACKLOG_1: &str = "---\nid: task-1\ntitle: 'Add ''login'''\nstatus: To Do\nassignee: []\n\
labels:\n  - now\npriority: high\ndependencies: [TASK-2]\n---\n\n## Description\n\nWith a form.\n\n\
## Acceptance Criteria\n<!-- AC:BEGIN -->\n- [ ] #1 tests pass\n- [x] #2 reads well\n<!-- AC:END -->\n";

pub const BACKLOG_2: &str =
    "---\nid: task-2\ntitle: >-\n  Choose a\n  name\nstatus: In Progress\ndependencies: []\n---\n";

pub const TASK_MASTER: &str = r#"{"master": {"tasks": [
  {"id": 1, "title": "Choose a name", "status": "done", "dependencies": [], "subtasks": []},
  {"id": 2, "title": "Add login", "description": "With a form.", "details": "One page.",
   "testStrategy": "Click.", "status": "pending", "priority": "high", "dependencies": [1],
   "subtasks": [
     {"id": 1, "title": "Form", "status": "pending", "dependencies": [],
      "acceptanceCriteria": "- tests pass\n- reads well"},
     {"id": 2, "title": "Page", "status": "pending", "dependencies": [1]},
     {"id": 2, "title": "Sign", "status": "pending", "dependencies": []}]}],
  "metadata": {"created": "2026-01-01"}},
  "later": {"tasks": [
  {"id": "1", "title": "Show a map", "status": "deferred", "dependencies": ["2"],
   "acceptanceCriteria": ["loads in 1 s"], "subtasks": []},
  {"id": "2", "title": "Test it", "status": "review", "dependencies": [], "subtasks": []}]}}"#;

pub const VIBE_EXPORT: &str = "Issue ID,Title,Description,Status,Priority,Project,Assignee(s),Creator,Created,Updated,\
Start Date,Due Date,Completed,Parent Issue\r\n\
SHOP-1,Shop,,In progress,,Shop,,ana,2026-01-01T00:00:00+00:00,2026-01-01T00:00:00+00:00,,,,\r\n\
SHOP-2,\"Add login, soon\",\"With a \"\"form\"\".\nAnd more.\",To do,Urgent,Shop,ana,ana,2026-01-01T00:00:00+00:00,\
2026-01-01T00:00:00+00:00,,,,SHOP-1\r\n\
SHOP-3,Old,,Done,Low,Shop,,ana,2026-01-01T00:00:00+00:00,2026-01-01T00:00:00+00:00,,,2026-02-01,\r\n";

pub const VIBE: &str = r#"{"success": true, "data": [
  {"id": "a1", "project_id": "p", "title": "Add login", "description": "With a form.", "status": "todo"},
  {"id": "a2", "project_id": "p", "title": "Old", "description": null, "status": "cancelled"}]}"#;
