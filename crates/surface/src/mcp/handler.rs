//! The methods of the protocol, each a few lines over `front`. Both eras share them; the SDK distinguishes the eras and
//! gives each its shape.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use callboard_domain::refusal::brief;
use callboard_engine::context::Principal;
use futures_util::future::BoxFuture;
use rmcp::model::{
    CacheScope, CallToolRequestParams, CallToolResponse, CallToolResult, CancelTaskParams,
    CompleteRequestParams, CompleteResult, CompletionInfo, CustomRequest, CustomResult, ErrorCode,
    GetPromptRequestParams, GetPromptResponse, GetPromptResult, GetTaskParams, GetTaskResult,
    Implementation, InitializeRequestParams, InitializeResult, ListPromptsResult,
    ListResourceTemplatesResult, ListResourcesResult, ListToolsResult, PaginatedRequestParams,
    PromptMessage, ProtocolVersion, ReadResourceRequestParams, ReadResourceResponse,
    ReadResourceResult, ResourceContents, Role, ServerCapabilities, ServerConfig,
    SubscribeRequestParams, SubscriptionFilter, TASKS_EXTENSION_ID, Tool, UnsubscribeRequestParams,
    UpdateTaskParams,
};
use rmcp::service::{NotificationContext, RequestContext, SubscriptionContext};
use rmcp::{ErrorData, RoleServer, ServerHandler};
use serde_json::{Map, Value};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::call::{self, Requested};
use super::caught::caught;
use super::conformance::{Fixtures, Host};
use super::identity::Identity;
use super::subscriptions::{Hearing, Subscriptions};
use super::{McpOptions, render, tasks};
use crate::front::{Front, ResourceText};
use crate::lookup::LookupError;

/// How long a client may cache lists that change only with the server or its settings.
/// `CacheScope::Private` goes with it: lists depend on the caller's rights, and a shared cache would mix them.
const LIST_TTL_MS: u64 = 60_000;

/// One connection (stdio), one session (legacy HTTP) or one request (modern HTTP).
pub(super) struct Handler {
    front: Arc<Front>,
    options: Arc<McpOptions>,
    identity: Identity,
    fixtures: Option<Arc<Fixtures>>,
    subscriptions: Subscriptions,
    /// Cancelled when the connection or the server is about to end: streams finish.
    closing: CancellationToken,
    /// Held by each call while it runs, so that the end of the connection can wait for them.
    /// `None` over HTTP, where the server itself waits for open requests.
    running: Option<mpsc::Sender<()>>,
    /// Whether the conversation began with a handshake, so that newer features are not used.
    legacy: AtomicBool,
}

type Context = RequestContext<RoleServer>;

impl Handler {
    pub(super) fn new(
        front: Arc<Front>,
        options: Arc<McpOptions>,
        identity: Identity,
        fixtures: Option<Arc<Fixtures>>,
        closing: CancellationToken,
        running: Option<mpsc::Sender<()>>,
        hearing: Hearing,
    ) -> Self {
        let subscriptions = Subscriptions::new(hearing);
        let legacy = AtomicBool::new(false);
        Self { front, options, identity, fixtures, subscriptions, closing, running, legacy }
    }

    /// Records that the connection began with a handshake, for a handler that was made after it.
    pub(super) fn handshake_made(&self) {
        self.legacy.store(true, Ordering::SeqCst);
    }

    /// The principal of a request. A request of a named HTTP caller carries its principal. Other callers have the
    /// identity of their connection or session; a modern HTTP request has neither.
    fn principal(&self, ctx: &Context) -> Principal {
        ctx.extensions
            .get::<axum::http::request::Parts>()
            .and_then(|parts| parts.extensions.get::<Principal>().cloned())
            .unwrap_or_else(|| {
                let client_name = || ctx.client_info().map(|info| info.name);
                self.identity.settle(client_name, is_modern(ctx))
            })
    }

    async fn call(
        &self,
        name: &str,
        arguments: Value,
        ctx: &Context,
    ) -> Result<CallToolResult, ErrorData> {
        let _running = self.running.clone();
        let mut result = Box::pin(call::call(self.asked(name, arguments, ctx))).await?;
        self.started(name, &mut result, ctx);
        Ok(result)
    }

