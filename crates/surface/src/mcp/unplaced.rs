//! A connection whose project is not known yet: a client started the server outside every project.
//!
//! The handshake and the list of tools work. A call opens the project that its argument `project_root` or the client's
//! roots name; without one it is refused with the folders that were looked at. From then on every request goes to the
//! usual handler. Only stdio has such connections: a server of HTTP always has a project.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use callboard_engine::context::Principal;
use percent_encoding::percent_decode_str;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, CancelTaskParams,
    CompleteRequestParams, CompleteResult, CustomRequest, CustomResult, GetPromptRequestParams,
    GetPromptResponse, GetTaskParams, GetTaskResult, Implementation, InitializeRequestParams,
    InitializeResult, ListPromptsResult, ListResourceTemplatesResult, ListResourcesResult,
    ListToolsResult, PaginatedRequestParams, ReadResourceRequestParams, ReadResourceResponse,
    ServerConfig, SubscribeRequestParams, SubscriptionFilter, Tool, UnsubscribeRequestParams,
    UpdateTaskParams,
};
use rmcp::service::{RequestContext, SubscriptionContext};
use rmcp::{ErrorData, RoleServer, ServerHandler};
use serde_json::{Map, Value, json};
use tokio::sync::{OnceCell, mpsc, oneshot};

use super::handler::{Handler, capabilities, is_modern};
use super::{McpOptions, StdioIdentity, render};
use crate::catalog::Catalog;
use crate::front::Front;

/// The argument that names the project. Every tool takes it until a project is open.
const ROOT: &str = "project_root";
/// How long a client gets to name its roots.
/// A client that declares roots may still not answer, and the first list of tools waits for them.
const ROOTS_WITHIN: Duration = Duration::from_secs(2);

/// Why no project was opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NoProject {
    pub code: String,
    pub message: String,
    pub hint: Option<String>,
}

/// An opened project: the parts that a connection with a project starts with.
pub struct OpenedProject {
    pub root: PathBuf,
    pub front: Arc<Front>,
    pub options: McpOptions,
    pub identity: StdioIdentity,
}

/// The request to open the project of the first folder that has one.
pub struct ProjectRequest {
    pub folders: Vec<PathBuf>,
    /// Where the program puts the opened project. A dropped sender counts as "no project".
    pub answer: oneshot::Sender<Result<OpenedProject, NoProject>>,
}

/// The parts of a connection without a project.
pub struct UnplacedOptions {
    pub mcp: McpOptions,
    pub catalog: Catalog,
    /// Decides which tools are listed.
    pub principal: Principal,
    /// Where the project was looked for at the start, and the ways out.
    pub missing: NoProject,
    pub open: mpsc::Sender<ProjectRequest>,
}

/// Makes the handler of an opened project, with the parts of this connection.
type Place = Box<dyn Fn(OpenedProject) -> Handler + Send + Sync>;

/// The handler of such a connection. `placed` is set once; a connection never changes its project.
pub(super) struct Unplaced {
    options: UnplacedOptions,
    place: Place,
    placed: OnceCell<(PathBuf, Handler)>,
    /// Whether a handshake was made here, which the later handler cannot know.
    legacy: AtomicBool,
}

type Context = RequestContext<RoleServer>;

impl Unplaced {
    pub(super) fn new(options: UnplacedOptions, place: Place) -> Self {
        let legacy = AtomicBool::new(false);
        Self { options, place, placed: OnceCell::new(), legacy }
    }

    /// The usual handler, once a project is open.
    fn handler(&self) -> Option<&Handler> {
        self.placed.get().map(|(_, handler)| handler)
    }

    /// The handler, for requests that make no sense without a project.
    fn needed(&self) -> Result<&Handler, ErrorData> {
        self.handler().ok_or_else(|| {
            let missing = &self.options.missing;
            ErrorData::invalid_request(missing.message.clone(), Some(body(missing)))
        })
    }

    /// The handler of the project that the argument or the client's roots name.
    async fn find(&self, root: Option<PathBuf>, ctx: &Context) -> Result<&Handler, NoProject> {
        // Concurrent calls open one project: the cell runs one attempt at a time, and a failed one leaves it empty.
        let opened = self.placed.get_or_try_init(|| async {
            let folders = match &root {
                Some(root) => vec![root.clone()],
                None => self.roots(ctx).await,
            };
            if folders.is_empty() {
                return Err(self.options.missing.clone());
            }
            let opened = self.open(folders).await?;
            let root = opened.root.clone();
            let handler = (self.place)(opened);
            if self.legacy.load(Ordering::SeqCst) {
                handler.handshake_made();
                // The list had the argument `project_root`. A client that is gone needs no list.
                let _ = ctx.peer.notify_tool_list_changed().await;
            }
            Ok((root, handler))
        });
        let (open, handler) = opened.await?;
        match root {
            // A folder inside the open project is that project.
            Some(root) if !root.starts_with(open) => Err(another_is_open(open)),
            _ => Ok(handler),
        }
    }

