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
