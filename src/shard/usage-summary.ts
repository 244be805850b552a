/** The usage meter of a shard's groups, page by page: with 100,000s of buckets, all of it would take seconds. */
import type { Group } from '../group/group.ts';
import { type Bucket, isMetered } from '../stream/core/buckets.ts';
import type { Reply } from '../protocol/reply.ts';
import type { Query } from '../protocol/request.ts';
import { compareText } from '../base/text.ts';
import { encodeUtf8 } from '../base/utf8.ts';
import { QUERIES } from '../protocol/operations.ts';
import type { UsageRow } from '../protocol/queries/summaries.ts';

/** While it is summed up. */
type Row = { -readonly [At in keyof UsageRow]: UsageRow[At] };

/** Rows after the bucket `after`, about `limit` of them (0: all), in byte order of the names. */
export function answerUsage(groups: readonly Group[], query: Query, reply: Reply): void {
  const { after, limit, names } = QUERIES.usage.request.read(query);
  if (names !== undefined) return answerNamed(groups, names, reply);
  // Each group's share of the page. A group with more than its share ends the page at its last name, because beyond it
  // not all groups are known. So every page makes progress and reads few more rows than it returns.
  const part = limit === 0 ? Infinity : Math.ceil(limit / groups.length);
  const rows = new Map<string, Row>();
  let end: string | undefined;
  for (const { state } of groups) {
    let seen = 0;
    let last = '';
    state.buckets.each(state.tx, encodeUtf8(after), (bucket) => {
      if (!isMetered(bucket)) return true;
      if (seen++ === part) {
        if (end === undefined || compareText(last, end) < 0) end = last;
        return false;
      }
      last = bucket.text;
      add(rows, bucket);
      return true;
    });
  }
  const page = [...rows.values()].filter(([name]) => end === undefined || compareText(name, end) <= 0);
  page.sort(([a], [b]) => compareText(a, b));
  QUERIES.usage.result.write(reply, { hasMore: end !== undefined, rows: page });
}

/** Looks up each bucket: what it takes tells nothing about how many others there are. */
function answerNamed(groups: readonly Group[], names: readonly string[], reply: Reply): void {
  const rows = new Map<string, Row>();
  for (const name of names.map(encodeUtf8)) {
    for (const { state } of groups) {
      const bucket = state.buckets.of(state.tx, name, 0, name.length);
      if (isMetered(bucket)) add(rows, bucket);
    }
  }
  const sorted = [...rows.values()].sort(([a], [b]) => compareText(a, b));
  QUERIES.usage.result.write(reply, { hasMore: false, rows: sorted });
}

function add(rows: Map<string, Row>, bucket: Bucket): void {
  const row: Row = rows.get(bucket.text) ?? [bucket.text, 0, 0, 0, 0, 0];
  row[1] += bucket.appendBytes;
  row[2] += bucket.records;
  row[3] += bucket.writeUnits;
  row[4] += bucket.retainedBytes;
  row[5] += bucket.streamCount;
  rows.set(bucket.text, row);
}