    /// Asks the program to open a project: this crate knows neither settings nor stores.
    async fn open(&self, folders: Vec<PathBuf>) -> Result<OpenedProject, NoProject> {
        let (answer, answered) = oneshot::channel();
        let request = ProjectRequest { folders, answer };
        let gone = || self.options.missing.clone();
        self.options.open.send(request).await.map_err(|_| gone())?;
        answered.await.map_err(|_| gone())?
    }

    /// The folders that the client names as its roots; none in the era in which a server asks nothing.
    #[allow(deprecated, reason = "roots belong to the legacy era we serve")]
    async fn roots(&self, ctx: &Context) -> Vec<PathBuf> {
        let has_roots = ctx.client_capabilities().is_some_and(|can| can.roots.is_some());
        if !has_roots || is_modern(ctx) {
            return Vec::new();
        }
        match tokio::time::timeout(ROOTS_WITHIN, ctx.peer.list_roots()).await {
            Ok(Ok(list)) => list.roots.iter().filter_map(|root| folder_of(&root.uri)).collect(),
            Ok(Err(_)) | Err(_) => Vec::new(),
        }
    }
}

/// The folder that a `file://` address names.
fn folder_of(uri: &str) -> Option<PathBuf> {
    let path = uri.strip_prefix("file://")?;
    let path = path.strip_prefix("localhost").unwrap_or(path);
    let path = percent_decode_str(path).decode_utf8().ok()?;
    path.starts_with('/').then(|| PathBuf::from(path.as_ref()))
}

/// The refusal of a second project on one connection.
fn another_is_open(open: &Path) -> NoProject {
    NoProject {
        code: "PROJECT_IS_OPEN".into(),
        message: format!("{ROOT}: this connection already serves {}", open.display()),
        hint: Some(format!("leave {ROOT} out, or start another callboard mcp")),
    }
}

/// The refusal in the keys of every other one.
fn body(missing: &NoProject) -> Value {
    let NoProject { code, message, hint } = missing;
    json!({"code": code, "message": message, "hint": hint, "retryable": false})
}

/// Takes the argument `project_root` out of the arguments of a call.
fn take_root(arguments: &mut Map<String, Value>) -> Result<Option<PathBuf>, NoProject> {
    let refused = |message: String| NoProject {
        code: "INVALID_INPUT".into(),
        message,
        hint: Some("pass the absolute path of a folder in which callboard init was run".into()),
    };
    match arguments.shift_remove(ROOT) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(path)) if path.starts_with('/') => Ok(Some(path.into())),
        Some(Value::String(path)) => {
            Err(refused(format!("{ROOT} must be an absolute path, got '{path}'")))
        }
        Some(_) => Err(refused(format!("{ROOT} must be a string"))),
    }
}

/// The tool with the argument that names the project.
fn with_root(mut tool: Tool) -> Tool {
    let mut schema = Map::clone(&tool.input_schema);
    let words = "Absolute path of the project, needed until a call has opened it";
    if let Some(properties) = schema.get_mut("properties").and_then(Value::as_object_mut) {
        properties.insert(ROOT.into(), json!({"type": "string", "description": words}));
    }
    tool.input_schema = Arc::new(schema);
    tool
}

#[allow(deprecated, reason = "subscribe and the log level belong to the legacy era we serve")]
impl ServerHandler for Unplaced {
    fn get_info(&self) -> ServerConfig {
        if let Some(handler) = self.handler() {
            return handler.get_info();
        }
        let UnplacedOptions { mcp, catalog, missing, .. } = &self.options;
        let way_out = missing.hint.iter().map(|hint| format!("To go on: {hint}."));
        let words: Vec<String> = std::iter::once(format!("{}.", missing.message))
            .chain(way_out)
            .chain(catalog.instructions().filter(|text| !text.is_empty()))
            .collect();
        let me = Implementation::new("callboard", mcp.version.clone()).with_title("Callboard");
        ServerConfig::new(capabilities(!self.legacy.load(Ordering::SeqCst), false))
            .with_server_info(me)
            .with_instructions(words.join("\n\n"))
    }

    async fn initialize(
        &self,
        request: InitializeRequestParams,
        ctx: Context,
    ) -> Result<InitializeResult, ErrorData> {
        self.legacy.store(true, Ordering::SeqCst);
        ctx.peer.set_peer_info(request.clone());
        self.negotiate_initialize(&request)
    }