    /// Subscribes the caller to the notices of the work that its call started, in the era that has sessions. A client
    /// that knows tasks is told that the work is one.
    fn started(&self, name: &str, result: &mut CallToolResult, ctx: &Context) {
        let Some(answer) = &result.structured_content else { return };
        let Some((toolset, started)) = self.front.started(name, answer) else { return };
        if !is_modern(ctx) {
            let principal = self.principal(ctx);
            self.subscriptions.follow_work(&self.front, &principal, toolset, &started, ctx);
        } else if self.knows_tasks() && tasks::are_declared(ctx) {
            tasks::name_in(result, &started.id);
        }
    }

    /// A call as `call.rs` takes it.
    fn asked<'a>(&'a self, name: &'a str, arguments: Value, ctx: &'a Context) -> Requested<'a> {
        let (front, closing, principal) = (&self.front, &self.closing, self.principal(ctx));
        Requested { front, principal, name, arguments, ctx, closing }
    }

    /// The toolsets' own instructions, then those of this server.
    fn instructions(&self) -> String {
        // `so_far`: a client may ask before it has named itself, and asking must not fix its actor.
        let tools = self.front.instructions(&self.identity.so_far());
        let server = self.options.instructions.as_str();
        match (tools.is_empty(), server.is_empty()) {
            (_, true) => tools,
            (true, false) => server.to_owned(),
            (false, false) => format!("{tools}\n\n{server}"),
        }
    }

    /// What the conformance fixtures may ask of this server.
    fn host(&self, ctx: &Context) -> Host<'_> {
        Host { front: &self.front, principal: self.principal(ctx) }
    }

    /// Whether a long call of this client is answered with a task: the settings allow it, the era has tasks, and the
    /// client declared them.
    fn gives_tasks(&self, ctx: &Context) -> bool {
        self.options.task_handles && self.knows_tasks() && tasks::are_declared(ctx)
    }

    /// Tasks came with the era without a handshake.
    fn knows_tasks(&self) -> bool {
        !self.legacy.load(Ordering::SeqCst)
    }

    /// The tools that this caller may call; others are not listed.
    async fn all_tools(&self, ctx: &Context) -> Vec<Tool> {
        let tools = self.front.tools(&self.principal(ctx)).await;
        let mut tools: Vec<Tool> = tools.into_iter().map(render::tool).collect();
        if let Some(fixtures) = &self.fixtures {
            tools.extend(fixtures.tools());
        }
        tools
    }
}

/// The capabilities of a connection.
pub(super) fn capabilities(knows_tasks: bool, has_fixtures: bool) -> ServerCapabilities {
    let mut capabilities = ServerCapabilities::builder()
        .enable_completions()
        .enable_prompts()
        .enable_prompts_list_changed()
        .enable_resources()
        .enable_resources_list_changed()
        .enable_resources_subscribe()
        .enable_tools()
        .enable_tool_list_changed()
        .build();
    // Logging is deprecated. Only the conformance suite asks for it.
    if has_fixtures {
        capabilities.logging = Some(Map::new());
    }
    if knows_tasks {
        let extensions = capabilities.extensions.get_or_insert_default();
        extensions.insert(TASKS_EXTENSION_ID.to_owned(), Map::new());
    }
    capabilities
}

/// Whether the request is of the era from 2026-07-28 on: no handshake, no sessions, cache hints in answers.
pub(super) fn is_modern(ctx: &Context) -> bool {
    ctx.protocol_version().is_some_and(|version| version >= ProtocolVersion::V_2026_07_28)
}

/// Refuses a cursor: everything fits on one page, so no cursor was ever handed out.
fn only_page(page: Option<PaginatedRequestParams>) -> Result<(), ErrorData> {
    match page.and_then(|page| page.cursor).filter(|cursor| !cursor.is_empty()) {
        None => Ok(()),
        Some(cursor) => {
            let words = format!("unknown cursor: {}", brief(&cursor));
            Err(ErrorData::invalid_params(words, None))
        }
    }
}

/// Runs the work of a request. A panic becomes an internal error with the id of its trace, and the connection goes on.
///
/// The work is boxed, here and where a tool is called: the SDK moves the future of every request several times, and that
/// future is as large as the largest of all requests. Without boxes a claim copied 116 KB of futures.
fn guarded<'a, T: 'a>(
    work: impl Future<Output = Result<T, ErrorData>> + Send + 'a,
) -> BoxFuture<'a, Result<T, ErrorData>> {
    Box::pin(async {
        caught(work).await.unwrap_or_else(|trace_id| Err(render::internal(trace_id)))
    })
}

