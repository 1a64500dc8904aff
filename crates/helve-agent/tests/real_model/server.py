"""A small real model behind a server that speaks chat completions, for tests of an agent.

llama.cpp serves the model. A model of this size never calls a tool by itself, and its template does not show it any, so a
second server stands before llama.cpp's. For a model that is called `forced-N` the first N answers of a talk are calls: the
schemas of the tools become one grammar, which the model cannot leave, and what it writes is told as a call, piece by piece
as it comes. Which tool, of those that the talk has no call of, and which arguments is the model's choice. Every other request
is passed on as it is.

It takes the path of the model as its argument. The address is the first line of its output. It ends when its input does, so
that it never outlives its caller.
"""

import http.client
import http.server
import itertools
import json
import os
import re
import socketserver
import sys
import threading
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

import xllamacpp

Json = dict[str, Any]

CONTEXT = 8192
"""The tokens that the model was trained with."""
LONGEST = 60
"""The longest text in arguments, in characters. A small model does not know where to stop."""
SAYS = {"type", "enum", "const", "anyOf", "oneOf", "allOf", "$ref"}
"""What a schema has that says which values it takes."""
FORCED = re.compile(r"forced-(\d+)")
BEGIN = re.compile(r'\s*\{\s*"name"\s*:\s*("(?:[^"\\]|\\.)*")\s*,\s*"arguments"\s*:\s*')
"""What stands before the arguments of a call."""

calls = itertools.count(1)


def llama(path: str) -> xllamacpp.Server:
    """llama.cpp's own server, on a port that is free. One thread each: with more of them than idle cores it crawls."""
    params = xllamacpp.CommonParams()
    params.model.path = path
    params.hostnames = ["127.0.0.1"]
    params.port = 0
    params.n_ctx = CONTEXT
    params.n_parallel = 1
    params.cpuparams.n_threads = 1
    params.cpuparams_batch.n_threads = 1
    return xllamacpp.Server(params)


