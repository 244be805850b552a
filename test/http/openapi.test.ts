// The OpenAPI document: it is valid, and every method, path, status and code of it is
// provoked here. An answer that is not documented fails too.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Validator } from '@seriousme/openapi-schema-validator';
import { VERSION } from '../../src/config/version.ts';
import { openApiDocument } from '../../scripts/openapi/document.ts';
import { PARAMETERS, type Parameter } from '../../scripts/openapi/parameters.ts';
import { ADMIN_ROWS, CLIENT_ROWS } from '../../src/http/routes/table.ts';
import { CATALOG, DOCUMENT, bodyFaultOf, faultOf } from '../support/documented.ts';
import { type Document, DocumentSchemas, type Exchange } from '../support/documented-body.ts';
import { RawClient, type RawResponse, requestOnce } from '../support/raw-client.ts';
import { until } from '../support/until.ts';
import { startPlanes } from './planes.ts';
import { portOf, provoke, startScene, succeed, urlOf } from './provocations.ts';

for (const plane of ['client', 'admin'] as const) {
  test(`what the ${plane} plane serves is its part of the document, and valid OpenAPI 3.1`, async (t) => {
    const { port, adminPort } = await startPlanes(t);
    const answer = await requestOnce(plane === 'client' ? port : adminPort, 'GET', '/__svc/openapi.json');
    assert.equal(answer.headers.get('content-type'), 'application/json');
    const rows = { client: CLIENT_ROWS, admin: ADMIN_ROWS };
    assert.equal(answer.body.toString(), JSON.stringify(openApiDocument({ rows, version: VERSION, plane })));
    const document = JSON.parse(answer.body.toString()) as Record<string, unknown>;
    const validator = new Validator();
    const { valid, errors } = await validator.validate(document);
    assert(valid, JSON.stringify(errors));
    assert.equal(validator.version, '3.1');
    assert(!JSON.stringify(validator.resolveRefs()).includes('"$ref"'), 'every reference leads somewhere');
    const paths = Object.keys(document['paths'] as object);
    assert.equal(paths.includes('/__svc/backup/info'), plane === 'admin');
    assert(paths.includes('/v1/stream/{path}'));
  });
}

test('names of operations are unique, and examples are what they are examples of', () => {
  const ids = CATALOG.map(({ operation }) => operation.id);
  assert.deepEqual(
    ids.filter((id, i) => ids.indexOf(id) !== i),
    [],
  );
  for (const [name, { schema, example }] of Object.entries<Parameter>(PARAMETERS)) {
    const { pattern, enum: values } = schema;
    if (typeof pattern === 'string') assert.match(String(example), new RegExp(pattern), name);
    if (Array.isArray(values)) assert(values.includes(example), name);
  }
});

/** The difference between an answer and the one that was expected. */
function fault(entry: (typeof CATALOG)[number], wanted: string, answer: RawResponse): string[] {
  const { status, headers, body } = answer;
  const code = headers.get('millrace-error');
  const got = code === undefined ? String(status) : `${status} ${code}`;
  const url = urlOf(entry);
  const seen = { method: entry.method, url, status, headers };
  const undocumented = faultOf(seen, headers.keys());
  const unsound = bodyFaultOf({ ...seen, body: body.toString() });
  return [
    ...(got === wanted
      ? []
      : [`${entry.method} ${url}: ${got} instead of ${wanted}: ${body.toString().slice(0, 200)}`]),
    ...(undocumented === undefined ? [] : [undocumented]),
    ...(unsound === undefined ? [] : [unsound]),
    // Every refusal has it, and nothing else.
    ...(/^[\w.:/+=@-]{1,128}$/.test(headers.get('x-request-id') ?? '') === status >= 400
      ? []
      : [`${entry.method} ${url}: ${status} with the request id ${headers.get('x-request-id')}`]),
  ];
}