#[allow(deprecated, reason = "subscribe and the log level belong to the legacy era we serve")]
impl ServerHandler for Handler {
    fn get_info(&self) -> ServerConfig {
        ServerConfig::new(capabilities(self.knows_tasks(), self.fixtures.is_some()))
            .with_server_info(
                Implementation::new("callboard", self.options.version.clone())
                    .with_title("Callboard"),
            )
            .with_instructions(self.instructions())
    }

    async fn initialize(
        &self,
        request: InitializeRequestParams,
        ctx: Context,
    ) -> Result<InitializeResult, ErrorData> {
        // From here on the connection is of the older era, whatever later requests say.
        self.legacy.store(true, Ordering::SeqCst);
        ctx.peer.set_peer_info(request.clone());
        self.negotiate_initialize(&request)
    }

    async fn list_tools(
        &self,
        page: Option<PaginatedRequestParams>,
        ctx: Context,
    ) -> Result<ListToolsResult, ErrorData> {
        only_page(page)?;
        let tools = guarded(async { Ok(self.all_tools(&ctx).await) }).await?;
        let list = ListToolsResult::with_all_items(tools);
        Ok(if is_modern(&ctx) {
            // Older revisions do not know these keys.
            list.with_ttl_ms(LIST_TTL_MS).with_cache_scope(CacheScope::Private)
        } else {
            list
        })
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        ctx: Context,
    ) -> Result<CallToolResponse, ErrorData> {
        if let Some(fixtures) = &self.fixtures
            && let Some(response) = Box::pin(fixtures.call(&request, &ctx, &self.host(&ctx))).await
        {
            return response;
        }
        let arguments = Value::Object(request.arguments.unwrap_or_default());
        // The call may outlive this request; `_running` still counts it, so that a server that ends waits for it.
        if self.gives_tasks(&ctx) {
            let _running = self.running.clone();
            let asked = self.asked(&request.name, arguments, &ctx);
            let mut response = Box::pin(call::call_or_task(asked)).await?;
            if let CallToolResponse::Complete(result) = &mut response {
                self.started(&request.name, result, &ctx);
            }
            return Ok(response);
        }
        Ok(self.call(&request.name, arguments, &ctx).await?.into())
    }

    /// Here and in the next two methods the SDK has checked that the client declared the extension.
    async fn get_task(
        &self,
        request: GetTaskParams,
        ctx: Context,
    ) -> Result<GetTaskResult, ErrorData> {
        let principal = self.principal(&ctx);
        guarded(async {
            let ticket = self.front.ticket(&principal, &request.task_id).await;
            tasks::detailed(tasks::known(ticket)?)
        })
        .await
    }

    async fn update_task(&self, request: UpdateTaskParams, ctx: Context) -> Result<(), ErrorData> {
        let principal = self.principal(&ctx);
        let answers = request.input_responses.into_iter().collect();
        guarded(async {
            tasks::known(self.front.ticket_answer(&principal, &request.task_id, answers).await)
        })
        .await
    }

    async fn cancel_task(&self, request: CancelTaskParams, ctx: Context) -> Result<(), ErrorData> {
        let principal = self.principal(&ctx);
        guarded(async {
            tasks::known(self.front.ticket_cancel(&principal, &request.task_id).await)
        })
        .await
    }

    async fn list_resources(
        &self,
        page: Option<PaginatedRequestParams>,
        ctx: Context,
    ) -> Result<ListResourcesResult, ErrorData> {
        let cursor = page.and_then(|page| page.cursor).filter(|cursor| !cursor.is_empty());
        let principal = self.principal(&ctx);
        let (resources, next) = guarded(async {
            self.front.resources(&principal, cursor.as_deref()).await.map_err(render::failure)
        })
        .await?;
        let mut resources: Vec<_> = resources.into_iter().map(render::resource).collect();
        if let (Some(fixtures), None) = (&self.fixtures, &cursor) {
            resources.extend(fixtures.resources());
        }
        let mut list = ListResourcesResult::with_all_items(resources);
        list.next_cursor = next;
        Ok(list)
    }

