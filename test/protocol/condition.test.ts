// Preconditions: what headers become, when they hold, and how a command carries them.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import {
  Command,
  KIND_CONDITIONAL,
  KIND_EXPECTING,
  commandBytesMax,
  newCommandFields,
  writeCommand,
} from '../../src/protocol/command.ts';
import { rewriteCommand, rewrittenBytes } from '../../src/protocol/rewrite-command.ts';
import { conditionHolds, conditionText, streamTag } from '../../src/protocol/condition.ts';
import { encodeUtf8 } from '../../src/base/utf8.ts';
import { COMMANDS } from '../../src/protocol/operations.ts';

const TAG = streamTag(3, 1_700_000_000_000, 42, false);
const OTHER = streamTag(3, 1_700_000_000_000, 42, true);

test('what If-Match and If-None-Match allow', () => {
  for (const [match, noneMatch, now, isHeld] of [
    [`"${TAG}"`, '', TAG, true],
    [`"${TAG}"`, '', OTHER, false],
    [`"${OTHER}", "${TAG}"`, '', TAG, true],
    [`W/"${TAG}"`, '', TAG, false],
    ['*', '', TAG, true],
    ['*', '', undefined, false],
    [`"${TAG}"`, '', undefined, false],
    ['nonsense', '', TAG, false],
    ['', '', TAG, false],
    [' ', '', undefined, false],
    [undefined, '*', TAG, false],
    [undefined, '*', undefined, true],
    [undefined, `"${OTHER}"`, TAG, true],
    [undefined, `W/"${TAG}"`, TAG, false],
    [`"${TAG}"`, `"${OTHER}"`, TAG, true],
    ['*', '*', TAG, false],
  ] as const) {
    const text = conditionText(match, noneMatch);
    assert(text !== undefined && text !== '');
    assert.equal(conditionHolds(text, now), isHeld, `${match} | ${noneMatch} | ${now}`);
  }
  assert.equal(conditionText(undefined, ' '), '');
  assert.equal(conditionText(Array(17).fill(`"${TAG}"`).join(), ''), undefined);
});

test('a command carries its condition, also when it is rewritten, and a node that knows none meets an unknown kind', () => {
  const fields = newCommandFields();
  Object.assign(fields, {
    kind: COMMANDS.create.number,
    bucket: 'b',
    stream: 's',
    streamSeq: 'q',
    condition: `${TAG} *`,
    expectedOffset: 2 ** 45 + 3,
  });
  Object.assign(fields, {
    attributes: encodeUtf8('{}'),
    payload: encodeUtf8('old'),
    contentType: 'x/y',
    producerId: 'p',
  });
  const bytes = new Uint8Array(commandBytesMax(fields));
  const view = new DataView(bytes.buffer);
  const size = writeCommand(fields, bytes, view, 0);
  const command = new Command();
  command.read(bytes, view, 0);
  assert.equal(command.end, size);
  assert.equal(bytes[0], COMMANDS.create.number + KIND_CONDITIONAL + KIND_EXPECTING);
  const show = (): unknown[] => [
    ...[command.kind, command.keyText(), command.streamSeq(), command.condition(), command.expectedOffset],
  ];
  const shown = [COMMANDS.create.number, 'b\0s', 'q', `${TAG} *`, 2 ** 45 + 3];
  assert.deepEqual(show(), shown);
  const attributes = encodeUtf8('{"title":"x"}');
  const payload = encodeUtf8('1\n2\n');
  const replacement = { attributes, payload, ends: [2, 4] };
  const copy = new Uint8Array(rewrittenBytes(command, replacement));
  const copyView = new DataView(copy.buffer);
  assert.equal(rewriteCommand(command, replacement, copy, copyView, 0), copy.length);
  command.read(copy, copyView, 0);
  assert.deepEqual(show(), shown);
  assert.deepEqual([command.end, command.recordCount, command.attributesBytes], [copy.length, 2, attributes.length]);

  fields.kind = COMMANDS.append.number;
  fields.condition = '';
  writeCommand(fields, bytes, view, 0);
  command.read(bytes, view, 0);
  assert.deepEqual([bytes[0], command.conditionBytes], [COMMANDS.append.number + KIND_EXPECTING, 0]);
  fields.expectedOffset = -1;
  writeCommand(fields, bytes, view, 0);
  command.read(bytes, view, 0);
  assert.deepEqual([bytes[0], command.condition(), command.expectedOffset], [COMMANDS.append.number, '', -1]);
});
