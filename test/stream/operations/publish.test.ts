// A snapshot that is published again by a client that lost the first answer: the same state, and no conflict.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { errorCode } from '../../../src/base/errors.ts';
import { snapshotDigest } from '../../../src/digest/blake3.ts';
import { COMMANDS } from '../../../src/protocol/operations.ts';
import { payloadOfSnapshot, writePublishHead } from '../../../src/protocol/position-command.ts';
import { Teller } from '../../upgrade/state-teller.ts';

const TYPE = 'text/plain';
const UNCHECKED = { byRecord: false, checkedIncarnation: 0, checkedOffset: 0, checkedRecord: 0 };
const utf8 = (text: string): Uint8Array => new TextEncoder().encode(text);
const digestOf = (text: string): Uint8Array => snapshotDigest(TYPE, utf8(text));

/** A replica of a group that has one stream of three bytes. */
class Replica {
  readonly #rows: string[] = [];
  readonly #teller = new Teller(1, {
    same: (name, bytes) => {
      this.#rows.push(`${name} ${Buffer.from(bytes).toString('hex')}`);
      return bytes;
    },
  });

  constructor() {
    this.#teller.say('create', {
      ...{ kind: COMMANDS.create.number, stream: 's', contentType: TYPE },
      payload: utf8('abc'),
    });
  }

  publish(offset: number, text: string, replaces?: string): string {
    const payload = payloadOfSnapshot(utf8(text));
    const match = replaces === undefined ? undefined : digestOf(replaces);
    writePublishHead(payload, { position: { ...UNCHECKED, value: offset }, digest: digestOf(text), match });
    const publishing = { kind: COMMANDS.publishSnapshot.number, stream: 's', contentType: TYPE };
    return errorCode(this.#teller.say('publish', { ...publishing, payload }).code);
  }

  /** All that the replica keeps. */
  rows(): readonly string[] {
    this.#rows.length = 0;
    this.#teller.rows('state');
    return this.#rows.splice(0);
  }
}

test('the same snapshot again is no conflict with itself, and changes as little as one that is refused', () => {
  const [repeated, refused] = [new Replica(), new Replica()];
  for (const replica of [repeated, refused]) {
    assert.equal(replica.publish(0, 'first'), 'OK');
    assert.equal(replica.publish(3, 'second', 'first'), 'OK');
  }
  assert.equal(repeated.publish(3, 'second', 'first'), 'OK');
  assert.equal(refused.publish(3, 'other', 'first'), 'SNAPSHOT_MISMATCH');
  assert.equal(repeated.publish(3, 'second', 'second'), 'OK');
  assert.equal(refused.publish(3, 'other', 'second'), 'SNAPSHOT_CONFLICT');
  const rows = repeated.rows();
  assert(rows.length > 2);
  assert.deepEqual(rows, refused.rows());
});
