// Rot in the log of a node that does not run.
import assert from 'node:assert/strict';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { Environment, LmdbTx } from '../../src/store/environment.ts';
import { RECORD_HEAD } from '../../src/store/log-record.ts';
import { type FoundRecord, neededRecords } from '../store/log-contents.ts';
import type { TestServer } from '../support/server.ts';

/** Place of a record's data, behind its head and the head of its first entry. */
export const DATA_AT = 90;

/** Flips a bit of a record that a start needs and behind which others lie; `late`: the last one with another one of its group. */
export async function rot(
  { dataDir }: TestServer,
  shard: number,
  which: 'middle' | 'late' | 'last' = 'middle',
): Promise<FoundRecord> {
  const folder = join(dataDir, `shard-${shard}`);
  const environment = new Environment(folder);
  const records = neededRecords(new LmdbTx(environment.state), join(folder, 'log'));
  await environment.close();
  // A seal and a vote have nothing there but what fills their page.
  const withData = records.slice(0, -1).filter(({ dataBytes }) => RECORD_HEAD.size + dataBytes > DATA_AT);
  const late = (): FoundRecord | undefined =>
    withData.findLast(({ items: [item] }, i) =>
      withData.slice(i + 1).some(({ items }) => items.some(({ group }) => group === item?.group)),
    );
  const picks = { middle: () => withData[withData.length >> 1], late, last: () => withData.at(-1) };
  const record = picks[which]();
  assert(record !== undefined && records.length > 2, `${records.length} records are needed`);
  const content = readFileSync(record.path);
  content[record.at + DATA_AT] = (content[record.at + DATA_AT] ?? 0) ^ 0x10;
  writeFileSync(record.path, content);
  return record;
}
