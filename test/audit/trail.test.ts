// How often something leaves a line: changes each time, denials and reads until they come again and again.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { AuditEntry } from '../../src/audit/entry.ts';
import { AuditRig } from './rig.ts';

function denial(from: string, code = 'UNAUTHORIZED'): AuditEntry {
  return { event: 'denied', plane: 'client', who: 'anonymous', from, what: 'GET /{bucket}', status: 401, code };
}

test('a flood from one address is ten lines, and one that says how many more', () => {
  const rig = new AuditRig();
  for (let i = 0; i < 100_000; i++) rig.audit.denied(denial('203.0.113.1'));
  rig.audit.denied(denial('203.0.113.2'));
  rig.audit.denied(denial('203.0.113.1', 'ORIGIN_NOT_ALLOWED'));
  assert.equal(rig.take().length, 12, 'another address or reason has lines of its own');
  rig.audit.tell();
  assert.deepEqual(rig.take(), [{ ...denial('203.0.113.1'), repeated: 99_990 }]);
  rig.audit.denied(denial('203.0.113.1'));
  assert.equal(rig.take().length, 1, 'the next minute has lines of its own');
});

test('a flood from very many addresses is bounded as well, and each denial is counted', () => {
  const rig = new AuditRig();
  const count = 50_000;
  for (let i = 0; i < count; i++) rig.audit.denied(denial(`2001:db8::${i.toString(16)}`));
  rig.audit.tell();
  const lines = rig.take();
  assert(lines.length <= 300, `${lines.length} lines`);
  assert.equal(
    lines.reduce((sum, { repeated = 1 }) => sum + repeated, 0),
    count,
  );
  assert.equal(lines.at(-1)?.from, 'several');
});

test('a page that polls leaves a line a minute for each path, and a change always one', () => {
  const rig = new AuditRig();
  const read = { event: 'admin', who: 'admin_token', from: '::1', what: 'GET /__svc/usage', status: 200 } as const;
  for (let i = 0; i < 30; i++) rig.audit.read({ ...read, path: '/__svc/usage', request_id: `${i}` });
  rig.audit.read({ ...read, path: '/__svc/usage', status: 503 });
  assert.equal(rig.take().length, 2, 'another result is another line');
  rig.audit.tell();
  assert.deepEqual(
    rig.take().map(({ repeated }) => repeated),
    [29],
  );
  for (let i = 0; i < 30; i++) rig.audit.changed({ ...read, what: 'PUT /__svc/quota/{bucket}' });
  assert.equal(rig.take().length, 30);
  rig.audit.tell();
  assert.equal(rig.take().length, 0);
});

test('a token that deletes in a loop has a hundred lines a second, and one that says how many more', () => {
  const rig = new AuditRig();
  let address = 0;
  const deleted = (status: number, who = 'token:a', code?: string): void => {
    const sender = { who, from: `2001:db8::${++address}`, plane: 'client', request_id: `r-${address}` } as const;
    const outcome = code === undefined ? { status } : { status, code };
    rig.audit.changed({ event: 'deleted', what: 'DELETE /{bucket}/{stream}', stream: 's', ...sender, ...outcome });
  };
  for (let i = 0; i < 523; i++) deleted(204);
  for (let i = 0; i < 523; i++) deleted(404, 'token:a', 'STREAM_NOT_FOUND');
  deleted(204, 'token:b');
  deleted(503, 'token:a', 'SHARD_BUSY');
  assert.equal(
    rig.take().length,
    100 + 10 + 2,
    'one that may have happened, and other tokens, have lines of their own',
  );
  rig.audit.tell();
  const counts = rig.take().map(({ status, code, repeated, stream, from }) => [status, code, repeated, stream, from]);
  assert.deepEqual(counts, [
    [204, undefined, 423, undefined, undefined],
    [404, 'STREAM_NOT_FOUND', 513, undefined, undefined],
  ]);
});

