"""What scripts/make-fixtures does through a server: a job with a pull request and a webhook, a call that became a handle, a
review on the pages, a row of the inbox that is put off. The first argument is the folder of the board.

A build that does not know one of these things leaves its rows out and says so.
"""
import http.server
import json
import os
import re
import subprocess
import sys
import threading
import time
import urllib.parse
import urllib.request

FOLDER = sys.argv[1]
PATIENCE_S = 120
# The agent is a script, and the webhook ends on this machine.
os.environ |= {"CALLBOARD_RELAY_SANDBOX": "executor", "CALLBOARD_RELAY_WEBHOOK_ALLOW_PRIVATE": "true"}
AGENT = r"""#!/bin/sh
cat > /dev/null
printf '## DIFF\n--- /dev/null\n+++ b/flag.txt\n@@ -0,0 +1 @@\n+flag\n\n## TEST_PLAN\nnone\n\n## NOTES\nnone\n'
"""
META = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientCapabilities": {"extensions": {"io.modelcontextprotocol/tasks": {}}},
    "io.modelcontextprotocol/clientInfo": {"name": "shop", "version": "1"},
}


class Receiver(http.server.BaseHTTPRequestHandler):
    """Takes messages of webhooks."""

    heard = threading.Event()

    def do_POST(self):
        self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(204)
        self.end_headers()
        self.heard.set()

    def log_message(self, *_):
        pass


def callboard(*arguments):
    done = subprocess.run(["callboard", *arguments], cwd=FOLDER, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(done.stderr.strip() or done.stdout.strip())
    return done.stdout.strip()


def git(*arguments):
    return subprocess.run(["git", *arguments], cwd=FOLDER, capture_output=True, text=True, check=True).stdout.strip()


def until(what, ask):
    """Asks again until there is an answer."""
    for _ in range(PATIENCE_S * 5):
        if answer := ask():
            return answer
        time.sleep(0.2)
    raise RuntimeError(f"no {what} in {PATIENCE_S} s")


class Server:
    def __init__(self):
        self.log = open(f"{os.environ['HOME']}/serve.log", "w+", encoding="utf-8")
        listen = ["callboard", "serve", "--listen", "127.0.0.1:0"]
        self.process = subprocess.Popen(listen, cwd=FOLDER, stdout=self.log, stderr=self.log)
        self.url = until("server", self.address).group(0)
        self.browser = urllib.request.build_opener(urllib.request.HTTPCookieProcessor())

    def address(self):
        with open(self.log.name, encoding="utf-8") as log:
            return re.search(r"http://127\.0\.0\.1:\d+", log.read())

    def sign_in(self):
        self.browser.open(callboard("--actor", "human:ana", "open").split()[-1])

    def page(self, path):
        with self.browser.open(self.url + path) as answer:
            return answer.read().decode()

    def send(self, to, /, **fields):
        body = urllib.parse.urlencode(fields).encode()
        request = urllib.request.Request(self.url + to, body, {"Sec-Fetch-Site": "same-origin"})
        self.browser.open(request).close()

    def call(self, method, params):
        name = params.get("name") or params.get("taskId")
        body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params | {"_meta": META}}
        headers = {
            "Accept": "application/json, text/event-stream",
            "Content-Type": "application/json",
            "MCP-Protocol-Version": "2026-07-28",
            "Mcp-Method": method,
            "Mcp-Name": name,
        }
        request = urllib.request.Request(f"{self.url}/mcp", json.dumps(body).encode(), headers)
        with urllib.request.urlopen(request) as answer:
            text = answer.read().decode()
        lines = [line.removeprefix("data: ") for line in text.splitlines() if line.startswith("data: ")]
        return json.loads(lines[-1] if lines else text)["result"]

    def stop(self):
        self.process.terminate()
        self.process.wait()


def job(_):
    """A job that opens a pull request and tells of its end."""
    program = os.path.join(os.path.dirname(sys.argv[0]), "opencode")
    with open(program, "w", encoding="utf-8") as file:
        file.write(AGENT)
    os.chmod(program, 0o755)
    receiver = http.server.HTTPServer(("127.0.0.1", 0), Receiver)
    threading.Thread(target=receiver.serve_forever, daemon=True).start()
    spec = {
        "repo": {"type": "local", "path": FOLDER, "baseBranch": "main", "baselineCommit": git("rev-parse", "main")},
        "task": {"title": "Add a file", "description": "flag.txt", "acceptance": []},
        "scope": {"readPaths": [], "disallowReformatting": False},
        "outputContract": ["DIFF", "TEST_PLAN", "NOTES"],
        "execution": {"preferredModel": "fake/model", "sandbox": "read-only", "askPolicy": "untrusted", "priority": "P1", "ttlS": 600},
        "idempotencyKey": "a-file",
        "notify": {"enablePr": True, "webhook": f"http://127.0.0.1:{receiver.server_port}/told"},
    }
    callboard("--actor", "human:ana", "call", "jobs_submit", json.dumps({"spec": spec}))
    if not Receiver.heard.wait(PATIENCE_S):
        raise RuntimeError("the webhook was not told")
    # The answer of the receiver is written down after it came.
    until("delivery", lambda: "delivered" in callboard("webhook", "list", "--json"))
    os.remove(program)


def handle(server):
    """A call that outlives its request."""
    made = server.call("tools/call", {"name": "create", "arguments": {"title": "Weigh the apples", "checks": [{"desc": "slow", "cmd": "sleep 1"}]}})
    task = made["structuredContent"]["id"]
    began = server.call("tools/call", {"name": "run_checks", "arguments": {"id": task}})
    until("end of the call", lambda: server.call("tasks/get", {"taskId": began["taskId"]})["status"] == "completed")


def review(server):
    """Comments that were sent, a draft, a file that was read."""
    waiting = json.loads(callboard("review", "--json"))["items"]
    sent, drafted = [f"{task['id'].split('-')[0]}-{task['number']}" for task in waiting][:2]
    heads = {}
    for task, text in [(sent, "Why this word?"), (drafted, "In French, please.")]:
        page = server.page(f"/tasks/{task}/review")
        form = re.search(rf'action="/tasks/{task}/review/viewed">(.*?)</form>', page, re.S).group(1)
        fields = dict(re.findall(r'name="([a-z]+)" value="([^"]*)"', form))
        heads[task] = fields["head"]
        server.send(f"/tasks/{task}/review/viewed", **fields)
        server.send(f"/tasks/{task}/review/draft", place=f"{fields['path']}:R1", text=text)
    server.send(f"/tasks/{sent}/review/reject", text="Nearly.", to="work", head=heads[sent])


def snooze(server):
    """Rows that are put off."""
    keys = re.findall(r'action="/inbox/snooze".*?name="key" value="([^"]*)"', server.page("/"), re.S)
    for key, long in zip(dict.fromkeys(keys), ["hour", "change"]):
        server.send("/inbox/snooze", key=key, next="/", **{"for": long})


def main():
    server = Server()
    try:
        server.sign_in()
        for part in [job, handle, review, snooze]:
            try:
                part(server)
            # Whatever an earlier build does otherwise, the other parts are worth their rows.
            except Exception as error:  # pylint: disable=broad-except
                print(f"left out: {part.__name__}: {error!r}", file=sys.stderr)
    finally:
        server.stop()


main()
