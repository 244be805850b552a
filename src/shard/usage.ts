/** The usage meter of a shard's groups, page by page: with hundreds of thousands of buckets all of it would take seconds. */
import { encodeUtf8 } from '../base/utf8.ts';
import type { Group } from '../group/group.ts';
import { isMetered } from '../stream/buckets.ts';
import type { Reply } from '../wire/reply.ts';
import type { Query } from '../wire/request.ts';
import { compareText } from '../wire/text.ts';

type Row = [
  name: string,
  appendBytes: number,
  records: number,
  writeUnits: number,
  retainedBytes: number,
  streamCount: number,
];

/**
 * USAGE: rows behind the bucket `key`, up to `maxRecords` of them (0: all), in order of the names' bytes. a = 1 when more
 * follow.
 */
export function answerUsage(groups: readonly Group[], query: Query, reply: Reply): void {
  const after = query.bytes.slice(query.keyAt, query.keyAt + query.keyBytes);
  const most = query.maxRecords === 0 ? Infinity : query.maxRecords;
  const rows = new Map<string, Row>();
  let more = false;
  for (const { state } of groups) {
    let seen = 0;
    state.buckets.each(state.tx, after, (bucket) => {
      if (!isMetered(bucket)) return true;
      // One look further than the page: whether there is more.
      if (seen++ === most) {
        more = true;
        return false;
      }
      const row: Row = rows.get(bucket.text) ?? [bucket.text, 0, 0, 0, 0, 0];
      row[1] += bucket.appendBytes;
      row[2] += bucket.records;
      row[3] += bucket.writeUnits;
      row[4] += bucket.retainedBytes;
      row[5] += bucket.streamCount;
      rows.set(bucket.text, row);
      return true;
    });
  }
  // A group that has more than the page has given `most` names, so the first `most` of all are complete.
  const sorted = [...rows.values()].sort(([a], [b]) => compareText(a, b));
  if (sorted.length > most) more = true;
  reply.a = more ? 1 : 0;
  reply.body = encodeUtf8(JSON.stringify(sorted.slice(0, most)));
}