    async fn list_resource_templates(
        &self,
        page: Option<PaginatedRequestParams>,
        ctx: Context,
    ) -> Result<ListResourceTemplatesResult, ErrorData> {
        only_page(page)?;
        let templates = guarded(async { Ok(self.front.resource_templates()) }).await?;
        let mut templates: Vec<_> = templates.into_iter().map(render::resource_template).collect();
        if let Some(fixtures) = &self.fixtures {
            templates.extend(fixtures.resource_templates());
        }
        let list = ListResourceTemplatesResult::with_all_items(templates);
        Ok(if is_modern(&ctx) {
            list.with_ttl_ms(LIST_TTL_MS).with_cache_scope(CacheScope::Private)
        } else {
            list
        })
    }

    async fn read_resource(
        &self,
        request: ReadResourceRequestParams,
        ctx: Context,
    ) -> Result<ReadResourceResponse, ErrorData> {
        if let Some(fixtures) = &self.fixtures
            && let Some(contents) = fixtures.resource_read(&request.uri)
        {
            return Ok(ReadResourceResult::new(vec![contents]).into());
        }
        let principal = self.principal(&ctx);
        let ResourceText { media_type, text, ttl_ms } = guarded(async {
            let read = self.front.resource_read(&principal, &request.uri).await;
            read.map_err(|error| match error {
                LookupError::Absent(missing) => render::no_such_resource(&missing),
                LookupError::Failed(error) => render::failure(error),
            })
        })
        .await?;
        let contents = ResourceContents::text(text, request.uri).with_mime_type(media_type);
        let read = ReadResourceResult::new(vec![contents]);
        Ok(match ttl_ms.filter(|_| is_modern(&ctx)) {
            Some(ttl_ms) => read.with_ttl_ms(ttl_ms).with_cache_scope(CacheScope::Private).into(),
            None => read.into(),
        })
    }

    async fn subscribe(
        &self,
        request: SubscribeRequestParams,
        ctx: Context,
    ) -> Result<(), ErrorData> {
        if let Some(fixtures) = &self.fixtures
            && fixtures.is_watchable(&request.uri)
        {
            return Ok(());
        }
        let principal = self.principal(&ctx);
        guarded(self.subscriptions.subscribe(&self.front, &principal, request.uri, &ctx)).await
    }

    async fn unsubscribe(
        &self,
        request: UnsubscribeRequestParams,
        _ctx: Context,
    ) -> Result<(), ErrorData> {
        self.subscriptions.unsubscribe(&request.uri);
        Ok(())
    }

    fn accepted_subscription_filter(
        &self,
        requested: &SubscriptionFilter,
    ) -> Option<SubscriptionFilter> {
        Some(self.subscriptions.accept(&self.front, &self.identity.so_far(), requested))
    }

    async fn listen(&self, context: SubscriptionContext) -> Result<(), ErrorData> {
        let principal = self.principal(context.request_context());
        let watch = self.subscriptions.watch(&self.front, &principal, context.requested());
        let mut watch = Box::pin(watch).await?;
        // Two sources: changes of tasks arrive by URI alone, notices of toolsets with their version.
        let mut notices = self.subscriptions.notice_stream(&self.front, &principal, &context);
        let mut changes = self.fixtures.as_ref().map(|fixtures| fixtures.changes());
        let sink = context.sink();
        let passing_on = Box::pin(async {
            loop {
                tokio::select! {
                    changed = watch.changed() => {
                        let Some(uri) = changed else { return };
                        // Refused only when the stream is over, and then the change is dropped.
                        let _ = sink.notify_resource_updated(uri).await;
                    }
                    () = notices.next() => {}
                    () = Fixtures::announce(&mut changes, sink) => {}
                }
            }
        });
        // At the end of a connection the SDK confirms no notification any more, so a pending one must not be awaited.
        tokio::select! {
            () = passing_on => {}
            () = context.cancelled() => {}
            () = self.closing.cancelled() => {}
        }
        Ok(())
    }

    async fn list_prompts(
        &self,
        page: Option<PaginatedRequestParams>,
        ctx: Context,
    ) -> Result<ListPromptsResult, ErrorData> {
        only_page(page)?;
        let prompts = guarded(async { Ok(self.front.prompts()) }).await?;
        let mut prompts: Vec<_> = prompts.into_iter().map(render::prompt).collect();
        if let Some(fixtures) = &self.fixtures {
            prompts.extend(fixtures.prompts());
        }
        let list = ListPromptsResult::with_all_items(prompts);
        Ok(if is_modern(&ctx) {
            list.with_ttl_ms(LIST_TTL_MS).with_cache_scope(CacheScope::Private)
        } else {
            list
        })
    }

