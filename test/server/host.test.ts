// The end of a node's parts when some of them do not close.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { type Opened, closeAll } from '../../src/server/host.ts';

test('parts that fail to close keep no other one open, and the first error is told', async () => {
  const ended: string[] = [];
  const fails = (name: string): Promise<never> => {
    ended.push(name);
    return Promise.reject(new Error(`planted: ${name}`));
  };
  const opened: Opened = {
    services: {
      stop: () => {
        ended.push('stop');
        throw new Error('planted: stop');
      },
      close: () => fails('services'),
    },
    tracing: { traces: undefined, metrics: () => ({}), stop: () => fails('tracing') },
    lock: {
      release: () => {
        ended.push('lock');
        return Promise.resolve();
      },
    },
  };
  await assert.rejects(closeAll(opened, 0), /planted: stop/);
  assert.deepEqual(ended, ['stop', 'tracing', 'services', 'lock']);
});