def bounded(schema: Any) -> Any:
    """The same schema with texts and lists that end. What may be anything is a text."""
    if isinstance(schema, list):
        return [bounded(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    out = {name: bounded(value) for name, value in schema.items()}
    for name, member in out.get("properties", {}).items():
        if not SAYS.intersection(member):
            out["properties"][name] = {"type": "string", "maxLength": LONGEST}
    if out.get("type") == "string" and "enum" not in out:
        out["maxLength"] = min(out.get("maxLength", LONGEST), LONGEST)
    if out.get("type") == "array":
        out["maxItems"] = min(out.get("maxItems", 3), 3)
    return out


def one_call(tools: list[Json]) -> Json:
    """The schema of one call of one of these tools."""
    kinds: list[Json] = []
    for tool in tools:
        function = tool["function"]
        members = {"name": {"const": function["name"]}, "arguments": bounded(function["parameters"])}
        kinds.append(
            {"type": "object", "properties": members, "required": ["name", "arguments"], "additionalProperties": False}
        )
    return {"anyOf": kinds}


def in_words(message: Json) -> Json:
    """A message as the model's template shows it: calls and results as text."""
    if message["role"] == "tool":
        return {"role": "user", "content": f"Result: {message['content']}"}
    said = message.get("tool_calls")
    if not said:
        return message
    texts = [f'{{"name": "{one["function"]["name"]}", "arguments": {one["function"]["arguments"]}}}' for one in said]
    return {"role": "assistant", "content": "\n".join(texts)}


def is_forced(body: Json) -> bool:
    """Whether the answer has to be a call."""
    named = FORCED.fullmatch(body.get("model", ""))
    if named is None or not body.get("tools") or body.get("tool_choice") == "none":
        return False
    said = sum(bool(message.get("tool_calls")) for message in body["messages"])
    return said < int(named[1])


def not_called(body: Json) -> list[Json]:
    """The tools that the talk has no call of: left alone, a small model does the same for ever. All of them if there is none."""
    said = {call["function"]["name"] for message in body["messages"] for call in message.get("tool_calls") or []}
    return [tool for tool in body["tools"] if tool["function"]["name"] not in said] or body["tools"]


def asked(body: Json) -> Json:
    """What llama.cpp is asked for a model whose calls are forced."""
    out = {name: value for name, value in body.items() if name not in ("tools", "tool_choice", "parallel_tool_calls")}
    out["messages"] = [in_words(message) for message in body["messages"]]
    if is_forced(body):
        schema = {"name": "call", "strict": True, "schema": one_call(not_called(body))}
        out["response_format"] = {"type": "json_schema", "json_schema": schema}
    return out


class Wrapped:
    """Tells what the model writes under the grammar as a call, as it comes."""

    def __init__(self) -> None:
        self.text = ""
        self.told = 0
        """Where in the text the arguments go on that are not told yet; 0 before the call has begun."""

    def more(self, text: str) -> Iterator[Json]:
        """The pieces of the call that are certain now that so much more is written."""
        self.text += text
        if self.told == 0:
            begin = BEGIN.match(self.text)
            if begin is None:
                return
            self.told = begin.end()
            function = {"name": json.loads(begin[1]), "arguments": ""}
            yield {"index": 0, "id": f"forced{next(calls)}", "type": "function", "function": function}
        # The brace that closes the call is not part of its arguments, and what stands last may be that.
        end = len(self.text.rstrip()) - 1
        if end > self.told:
            arguments = self.text[self.told : end]
            self.told = end
            yield {"index": 0, "function": {"arguments": arguments}}

    def chunk(self, chunk: Json) -> Iterator[Json]:
        """A chunk of llama.cpp's answer as chunks of a call."""
        choices = chunk.get("choices")
        if not choices:
            yield chunk
            return
        delta, finish = choices[0].get("delta", {}), choices[0].get("finish_reason")
        for piece in self.more(delta.get("content") or ""):
            yield chunk | {"choices": [{"index": 0, "delta": {"tool_calls": [piece]}, "finish_reason": None}]}
        if finish is not None:
            finish = "tool_calls" if finish == "stop" else finish
            yield chunk | {"choices": [{"index": 0, "delta": {}, "finish_reason": finish}]}


class Handler(http.server.BaseHTTPRequestHandler):
    """One request."""

    upstream: str

    def log_message(self, format: str, *args: Any) -> None:
        pass

    def do_GET(self) -> None:
        self.pass_on(None)

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["content-length"]))
        if self.path.endswith("/chat/completions"):
            wanted = json.loads(body)
            if FORCED.fullmatch(wanted.get("model", "")):
                self.pass_on(json.dumps(asked(wanted)).encode(), Wrapped() if is_forced(wanted) else None)
                return
        self.pass_on(body)

    def pass_on(self, body: bytes | None, wrapped: Wrapped | None = None) -> None:
        """Asks llama.cpp, and gives back what it says line by line. Where the caller hangs up, so does this."""
        connection = http.client.HTTPConnection(self.upstream)
        try:
            connection.request(self.command, self.path, body, {"content-type": "application/json"})
            answer = connection.getresponse()
            self.send_response(answer.status)
            self.send_header("content-type", answer.headers.get("content-type", "application/json"))
            self.end_headers()
            for line in answer:
                for out in told(line, wrapped if answer.status == 200 else None):
                    self.wfile.write(out)
                    self.wfile.flush()
        except (BrokenPipeError, ConnectionResetError):
            pass
        finally:
            connection.close()


def told(line: bytes, wrapped: Wrapped | None) -> Iterator[bytes]:
    """A line of a stream of events, with calls where they are forced."""
    if wrapped is None or not line.startswith(b"data: {"):
        yield line
        return
    for chunk in wrapped.chunk(json.loads(line[len(b"data: ") :])):
        yield b"data: " + json.dumps(chunk).encode() + b"\n\n"


class Server(socketserver.ThreadingMixIn, http.server.HTTPServer):
    daemon_threads = True


def main() -> None:
    served = llama(sys.argv[1])
    Handler.upstream = urlsplit(served.listening_address).netloc
    server = Server(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    print(f"http://127.0.0.1:{server.server_address[1]}/v1", flush=True)
    sys.stdin.read()
    # Threads of llama.cpp do not have to be waited for.
    os._exit(0)


if __name__ == "__main__":
    main()
