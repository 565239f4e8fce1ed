"""The Python SDK against a callboard server: both transports, both protocol eras, long calls.

Prints a line for each check, `ok` or `FAILED` first; `run` counts them. Knows the tools of the
graph toolset and nothing of the server's inside.
"""

import asyncio
import json
import os
from typing import Any, ClassVar, Literal

from mcp import Client, MCPError, StdioServerParameters
from mcp.client.extension import ClientExtension, ResultClaim
from mcp.types import CallToolResult, PromptReference, Request, RequestParams
from mcp.types import ResourceTemplateReference, Result

BINARY = os.environ["CALLBOARD_BINARY"]
REPO = os.environ["CALLBOARD_REPO"]
URL = os.environ["CALLBOARD_URL"]


class Lane:
    """One client over one transport in one era."""

    def __init__(self, name):
        self.name = name

    def check(self, what, passed, seen=None):
        if passed:
            print(f"ok      {self.name}: {what}", flush=True)
        else:
            print(f"FAILED  {self.name}: {what}: {seen!r}", flush=True)


class Created(Result):
    """What a call that takes long answers with."""

    result_type: Literal["task"] = "task"
    task_id: str
    status: str
    poll_interval_ms: int


class Seen(Result):
    task_id: str
    status: str
    result: dict[str, Any] | None = None


class TaskParams(RequestParams):
    task_id: str


class GetTask(Request[TaskParams, Literal["tasks/get"]]):
    name_param: ClassVar[str | None] = "taskId"
    method: Literal["tasks/get"] = "tasks/get"


class Tasks(ClientExtension):
    """The client's part of the extension: asks until the call is over."""

    identifier = "io.modelcontextprotocol/tasks"

    def __init__(self):
        self.seen = []

    def claims(self):
        return [ResultClaim(result_type="task", model=Created, resolve=self.resolve)]

    async def resolve(self, created, context):
        self.seen = [created.status]
        request = GetTask(params=TaskParams(task_id=created.task_id))
        while self.seen[-1] == "working":
            await asyncio.sleep(created.poll_interval_ms / 1000)
            task = await context.session.send_request(request, Seen)
            self.seen.append(task.status)
        return CallToolResult.model_validate(task.result)


async def call_long(lane, client, tasks):
    checks = [{"desc": "takes its time", "cmd": "sleep 3"}]
    made = await client.call_tool("create", {"title": f"long, {lane.name}", "checks": checks})
    ran = await client.call_tool("run_checks", {"id": made.structured_content["id"]})
    lane.check(
        "a long call has its answer",
        ran.structured_content["checks"][0]["result"] == "pass",
        ran,
    )
    expected = [] if tasks is None else ["working", "completed"]
    seen = [] if tasks is None else [tasks.seen[0], tasks.seen[-1]]
    lane.check("by way of a task where it knows them", seen == expected, seen)


async def walk(lane, client, actor):
    tools = {tool.name: tool for tool in (await client.list_tools()).tools}
    create = tools.get("create")
    lane.check("lists tools", {"create", "claim", "get"} <= tools.keys(), sorted(tools))
    lane.check(
        "a tool has title, schemas and hints",
        bool(create and create.title and create.output_schema and create.annotations),
        create,
    )
    made = await client.call_tool("create", {"title": f"from {lane.name}"})
    task = (made.structured_content or {}).get("id")
    lane.check("creates a task", not made.is_error and bool(task), made)
    lane.check(
        "the text is the structured result",
        json.loads(made.content[0].text) == made.structured_content,
        made.content,
    )
    claimed = await client.call_tool("claim", {"id": task})
    lane.check(
        "claims it as its actor",
        (claimed.structured_content or {}).get("assignee") == actor,
        claimed.structured_content,
    )
    got = await client.call_tool("get", {"id": task})
    lane.check("gets it", (got.structured_content or {}).get("id") == task, got)
    uri = f"callboard://tasks/{task}"
    read = await client.read_resource(uri)
    lane.check("reads its resource", json.loads(read.contents[0].text)["id"] == task, read)
    templates = (await client.list_resource_templates()).resource_templates
    lane.check("lists templates", any("{id}" in t.uri_template for t in templates), templates)
    prompts = [prompt.name for prompt in (await client.list_prompts()).prompts]
    lane.check("lists prompts", "start-work" in prompts, prompts)
    prompt = await client.get_prompt("start-work", {"task": task})
    lane.check("gets a prompt", task in prompt.messages[0].content.text, prompt)
    template = ResourceTemplateReference(type="ref/resource", uri=templates[0].uri_template)
    typed = await client.complete(template, {"name": "id", "value": task[:-3]})
    lane.check("completes an id", task in typed.completion.values, typed)
    reference = PromptReference(type="ref/prompt", name="start-work")
    typed = await client.complete(reference, {"name": "task", "value": task[:-3]})
    lane.check("completes a prompt's argument", task in typed.completion.values, typed)
    refused = await client.call_tool("get", {"id": "TASK-00000000000000000000000000"})
    lane.check(
        "a refusal is an error with a code",
        refused.is_error and bool((refused.structured_content or {}).get("code")),
        refused,
    )
    try:
        unknown = await client.call_tool("no_such_tool", {})
        lane.check("an unknown tool is a protocol error", False, unknown)
    except MCPError as error:
        lane.check("an unknown tool is a protocol error", error.error.code == -32602, error)
    try:
        unknown = await client.read_resource("callboard://nothing")
        lane.check("an unknown resource is a protocol error", False, unknown)
    except MCPError as error:
        codes = (-32002, -32602)
        lane.check("an unknown resource is a protocol error", error.error.code in codes, error)


async def main():
    for transport in ("stdio", "http"):
        for mode in ("legacy", "auto"):
            lane = Lane(f"python {transport} {mode}")
            actor = f"agent:python-{transport}-{mode}"
            if transport == "stdio":
                arguments = ["mcp", "--actor", actor]
                server = StdioServerParameters(command=BINARY, args=arguments, cwd=REPO)
            else:
                server = f"{URL}/mcp?actor={actor}"
            tasks = Tasks() if mode == "auto" else None
            extensions = [tasks] if tasks else []
            options = {"mode": mode, "extensions": extensions, "read_timeout_seconds": 20}
            try:
                async with Client(server, **options) as client:
                    await walk(lane, client, actor)
                    await call_long(lane, client, tasks)
            except Exception as error:  # one broken lane must not hide the others
                lane.check("runs to its end", False, error)


asyncio.run(main())
