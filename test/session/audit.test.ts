// Sessions in the audit log: deletions and denials leave the lines that HTTP's requests leave.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { errorNumber } from '../../src/base/errors.ts';
import { AuditRig } from '../audit/rig.ts';
import { startPlanes } from '../http/planes.ts';
import { bookOf, listed, scopeOf, textOf } from '../support/scoped-tokens.ts';
import { APPEND, DELETE, DONE, READ, REFUSED, SessionClient, TEXT } from './client.ts';

test('a session leaves a line for each deletion and each denial', async (t) => {
  const log = new AuditRig(['127.0.0.1']);
  const clientTokens = bookOf([listed('cleaner', [scopeOf('b', 'tmp-*', 'delete', 'append')])]);
  const rig = await startPlanes(t, { clientTokens, ...log });
  const headers = [`Authorization: Bearer ${textOf('cleaner')}`, 'X-Forwarded-For: 203.0.113.9', 'X-Request-Id: s1'];
  const client = await SessionClient.connect(rig.port, { headers });
  const ask = async (kind: number, id: number, stream: string, ...rest: unknown[]): Promise<number> =>
    (await client.ask(kind, id, 'b', stream, ...rest)).kind;
  assert.equal(await ask(APPEND, 1, 'tmp-1', Buffer.from('x'), TEXT), DONE);
  assert.deepEqual(log.take(), [], 'an append leaves none');
  assert.equal(await ask(DELETE, 2, 'tmp-1', {}), DONE);
  rig.gateway.script = (_, reply) => void (reply.code = errorNumber('STREAM_NOT_FOUND'));
  assert.equal(await ask(DELETE, 3, 'tmp-2', {}), REFUSED);
  rig.gateway.full = true;
  assert.equal(await ask(DELETE, 4, 'tmp-3', {}), REFUSED);
  assert.equal(await ask(DELETE, 5, 'kept', {}), REFUSED);
  assert.equal(await ask(READ, 6, 'tmp-1', {}), REFUSED);
  const sender = { who: 'token:cleaner', from: '203.0.113.9', via: '127.0.0.1', plane: 'client', request_id: 's1' };
  assert.deepEqual(
    log.take(),
    [
      { event: 'deleted', what: 'session delete', stream: 'tmp-1', status: 204 },
      { event: 'deleted', what: 'session delete', stream: 'tmp-2', status: 404, code: 'STREAM_NOT_FOUND' },
      { event: 'deleted', what: 'session delete', stream: 'tmp-3', status: 503, code: 'SHARD_BUSY' },
      { event: 'denied', what: 'session delete', stream: 'kept', status: 404, code: 'STREAM_NOT_FOUND' },
      { event: 'denied', what: 'session read', stream: 'tmp-1', status: 403, code: 'INSUFFICIENT_SCOPE' },
    ].map((line) => ({ ...line, ...sender, bucket: 'b' })),
  );
  client.destroy();
});
