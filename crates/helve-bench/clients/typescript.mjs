// The client of the official TypeScript SDK, as `helve-bench mcp --client` wants one:
// node typescript.mjs PACKAGES TOOL COUNTS COMMAND… — PACKAGES is the node_modules in which the SDK lies, 1.x or 2.x.
import { createRequire } from 'node:module';
import { pathToFileURL } from 'node:url';

const [packages, tool, counts, command, ...args] = process.argv.slice(2);
const require = createRequire(`${packages}/`);
const load = (name) => import(pathToFileURL(require.resolve(name)).href);

async function sdk() {
  try {
    return [await load('@modelcontextprotocol/client'), await load('@modelcontextprotocol/client/stdio')];
  } catch {
    const old = '@modelcontextprotocol/sdk/client';
    return [await load(`${old}/index.js`), await load(`${old}/stdio.js`)];
  }
}

const [{ Client }, { StdioClientTransport }] = await sdk();
const client = new Client({ name: 'helve-bench', version: '1' });
await client.connect(new StdioClientTransport({ command, args, env: process.env, stderr: 'ignore' }));

async function offered() {
  const { tools } = await client.listTools();
  return tools.some(({ name }) => name === tool);
}

const limit = Date.now() + 30_000;
while (!(await offered())) {
  if (Date.now() > limit) throw new Error(`${tool} is not offered`);
  await new Promise((resolve) => setTimeout(resolve, 50));
}

for (const count of counts.split(',').map(Number)) {
  const start = process.hrtime.bigint();
  for (let call = 0; call < count; call++) {
    const result = await client.callTool({ name: tool, arguments: { message: 'hello' } });
    if (result.isError || !result.content[0].text.includes('hello')) {
      throw new Error(`a call gave ${JSON.stringify(result)}`);
    }
  }
  console.log(String(process.hrtime.bigint() - start));
}
await client.close();
