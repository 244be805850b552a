// Bodies of a real node against the schemas of the OpenAPI document: one answer at
// least of each operation that answers with JSON.
import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import type { SchemaName } from '../../scripts/openapi/schemas.ts';
import { CATALOG, CHECKED, assertDocumented, sentOf } from '../support/documented.ts';
import { patiently } from '../support/patient.ts';
import { TestServer, removeFolder, temporaryFolder } from '../support/server.ts';
import { until } from '../support/until.ts';

const JSON_TYPE = { 'Content-Type': 'application/json' };
const TEXT_TYPE = { 'Content-Type': 'text/plain' };
const SUBSCRIPTION = '/v1/stream/__ds/subscriptions/s1';

/**
 * These need another node, which test/cluster/membership.test.ts has, or an empty group;
 * test/http/openapi.test.ts gives it with a stand-in.
 */
const ELSEWHERE: readonly SchemaName[] = ['Learner', 'Transfer', 'Revert', 'Imported', 'NarrowedToken'];

interface Told {
  readonly status: number;
  readonly text: string;
}

describe('a real node answers with what the OpenAPI document says', () => {
  const cold = temporaryFolder('openapi');
  const server = new TestServer({
    cores: 1,
    groups: 2,
    toml: `[storage.cold]\nbackend = "dir"\ndir = "${cold}"\nflush_interval = "1h"`,
  });
  before(async () => void (await server.start()));
  after(async () => {
    await server.dispose();
    removeFolder(cold);
  });

  /** `GET /path`, on the admin plane when it is one of its routes. */
  async function ask(target: string, headers: Record<string, string> = {}, body?: string): Promise<Told> {
    const [method = '', path = ''] = target.split(' ');
    const isAdmin = path.startsWith('/__svc/');
    const url = `${isAdmin ? server.adminUrl : server.url}${path}`;
    const { answer } = await patiently(target, async () => {
      return await fetch(url, {
        method,
        headers,
        ...(body === undefined ? {} : { body: new TextEncoder().encode(body) }),
      });
    });
    const text = await answer.text();
    assertDocumented(method, url, answer, text, sentOf(headers, body));
    return { status: answer.status, text };
  }

  async function expect(
    status: number,
    target: string,
    headers?: Record<string, string>,
    body?: string,
  ): Promise<Told> {
    const told = await ask(target, headers, body);
    assert.equal(told.status, status, `${target}: ${told.status} ${told.text}`);
    return told;
  }

  it('about streams and buckets', async () => {
    await expect(201, 'PUT /b/log', TEXT_TYPE, 'hello');
    await expect(201, 'PUT /b/events', JSON_TYPE, '[{"n":1}]');
    await expect(200, 'GET /b/log?offset=-1');
    await expect(200, 'GET /b/events?offset=-1');
    await expect(200, 'GET /b/events?record=0&record_view=envelope');
    await expect(200, 'POST /b/log/append-batch', { 'Content-Type': 'application/octet-stream' }, '\0\0\0\x01x');
    await ask('PUT /b/log/attrs', JSON_TYPE, '{"title":"A log","metadata":{"a":1}}');
    await expect(200, 'GET /b/log/attrs');
    await expect(200, 'GET /b');
    await expect(200, 'GET /b/streams?limit=1');
    await expect(404, 'GET /b/missing');
    await expect(405, 'PATCH /b/log');
  });

  it('about itself', async () => {
    for (const path of ['health', 'ready', 'metrics', 'usage', 'openapi.json', 'leadership-shed', 'backup/info'])
      await expect(200, `GET /__svc/${path}`);
    await expect(200, 'POST /__svc/leadership-shed/maintenance');
    await expect(200, 'DELETE /__svc/leadership-shed/maintenance');
    await ask('GET /__svc/webhook-keys');
  });

  it('about groups, tenants and backups', async () => {
    await expect(200, 'POST /__svc/raft/0/snapshot');
    await expect(200, 'POST /__svc/raft/0/purge');
    await expect(200, 'POST /__svc/raft/0/membership?voters=1');
    await ask('POST /__svc/raft/0/leader/transfer/2');
    await ask('POST /__svc/raft/0/nodes/2/allow-next-revert');
    await expect(404, 'POST /__svc/raft/999/snapshot');
    // The node moves bytes to the cold store by itself, too.
    await until('something is moved', async () => {
      await expect(204, 'POST /b/log', TEXT_TYPE, 'hot');
      return (await ask('POST /__svc/flush-cold/b/log')).status === 200;
    });
    await expect(204, 'PUT /__svc/quota/b', JSON_TYPE, '{"max_streams":100}');
    await expect(200, 'GET /__svc/quota/b');
    const exported = await fetch(`${server.adminUrl}/__svc/backup/group/0`);
    await exported.arrayBuffer();
    // With what was exported.
    await expect(200, 'GET /__svc/backup/info');
    await expect(201, 'PUT /doomed/log', TEXT_TYPE, 'x');
    await expect(200, 'DELETE /__svc/purge/doomed');
  });

  it('about subscriptions', async () => {
    await expect(404, `GET ${SUBSCRIPTION}`);
    const wanted = { type: 'pull-wake', streams: ['b/log'], wake_stream: 'b/wakes', description: 'D' };
    await expect(201, 'PUT /b/wakes', JSON_TYPE);
    await expect(201, `PUT ${SUBSCRIPTION}`, JSON_TYPE, JSON.stringify(wanted));
    await expect(200, `GET ${SUBSCRIPTION}`);
    await ask('GET /v1/stream/__ds/jwks.json');
    await expect(201, 'PUT /b/more', TEXT_TYPE);
    await expect(204, `POST ${SUBSCRIPTION}/streams`, JSON_TYPE, '{"streams":["b/more"]}');
    await expect(204, 'POST /b/more', TEXT_TYPE, 'wake up');
    const claimed = JSON.parse((await expect(200, `POST ${SUBSCRIPTION}/claim`, JSON_TYPE, '{"worker":"w"}')).text) as {
      readonly wake_id: string;
      readonly generation: number;
      readonly token: string;
    };
    const { wake_id, generation, token } = claimed;
    const authorized = { ...JSON_TYPE, Authorization: `Bearer ${token}` };
    await expect(200, `POST ${SUBSCRIPTION}/ack`, authorized, JSON.stringify({ wake_id, generation, done: true }));
    await expect(204, `DELETE ${SUBSCRIPTION}`);
  });

  it('every JSON body of the document was seen', () => {
    const all = CATALOG.flatMap(({ operation }) =>
      operation.answers.flatMap(({ content }) => Object.entries(content ?? {})),
    );
    const json = new Set(all.filter(([type]) => /[/+]json$/.test(type)).map(([, schema]) => schema));
    const unseen = [...json].filter((schema) => !CHECKED.has(schema) && !ELSEWHERE.includes(schema));
    assert.deepEqual(unseen, []);
  });
});
