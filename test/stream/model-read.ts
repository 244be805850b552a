// Reads of the dumb model (see model.ts): what GET, HEAD, a listing and the usage report should show.
import type { Model } from './model.ts';
import type { Outcome } from './model-command.ts';
import type { ModelStream } from './model-rules.ts';

/** Largest read answer in stored bytes (limits.ts READ_BYTES_MAX). */
const READ_BYTES_MAX = 1024 * 1024;

export interface ModelRead {
  readonly mode: 'offset' | 'now' | 'record' | 'record-now' | 'tail-records';
  readonly value: number;
  /** 0 = none. */
  readonly maxBytes: number;
  readonly maxRecords: number;
  readonly envelope: boolean;
  /** Message ends and bytes; whole messages also of a byte stream. */
  readonly parts: boolean;
}

export interface ModelAnswer {
  readonly outcome: Outcome;
  readonly body: Buffer;
}

function nothing(code: string): ModelAnswer {
  const outcome = { code, next: 0, start: 0, flags: [], records: '', producer: '', type: '' };
  return { outcome, body: Buffer.alloc(0) };
}

export function modelRead(stream: ModelStream | undefined, read: ModelRead): ModelAnswer {
  if (stream === undefined) return nothing('STREAM_NOT_FOUND');
  const start = startOf(stream, read);
  if (typeof start === 'string') return refused(stream, start);
  let to = stream.tail;
  let next = stream.messages.length;
  const budget = Math.min(read.maxBytes === 0 ? READ_BYTES_MAX : read.maxBytes, READ_BYTES_MAX);
  const most = read.maxRecords === 0 ? Infinity : read.maxRecords;
  if (!stream.json && !read.parts) {
    to = Math.min(to, start.offset + budget);
  } else {
    next = start.record;
    to = start.offset;
    let envelopes = 0;
    while (next < stream.messages.length && next - start.record < most) {
      const end = stream.ends[next] as number;
      if (read.envelope) envelopes += `{"record":${next},"value":}`.length;
      if (end - start.offset + envelopes > budget && next > start.record) break;
      to = end;
      next++;
    }
  }
  if (read.mode === 'now') to = start.offset;
  const flags = to === stream.tail ? (stream.closed ? ['closed', 'up-to-date'] : ['up-to-date']) : [];
  const records = stream.json ? `${stream.first}/${start.record}/${next}` : '';
  const outcome = { code: 'OK', start: start.offset, next: to, flags, records, producer: '', type: stream.shownType };
  if (read.parts) {
    const ends = stream.ends.slice(start.record, next).map((end) => end - start.offset);
    return {
      outcome,
      body: Buffer.concat([
        Buffer.from(new Uint32Array([ends.length, ...ends]).buffer),
        stream.bytes(start.offset, to),
      ]),
    };
  }
  if (!stream.json) return { outcome, body: stream.bytes(start.offset, to) };
  const texts = stream.messages
    .slice(start.record, next)
    .map((line) => Buffer.from(line).toString('utf8').slice(0, -1));
  const shown = read.envelope ? texts.map((text, i) => `{"record":${start.record + i},"value":${text}}`) : texts;
  return { outcome, body: Buffer.from(`[${shown.join(',')}]`) };
}

function startOf(stream: ModelStream, read: ModelRead): { offset: number; record: number } | string {
  const count = stream.messages.length;
  if (read.mode === 'now') return { offset: stream.tail, record: count };
  if (read.mode === 'offset') {
    if (read.value > stream.tail) return 'OFFSET_OUT_OF_RANGE';
    if (read.value < stream.startOffset) return 'STREAM_GONE';
    if (!stream.json && !read.parts) return { offset: read.value, record: 0 };
    const before = stream.ends.indexOf(read.value);
    if (read.value !== 0 && before < 0) return 'OFFSET_INSIDE_RECORD';
    return { offset: read.value, record: before + 1 };
  }
  if (!stream.json) return 'RECORDS_UNAVAILABLE';
  let record = read.value;
  if (read.mode === 'record-now') record = count;
  if (read.mode === 'tail-records') record = Math.max(stream.first, count - read.value);
  if (record < stream.first) return 'STREAM_GONE';
  if (record > count) return 'RECORD_OUT_OF_RANGE';
  return { offset: record === 0 ? 0 : (stream.ends[record - 1] as number), record };
}

function refused(stream: ModelStream, code: string): ModelAnswer {
  const count = stream.messages.length;
  const outcome = {
    ...nothing(code).outcome,
    next: code === 'STREAM_GONE' ? stream.startOffset : stream.tail,
    flags: stream.closed ? ['closed'] : [],
    records: stream.json ? `${stream.first}/${count}/${count}` : '',
  };
  return { outcome, body: Buffer.alloc(0) };
}

/** A page of a listing, as the objects that are shown. */
export function modelList(
  model: Model,
  bucket: string,
  prefix: string,
  after: string,
  limit: number,
  now: number,
): unknown[] {
  const names: string[] = [];
  for (const [key, stream] of model.streams) {
    const cut = key.indexOf('\0');
    const name = key.slice(cut + 1);
    if (key.slice(0, cut) !== bucket || stream.expired(now) || !name.startsWith(prefix)) continue;
    if (after === '' || Buffer.compare(Buffer.from(name), Buffer.from(after)) > 0) names.push(name);
  }
  names.sort((a, b) => Buffer.compare(Buffer.from(a), Buffer.from(b)));
  return names.slice(0, limit).map((name) => {
    const stream = model.streams.get(`${bucket}\0${name}`) as ModelStream;
    return {
      stream_id: name,
      status: stream.closed ? 'Closed' : 'Open',
      content_type: stream.shownType,
      tail_offset: stream.tail,
      created_at_ms: stream.created,
      last_write_at_ms: stream.written,
    };
  });
}

/** One line per bucket that was ever written to. */
export function modelUsage(model: Model): string[] {
  return [...model.buckets]
    .filter(([, b]) => b.units > 0)
    .map(
      ([name, b]) =>
        `${name} ${b.exists} ${b.appendBytes} ${b.records} ${b.units} ${b.retained} ${b.streams} ${b.quota.join(' ')}`,
    )
    .sort();
}
