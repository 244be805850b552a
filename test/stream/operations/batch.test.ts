// A batch without a producer that expects an offset: no later frame takes the place of the first one there.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { errorCode } from '../../../src/base/errors.ts';
import { joinFrames } from '../../../src/protocol/append-batch.ts';
import { encodeQuota } from '../../../src/protocol/bucket-command.ts';
import { Command, commandBytesMax, newCommandFields, writeCommand } from '../../../src/protocol/command.ts';
import { COMMANDS } from '../../../src/protocol/operations.ts';
import { Reply } from '../../../src/protocol/reply.ts';
import { apply } from '../../../src/stream/apply.ts';
import { Replica } from '../replica.ts';

class Batches {
  readonly #replica = new Replica();
  readonly #command = new Command();

  constructor(retainedBytesMax: number) {
    this.#run(COMMANDS.create.number);
    this.#run(COMMANDS.quota.number, encodeQuota({ streamsMax: -1, retainedBytesMax }));
  }

  /** The statuses of the frames, and the tail after them. */
  append(expectedOffset: number, ...frames: string[]): { readonly statuses: string; readonly tail: number } {
    const body = joinFrames(frames.map((frame) => Buffer.from(frame)));
    const reply = this.#run(COMMANDS.appendBatch.number, body, expectedOffset);
    const results = JSON.parse(Buffer.from(reply.body ?? []).toString()) as readonly { readonly status: number }[];
    const statuses = results.map(({ status }) => status);
    const { framesRefused } = COMMANDS.appendBatch.result.read(reply);
    assert.equal(framesRefused, statuses.filter((status) => status !== 204).length);
    return { statuses: statuses.join(' '), tail: reply.nextOffset };
  }

  #run(kind: number, payload?: Uint8Array, expectedOffset = -1): Reply {
    const stream = kind === COMMANDS.quota.number ? '' : 's';
    const fields = { ...newCommandFields(), kind, bucket: 'b', stream, nowMs: 1000, payload, expectedOffset };
    if (stream !== '') fields.contentType = 'text/plain';
    const bytes = new Uint8Array(commandBytesMax(fields));
    const view = new DataView(bytes.buffer);
    writeCommand(fields, bytes, view, 0);
    this.#command.read(bytes, view, 0);
    const reply = new Reply();
    apply(this.#replica.state, this.#command, reply);
    assert.equal(errorCode(reply.code), 'OK');
    return reply;
  }
}

test('when a quota or an empty body refuses the first frame, no other is at the expected offset', () => {
  const batches = new Batches(6);
  assert.deepEqual(batches.append(0, 'too long', 'a', ''), { statuses: '429 429 429', tail: 0 });
  assert.deepEqual(batches.append(0, '', 'a', 'too long'), { statuses: '400 400 400', tail: 0 });
  assert.deepEqual(batches.append(0, 'ab', 'too long', '', 'c'), { statuses: '204 429 400 204', tail: 3 });
});

test('without an expected offset each frame is on its own', () => {
  const batches = new Batches(6);
  assert.deepEqual(batches.append(-1, 'too long', 'a', '', 'b'), { statuses: '429 204 400 204', tail: 2 });
});
