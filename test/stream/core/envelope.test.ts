// Answers of many short records, each in its envelope.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { READ_BYTES_MAX } from '../../../src/base/limits.ts';
import { QUERIES } from '../../../src/protocol/operations.ts';
import { READ_FLAG_ENVELOPE } from '../../../src/protocol/queries/read.ts';
import { READ_RECORD } from '../../../src/protocol/read-fields.ts';
import { requestFor } from '../../../src/protocol/request.ts';
import { Proposer } from '../propose.ts';
import { plainCommand } from '../random-commands.ts';
import { GROUP, Replica } from '../replica.ts';

const NOW = 1_700_000_000_000;
const RECORDS = 100_000;
const LONGEST = `{"record":${RECORDS},"value":1},`.length;

test('envelopes count in the bound of an answer, and reading on brings every record', () => {
  const replica = new Replica();
  const proposer = new Proposer();
  const body = new Uint8Array(Buffer.from(`[${'1,'.repeat(RECORDS - 1)}1]`));
  const create = { ...plainCommand(NOW, 'bucket', 's'), kind: 'create' as const, type: 'application/json', body };
  assert.equal(proposer.add(create, undefined, false), 'OK');
  assert.equal(replica.applyEntry(1, proposer.finish())[0]?.code, 'OK');
  const seen: number[] = [];
  for (let answers = 1; seen.length < RECORDS; answers++) {
    assert(answers <= RECORDS, 'each answer has a record');
    const asked = { bucket: 'bucket', stream: 's', mode: READ_RECORD, value: seen.length };
    const request = requestFor(QUERIES.read, GROUP, { ...asked, readFlags: READ_FLAG_ENVELOPE });
    const answer = replica.query(request, NOW);
    assert(answer.body.length <= READ_BYTES_MAX + LONGEST, `${answer.body.length} bytes`);
    for (const { record, value } of JSON.parse(answer.body.toString()) as { record: number; value: number }[]) {
      assert.equal(value, 1);
      seen.push(record);
    }
    assert.equal(answer.outcome.records, `0/${asked.value}/${seen.length}`);
    if (seen.length < RECORDS)
      assert(answer.body.length > READ_BYTES_MAX - LONGEST, 'an answer is as long as it may be');
  }
  assert(seen.every((record, i) => record === i));
});