test('tenants and strangers hide nothing of operators, however many they are', () => {
  const rig = new AuditRig();
  const crowd = Array.from({ length: 600 }, (_, i) => i);
  for (const i of crowd) {
    const child = {
      who: `token:child-${i}`,
      from: '203.0.113.1',
      plane: 'client',
      what: 'POST /__svc/tokens',
    } as const;
    rig.audit.changed({ event: 'tokens', ...child, token: 'made', status: 201 });
    rig.audit.changed({ event: 'deleted', ...child, what: 'DELETE /{bucket}', status: 409, code: 'BUCKET_NOT_EMPTY' });
    rig.audit.denied({ ...denial(`2001:db8::${i}`), what: `GET /${i}` });
  }
  rig.take();
  const purge = {
    what: 'DELETE /__svc/purge/{bucket}',
    plane: 'admin',
    from: '10.0.0.1',
    path: '/__svc/purge/b',
  } as const;
  const told = [
    { event: 'admin', ...purge, who: 'token:op', status: 200 },
    { event: 'admin', ...purge, who: 'token:op', status: 404, code: 'ROUTE_NOT_FOUND' },
    { event: 'denied', ...purge, who: 'anonymous', status: 401, code: 'UNAUTHORIZED' },
    { event: 'tokens', who: 'node', what: 'published key of the issuer added', token: 'a' },
  ] as const;
  for (const entry of told) {
    if (entry.event === 'denied') rig.audit.denied(entry);
    else rig.audit.changed(entry);
  }
  assert.deepEqual(rig.take(), told);
  rig.audit.tell();
  const events = rig.take().map(({ event, plane, who, repeated }) => [event, plane, who, repeated]);
  const rest = crowd.length - 2 * 256;
  assert.deepEqual(events, [
    ['tokens', 'client', 'several', rest],
    ['denied', 'client', 'several', crowd.length - 256],
    ['deleted', 'client', 'several', rest],
  ]);
});

test('a tenant hides nothing of other tenants, whatever tokens it makes and strangers do', () => {
  const rig = new AuditRig();
  const sent = { from: '203.0.113.1', plane: 'client', what: 'DELETE /{bucket}/{stream}' } as const;
  for (let i = 0; i < 600; i++) {
    const child = { ...sent, who: `token:child-${i}` };
    rig.audit.changed({ event: 'deleted', ...child, status: 204 }, 'token:parent');
    rig.audit.changed({ event: 'deleted', ...child, status: 409, code: 'BUCKET_NOT_EMPTY' }, 'token:parent');
    rig.audit.denied({ event: 'denied', ...child, status: 403, code: 'INSUFFICIENT_SCOPE' }, 'token:parent');
    rig.audit.denied({ ...denial(`2001:db8::${i}`), what: `GET /${i}` });
  }
  assert.equal(rig.take().length, 2 * (128 + 128) + 2 * (86 + 85), 'a part of the keys is free');
  const told = Array.from(
    { length: 16 },
    (_, i) => ({ event: 'deleted', ...sent, who: `token:${i}`, status: 204 }) as const,
  );
  for (const entry of told) rig.audit.changed(entry);
  const denied = told.map((entry) => ({ ...entry, event: 'denied', status: 403 }) as const);
  for (const entry of denied) rig.audit.denied(entry);
  assert.deepEqual(rig.take(), [...told, ...denied]);
});

test('a sender of very many paths still leaves a line for each route', () => {
  const rig = new AuditRig();
  const read = { event: 'admin', plane: 'admin', who: 'token:op', from: '10.0.0.1', status: 200 } as const;
  const content = { ...read, what: 'GET /__svc/streams/{bucket}/{stream}' };
  const group = { ...read, what: 'GET /__svc/backup/group/{group}' };
  for (let i = 0; i < 300; i++) rig.audit.read({ ...content, path: `/__svc/streams/shop/${i}` });
  assert.equal(rig.take().length, 128 + 1);
  for (let i = 0; i < 300; i++) rig.audit.read({ ...group, path: `/__svc/backup/group/${i}` });
  assert.deepEqual(rig.take(), [{ ...group, path: '/__svc/backup/group/0' }]);
  rig.audit.read({ ...content, path: '/__svc/streams/shop/late', who: 'token:other' });
  assert.deepEqual(
    rig.take().map(({ who, path }) => [who, path]),
    [['token:other', '/__svc/streams/shop/late']],
  );
  rig.audit.tell();
  assert.deepEqual(
    rig.take().map(({ who, what, from, repeated }) => [who, what, from, repeated]),
    [
      ['token:op', content.what, 'several', 300 - 129],
      ['token:op', group.what, 'several', 299],
    ],
  );
});