    async fn get_prompt(
        &self,
        request: GetPromptRequestParams,
        ctx: Context,
    ) -> Result<GetPromptResponse, ErrorData> {
        if let Some(fixtures) = &self.fixtures
            && let Some(response) = fixtures.prompt(&request)
        {
            return response;
        }
        let principal = self.principal(&ctx);
        let arguments = request.arguments.unwrap_or_default();
        let text = guarded(async {
            let text = self.front.prompt(&principal, &request.name, &arguments).await;
            text.map_err(|error| render::unknown("prompt", error))
        })
        .await?;
        Ok(GetPromptResult::new(vec![PromptMessage::new_text(Role::User, text)]).into())
    }

    async fn complete(
        &self,
        request: CompleteRequestParams,
        ctx: Context,
    ) -> Result<CompleteResult, ErrorData> {
        let principal = self.principal(&ctx);
        let (mut values, mut more) = guarded(async {
            let argument = &request.argument;
            let found = self.front.complete(&principal, &argument.name, &argument.value).await;
            found.map_err(render::failure)
        })
        .await?;
        more |= values.len() > CompletionInfo::MAX_VALUES;
        values.truncate(CompletionInfo::MAX_VALUES);
        let info = CompletionInfo::with_pagination(values, None, more)
            .map_err(|message| ErrorData::internal_error(message, None))?;
        Ok(CompleteResult::new(info))
    }

    /// Log messages are sent by the conformance fixtures alone, at any level.
    async fn set_level(
        &self,
        _request: rmcp::model::SetLevelRequestParams,
        ctx: Context,
    ) -> Result<(), ErrorData> {
        match self.fixtures {
            Some(_) if !is_modern(&ctx) => Ok(()),
            _ => Err(ErrorData::new(ErrorCode::METHOD_NOT_FOUND, "logging/setLevel", None)),
        }
    }

    /// Called by the transport, which checks parameters that a schema wants in headers. Our schemas never do.
    fn get_tool(&self, name: &str) -> Option<Tool> {
        self.fixtures.as_ref()?.tool(name)
    }

    /// Requests whose parameters the SDK could not read arrive here too.
    async fn on_custom_request(
        &self,
        request: CustomRequest,
        ctx: Context,
    ) -> Result<CustomResult, ErrorData> {
        match request.method.as_str() {
            "tools/call" => {
                let params = request.params.unwrap_or_default();
                let Some(name) = params.get("name").and_then(Value::as_str) else {
                    return Err(ErrorData::invalid_params("tools/call needs a name", None));
                };
                // Arguments that are no object end here. `args::read` refuses them in a tool's answer, which the
                // model sees; clients hide protocol errors from it.
                let arguments = params.get("arguments").cloned().unwrap_or_default();
                let mut result = self.call(name, arguments, &ctx).await?;
                if !is_modern(&ctx) {
                    // This answer goes out as it is, and `resultType` belongs to the modern era.
                    result.result_type = None;
                }
                serde_json::to_value(result)
                    .map(CustomResult::new)
                    .map_err(|error| ErrorData::internal_error(error.to_string(), None))
            }
            method if is_known(method, is_modern(&ctx)) => {
                let message = format!("{method}: the parameters do not have the expected shape");
                Err(ErrorData::invalid_params(message, None))
            }
            method => Err(ErrorData::new(ErrorCode::METHOD_NOT_FOUND, method.to_owned(), None)),
        }
    }

    async fn on_initialized(&self, _ctx: NotificationContext<RoleServer>) {}
}

/// Whether a method exists, so that only its parameters can be wrong.
fn is_known(method: &str, modern: bool) -> bool {
    match method {
        "initialize" | "resources/subscribe" | "resources/unsubscribe" => !modern,
        "server/discover"
        | "subscriptions/listen"
        | "tasks/get"
        | "tasks/update"
        | "tasks/cancel" => modern,
        "completion/complete"
        | "prompts/get"
        | "prompts/list"
        | "resources/list"
        | "resources/read"
        | "resources/templates/list"
        | "tools/list" => true,
        _ => false,
    }
}
