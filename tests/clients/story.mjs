// Saves PostgreSQL, then SQLite, and asks what holds now, what held, and what held then.
import assert from "node:assert/strict";
import { Client as NewClient } from "@modelcontextprotocol/client";
import { StreamableHTTPClientTransport as NewTransport } from "@modelcontextprotocol/client";
import { Client as OldClient } from "@modelcontextprotocol/sdk/client/index.js";
import { StreamableHTTPClientTransport as OldTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";

const url = new URL(process.env.RENOR_URL ?? "http://127.0.0.1:8000/mcp");
const token = process.env.RENOR_TOKEN;
if (!token) {
  console.error("Set RENOR_TOKEN to a token that may write.");
  process.exit(2);
}

const clients = [
  { label: "sdk 1, 2025-11-25", Client: OldClient, Transport: OldTransport, options: {} },
  { label: "client 2, 2025-11-25", Client: NewClient, Transport: NewTransport, options: {} },
  {
    label: "client 2, 2026-07-28",
    Client: NewClient,
    Transport: NewTransport,
    options: { versionNegotiation: { mode: "auto" } },
  },
];

async function tell({ label, Client, Transport, options }) {
  const client = new Client({ name: "story", version: "1.0.0" }, options);
  const requestInit = { headers: { Authorization: `Bearer ${token}` } };
  await client.connect(new Transport(url, { requestInit }));

  const call = async (name, args) => {
    const result = await client.callTool({ name, arguments: args });
    assert.deepEqual(JSON.parse(result.content[0].text), result.structuredContent);
    return { ...result.structuredContent, isError: result.isError ?? false };
  };
  const subject = `Fjord ${new Date().toISOString()} ${label}`;
  const save = (object) => call("save_memory", { subject, predicate: "database", object });
  const objects = (answer) => answer.facts.map((fact) => fact.object);

  const { tools } = await client.listTools();
  assert.equal(tools.length >= 9, true);

  assert.equal((await save("PostgreSQL")).action, "store");
  const between = new Date((await call("retrieve_memory", { subject })).facts[0].validFrom);
  await new Promise((resolve) => setTimeout(resolve, 20));
  assert.equal((await save("SQLite")).action, "supersede");
  assert.equal((await save("SQLite")).action, "nochange");

  const context = await call("get_context", { query: `what database does ${subject} use?` });
  assert.equal(context.facts[0].object, "SQLite");
  assert.equal(context.relevance.relevant, true);
  const history = await call("retrieve_memory", { subject, include_history: true });
  assert.deepEqual(objects(history), ["SQLite", "PostgreSQL"]);
  assert.ok(history.facts[1].validTo);
  const then = await call("retrieve_memory", { subject, as_of: between.toISOString() });
  assert.deepEqual(objects(then), ["PostgreSQL"]);

  const refused = await call("get_context", { max_tokens: 1 });
  assert.equal(refused.isError, true);
  assert.equal(refused.error.code, "invalid");
  await client.close();
  return `${tools.length} tools`;
}

let failures = 0;
for (const each of clients) {
  try {
    console.log(`ok    ${each.label}: ${await tell(each)}`);
  } catch (error) {
    failures += 1;
    console.log(`WRONG ${each.label}: ${error.message}`);
  }
}
process.exit(failures ? 1 : 0);
