"""A client of no library at all, as `helve-bench mcp --client` wants one: python plain.py TOOL COUNTS COMMAND…"""

import json
import subprocess
import sys
import time


class Server:
    def __init__(self, command: list[str]) -> None:
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        )
        self.number = 0

    def say(self, message: dict) -> None:
        self.process.stdin.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")
        self.process.stdin.flush()

    def ask(self, method: str, params: dict) -> dict:
        self.number += 1
        self.say({"id": self.number, "method": method, "params": params})
        while line := self.process.stdout.readline():
            answer = json.loads(line)
            if answer.get("id") == self.number and "method" not in answer:
                return answer["result"]
        raise SystemExit("the server ended")

    def pages(self):
        params = {}
        while True:
            page = self.ask("tools/list", params)
            yield page["tools"]
            if not page.get("nextCursor"):
                return
            params = {"cursor": page["nextCursor"]}


def main() -> None:
    tool, counts, *command = sys.argv[1:]
    server = Server(command)
    client = {"name": "helve-bench", "version": "1"}
    server.ask("initialize", {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": client})
    server.say({"method": "notifications/initialized"})
    limit = time.monotonic() + 30
    while not any(found["name"] == tool for page in server.pages() for found in page):
        if time.monotonic() > limit:
            raise SystemExit(f"{tool} is not offered")
        time.sleep(0.05)
    for count in map(int, counts.split(",")):
        start = time.perf_counter_ns()
        for _ in range(count):
            result = server.ask("tools/call", {"name": tool, "arguments": {"message": "hello"}})
            if "hello" not in result["content"][0]["text"]:
                raise SystemExit(f"a call gave {result}")
        print(time.perf_counter_ns() - start, flush=True)
    server.process.stdin.close()
    server.process.wait(10)


main()
