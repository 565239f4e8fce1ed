//! A call and its answer: what kind of answer it is, and how a failure prints it.

use serde_json::Value;

/// One call and its answer, as a failure prints them.
pub struct Called {
    pub method: &'static str,
    pub params: Value,
    pub answer: Value,
}

impl Called {
    pub fn line(&self) -> String {
        let params = self.params.to_string();
        let shown: String = params.chars().take(2_000).collect();
        format!("{} {shown}", self.method)
    }
}

/// Prints the call that was never answered.
pub struct Unheard<'c>(pub &'c &'static str, pub &'c Value, pub &'c [Called]);

impl Drop for Unheard<'_> {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            return;
        }
        let params: String = self.1.to_string().chars().take(4_000).collect();
        eprintln!("after {} calls, no good answer to: {} {params}", self.2.len(), self.0);
    }
}

/// The code and the message of a refusal, of a tool or of the protocol.
pub fn refusal(answer: &Value) -> Option<(String, String)> {
    let said = |body: &Value| {
        let code =
            body["code"].as_str().map(str::to_owned).unwrap_or_else(|| body["code"].to_string());
        (code, body["message"].as_str().unwrap_or_default().to_owned())
    };
    if let Some(error) = answer.get("error") {
        return Some(said(error));
    }
    let content = &answer["result"]["structuredContent"];
    if content["error"]["code"].is_string() {
        return Some(said(&content["error"]));
    }
    let is_refused = answer["result"]["isError"] == true || content["success"] == false;
    is_refused.then(|| said(content))
}