    async fn list_tools(
        &self,
        page: Option<PaginatedRequestParams>,
        ctx: Context,
    ) -> Result<ListToolsResult, ErrorData> {
        // The list is the first request that can ask for roots: before the end of the handshake a server may not ask.
        if let Ok(handler) = self.find(None, &ctx).await {
            return handler.list_tools(page, ctx).await;
        }
        let tools = self.options.catalog.list(&self.options.principal);
        let tools = tools.into_iter().map(render::tool).map(with_root).collect();
        Ok(ListToolsResult::with_all_items(tools))
    }

    async fn call_tool(
        &self,
        mut request: CallToolRequestParams,
        ctx: Context,
    ) -> Result<CallToolResponse, ErrorData> {
        let root = match &mut request.arguments {
            Some(arguments) => take_root(arguments),
            None => Ok(None),
        };
        let found = match root {
            Ok(root) => self.find(root, &ctx).await,
            Err(refused) => Err(refused),
        };
        match found {
            Ok(handler) => handler.call_tool(request, ctx).await,
            Err(missing) => Ok(CallToolResult::structured_error(body(&missing)).into()),
        }
    }

    async fn get_task(
        &self,
        request: GetTaskParams,
        ctx: Context,
    ) -> Result<GetTaskResult, ErrorData> {
        self.needed()?.get_task(request, ctx).await
    }

    async fn update_task(&self, request: UpdateTaskParams, ctx: Context) -> Result<(), ErrorData> {
        self.needed()?.update_task(request, ctx).await
    }

    async fn cancel_task(&self, request: CancelTaskParams, ctx: Context) -> Result<(), ErrorData> {
        self.needed()?.cancel_task(request, ctx).await
    }

    async fn list_resources(
        &self,
        page: Option<PaginatedRequestParams>,
        ctx: Context,
    ) -> Result<ListResourcesResult, ErrorData> {
        match self.handler() {
            Some(handler) => handler.list_resources(page, ctx).await,
            None => Ok(ListResourcesResult::default()),
        }
    }

    async fn list_resource_templates(
        &self,
        page: Option<PaginatedRequestParams>,
        ctx: Context,
    ) -> Result<ListResourceTemplatesResult, ErrorData> {
        match self.handler() {
            Some(handler) => handler.list_resource_templates(page, ctx).await,
            None => Ok(ListResourceTemplatesResult::default()),
        }
    }

    async fn list_prompts(
        &self,
        page: Option<PaginatedRequestParams>,
        ctx: Context,
    ) -> Result<ListPromptsResult, ErrorData> {
        match self.handler() {
            Some(handler) => handler.list_prompts(page, ctx).await,
            None => Ok(ListPromptsResult::default()),
        }
    }

    async fn read_resource(
        &self,
        request: ReadResourceRequestParams,
        ctx: Context,
    ) -> Result<ReadResourceResponse, ErrorData> {
        self.needed()?.read_resource(request, ctx).await
    }

    async fn subscribe(
        &self,
        request: SubscribeRequestParams,
        ctx: Context,
    ) -> Result<(), ErrorData> {
        self.needed()?.subscribe(request, ctx).await
    }

    async fn unsubscribe(
        &self,
        request: UnsubscribeRequestParams,
        ctx: Context,
    ) -> Result<(), ErrorData> {
        self.needed()?.unsubscribe(request, ctx).await
    }

    fn accepted_subscription_filter(
        &self,
        requested: &SubscriptionFilter,
    ) -> Option<SubscriptionFilter> {
        self.handler()?.accepted_subscription_filter(requested)
    }

    async fn listen(&self, context: SubscriptionContext) -> Result<(), ErrorData> {
        self.needed()?.listen(context).await
    }

    async fn get_prompt(
        &self,
        request: GetPromptRequestParams,
        ctx: Context,
    ) -> Result<GetPromptResponse, ErrorData> {
        self.needed()?.get_prompt(request, ctx).await
    }

    async fn complete(
        &self,
        request: CompleteRequestParams,
        ctx: Context,
    ) -> Result<CompleteResult, ErrorData> {
        self.needed()?.complete(request, ctx).await
    }

    async fn on_custom_request(
        &self,
        request: CustomRequest,
        ctx: Context,
    ) -> Result<CustomResult, ErrorData> {
        self.needed()?.on_custom_request(request, ctx).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_root_is_a_local_folder() {
        for (uri, folder) in [
            ("file:///home/ana/shop", Some("/home/ana/shop")),
            ("file://localhost/home/ana/shop", Some("/home/ana/shop")),
            ("file:///home/ana/my%20shop", Some("/home/ana/my shop")),
            ("file://other/share", None),
            ("https://example.org/shop", None),
            ("/home/ana/shop", None),
        ] {
            assert_eq!(folder_of(uri), folder.map(PathBuf::from), "{uri}");
        }
    }
}
