"""The client of the official Python SDK, as `helve-bench mcp --client` wants one: python python.py TOOL COUNTS COMMAND…"""

import asyncio
import os
import sys
import time

from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client


async def offered(session: ClientSession, tool: str) -> None:
    limit = time.monotonic() + 30
    while not any(found.name == tool for found in (await session.list_tools()).tools):
        if time.monotonic() > limit:
            raise SystemExit(f"{tool} is not offered")
        await asyncio.sleep(0.05)


async def call(session: ClientSession, tool: str) -> None:
    result = await session.call_tool(tool, {"message": "hello"})
    if "hello" not in result.content[0].text:
        raise SystemExit(f"a call gave {result}")


async def main() -> None:
    tool, counts, command, *args = sys.argv[1:]
    server = StdioServerParameters(command=command, args=args, env=dict(os.environ))
    with open(os.devnull, "w") as nowhere:
        async with stdio_client(server, errlog=nowhere) as streams, ClientSession(*streams) as session:
            await session.initialize()
            await offered(session, tool)
            for count in map(int, counts.split(",")):
                start = time.perf_counter_ns()
                for _ in range(count):
                    await call(session, tool)
                print(time.perf_counter_ns() - start, flush=True)


asyncio.run(main())