test('a wrong schema, status, type or header in the document, or in what a node gives, is seen', () => {
  const bucket = {
    ...{ method: 'GET', path: '/{bucket}', status: 200, body: '{"bucket_id":"b","streams":1}' },
    headers: new Map([['content-type', 'application/json']]),
  };
  const quota = {
    ...{ method: 'PUT', path: '/__svc/quota/{bucket}', status: 204, body: '', headers: new Map<string, string>() },
    sent: { type: 'application/json', body: '{"max_streams":1}' },
  };
  const text = JSON.stringify(DOCUMENT);
  const faults = (from: string, to: string, exchange: Exchange): string => {
    const planted = text.replace(from, to);
    assert(from === '' || planted !== text, from);
    return new DocumentSchemas(JSON.parse(planted) as Document).faultsOf(exchange).join('; ');
  };
  assert.equal(faults('', '', bucket), '');
  assert.equal(faults('', '', quota), '');
  const schema =
    '"Bucket":{"type":"object","required":["bucket_id","streams"],"properties":{"bucket_id":{"type":"string"},';
  assert.match(faults(schema, schema.replace('"string"', '"integer"'), bucket), /bucket_id must be integer/);
  assert.match(faults('', '', { ...bucket, body: '{"bucket_id":"b"}' }), /required property 'streams'/);
  assert.match(faults('', '', { ...bucket, body: '{"bucket_id":"b","streams":1,"x":1}' }), /additional properties/);
  assert.match(faults('', '', { ...bucket, status: 202 }), /202 is not in the document/);
  assert.match(faults('', '', { ...bucket, body: '{' }), /is no JSON/);
  const html = new Map([['content-type', 'text/html']]);
  assert.match(faults('', '', { ...bucket, headers: html }), /text\/html, and the document application\/json/);
  assert.match(faults('', '', { ...quota, body: 'x' }), /a body that is not in the document/);
  const sent = { type: 'application/json', body: '{"max_streams":"1"}' };
  assert.match(faults('', '', { ...quota, sent }), /request was taken.*max_streams must be integer,null/);
  const created = { ...quota, path: '/{bucket}/{stream}', status: 201, headers: new Map([['Stream-TTL', 'soon']]) };
  assert.match(faults('', '', created), /header Stream-TTL: soon .*must be integer/);
});

test('every answer in the document is given', async (t) => {
  const scene = await startScene(t);
  const faults: string[] = [];
  for (const entry of CATALOG) {
    for (const { status } of entry.operation.answers) {
      faults.push(...fault(entry, String(status), await succeed(scene, entry, status)));
    }
  }
  assert.deepEqual(faults, []);
});

test('every refusal in the document is given, and one that asks for a repeat says when', async (t) => {
  const scene = await startScene(t);
  const faults: string[] = [];
  let provoked = 0;
  const look = async (entry: (typeof CATALOG)[number], refusal: (typeof entry.refusals)[number]): Promise<void> => {
    const answer = await provoke(scene, entry, refusal);
    faults.push(...fault(entry, `${refusal.status} ${refusal.code}`, answer));
    const mustRepeat = refusal.status === 507 || refusal.headers.includes('Retry-After');
    if (mustRepeat && answer.headers.get('retry-after') !== '1') faults.push(`${refusal.code}: no Retry-After`);
    provoked++;
  };
  // They are told late, and have planes of their own.
  const late: Promise<void>[] = [];
  for (const entry of CATALOG) {
    for (const refusal of entry.refusals) {
      if (refusal.code === 'STOPPING') continue;
      if (refusal.code === 'RATE_LIMITED') late.push(look(entry, refusal));
      else await look(entry, refusal);
    }
  }
  await Promise.all(late);
  assert.deepEqual(faults, []);
  assert(provoked > 1000, `${provoked} refusals`);
});

test('a node that stops refuses every operation', async (t) => {
  const rig = await startPlanes(t, {}, false);
  const connections = new Map<number, RawClient>();
  for (const port of [rig.port, rig.adminPort]) connections.set(port, await RawClient.connect(port));
  t.after(() => connections.forEach((one) => one.destroy()));
  // Their connections stay while an answer is missing.
  rig.gateway.script = () => false;
  const waiting = [
    requestOnce(rig.port, 'GET', '/b/s/attrs'),
    requestOnce(rig.adminPort, 'POST', '/__svc/flush-cold/b/s'),
  ];
  await until('both requests wait', () => rig.gateway.heldCount === waiting.length);
  const closed = rig.planes.close(10_000);
  const faults: string[] = [];
  for (const entry of CATALOG) {
    const answer = await connections.get(portOf(entry, rig))?.request(entry.method, urlOf(entry));
    if (answer !== undefined) faults.push(...fault(entry, '503 STOPPING', answer));
  }
  assert.deepEqual(faults, []);
  rig.gateway.release();
  await Promise.all([...waiting, closed]);
});
