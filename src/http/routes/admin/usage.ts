/**
 * GET /__svc/usage: the meters of all groups on this node, summed per bucket.
 *
 * Shards are asked for pages in the order of the names, and the pages are merged as they come: a report of a million buckets
 * takes none of them long and lies in no memory as a whole. A bucket's numbers are those of the moment its page was made.
 */
import { USAGE_VERSION, WRITE_UNIT_BYTES } from '../../../base/limits.ts';
import { decodeUtf8, encodeUtf8 } from '../../../base/utf8.ts';
import type { Reply } from '../../../protocol/reply.ts';
import { ALL_GROUPS, newRequest } from '../../../protocol/request.ts';
import { compareText } from '../../../base/text.ts';
import { Outpour } from '../../outpour.ts';
import type { Plane } from '../../plane.ts';
import { JSON_TYPE, type Responder } from '../../respond.ts';
import type { UwsResponse } from '../../uws.ts';
import { QUERIES } from '../../../protocol/operations.ts';

/** Buckets of one page: a few milliseconds of a shard. */
const PAGE_BUCKETS = 512;
/** Characters written at once. */
const PIECE_CHARS = 64 * 1024;

const METERS = [
  'committed_append_bytes',
  'committed_records',
  'committed_write_units',
  'retained_bytes',
  'stream_count',
] as const;

/** A bucket on one shard: its name and its meters in their order. */
type Row = readonly [name: string, ...meters: number[]];

export function handleUsage(plane: Plane, res: UwsResponse, responder: Responder, startedMs: number): void {
  const out = new Outpour(plane, res, responder, 'other', startedMs);
  if (responder.headOnly) out.whole(200, writeType, undefined);
  else new Report(plane, out).start();
}

function writeType(res: UwsResponse): void {
  res.writeHeader('content-type', JSON_TYPE);
}

/** What is known of one shard's buckets. */
interface Source {
  readonly shard: number;
  rows: readonly Row[];
  next: number;
  more: boolean;
  /** Name of the last row of the page. */
  last: string;
}

class Report {
  readonly #plane: Plane;
  readonly #out: Outpour;
  readonly #sources: Source[];
  #text = `{"version":${USAGE_VERSION},"write_unit_bytes":${WRITE_UNIT_BYTES},"buckets":{`;
  #isFirst = true;
  #begun = false;
  #asked = 0;

  constructor(plane: Plane, out: Outpour) {
    this.#plane = plane;
    this.#out = out;
    const { shardCount } = plane.ctx.gateway;
    this.#sources = Array.from({ length: shardCount }, (_, shard) => ({
      shard,
      rows: [],
      next: 0,
      more: true,
      last: '',
    }));
  }

  start(): void {
    this.#fetch();
  }

  /** Asks those whose page is used up; goes on with the merge when all have answered. */
  #fetch(): void {
    const empty = this.#sources.filter((source) => source.more && source.next === source.rows.length);
    if (empty.length === 0) return this.#merge();
    this.#asked = empty.length;
    for (const source of empty) this.#ask(source);
  }

  #ask(source: Source): void {
    const query = newRequest();
    query.op = QUERIES.usage.number;
    query.group = ALL_GROUPS;
    query.command.bucket = source.last;
    query.maxRecords = PAGE_BUCKETS;
    const onReply = (reply: Reply): void => this.#out.guard(() => this.#take(source, reply));
    if (!this.#plane.ctx.gateway.send(query, { onReply }, source.shard)) this.#out.fail('SHARD_BUSY');
  }

  #take(source: Source, reply: Reply): void {
    if (reply.code !== 0) return this.#out.refusal(reply);
    source.rows = JSON.parse(reply.body === undefined ? '[]' : decodeUtf8(reply.body)) as Row[];
    source.next = 0;
    source.more = reply.a === 1;
    source.last = source.rows.at(-1)?.[0] ?? source.last;
    this.#asked--;
    return this.#asked === 0 ? this.#merge() : undefined;
  }

  /** Writes bucket after bucket until a page is used up. */
  #merge(): void {
    while (this.#text.length < PIECE_CHARS) {
      if (this.#sources.some((source) => source.more && source.next === source.rows.length)) return this.#fetch();
      const name = this.#smallest();
      if (name === undefined) return this.#end();
      this.#add(name);
    }
    if (!this.#begun) this.#out.begin(200, writeType);
    this.#begun = true;
    const piece = encodeUtf8(this.#text);
    this.#text = '';
    return this.#out.write(piece, () => this.#merge());
  }

  #smallest(): string | undefined {
    let smallest: string | undefined;
    for (const { rows, next } of this.#sources) {
      const name = rows[next]?.[0];
      if (name !== undefined && (smallest === undefined || compareText(name, smallest) < 0)) smallest = name;
    }
    return smallest;
  }

  #add(name: string): void {
    const sums = METERS.map(() => 0);
    for (const source of this.#sources) {
      const row = source.rows[source.next];
      if (row?.[0] !== name) continue;
      source.next++;
      for (let i = 0; i < sums.length; i++) sums[i] = (sums[i] as number) + (row[i + 1] as number);
    }
    // Reserved buckets are the service's own, not a tenant's.
    if (name.startsWith('__')) return;
    const meters = METERS.map((meter, i) => `"${meter}":${sums[i]}`).join(',');
    this.#text += `${this.#isFirst ? '' : ','}${JSON.stringify(name)}:{${meters}}`;
    this.#isFirst = false;
  }

  #end(): void {
    this.#text += '}}';
    const rest = encodeUtf8(this.#text);
    if (!this.#begun) return this.#out.whole(200, writeType, rest);
    return this.#out.write(rest, () => this.#out.end());
  }
}
